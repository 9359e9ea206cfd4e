//! Nothing is created for a command's sake: not before, not while, not after it runs.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::Stdio,
};

use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};
use codicil_sandbox::SandboxGrants;

use crate::{
    place::Place,
    with::{confined, confinement, everywhere, probe, succeeds},
};

fn entries(path: PathBuf) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The reference server shows an empty `.git` to everybody while a command runs.
#[test]
fn an_empty_workspace_stays_empty_while_a_command_runs() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let mut command =
            confined(&place, with, &[], &["sh", "-c", "ls -A; ls -A /tmp; echo ready; read line"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let seen: Vec<_> = lines.map(Result::unwrap).take_while(|line| line != "ready").collect();
        for name in [".git", ".codex", ".codicil", ".agents"] {
            assert!(!seen.iter().any(|line| line == name), "{with:?} {seen:?}");
        }
        assert!(entries(place.workspace()).is_empty(), "{with:?}");
        assert!(entries(place.path("tmpdir")).is_empty(), "{with:?}");
        process.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(process.wait().unwrap().success());
        assert!(entries(place.workspace()).is_empty(), "{with:?}");
    });
}

#[test]
fn protected_folders_are_left_as_they_were() {
    everywhere(|with, user| {
        let place = Place::new(user, &["one".to_owned()]);
        let before = place.untouchable(true);
        assert!(succeeds(&place, with, &[], "cat .git/config && echo x > top"));
        assert_eq!(place.untouchable(true), before, "{with:?}");
    });
}

#[test]
fn metadata_that_a_command_creates_is_protected_from_the_next_one() {
    let Some(probe) = probe() else { return };
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let policy = SandboxPolicy::WorkspaceWrite {
        writable_roots: vec![],
        read_only_access: ReadOnlyAccess::FullAccess,
        network_access: false,
        exclude_tmpdir_env_var: true,
        exclude_slash_tmp: true,
    };
    let command = |program| {
        let mut command = confinement(&policy, directory.path(), &SandboxGrants::default(), probe)
            .command(program)
            .unwrap();
        command.current_dir(directory.path()).stderr(Stdio::null());
        command
    };
    assert!(command("mkdir").arg(".codex").status().unwrap().success());
    assert!(!command("touch").arg(".codex/file").status().unwrap().success());
}
