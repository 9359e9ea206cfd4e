//! The table of attempts, made under every confinement and as every user.

use std::{collections::BTreeMap, process::Command};

use codicil_sandbox::ConfinementGap;

use crate::{
    place::{Neighbours, Place},
    with::{User, With, confined, everywhere, has_gap},
};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// Landlock has no say in these, and no mounts help where it is alone. `Gap::FileAttributes` says so.
const ATTRIBUTES: [&str; 6] = [
    "mode-outside",
    "mode-of-open-file-outside",
    "owner-outside",
    "times-outside",
    "attribute-outside",
    "git-mode",
];

/// The same for what only a namespace keeps apart: `Gap::Ipc`, `Gap::Terminals`.
const SHARED: [&str; 2] = ["memory-segment-of-another", "read-terminal-of-another"];

/// What Landlock alone must refuse more than was asked for; the crate's documentation says why.
const TOO_STRICT: [&str; 3] = ["create-at-the-top", "shared-memory", "terminal"];

/// Without a network nothing can be connected to, not even what the command itself listens on.
const CONNECTING: [&str; 2] = ["socket-inside", "datagram-inside"];

/// What remains under a policy that writes nothing.
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

/// Name and class of every attempt that the helper knows.
fn attempts() -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_sandbox-attempt")).arg("list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.split_once(' ').map(|(name, class)| (name.to_owned(), class.to_owned()));
    let attempts: Vec<_> = text.lines().map(|text| line(text).unwrap()).collect();
    assert!(attempts.len() > 100, "{attempts:?}");
    attempts
}

/// Makes the attempts, and tells for each what came of it: 0, an error number, or a signal with a minus.
fn make(
    (place, neighbours): (&Place, &Neighbours),
    with: With,
    options: &[&str],
    names: &[String],
) -> BTreeMap<String, i32> {
    let helper = place.helper();
    let mut line = vec![helper.to_str().unwrap(), "try"];
    line.extend(names.iter().map(String::as_str));
    let output = confined(place, with, options, &line).envs(neighbours.variables()).output().unwrap();
    let results = read(&output.stdout);
    assert!(names.iter().all(|name| results.contains_key(name)), "{with:?}: {output:?}");
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

/// What should come of an attempt under the policy workspace-write.
fn is_right(with: With, name: &str, class: &str, code: i32) -> bool {
    if is_reported(with, name) {
        return code == 0;
    }
    if is_too_strict(with, name) {
        return code != 0;
    }
    if name.starts_with("signal")
        && class == "Denied"
        && !with.is_bubblewrap()
        && has_gap(ConfinementGap::Signals)
    {
        eprintln!("skipped: {name}, which this kernel cannot stop");
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

/// What is not stopped, and said so: a gap of the confinement.
fn is_reported(with: With, name: &str) -> bool {
    match with {
        With::Nothing => false,
        With::Bubblewrap | With::BubblewrapAlone => name == "pipe-outside",
        With::View => false,
        With::Landlock => ATTRIBUTES.contains(&name) || SHARED.contains(&name),
    }
}

fn is_too_strict(with: With, name: &str) -> bool {
    match with {
        With::Nothing => false,
        With::Landlock => TOO_STRICT.contains(&name) || CONNECTING.contains(&name),
        With::BubblewrapAlone | With::Bubblewrap | With::View => CONNECTING.contains(&name),
    }
}

/// Compares all results at once, so that one failure does not hide the next.
fn check(title: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{title}:\n{}", wrong.join("\n"));
}

#[test]
fn nothing_escapes_and_work_goes_on() {
    let attempts = attempts();
    everywhere(|with, user| {
        let place = Place::new(user, &names(&attempts));
        let neighbours = Neighbours::new(&place);
        let before = place.untouchable(with != With::Landlock);
        let results = make((&place, &neighbours), with, &[], &names(&attempts));
        let wrong = attempts.iter().filter(|(name, class)| !is_right(with, name, class, results[name]));
        let wrong = wrong.map(|(name, class)| format!("{name} ({class}) gave {}", results[name]));
        check(&format!("{with:?} as {user:?}"), wrong.collect());
        // Whatever the attempts said: nothing has changed.
        let after = place.untouchable(with != With::Landlock);
        let all = before.keys().chain(after.keys());
        let changed = all.filter(|path| after.get(*path) != before.get(*path));
        check(&format!("changed, {with:?} as {user:?}"), changed.map(|path| format!("{path:?}")).collect());
    });
}

#[test]
fn a_read_only_policy_leaves_only_reading() {
    let attempts = attempts();
    everywhere(|with, user| {
        let place = Place::new(user, &names(&attempts));
        let results = make((&place, &Neighbours::new(&place)), with, &["--read-only"], &names(&attempts));
        let expected = |name: &str| match with {
            With::Landlock if name == "mode-inside" => true,
            _ if is_reported(with, name) => true,
            _ if is_too_strict(with, name) => false,
            _ => READING.contains(&name) || name == "socket-pair",
        };
        let is_gap = |name: &str| name.starts_with("signal") && has_gap(ConfinementGap::Signals);
        let wrong = results.iter().filter(|(name, code)| (**code == 0) != expected(name) && !is_gap(name));
        check(
            &format!("{with:?} as {user:?}"),
            wrong.map(|(name, code)| format!("{name} gave {code}")).collect(),
        );
    });
}

/// An attempt that fails by itself would prove nothing.
#[test]
fn the_same_attempts_succeed_without_a_sandbox() {
    let attempts = attempts();
    let possible: Vec<_> =
        attempts.iter().filter(|(_, class)| class == "Denied" || class == "Allowed").cloned().collect();
    for user in User::all() {
        let place = Place::new(user, &names(&attempts));
        let mut names = names(&possible);
        // This one looks for what a sandbox leaves behind.
        names.retain(|name| name != "no-privileges");
        let results = make((&place, &Neighbours::new(&place)), With::Nothing, &[], &names);
        let wrong = results.iter().filter(|(_, code)| **code != 0);
        check(&format!("as {user:?}"), wrong.map(|(name, code)| format!("{name} gave {code}")).collect());
    }
}

/// The others are made apart from everybody, with arguments that do nothing. What the machine refuses there too is
/// skipped by name.
#[test]
fn what_the_sandbox_refuses_gets_further_without_one() {
    let attempts = attempts();
    for user in User::all() {
        let place = Place::new(user, &names(&attempts));
        let neighbours = Neighbours::new(&place);
        let mut refused: Vec<_> =
            attempts.iter().filter(|(_, class)| class == "Filtered" || class == "Forbidden").collect();
        // It takes the place away from under the others.
        refused.sort_by_key(|(name, _)| name == "rename-workspace");
        let mut command = Command::new(place.helper());
        command.arg("apart").args(refused.iter().map(|(name, _)| name)).current_dir(place.workspace());
        command.envs(neighbours.variables()).env("SCENE_SERVER", std::process::id().to_string());
        user.become_in(&mut command);
        let output = command.output().unwrap();
        let _ = std::fs::remove_dir("/sys/fs/cgroup/attempt");
        let results = read(&output.stdout);
        let gets_further = |name: &str, class: &str| match (class, results[name]) {
            ("Filtered", code) => code != if name == "clone3" { ENOSYS } else { EPERM },
            (_, code) => code == 0,
        };
        let (further, not): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(name, class)| gets_further(name, class));
        for (name, _) in not {
            eprintln!(
                "skipped: {name} as {user:?}, which this machine refuses by itself ({})",
                results[name]
            );
        }
        // Anybody may do these anywhere, so at least they must show the difference.
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
    everywhere(|with, user| {
        let place = Place::new(user, &names);
        let chosen: Vec<String> = open.iter().chain(&closed).map(|name| (*name).to_owned()).collect();
        let results = make((&place, &Neighbours::new(&place)), with, &["--network"], &chosen);
        let is_open = |name: &str| match with {
            // A gap that is reported.
            With::Bubblewrap if name.starts_with("abstract") => has_gap(ConfinementGap::Signals),
            _ => open.contains(&name),
        };
        let wrong = results.iter().filter(|(name, code)| (**code == 0) != is_open(name));
        check(
            &format!("{with:?} as {user:?}"),
            wrong.map(|(name, code)| format!("{name} gave {code}")).collect(),
        );
    });
}
