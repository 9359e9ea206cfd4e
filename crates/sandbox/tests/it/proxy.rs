//! A network behind a proxy: the proxy can be reached, and nothing else.

use std::{io::ErrorKind, process::Command};

use crate::{
    place::{Neighbours, Place},
    with::{User, With, confined, everywhere},
};

/// Ways to somebody else. `udp-to-another` may be sent, but must not arrive.
const ELSEWHERE: [&str; 22] = [
    "tcp-connect",
    "tcp-without-connect",
    "raw",
    "packet",
    "netlink",
    "netlink-events",
    "express-data-path",
    "network-keys",
    "tipc",
    "vsock",
    "kernel-crypto",
    "bluetooth",
    "inet-pair",
    "socket-of-another",
    "socket-of-another-in-tmp",
    "datagram-to-another",
    "datagram-to-another-from-a-pair",
    "abstract-socket-of-another",
    "write-outside",
    "git-config",
    "io-uring",
    "unshare-user",
];

/// What a program may do with a loopback that nobody else sees.
const WITHIN: [&str; 4] = ["proxy", "loopback-of-its-own", "tcp-listen", "udp-listen"];

fn attempt(command: &mut Command) -> Vec<(String, i32)> {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let results: Vec<_> = pairs.map(|(name, code)| (name.to_owned(), code.parse().unwrap())).collect();
    assert!(!results.is_empty(), "{output:?}");
    results
}

#[test]
fn only_the_proxy_is_reached() {
    let names: Vec<&str> = ELSEWHERE.iter().chain(&WITHIN).chain(&["udp-to-another"]).copied().collect();
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    everywhere(|with, user| {
        if !has_namespaces(with) {
            return;
        }
        // Also where the policy itself would give all of the network.
        for options in [&["--proxy"][..], &["--proxy", "--network"], &["--proxy", "--grant-network"]] {
            let place = Place::new(user, &owned);
            let neighbours = Neighbours::new(&place);
            let helper = place.helper();
            let mut line = vec![helper.to_str().unwrap(), "try"];
            line.extend(&names);
            let results = attempt(confined(&place, with, options, &line).envs(neighbours.variables()));
            let wrong: Vec<_> = results
                .iter()
                .filter(|(name, _)| name != "udp-to-another")
                .filter(|(name, code)| (*code == 0) != WITHIN.contains(&name.as_str()))
                .collect();
            assert!(wrong.is_empty() && results.len() == names.len(), "{with:?} as {user:?}: {wrong:?}");
            assert_eq!(neighbours.datagram().unwrap_err().kind(), ErrorKind::WouldBlock, "{with:?}");
        }
    });
}

/// The attempts must mean something: without a sandbox they arrive.
#[test]
fn without_a_sandbox_the_same_packets_arrive() {
    let place = Place::new(User::all()[0], &["udp-to-another".to_owned()]);
    let neighbours = Neighbours::new(&place);
    let helper = place.helper();
    let line = [helper.to_str().unwrap(), "try", "udp-to-another"];
    let results = attempt(confined(&place, With::Nothing, &[], &line).envs(neighbours.variables()));
    assert!(results.iter().all(|(_, code)| *code == 0), "{results:?}");
    assert!(neighbours.datagram().is_ok());
}

#[test]
fn without_namespaces_it_is_refused() {
    everywhere(|with, user| {
        if has_namespaces(with) {
            return;
        }
        let place = Place::new(user, &[]);
        let output = confined(&place, with, &["--proxy"], &["true"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("needs network namespaces"), "{with:?}: {output:?}");
    });
}

#[test]
fn a_command_behind_a_proxy_is_not_told_that_it_has_no_network() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let script = "test -z \"$CODEX_SANDBOX_NETWORK_DISABLED\"";
        if has_namespaces(with) {
            assert!(crate::with::succeeds(&place, with, &["--proxy"], script), "{with:?} as {user:?}");
        }
    });
}

fn has_namespaces(with: With) -> bool {
    matches!(with, With::Bubblewrap | With::View)
}
