//! What a policy and its grants open and close.

use std::{
    io::Read,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Command, Stdio},
};

use codicil_protocol::{NetworkAccess, ReadOnlyAccess, SandboxPolicy};
use codicil_sandbox::{
    CommandLifetime, ConfinementGap, ConfinementKind, MachineProbe, SandboxError, SandboxGrants,
};

use crate::{
    place::Place,
    with::{With, confined, confinement, everywhere, probe, skipped, succeeds},
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
}

#[test]
fn temporary_directories_can_be_excluded() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let (tmp, tmpdir) = ("f=$(mktemp -p /tmp) && rm $f", "f=$(mktemp -p $TMPDIR) && rm $f");
        assert!(succeeds(&place, with, &[], tmp) && succeeds(&place, with, &[], tmpdir));
        assert!(!succeeds(&place, with, &["--exclude-tmp"], tmp));
        assert!(succeeds(&place, with, &["--exclude-tmp"], tmpdir));
        assert!(!succeeds(&place, with, &["--exclude-tmpdir"], tmpdir));
    });
}

#[test]
fn roots_and_grants_open_what_they_name() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        place.write("outside/root/file", "kept");
        place.write("outside/other/file", "kept");
        place.own();
        let (root, other) = (place.path("outside/root"), place.path("outside/other"));
        let write = |path: &Path| format!("echo x > {0}/new && echo x > {0}/file", text(path));
        let root_option = ["--root", text(&root)];
        assert!(succeeds(&place, with, &root_option, &write(&root)));
        assert!(!succeeds(&place, with, &root_option, &write(&other)));
        for option in [vec!["--grant-write", text(&root)], vec!["--read-only", "--grant-write", text(&root)]]
        {
            assert!(succeeds(&place, with, &option, &write(&root)), "{with:?} {option:?}");
            assert!(!succeeds(&place, with, &option, &write(&other)), "{with:?} {option:?}");
        }
        // A single file can be granted, without its directory.
        let file = other.join("file");
        let option = ["--grant-write", text(&file)];
        assert!(succeeds(&place, with, &option, &format!("echo x > {}", text(&file))));
        assert!(!succeeds(&place, with, &option, &write(&other)));
    });
}

#[test]
fn reading_can_be_restricted() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        place.write("outside/secret", "kept");
        place.write("outside/known/file", "kept");
        place.write("workspace/mine", "mine");
        place.own();
        let (secret, known) = (place.path("outside/secret"), place.path("outside/known"));
        let (read_secret, read_known) =
            (format!("cat {}", text(&secret)), format!("cat {}/file", text(&known)));
        for write in [vec![], vec!["--read-only"]] {
            let option = |more: &[&'static str]| {
                [write.clone(), vec!["--readable", "/usr/share"], more.to_vec()].concat()
            };
            assert!(succeeds(
                &place,
                with,
                &option(&[]),
                "cat mine; ls /usr/bin > /dev/null; cat /etc/passwd"
            ));
            assert!(!succeeds(&place, with, &option(&[]), &read_secret), "{with:?} {write:?}");
            assert!(!succeeds(&place, with, &option(&[]), &read_known), "{with:?} {write:?}");
            let granted =
                [write.clone(), vec!["--readable", "/usr/share", "--grant-read", text(&known)]].concat();
            assert!(succeeds(&place, with, &granted, &read_known), "{with:?} {write:?}");
            assert!(!succeeds(&place, with, &granted, &read_secret), "{with:?} {write:?}");
        }
        assert!(succeeds(&place, with, &["--readable", "/usr/share"], "echo x > new && cat new"));
        assert!(!succeeds(&place, with, &["--readable", "/usr/share"], "echo x > /usr/share/new"));
    });
}

#[test]
fn a_command_is_told_that_it_has_no_network() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let told = "test \"$CODEX_SANDBOX_NETWORK_DISABLED\" = 1";
        assert!(succeeds(&place, with, &[], told) && succeeds(&place, with, &["--read-only"], told));
        let untold = "test -z \"$CODEX_SANDBOX_NETWORK_DISABLED\"";
        assert!(succeeds(&place, with, &["--network"], untold));
        assert!(succeeds(&place, with, &["--grant-network"], untold));
    });
}

#[test]
fn a_link_that_a_command_left_behind_opens_nothing() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        place.write("outside/file", "kept");
        symlink(place.path("outside"), place.path("workspace/root")).unwrap();
        place.own();
        let root = place.path("workspace/root");
        let options = ["--root", text(&root)];
        assert!(succeeds(&place, with, &options, "echo x > new"));
        assert!(!succeeds(&place, with, &options, "echo x > root/file"));
    });
}

#[test]
fn metadata_that_the_policy_names_is_writable() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        place.write("workspace/.git/config", "kept");
        place.write("workspace/.codex/memories/note", "kept");
        place.own();
        let (git, memories) = (place.path("workspace/.git"), place.path("workspace/.codex/memories"));
        let options = ["--root", text(&memories), "--grant-write", text(&git)];
        let write = "echo x > .git/config && echo x > .codex/memories/note";
        assert!(!succeeds(&place, with, &[], "echo x > .git/config"));
        assert!(!succeeds(&place, with, &[], "echo x > .codex/memories/note"));
        assert!(succeeds(&place, with, &options, write), "{with:?}");
        assert!(!succeeds(&place, with, &options, "echo x > .codex/new"));
    });
}

#[test]
fn a_socket_can_be_granted() {
    everywhere(|with, user| {
        if with == With::Landlock || with == With::BubblewrapAlone {
            // There are no sockets of the file system.
            return;
        }
        let place = Place::new(user, &[]);
        let socket = place.path("outside/socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let helper = place.helper();
        let attempt = format!("SCENE_SOCKET={} {} one socket-of-another", text(&socket), text(&helper));
        assert!(!succeeds(&place, with, &[], &attempt));
        assert!(!succeeds(&place, with, &["--grant-write", text(&socket)], &attempt), "{with:?}");
        assert!(!succeeds(&place, with, &["--network"], &attempt));
        let options = ["--network", "--grant-write", text(&socket)];
        assert!(succeeds(&place, with, &options, &attempt), "{with:?}");
    });
}

#[test]
fn a_command_can_be_tied_to_its_parent() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let script = "setsid -f sleep 1000; echo up; sleep 1000";
        let mut command = confined(&place, with, &["--dying"], &["sh", "-c", script]);
        let mut parent = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = parent.stdout.take().unwrap();
        output.read_exact(&mut [0; 3]).unwrap();

        parent.kill().unwrap();
        parent.wait().unwrap();
        // Whatever holds the pipe open is still running.
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "{with:?}");
    });
}

#[test]
fn what_is_not_confined_says_so() {
    let cwd = Path::new("/");
    let new =
        |policy: &SandboxPolicy| confinement(policy, cwd, &SandboxGrants::default(), MachineProbe::cached());
    let full = new(&SandboxPolicy::DangerFullAccess);
    assert_eq!((full.kind(), full.network(), full.gaps()), (ConfinementKind::Unconfined, true, vec![]));
    let external = new(&SandboxPolicy::ExternalSandbox { network_access: NetworkAccess::Restricted });
    assert_eq!((external.kind(), external.network()), (ConfinementKind::External, false));
    assert_eq!(external.env().collect::<Vec<_>>(), [("CODEX_SANDBOX_NETWORK_DISABLED", "1")]);
    assert!(full.command("true").unwrap().status().unwrap().success());
}

#[test]
fn a_program_that_is_missing_is_no_failure_of_the_sandbox() {
    let probe = MachineProbe::run().without_bubblewrap("test");
    if let Err(reason) = probe.kind() {
        return skipped(format!("there is no built-in confinement: {reason}"));
    }
    let confinement = confinement(&read_only(), Path::new("/"), &SandboxGrants::default(), &probe);
    let error = confinement.command("/no/such/program").unwrap().status().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(SandboxError::from_spawn(&error).is_none());
}

#[test]
fn one_confinement_serves_many_commands_at_once() {
    let Some(probe) = probe() else { return };
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let grants = SandboxGrants { writable: vec![directory.path().to_path_buf()], ..SandboxGrants::default() };
    let confinement = confinement(&read_only(), directory.path(), &grants, probe);
    std::thread::scope(|scope| {
        for name in 0..8 {
            let file = directory.path().join(name.to_string());
            let confinement = &confinement;
            scope.spawn(move || {
                let mut command = confinement.command("sh").unwrap();
                command.args(["-c", &format!("echo x >> {} && ! echo x > /var/tmp/not-here", text(&file))]);
                command.stderr(Stdio::null());
                // The same command can be started again.
                (0..3).for_each(|_| assert!(command.status().unwrap().success()));
                assert_eq!(std::fs::read_to_string(file).unwrap(), "x\nx\nx\n");
            });
        }
    });
}

#[test]
fn the_report_says_what_is_used_and_what_is_not() {
    let Some(probe) = probe() else { return };
    let report = probe.report();
    assert!(report.starts_with(&format!("confinement: {}\n", probe.kind().unwrap())), "{report}");
    for part in ["bubblewrap: ", "namespaces: ", "Landlock: ", "seccomp: "] {
        assert!(report.contains(part), "{report}");
    }
    assert!(!probe.summary().contains('\n'), "{}", probe.summary());
    let less = probe.clone().without_bubblewrap("not wanted").without_namespaces("not allowed");
    if less.kind() == Ok(ConfinementKind::Landlock) {
        let report = less.report();
        assert!(report.contains("bubblewrap: not used: not wanted\nnamespaces: not used: not allowed"));
        assert!(report.contains(&format!("not stopped: {}", ConfinementGap::FileAttributes)), "{report}");
        let summary =
            "Landlock and seccomp; bubblewrap: not used: not wanted; namespaces: not used: not allowed";
        assert_eq!(less.summary(), summary);
    }
}

#[test]
fn whether_there_can_be_a_proxy_is_found_out_by_trying() {
    let Some(probe) = probe() else { return };
    if probe.kind() == Ok(ConfinementKind::LandlockView) {
        probe.proxy().unwrap();
    }
    let less = probe.clone().without_bubblewrap("test").without_namespaces("test");
    let reason = less.proxy().unwrap_err().to_string();
    assert!(less.kind().is_err() || reason.contains("needs network namespaces"), "{reason}");
}

#[test]
fn a_command_that_is_applied_to_keeps_its_arguments_and_variables() {
    let Some(probe) = probe() else { return };
    let confinement = confinement(&read_only(), Path::new("/"), &SandboxGrants::default(), probe);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $GIVEN $TAKEN $(pwd) $1", "sh", "last"]).current_dir("/usr");
    command.env("GIVEN", "given").env_remove("TAKEN");
    confinement.apply(&mut command, CommandLifetime::Own).unwrap();
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), "given /usr last\n");
}
