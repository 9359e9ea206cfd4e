//! Makes all attempts under every confinement and as every user.

use std::{collections::BTreeMap, process::Command};

use codicil_sandbox::ConfinementGap;

use crate::{
    backend::{Backend, User, confined, for_each_backend, has_gap},
    test_tree::{OutsidePrograms, TestTree},
};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// Attempts that only mounts prevent: `ConfinementGap::FileAttributes`.
const ATTRIBUTES: [&str; 6] = [
    "mode-outside",
    "mode-of-open-file-outside",
    "owner-outside",
    "times-outside",
    "attribute-outside",
    "git-mode",
];

/// Attempts that only namespaces prevent: `ConfinementGap::Ipc`, `ConfinementGap::Terminals`.
const SHARED: [&str; 2] = ["memory-segment-of-another", "read-terminal-of-another"];

/// Attempts that Landlock alone refuses although the policy allows them; the crate's documentation says why.
const TOO_STRICT: [&str; 3] = ["create-at-the-top", "shared-memory", "terminal"];

/// Attempts that connect, which is refused without a network even to the command's own sockets.
const CONNECTING: [&str; 2] = ["socket-inside", "datagram-inside"];

/// Attempts that succeed under a policy that allows no writing.
const READING: [&str; 10] = [
    "no-privileges",
    "read-outside",
    "read-metadata",
    "read-system",
    "null-device",
    "shared-memory",
    "terminal",
    "threads",
    "shell",
    "signal-own-child",
];

/// Returns the name and class of every attempt of the helper.
fn attempts() -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_sandbox-attempt")).arg("list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.split_once(' ').map(|(name, class)| (name.to_owned(), class.to_owned()));
    let attempts: Vec<_> = text.lines().map(|text| line(text).unwrap()).collect();
    assert!(attempts.len() > 100, "{attempts:?}");
    attempts
}

/// Makes attempts. Returns for each its result: 0, an error number, or the negative number of a signal.
fn make(
    (tree, programs): (&TestTree, &OutsidePrograms),
    backend: Backend,
    options: &[&str],
    names: &[String],
) -> BTreeMap<String, i32> {
    let helper = tree.helper();
    let mut line = vec![helper.to_str().unwrap(), "try"];
    line.extend(names.iter().map(String::as_str));
    let output = confined(tree, backend, options, &line).envs(programs.variables()).output().unwrap();
    let results = read(&output.stdout);
    assert!(names.iter().all(|name| results.contains_key(name)), "{backend:?}: {output:?}");
    results
}

fn read(output: &[u8]) -> BTreeMap<String, i32> {
    let text = String::from_utf8(output.to_vec()).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, code)| (name.to_owned(), code.parse().unwrap())).collect()
}

fn names(attempts: &[(String, String)]) -> Vec<String> {
    attempts.iter().map(|(name, _)| name.clone()).collect()
}

/// Returns whether the result of an attempt is the expected one under the policy `workspace-write`.
fn is_expected(backend: Backend, name: &str, class: &str, code: i32) -> bool {
    if is_known_gap(backend, name) {
        return code == 0;
    }
    if is_too_strict(backend, name) {
        return code != 0;
    }
    if name.starts_with("signal")
        && class == "Denied"
        && !backend.is_bubblewrap()
        && has_gap(ConfinementGap::Signals)
    {
        eprintln!("skipped: {name}, which this kernel cannot prevent");
        return true;
    }
    match class {
        "Denied" | "Forbidden" => code != 0,
        "Filtered" if name == "clone3" => code == ENOSYS,
        "Filtered" => code == EPERM,
        "Allowed" => code == 0,
        other => panic!("unknown class {other}"),
    }
}

/// Returns whether the confinement reports that it does not prevent an attempt.
fn is_known_gap(backend: Backend, name: &str) -> bool {
    match backend {
        Backend::Nothing => false,
        Backend::Bubblewrap | Backend::BubblewrapAlone => name == "pipe-outside",
        Backend::View => false,
        Backend::Landlock => ATTRIBUTES.contains(&name) || SHARED.contains(&name),
    }
}

fn is_too_strict(backend: Backend, name: &str) -> bool {
    match backend {
        Backend::Nothing => false,
        Backend::Landlock => TOO_STRICT.contains(&name) || CONNECTING.contains(&name),
        Backend::BubblewrapAlone | Backend::Bubblewrap | Backend::View => CONNECTING.contains(&name),
    }
}

/// Compares all results at once, so that one failure does not hide the next.
fn check(title: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{title}:\n{}", wrong.join("\n"));
}

#[test]
fn forbidden_attempts_fail_and_allowed_ones_succeed() {
    let attempts = attempts();
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &names(&attempts));
        let programs = OutsidePrograms::new(&tree);
        let before = tree.untouchable(backend != Backend::Landlock);
        let results = make((&tree, &programs), backend, &[], &names(&attempts));
        let wrong = attempts.iter().filter(|(name, class)| !is_expected(backend, name, class, results[name]));
        let wrong = wrong.map(|(name, class)| format!("{name} ({class}) gave {}", results[name]));
        check(&format!("{backend:?} as {user:?}"), wrong.collect());
        // Whatever the results say, nothing must have changed.
        let after = tree.untouchable(backend != Backend::Landlock);
        let all = before.keys().chain(after.keys());
        let changed = all.filter(|path| after.get(*path) != before.get(*path));
        check(
            &format!("changed, {backend:?} as {user:?}"),
            changed.map(|path| format!("{path:?}")).collect(),
        );
    });
}

#[test]
fn a_read_only_policy_allows_only_reading() {
    let attempts = attempts();
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &names(&attempts));
        let results =
            make((&tree, &OutsidePrograms::new(&tree)), backend, &["--read-only"], &names(&attempts));
        let expected = |name: &str| match backend {
            Backend::Landlock if name == "mode-inside" => true,
            _ if is_known_gap(backend, name) => true,
            _ if is_too_strict(backend, name) => false,
            _ => READING.contains(&name) || name == "socket-pair",
        };
        let is_gap = |name: &str| name.starts_with("signal") && has_gap(ConfinementGap::Signals);
        let wrong = results.iter().filter(|(name, code)| (**code == 0) != expected(name) && !is_gap(name));
        check(
            &format!("{backend:?} as {user:?}"),
            wrong.map(|(name, code)| format!("{name} gave {code}")).collect(),
        );
    });
}

/// An attempt that always fails would prove nothing.
#[test]
fn the_same_attempts_succeed_without_a_sandbox() {
    let attempts = attempts();
    let possible: Vec<_> =
        attempts.iter().filter(|(_, class)| class == "Denied" || class == "Allowed").cloned().collect();
    for user in User::all() {
        let tree = TestTree::new(user, &names(&attempts));
        let mut names = names(&possible);
        // This attempt checks the effects of a sandbox.
        names.retain(|name| name != "no-privileges");
        let results = make((&tree, &OutsidePrograms::new(&tree)), Backend::Nothing, &[], &names);
        let wrong = results.iter().filter(|(_, code)| **code != 0);
        check(&format!("as {user:?}"), wrong.map(|(name, code)| format!("{name} gave {code}")).collect());
    }
}

/// The other attempts are made in separate namespaces, with arguments that have no effect. Those that the machine refuses
/// there as well are skipped, with a line that names them.
#[test]
fn refused_attempts_get_further_without_a_sandbox() {
    let attempts = attempts();
    for user in User::all() {
        let tree = TestTree::new(user, &names(&attempts));
        let programs = OutsidePrograms::new(&tree);
        let mut refused: Vec<_> =
            attempts.iter().filter(|(_, class)| class == "Filtered" || class == "Forbidden").collect();
        // It moves the workspace of the other attempts away, so it comes last.
        refused.sort_by_key(|(name, _)| name == "rename-workspace");
        let mut command = Command::new(tree.helper());
        command.arg("unconfined").args(refused.iter().map(|(name, _)| name)).current_dir(tree.workspace());
        command.envs(programs.variables()).env("ATTEMPT_SERVER", std::process::id().to_string());
        user.become_in(&mut command);
        let output = command.output().unwrap();
        let _ = std::fs::remove_dir("/sys/fs/cgroup/attempt");
        let results = read(&output.stdout);
        let gets_further = |name: &str, class: &str| match (class, results[name]) {
            ("Filtered", code) => code != if name == "clone3" { ENOSYS } else { EPERM },
            (_, code) => code == 0,
        };
        let (further, no_further): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(name, class)| gets_further(name, class));
        for (name, _) in no_further {
            eprintln!(
                "skipped: {name} as {user:?}, which this machine refuses without a sandbox ({})",
                results[name]
            );
        }
        // Every user may do these on every machine, so at least they must get further.
        for name in ["netlink", "trace-me"] {
            assert!(further.iter().any(|(seen, _)| seen == name), "{name} as {user:?}: {output:?}");
        }
    }
}

#[test]
fn with_a_network_only_the_network_is_open() {
    let names: Vec<String> = attempts().into_iter().map(|(name, _)| name).collect();
    let open = ["tcp-connect", "tcp-listen", "udp-send", "netlink", "netlink-events"];
    let closed = [
        "raw",
        "packet",
        "vsock",
        "kernel-crypto",
        "bluetooth",
        "inet-pair",
        "socket-of-another",
        "socket-of-another-in-tmp",
        "datagram-to-another",
        "abstract-socket-of-another",
        "write-outside",
        "git-config",
        "io-uring",
        "unshare-user",
    ];
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &names);
        let chosen: Vec<String> = open.iter().chain(&closed).map(|name| (*name).to_owned()).collect();
        let results = make((&tree, &OutsidePrograms::new(&tree)), backend, &["--network"], &chosen);
        let is_open = |name: &str| match backend {
            // A reported gap.
            Backend::Bubblewrap if name.starts_with("abstract") => has_gap(ConfinementGap::Signals),
            _ => open.contains(&name),
        };
        let wrong = results.iter().filter(|(name, code)| (**code == 0) != is_open(name));
        check(
            &format!("{backend:?} as {user:?}"),
            wrong.map(|(name, code)| format!("{name} gave {code}")).collect(),
        );
    });
}
