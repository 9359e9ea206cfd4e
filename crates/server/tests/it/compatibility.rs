//! The list of requests in `docs/compatibility.md` is that of the table.

use std::{collections::BTreeMap, fs, path::Path};

use codicil_protocol::{CLIENT_REQUESTS, ProtocolGeneration, Stability};

const BEGIN: &str = "<!-- The requests of 0.166. A test compares them with the table of the protocol. -->\n";
const END: &str = "<!-- The end of the requests of 0.166. -->\n";

/// Methods with a handler that always refuses, or that has nothing to do on this server.
const NOTES: &[(&str, &str)] = &[
    ("account/gatewayOAuth/cancel", "nothing to cancel"),
    ("account/gatewayOAuth/login", "refused: no provider signs in through a gateway"),
    ("account/rateLimitResetCredit/consume", "refused: a service of an account"),
    ("account/sendAddCreditsNudgeEmail", "refused: a service of an account"),
    ("account/usage/read", "refused: a service of an account"),
    ("account/workspaceMessages/read", "refused: a service of an account"),
    ("accountSession/list", "empty: one account at a time"),
    ("accountSession/switch", "refused: one account at a time"),
    ("environment/add", "refused: commands run on this machine"),
    ("mcpServer/event/stream/start", "refused: for hosted apps"),
    ("mcpServer/event/stream/stop", "nothing to stop"),
    ("memory/reset", "nothing to remove: no memories are made"),
    ("memory/status", "no memories are made"),
    ("plugin/reconcile", "nothing to reconcile: no remote catalogue"),
    ("plugin/share/checkout", "refused: no remote catalogue"),
    ("plugin/share/delete", "refused: no remote catalogue"),
    ("plugin/share/list", "refused: no remote catalogue"),
    ("plugin/share/save", "refused: no remote catalogue"),
    ("plugin/share/updateTargets", "refused: no remote catalogue"),
    ("plugin/skill/read", "refused: no remote catalogue"),
    ("remoteControl/client/list", "refused: a service of an account"),
    ("remoteControl/client/revoke", "refused: a service of an account"),
    ("remoteControl/disable", "refused: a service of an account"),
    ("remoteControl/enable", "refused: a service of an account"),
    ("remoteControl/pairing/start", "refused: remote control is off"),
    ("remoteControl/pairing/status", "refused: remote control is off"),
    ("remoteControl/status/read", "always `disabled`"),
    ("thread/memory/read", "empty: no memories are made"),
    ("thread/memoryMode/set", "no effect: no memories are made"),
    ("thread/prediction/request", "refused with -32601, as by the reference"),
    ("userVerification/cancel", "nothing to cancel"),
    ("userVerification/delete", "refused: no provider"),
    ("userVerification/enroll", "refused: no provider"),
    ("userVerification/status", "unavailable: no provider"),
    ("userVerification/verify", "refused: no provider"),
    ("windowsSandbox/readiness", "always `notConfigured`"),
    ("windowsSandbox/setupStart", "reports a failed setup"),
];

fn expected() -> String {
    let notes: BTreeMap<_, _> = NOTES.iter().copied().collect();
    let mut rows = vec!["| request | | answer |\n|---|---|---|\n".to_owned()];
    let listed = CLIENT_REQUESTS.iter().filter(|method| method.generations.include(ProtocolGeneration::V166));
    for method in listed {
        let stability = match method.stability {
            Stability::Stable => "",
            Stability::Experimental => "experimental",
            Stability::Extension => "extension",
        };
        let answer = match notes.get(method.name) {
            Some(note) => note,
            None if method.is_served => "served",
            None => "not served: refused with `methodNotServed`",
        };
        rows.push(format!("| `{}` | {stability} | {answer} |\n", method.name));
    }
    rows.concat()
}

#[test]
fn the_documented_requests_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the list begins with its comment");
    let (listed, after) = rest.split_once(END).expect("the list ends with its comment");
    let expected = expected();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert!(listed == expected, "docs/compatibility.md is out of date: run this test with UPDATE_DOCS=1");
}

#[test]
fn every_note_is_about_a_served_request() {
    for (name, _) in NOTES {
        let method = CLIENT_REQUESTS.iter().find(|method| method.name == *name);
        assert!(method.is_some_and(|method| method.is_served), "{name}");
    }
}
