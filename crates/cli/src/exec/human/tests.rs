use std::{io::Write, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json, value::to_raw_value};

use super::*;
use crate::style::Palette;

/// A writer that keeps what was written.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn report(events: &[(&str, Value)]) -> String {
    let err = SharedBuffer::default();
    let screen =
        ReportScreen::to(Box::new(err.clone()), Box::new(io::sink()), Palette::new(ColorChoice::Never));
    let mut human = HumanReport::on(screen, "/work");
    for (method, params) in events {
        let mut params = params.clone();
        (params["threadId"], params["turnId"]) = ("t".into(), "u".into());
        let event = ServerNotification::decode(method, Some(&to_raw_value(&params).unwrap()));
        assert!(!matches!(event, ServerNotification::Unknown(_)), "{method}: {params}");
        human.event(&event).unwrap();
    }
    human.screen.close().unwrap();
    err.text()
}

fn command(status: &str, output: Value, exit_code: Value) -> Value {
    json!({ "item": {
        "type": "commandExecution", "id": "c", "command": "make test", "cwd": "/", "status": status,
        "commandActions": [], "aggregatedOutput": output, "exitCode": exit_code, "durationMs": 1234,
    } })
}

#[test]
fn commands_are_shown_with_their_output_and_end() {
    let delta = |text: &str| json!({ "itemId": "c", "delta": text });
    let shown = report(&[
        ("item/started", command("inProgress", Value::Null, Value::Null)),
        ("item/commandExecution/outputDelta", delta("one\ntw")),
        ("item/commandExecution/outputDelta", delta("o")),
        ("item/completed", command("failed", json!("one\ntwo"), json!(2))),
    ]);
    assert_eq!(shown, "$ make test\none\ntwo\n  exit 2, 1.2 s\n");
    let shown = report(&[
        ("item/started", command("inProgress", Value::Null, Value::Null)),
        ("item/completed", command("completed", json!("all\n"), json!(0))),
        ("item/completed", command("declined", Value::Null, Value::Null)),
    ]);
    assert_eq!(shown, "$ make test\nall\n  exit 0, 1.2 s\n  declined\n", "also without deltas");
}

#[test]
fn a_command_that_begins_in_the_middle_of_a_sentence_is_shown_after_it() {
    let delta = |text: &str| json!({ "itemId": "m", "delta": text });
    let mut started = command("inProgress", Value::Null, Value::Null);
    started["item"]["command"] = "/bin/bash -lc 'make test'".into();
    let shown = report(&[
        ("item/agentMessage/delta", delta("I ")),
        ("item/started", started),
        ("item/agentMessage/delta", delta("run it.")),
        ("item/completed", json!({ "item": { "type": "agentMessage", "id": "m", "text": "I run it." } })),
        ("item/completed", command("completed", Value::Null, json!(0))),
    ]);
    assert_eq!(shown, "I run it.\n$ make test\n  exit 0, 1.2 s\n");
}

#[test]
fn changes_are_shown_as_diffs() {
    let change = |path: &str, kind: Value, diff: &str| json!({ "path": path, "kind": kind, "diff": diff });
    let changes = json!([
        change("/work/new.txt", json!({ "type": "add" }), "a\nb\n"),
        change(
            "/elsewhere/old.txt",
            json!({ "type": "update", "move_path": null }),
            "@@ -1 +1 @@\n-x\n+y\n z\n"
        ),
    ]);
    let item = json!({ "type": "fileChange", "id": "p", "status": "completed", "changes": changes });
    let shown = report(&[("item/completed", json!({ "item": item }))]);
    assert_eq!(shown, "+ new.txt\n  +a\n  +b\n~ /elsewhere/old.txt\n  @@ -1 +1 @@\n  -x\n  +y\n   z\n");
}

#[test]
fn thoughts_messages_and_plans_do_not_run_into_each_other() {
    let plan = json!([{ "step": "look", "status": "completed" }, { "step": "fix", "status": "inProgress" },
        { "step": "test", "status": "pending" }]);
    let shown = report(&[
        ("item/reasoning/summaryTextDelta", json!({ "itemId": "r", "delta": "Hm", "summaryIndex": 0 })),
        ("item/reasoning/summaryPartAdded", json!({ "itemId": "r", "summaryIndex": 1 })),
        ("item/reasoning/summaryTextDelta", json!({ "itemId": "r", "delta": "Well", "summaryIndex": 1 })),
        ("item/agentMessage/delta", json!({ "itemId": "m", "delta": "Let me " })),
        ("item/agentMessage/delta", json!({ "itemId": "m", "delta": "look\x1b[2J" })),
        ("turn/plan/updated", json!({ "explanation": "In order", "plan": plan })),
        ("item/completed", json!({ "item": { "type": "agentMessage", "id": "x", "text": "Whole" } })),
    ]);
    let expected = "Hm\n\nWell\nLet me look[2J\nplan\n  In order\n  [x] look\n  [>] fix\n  [ ] test\nWhole\n";
    assert_eq!(shown, expected);
}

#[test]
fn the_end_of_a_command_names_it_if_another_one_was_shown_since() {
    let of = |id: &str, script: &str, mut event: Value| {
        event["item"]["id"] = id.into();
        event["item"]["command"] = script.into();
        event
    };
    let started = || command("inProgress", Value::Null, Value::Null);
    let shown = report(&[
        ("item/started", of("a", "make one", started())),
        ("item/started", of("b", "make two", started())),
        ("item/completed", of("a", "make one", command("failed", Value::Null, json!(2)))),
        ("item/completed", of("b", "make two", command("completed", Value::Null, json!(0)))),
    ]);
    assert_eq!(shown, "$ make one\n$ make two\n  exit 2, 1.2 s  $ make one\n  exit 0, 1.2 s\n");
}

#[test]
fn retries_and_servers_that_fail_are_shown_with_their_reason() {
    let error = json!({ "message": "Reconnecting... 1/5", "codexErrorInfo": null,
        "additionalDetails": "stream disconnected before completion: 503" });
    let failed = "MCP client for `docs` failed to start: the server exited with code 1. \
                  Its standard error ends with:\nTraceback:\n  no module named x";
    let shown = report(&[
        ("error", json!({ "error": error, "willRetry": true })),
        ("mcpServer/startupStatus/updated", json!({ "name": "docs", "status": "ready", "error": null })),
        ("mcpServer/startupStatus/updated", json!({ "name": "docs", "status": "failed", "error": failed })),
    ]);
    assert_eq!(
        shown,
        "! Reconnecting... 1/5: stream disconnected before completion: 503\n\
         ! MCP client for `docs` failed to start: the server exited with code 1. Its standard error ends with:\n  \
         Traceback:\n    no module named x\n"
    );
}
