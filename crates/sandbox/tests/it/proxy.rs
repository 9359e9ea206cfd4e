//! A network behind a proxy: a command can connect to the proxy and to nothing else.

use std::{io::ErrorKind, process::Command};

use crate::{
    backend::{Backend, User, confined, for_each_backend},
    test_tree::{OutsidePrograms, TestTree},
};

/// Attempts that reach other programs and must fail. `udp-to-another` may succeed, but its packet must not arrive.
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

/// Attempts within the command's own loopback interface, which must succeed.
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
fn only_the_proxy_can_be_reached() {
    let names: Vec<&str> = ELSEWHERE.iter().chain(&WITHIN).chain(&["udp-to-another"]).copied().collect();
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for_each_backend(|backend, user| {
        if !has_namespaces(backend) {
            return;
        }
        // Even if the policy or a grant allows the whole network.
        for options in [&["--proxy"][..], &["--proxy", "--network"], &["--proxy", "--grant-network"]] {
            let tree = TestTree::new(user, &owned);
            let programs = OutsidePrograms::new(&tree);
            let helper = tree.helper();
            let mut line = vec![helper.to_str().unwrap(), "try"];
            line.extend(&names);
            let results = attempt(confined(&tree, backend, options, &line).envs(programs.variables()));
            let wrong: Vec<_> = results
                .iter()
                .filter(|(name, _)| name != "udp-to-another")
                .filter(|(name, code)| (*code == 0) != WITHIN.contains(&name.as_str()))
                .collect();
            assert!(wrong.is_empty() && results.len() == names.len(), "{backend:?} as {user:?}: {wrong:?}");
            assert_eq!(
                programs.received_datagram().unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "{backend:?}"
            );
        }
    });
}

/// The attempts would prove nothing if their packets did not arrive without a sandbox.
#[test]
fn without_a_sandbox_the_same_packets_arrive() {
    let tree = TestTree::new(User::all()[0], &["udp-to-another".to_owned()]);
    let programs = OutsidePrograms::new(&tree);
    let helper = tree.helper();
    let line = [helper.to_str().unwrap(), "try", "udp-to-another"];
    let results = attempt(confined(&tree, Backend::Nothing, &[], &line).envs(programs.variables()));
    assert!(results.iter().all(|(_, code)| *code == 0), "{results:?}");
    assert!(programs.received_datagram().is_ok());
}

#[test]
fn a_proxy_is_refused_without_namespaces() {
    for_each_backend(|backend, user| {
        if has_namespaces(backend) {
            return;
        }
        let tree = TestTree::new(user, &[]);
        let output = confined(&tree, backend, &["--proxy"], &["true"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("needs network namespaces"), "{backend:?}: {output:?}");
    });
}

#[test]
fn the_variable_for_no_network_is_not_set_behind_a_proxy() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let script = "test -z \"$CODEX_SANDBOX_NETWORK_DISABLED\"";
        if has_namespaces(backend) {
            assert!(
                crate::backend::succeeds(&tree, backend, &["--proxy"], script),
                "{backend:?} as {user:?}"
            );
        }
    });
}

fn has_namespaces(backend: Backend) -> bool {
    matches!(backend, Backend::Bubblewrap | Backend::View)
}
