//! What policies and grants allow and refuse.

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
    backend::{Backend, confined, confinement, for_each_backend, probe, skipped, succeeds},
    test_tree::TestTree,
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
}

#[test]
fn temporary_directories_can_be_excluded() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let tmp = format!("f=$(mktemp -p {}) && rm $f", text(tree.scratch()));
        let tmpdir = "f=$(mktemp -p $TMPDIR) && rm $f";
        assert!(succeeds(&tree, backend, &[], &tmp) && succeeds(&tree, backend, &[], tmpdir));
        assert!(!succeeds(&tree, backend, &["--exclude-tmp"], &tmp));
        assert!(succeeds(&tree, backend, &["--exclude-tmp"], tmpdir));
        assert!(!succeeds(&tree, backend, &["--exclude-tmpdir"], tmpdir));
    });
}

#[test]
fn roots_and_grants_open_what_they_name() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        tree.write("outside/root/file", "kept");
        tree.write("outside/other/file", "kept");
        tree.own();
        let root = tree.path("outside/root");
        let other = tree.path("outside/other");
        let write = |path: &Path| format!("echo x > {0}/new && echo x > {0}/file", text(path));
        let root_option = ["--root", text(&root)];
        assert!(succeeds(&tree, backend, &root_option, &write(&root)));
        assert!(!succeeds(&tree, backend, &root_option, &write(&other)));
        for option in [vec!["--grant-write", text(&root)], vec!["--read-only", "--grant-write", text(&root)]]
        {
            assert!(succeeds(&tree, backend, &option, &write(&root)), "{backend:?} {option:?}");
            assert!(!succeeds(&tree, backend, &option, &write(&other)), "{backend:?} {option:?}");
        }
        // A single file can be granted, without its directory.
        let file = other.join("file");
        let option = ["--grant-write", text(&file)];
        assert!(succeeds(&tree, backend, &option, &format!("echo x > {}", text(&file))));
        assert!(!succeeds(&tree, backend, &option, &write(&other)));
    });
}

#[test]
fn reading_can_be_restricted() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        tree.write("outside/secret", "kept");
        tree.write("outside/known/file", "kept");
        tree.write("workspace/mine", "mine");
        tree.own();
        let known = tree.path("outside/known");
        let read_secret = format!("cat {}", text(&tree.path("outside/secret")));
        let read_known = format!("cat {}/file", text(&known));
        for write in [vec![], vec!["--read-only"]] {
            let option = |more: &[&'static str]| {
                [write.clone(), vec!["--readable", "/usr/share"], more.to_vec()].concat()
            };
            assert!(succeeds(
                &tree,
                backend,
                &option(&[]),
                "cat mine; ls /usr/bin > /dev/null; cat /etc/passwd"
            ));
            assert!(!succeeds(&tree, backend, &option(&[]), &read_secret), "{backend:?} {write:?}");
            assert!(!succeeds(&tree, backend, &option(&[]), &read_known), "{backend:?} {write:?}");
            let granted =
                [write.clone(), vec!["--readable", "/usr/share", "--grant-read", text(&known)]].concat();
            assert!(succeeds(&tree, backend, &granted, &read_known), "{backend:?} {write:?}");
            assert!(!succeeds(&tree, backend, &granted, &read_secret), "{backend:?} {write:?}");
        }
        assert!(succeeds(&tree, backend, &["--readable", "/usr/share"], "echo x > new && cat new"));
        assert!(!succeeds(&tree, backend, &["--readable", "/usr/share"], "echo x > /usr/share/new"));
    });
}

#[test]
fn a_variable_marks_commands_without_a_network() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let is_set = "test \"$CODEX_SANDBOX_NETWORK_DISABLED\" = 1";
        assert!(succeeds(&tree, backend, &[], is_set) && succeeds(&tree, backend, &["--read-only"], is_set));
        let is_unset = "test -z \"$CODEX_SANDBOX_NETWORK_DISABLED\"";
        assert!(succeeds(&tree, backend, &["--network"], is_unset));
        assert!(succeeds(&tree, backend, &["--grant-network"], is_unset));
    });
}

#[test]
fn a_link_that_a_command_created_makes_nothing_writable() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        tree.write("outside/file", "kept");
        symlink(tree.path("outside"), tree.path("workspace/root")).unwrap();
        tree.own();
        let root = tree.path("workspace/root");
        let options = ["--root", text(&root)];
        assert!(succeeds(&tree, backend, &options, "echo x > new"));
        assert!(!succeeds(&tree, backend, &options, "echo x > root/file"));
    });
}

#[test]
fn metadata_that_the_policy_names_is_writable() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        tree.write("workspace/.git/config", "kept");
        tree.write("workspace/.codex/memories/note", "kept");
        tree.own();
        let git = tree.path("workspace/.git");
        let memories = tree.path("workspace/.codex/memories");
        let options = ["--root", text(&memories), "--grant-write", text(&git)];
        let write = "echo x > .git/config && echo x > .codex/memories/note";
        assert!(!succeeds(&tree, backend, &[], "echo x > .git/config"));
        assert!(!succeeds(&tree, backend, &[], "echo x > .codex/memories/note"));
        assert!(succeeds(&tree, backend, &options, write), "{backend:?}");
        assert!(!succeeds(&tree, backend, &options, "echo x > .codex/new"));
    });
}

#[test]
fn a_socket_can_be_granted() {
    for_each_backend(|backend, user| {
        if backend == Backend::Landlock || backend == Backend::BubblewrapAlone {
            // These refuse all sockets in the file system.
            return;
        }
        let tree = TestTree::new(user, &[]);
        let socket = tree.path("outside/socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let helper = tree.helper();
        let attempt = format!("ATTEMPT_SOCKET={} {} one socket-of-another", text(&socket), text(&helper));
        assert!(!succeeds(&tree, backend, &[], &attempt));
        assert!(!succeeds(&tree, backend, &["--grant-write", text(&socket)], &attempt), "{backend:?}");
        assert!(!succeeds(&tree, backend, &["--network"], &attempt));
        let options = ["--network", "--grant-write", text(&socket)];
        assert!(succeeds(&tree, backend, &options, &attempt), "{backend:?}");
    });
}

#[test]
fn a_command_can_be_tied_to_its_parent() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let script = "setsid -f sleep 1000; echo up; sleep 1000";
        let mut command = confined(&tree, backend, &["--dying"], &["sh", "-c", script]);
        let mut parent = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = parent.stdout.take().unwrap();
        output.read_exact(&mut [0; 3]).unwrap();

        parent.kill().unwrap();
        parent.wait().unwrap();
        // The pipe is closed only when no process of the command runs any more.
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "{backend:?}");
    });
}

#[test]
fn unconfined_policies_are_reported_as_such() {
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
fn a_missing_program_is_not_a_sandbox_error() {
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
fn the_report_lists_used_and_unused_means() {
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
        assert!(report.contains(&format!("not prevented: {}", ConfinementGap::FileAttributes)), "{report}");
        let summary =
            "Landlock and seccomp; bubblewrap: not used: not wanted; namespaces: not used: not allowed";
        assert_eq!(less.summary(), summary);
    }
}

#[test]
fn the_probe_tries_the_proxy() {
    let Some(probe) = probe() else { return };
    if probe.kind() == Ok(ConfinementKind::LandlockView) {
        probe.proxy().unwrap();
    }
    let less = probe.clone().without_bubblewrap("test").without_namespaces("test");
    let reason = less.proxy().unwrap_err().to_string();
    assert!(less.kind().is_err() || reason.contains("needs network namespaces"), "{reason}");
}

#[test]
fn applying_a_confinement_keeps_arguments_and_variables() {
    let Some(probe) = probe() else { return };
    let confinement = confinement(&read_only(), Path::new("/"), &SandboxGrants::default(), probe);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $GIVEN $TAKEN $(pwd) $1", "sh", "last"]).current_dir("/usr");
    command.env("GIVEN", "given").env_remove("TAKEN");
    confinement.apply(&mut command, CommandLifetime::Own).unwrap();
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), "given /usr last\n");
}
