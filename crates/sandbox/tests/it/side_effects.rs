//! The sandbox creates nothing for a command: not before, not while, and not after it runs.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::Stdio,
};

use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};
use codicil_sandbox::SandboxGrants;

use crate::{
    backend::{confined, confinement, for_each_backend, probe, succeeds},
    test_tree::TestTree,
};

fn entries(path: PathBuf) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The protected names in a listing.
fn protected_names(names: &[String]) -> Vec<&str> {
    let protected = [".git", ".codex", ".codicil", ".agents"];
    protected.into_iter().filter(|name| names.iter().any(|found| found == name)).collect()
}

/// The reference server creates an empty `.git` while a command runs, which other programs see.
#[test]
fn an_empty_workspace_stays_empty_while_a_command_runs() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let script = "ls -A; echo end; ls -A /tmp; echo end; read line";
        let mut command = confined(&tree, backend, &[], &["sh", "-c", script]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut listing = || -> Vec<String> { lines.by_ref().take_while(|line| line != "end").collect() };
        assert_eq!(listing(), [""; 0], "{backend:?}");
        // Other programs may have left such names in /tmp.
        let in_tmp = listing();
        assert_eq!(protected_names(&in_tmp), protected_names(&entries("/tmp".into())), "{backend:?}");
        assert!(entries(tree.workspace()).is_empty(), "{backend:?}");
        assert!(entries(tree.path("tmpdir")).is_empty(), "{backend:?}");
        process.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(process.wait().unwrap().success());
        assert!(entries(tree.workspace()).is_empty(), "{backend:?}");
    });
}

#[test]
fn protected_folders_are_not_changed() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &["one".to_owned()]);
        let before = tree.untouchable(true);
        assert!(succeeds(&tree, backend, &[], "cat .git/config && echo x > top"));
        assert_eq!(tree.untouchable(true), before, "{backend:?}");
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
