//! The list of requests in `docs/compatibility.md` is that of the table, and each of them is answered as it says.

use std::{fs, path::Path};

use codicil_protocol::{CLIENT_REQUESTS, MethodInfo, ProtocolGeneration, Stability};
use codicil_testkit::{App, Reply, Script};
use serde_json::{Value, json};

use super::gate::least_params;

const BEGIN: &str = "<!-- The requests of 0.166. A test compares them with the table of the protocol. -->\n";
const END: &str = "<!-- The end of the requests of 0.166. -->\n";

/// Methods with a handler that always refuses, or that has nothing to do on this server.
const NOTES: &[(&str, &str)] = &[
    ("account/bedrock/discover", "empty: no provider here is Bedrock"),
    ("account/bedrock/setup", "refused: no provider here is Bedrock"),
    ("account/gatewayOAuth/cancel", "nothing to cancel"),
    ("account/gatewayOAuth/login", "refused: no provider signs in through a gateway"),
    ("account/gcp/setup", "refused: no provider here is of Google Cloud"),
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
    ("rollout/compress", "nothing to compress: threads are not stored as rollouts"),
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

/// Requests that would run a command, wait for a browser or ask another server. They are sent without members only.
const SENT_EMPTY: &[&str] = &[
    "account/login/start",
    "externalAgentConfig/detect",
    "externalAgentConfig/import",
    "feedback/upload",
    "marketplace/add",
    "mcpServer/oauth/login",
    "thread/shellCommand",
];

fn requests() -> impl Iterator<Item = &'static MethodInfo> {
    CLIENT_REQUESTS.iter().filter(|method| method.generations.include(ProtocolGeneration::V166))
}

fn expected() -> String {
    let mut rows = vec!["| request | | answer |\n|---|---|---|\n".to_owned()];
    for method in requests() {
        let stability = match method.stability {
            Stability::Stable => "",
            Stability::Experimental => "experimental",
            Stability::Extension => "extension",
        };
        rows.push(format!("| `{}` | {stability} | {} |\n", method.name, documented_answer(method)));
    }
    rows.concat()
}

fn documented_answer(method: &MethodInfo) -> &'static str {
    match NOTES.iter().find(|(name, _)| *name == method.name) {
        Some((_, note)) => note,
        None if method.is_served => "served",
        None => "not served: refused with `methodNotServed`",
    }
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

/// Replaces the texts of the shortest params: ids of threads by that of `thread`, and paths by one below `folder`.
fn plausible(name: &str, value: &Value, thread: &str, folder: &Path) -> Value {
    let inner = |name: &str, value: &Value| plausible(name, value, thread, folder);
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), inner(name, value))).collect()
        }
        Value::Array(values) => values.iter().map(|value| inner(name, value)).collect(),
        Value::String(_) if name == "threadId" => json!(thread),
        Value::String(text) if text == "/x" => json!(folder.join("missing")),
        other => other.clone(),
    }
}

fn check_answer(method: &MethodInfo, request: &Value, answer: &Value) {
    let documented = documented_answer(method);
    let Some(error) = answer.get("error") else {
        let is_refusal = ["refused", "not served"].iter().any(|word| documented.starts_with(word));
        assert!(!is_refusal, "{documented}: {request} {answer}");
        return;
    };
    let message = error["message"].as_str().unwrap();
    let is_unrouted =
        message.starts_with("Invalid request: unknown variant `") && message.contains(method.name);
    assert_eq!(is_unrouted, !method.is_served, "{request} {answer}");
    if is_unrouted {
        assert_eq!(error["data"]["reason"], "methodNotServed", "{request} {answer}");
    }
    let expected_codes: &[i64] =
        if documented.contains("-32601") { &[-32600, -32601] } else { &[-32600, -32602, -32603] };
    assert!(expected_codes.contains(&error["code"].as_i64().unwrap()), "{request} {answer}");
    // The message of a request that panicked.
    assert!(!message.is_empty() && message != "internal error", "{request} {answer}");
}

#[tokio::test]
async fn every_request_is_answered_as_documented() {
    let script = Script::new().repeat(Reply::new().say("ok"));
    let mut app = App::builder().experimental().later_client().script(script).start().await;
    let (params, folder) = (least_params(), app.workspace().to_owned());
    let mut count = 0;
    for method in requests().filter(|method| method.name != "initialize") {
        let thread = app.start_thread().await;
        let least = method.params.and_then(|info| params.get(&(info.name)())).cloned().unwrap_or(Value::Null);
        let mut attempts = vec![json!({})];
        if !SENT_EMPTY.contains(&method.name) {
            attempts.push(plausible("", &least, &thread.id, &folder));
        }
        for params in attempts {
            let request = json!({ "id": method.name, "method": method.name, "params": params });
            let answer = app.exchange(request.clone()).await;
            check_answer(method, &request, &answer);
        }
        count += 1;
    }
    assert_eq!(count, 178, "all but `initialize`");
    app.ignore_rest();
}
