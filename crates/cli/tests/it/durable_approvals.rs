//! Server requests that outlive the server: killed or stopped while a request is open, it sends the request again, and what
//! the request is about happens once.
//!
//! `CODICIL_KILLS` sets the number of kills at random instants (12), `CODICIL_SEED` repeats a run; the seed is printed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use codicil_protocol::{
    AgentMessageDelta, CodicilRequestAnswer, CodicilRequestAnswerResponse, CodicilRequestList,
    CommandExecutionApproval, CommandExecutionApprovalDecision as Decision,
    CommandExecutionRequestApprovalResponse, CommandExecutionStatus, DynamicToolCall, FileChangeApproval,
    FileChangeApprovalDecision, FileChangeRequestApprovalResponse, ItemCompleted, ItemId, ItemStarted,
    Thread, ThreadActiveFlag, ThreadItem, ThreadStatus, ToolUserInput, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, AppBuilder, RecordedRequest, Reply, Script, TestTransport};
use fastrand::Rng;
use serde_json::{Value, from_value, json};

use crate::killed_during_tools::{number, seed};

const ACCEPT: Decision = Decision::Accept;

fn response(decision: Decision) -> CommandExecutionRequestApprovalResponse {
    CommandExecutionRequestApprovalResponse { decision }
}

/// Appends a line, outside the sandbox and therefore only after an approval.
fn append_line() -> Value {
    json!({ "cmd": "echo line >> lines", "sandbox_permissions": "require_escalated", "justification": "May I?" })
}

/// A client that does not use the extension.
fn plain(script: Script) -> AppBuilder {
    App::builder().experimental().over(TestTransport::Stdio).script(script)
}

fn extended(script: Script) -> AppBuilder {
    plain(script).extension()
}

/// Starts a turn that waits for the approval of a command.
async fn asked_for_line(builder: fn(Script) -> AppBuilder, config: &str) -> (App, Thread) {
    let script = Script::new().call("exec_command", append_line()).call_id("c").then().say("Done");
    let mut app = builder(script).config(config).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "run").await;
    (app, thread)
}

fn lines(app: &App) -> usize {
    fs::read_to_string(app.workspace().join("lines")).unwrap_or_default().lines().count()
}

fn waits_for(flag: ThreadActiveFlag) -> ThreadStatus {
    ThreadStatus::Active { active_flags: vec![flag] }
}

async fn kill(app: &mut App) {
    app.process().kill();
    app.revive().await;
}

async fn stop(app: &mut App) {
    app.process().terminate();
    app.process().expect_success().await;
    app.restart().await;
}

/// Checks that a stored or resumed thread has one turn, which waits with its command.
fn check_waiting(thread: &Thread) {
    assert_eq!(thread.status, waits_for(ThreadActiveFlag::WaitingOnApproval));
    let turn = thread.turns.last().unwrap();
    assert_eq!(turn.status, TurnStatus::InProgress);
    let open: Vec<_> = turn.items.iter().filter(|item| item.id() == Some(&ItemId::from("c"))).collect();
    assert!(
        matches!(open[..], [ThreadItem::CommandExecution { status: CommandExecutionStatus::InProgress, .. }]),
        "{open:?}"
    );
}

#[tokio::test]
async fn a_killed_server_asks_for_the_approval_again_and_the_command_runs_once() {
    let (mut app, thread) = asked_for_line(plain, "").await;
    let first = app.expect_request::<CommandExecutionApproval>().await;
    kill(&mut app).await;

    check_waiting(&app.read(&thread).await);
    check_waiting(&app.resume(&thread).await);
    let again = app.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(again.params, first.params, "the same request, with the same item");
    assert_eq!(lines(&app), 0);
    app.reply(&again, response(ACCEPT)).await;

    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (first.params.turn_id, TurnStatus::Completed));
    assert_eq!(lines(&app), 1);
    app.rest().await;
    let stored = app.read(&thread).await;
    assert_eq!(stored.turns.len(), 1);
    let statuses: Vec<_> = stored.turns[0].items.iter().filter_map(command_status).collect();
    assert_eq!(statuses, [CommandExecutionStatus::Completed]);
}

fn command_status(item: &ThreadItem) -> Option<CommandExecutionStatus> {
    match item {
        ThreadItem::CommandExecution { status, .. } => Some(status.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn an_item_that_waits_is_not_announced_twice() {
    let (mut app, thread) = asked_for_line(plain, "").await;
    app.expect_request::<CommandExecutionApproval>().await;
    kill(&mut app).await;
    app.resume(&thread).await;
    let again = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&again, response(ACCEPT)).await;

    let rest = app.rest().await;
    assert_eq!(rest.matches("← item/started commandExecution").count(), 0, "{rest}");
    assert_eq!(rest.matches("← item/completed commandExecution").count(), 1, "{rest}");
    assert_eq!(rest.matches("← serverRequest/resolved").count(), 1, "{rest}");
    assert!(rest.ends_with("← turn/completed completed"), "{rest}");
}

#[tokio::test]
async fn a_stopped_server_leaves_the_turn_for_the_next_one_any_number_of_times() {
    let (mut app, thread) = asked_for_line(plain, "").await;
    let first = app.expect_request::<CommandExecutionApproval>().await;
    for _ in 0..4 {
        stop(&mut app).await;
        check_waiting(&app.resume(&thread).await);
        let again = app.expect_request::<CommandExecutionApproval>().await;
        assert_eq!(again.params, first.params);
    }
    stop(&mut app).await;
    app.resume(&thread).await;
    let again = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&again, response(Decision::Decline)).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(lines(&app), 0);
    app.ignore_rest();
}

#[tokio::test]
async fn a_turn_is_continued_after_two_crashes_and_no_more() {
    let (mut app, thread) = asked_for_line(plain, "").await;
    app.expect_request::<CommandExecutionApproval>().await;
    for _ in 0..2 {
        kill(&mut app).await;
        check_waiting(&app.resume(&thread).await);
        app.expect_request::<CommandExecutionApproval>().await;
    }
    kill(&mut app).await;

    let resumed = app.resume(&thread).await;
    assert_eq!(resumed.status, ThreadStatus::Idle);
    assert_eq!(resumed.turns[0].status, TurnStatus::Interrupted);
    let statuses: Vec<_> = resumed.turns[0].items.iter().filter_map(command_status).collect();
    assert_eq!(statuses, [CommandExecutionStatus::Failed], "the item that clients saw is not lost");
    app.model().push(Script::new().say("And now?"));
    assert_eq!(app.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    app.ignore_rest();
}

#[tokio::test]
async fn a_file_change_is_approved_after_a_kill() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch";
    let script = Script::new().custom_call("apply_patch", patch).call_id("p").then().say("Done");
    let mut app = plain(script).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "write").await;
    let first = app.expect_request::<FileChangeApproval>().await;
    kill(&mut app).await;

    let resumed = app.resume(&thread).await;
    let is_open = |item: &ThreadItem| matches!(item, ThreadItem::FileChange { id, .. } if **id == *"p");
    assert!(resumed.turns[0].items.iter().any(is_open), "{resumed:?}");
    let again = app.expect_request::<FileChangeApproval>().await;
    assert_eq!(again.params, first.params);
    let accepted = FileChangeRequestApprovalResponse { decision: FileChangeApprovalDecision::Accept };
    app.reply(&again, accepted).await;

    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (first.params.turn_id, TurnStatus::Completed));
    assert_eq!(fs::read_to_string(app.workspace().join("new.txt")).unwrap(), "one\n");
    app.ignore_rest();
}

#[tokio::test]
async fn input_of_the_user_is_asked_for_again_after_a_kill() {
    let question = json!({ "id": "color", "header": "Colour", "question": "Which?",
        "options": [{ "label": "Blue", "description": "Calm" }] });
    let script = Script::new()
        .call("request_user_input", json!({ "questions": [question] }))
        .call_id("q")
        .then()
        .say("Ok");
    let config = "[features]\ndefault_mode_request_user_input = true\n";
    let mut app = plain(script).config(config).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "ask").await;
    let first = app.expect_request::<ToolUserInput>().await;
    kill(&mut app).await;

    assert_eq!(app.resume(&thread).await.status, waits_for(ThreadActiveFlag::WaitingOnUserInput));
    let again = app.expect_request::<ToolUserInput>().await;
    assert_eq!(again.params, first.params);
    let answers = json!({ "answers": { "color": { "answers": ["Blue"] } } });
    app.reply(&again, from_value(answers.clone()).unwrap()).await;

    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (first.params.turn_id, TurnStatus::Completed));
    let output = app.model().requests().last().unwrap().tool_output("q").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), answers);
    app.ignore_rest();
}

#[tokio::test]
async fn a_tool_of_the_client_is_called_again_after_a_kill() {
    let tool = json!({ "name": "look_up", "description": "Looks up", "inputSchema": { "type": "object" } });
    let script = Script::new().call("look_up", json!({ "word": "x" })).call_id("d").then().say("Done");
    let mut app = plain(script).start().await;
    let thread = app.start_thread_with(from_value(json!({ "dynamicTools": [tool] })).unwrap()).await;
    app.start_turn(&thread, "look").await;
    let first = app.expect_request::<DynamicToolCall>().await;
    kill(&mut app).await;

    let resumed = app.resume(&thread).await;
    assert_eq!(resumed.status, ThreadStatus::Active { active_flags: Vec::new() });
    let again = app.expect_request::<DynamicToolCall>().await;
    assert_eq!(again.params, first.params, "with the same call id");
    let found = json!({ "contentItems": [{ "type": "inputText", "text": "found" }], "success": true });
    app.reply(&again, from_value(found).unwrap()).await;

    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (first.params.turn_id, TurnStatus::Completed));
    assert_eq!(app.model().requests().last().unwrap().tool_output("d").unwrap(), "found");
    app.ignore_rest();
}

/// Returns the only open request of the server.
async fn only_request(app: &mut App) -> codicil_protocol::CodicilWaitingRequest {
    let mut listed = app.call::<CodicilRequestList>(Default::default()).await;
    assert_eq!((listed.data.len(), listed.next_cursor), (1, None), "{:?}", listed.data);
    listed.data.remove(0)
}

fn answer(thread: &Thread, request: &str, result: Value) -> codicil_protocol::CodicilRequestAnswerParams {
    from_value(json!({ "threadId": thread.id, "request": request, "result": result })).unwrap()
}

#[tokio::test]
async fn a_request_of_a_thread_that_is_not_loaded_is_listed_and_answered() {
    let (mut app, thread) = asked_for_line(extended, "").await;
    let first = app.expect_request::<CommandExecutionApproval>().await;
    let before = only_request(&mut app).await;
    kill(&mut app).await;

    let listed = only_request(&mut app).await;
    assert_eq!(listed, before, "its identity survives");
    assert_eq!((&listed.thread_id, &listed.turn_id), (&thread.id, &first.params.turn_id));
    assert_eq!(listed.method, "item/commandExecution/requestApproval");
    assert_eq!(listed.params, serde_json::to_value(&first.params).unwrap());

    let wrong = answer(&thread, &listed.request, json!({ "decision": 7 }));
    let refused = app.try_call::<CodicilRequestAnswer>(wrong).await.unwrap_err();
    assert!(refused.message.contains("CommandExecutionRequestApprovalResponse"), "{}", refused.message);
    assert_eq!(only_request(&mut app).await, listed, "it is still open");

    let accept = answer(&thread, &listed.request, json!({ "decision": "accept" }));
    let accepted = app.call::<CodicilRequestAnswer>(accept.clone()).await;
    assert_eq!(accepted, CodicilRequestAnswerResponse::Accepted {});
    let resumed = app.resume(&thread).await;
    if resumed.turns[0].status == TurnStatus::InProgress {
        let ended = app.until::<TurnCompleted>().await.turn;
        assert_eq!((ended.id, ended.status), (first.params.turn_id, TurnStatus::Completed));
    }
    assert_eq!(lines(&app), 1);
    let second = app.call::<CodicilRequestAnswer>(accept).await;
    assert!(
        matches!(&second, CodicilRequestAnswerResponse::AlreadyResolved { by, at } if by == "testkit" && *at > 0),
        "{second:?}"
    );
    app.ignore_rest();
}

/// The records of a thread's file.
struct ThreadFile {
    path: PathBuf,
    lines: Vec<String>,
}

impl ThreadFile {
    fn of(app: &App, thread: &Thread) -> Self {
        let path = find_file(&app.home().join("sessions"), &thread.id).expect("the thread has a file");
        let lines = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        Self { path, lines }
    }

    /// Returns the position of the first record of a kind.
    fn first(&self, kind: &str) -> usize {
        let is_kind = |line: &String| serde_json::from_str::<Value>(line).unwrap()["type"] == kind;
        self.lines.iter().position(is_kind).unwrap_or_else(|| panic!("no record of the kind {kind}"))
    }

    /// Returns the position after the record with the model's call.
    fn after_call(&self) -> usize {
        let is_call = |line: &String| line.contains(r#""type":"function_call""#);
        self.lines.iter().position(is_call).expect("the call is stored") + 1
    }

    fn write(&self, records: usize) {
        fs::write(&self.path, self.lines[..records].join("\n") + "\n").unwrap();
    }
}

fn find_file(dir: &Path, id: &str) -> Option<PathBuf> {
    let mut entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.find_map(|path| {
        if path.is_dir() { find_file(&path, id) } else { path.to_string_lossy().contains(id).then_some(path) }
    })
}

/// Calls the tool until its output is there.
fn call_once(request: &RecordedRequest) -> Reply {
    match request.tool_output("c") {
        None => Reply::new().call("exec_command", append_line()).call_id("c"),
        Some(_) => Reply::new().say("Done"),
    }
}

/// A kill after each record that the turn writes, which is every state that a kill can leave behind.
#[tokio::test]
async fn a_kill_after_any_record_leaves_one_line_at_most() {
    let script = Script::new().respond_with(call_once);
    let mut app = plain(script).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "run").await;
    let asked = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&asked, response(ACCEPT)).await;
    app.until::<TurnCompleted>().await;
    let file = ThreadFile::of(&app, &thread);
    let begun = file.first("begun");
    assert!(file.after_call() <= file.first("asked") && file.first("asked") < file.first("answered"));
    assert!(file.first("answered") < begun);

    for records in file.after_call()..file.lines.len() {
        // A command that has begun may have had its effect or not.
        for effect in ["", "line\n"] {
            if records <= begun && !effect.is_empty() {
                continue;
            }
            app.process().kill();
            app.process().wait().await;
            file.write(records);
            fs::write(app.workspace().join("lines"), effect).unwrap();
            app.revive().await;
            let resumed = app.resume(&thread).await;
            let context = format!("after {records} records, {effect:?}: {}", file.lines[records - 1]);
            let is_asked = (file.after_call()..=file.first("answered")).contains(&records);
            if resumed.turns[0].status == TurnStatus::InProgress {
                assert!(records <= begun, "{context}");
                if is_asked {
                    let again = app.expect_request::<CommandExecutionApproval>().await;
                    assert_eq!(again.params.item_id, asked.params.item_id, "{context}");
                    app.reply(&again, response(ACCEPT)).await;
                }
                let ended = app.until::<TurnCompleted>().await.turn;
                assert_eq!(
                    (&ended.id, ended.status),
                    (&asked.params.turn_id, TurnStatus::Completed),
                    "{context}"
                );
                assert_eq!(lines(&app), 1, "{context}");
            } else {
                assert!(records > begun, "{context}");
                assert_eq!(resumed.turns[0].status, TurnStatus::Interrupted, "{context}");
                assert_eq!(lines(&app), effect.lines().count(), "nothing ran again: {context}");
                let statuses: Vec<_> = resumed.turns[0].items.iter().filter_map(command_status).collect();
                assert_eq!(statuses.len(), 1, "{context}");
                check_outcome_unknown(&mut app, &thread, &file, records, &context).await;
            }
        }
    }
    assert_eq!(app.model().faults(), Vec::<String>::new());
    app.ignore_rest();
}

/// Checks that the model learns that the outcome of a call is unknown, unless its output was written.
async fn check_outcome_unknown(
    app: &mut App,
    thread: &Thread,
    file: &ThreadFile,
    records: usize,
    context: &str,
) {
    let has_output = file.lines[..records].iter().any(|line| line.contains("function_call_output"));
    app.run_turn(thread, "and now?").await;
    let output = app.model().requests().last().unwrap().tool_output("c").unwrap();
    assert_eq!(output.contains("outcome of this call is unknown"), !has_output, "{context}: {output}");
}

#[tokio::test]
async fn kills_at_random_instants_leave_one_line_for_each_turn() {
    let kills = number("CODICIL_KILLS").unwrap_or(12);
    let seed = seed();
    println!("CODICIL_SEED={seed} CODICIL_KILLS={kills}");
    let mut random = Rng::with_seed(seed);
    let script = Script::new().append_lines();
    let mut app = plain(script).start().await;
    let thread = app.start_thread().await;
    for round in 0..kills {
        app.start_turn(&thread, &format!("c{round}")).await;
        let mut kills_left = random.usize(0..3);
        loop {
            let step = drive(&mut app, &thread, (kills_left > 0).then(|| random.usize(0..12))).await;
            if step == Driven::TurnOver {
                break;
            }
            kills_left -= 1;
            app.process().kill();
            app.revive().await;
            if app.resume(&thread).await.turns.last().unwrap().status != TurnStatus::InProgress {
                break;
            }
        }
    }
    let text = fs::read_to_string(app.workspace().join("lines")).unwrap_or_default();
    let mut seen: Vec<_> = text.lines().collect();
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count, "a command ran twice: {text}");
    assert!(count > 0, "no command ran");
    assert_eq!(app.model().faults(), Vec::<String>::new());
    app.ignore_rest();
}

#[derive(PartialEq, Eq)]
enum Driven {
    TurnOver,
    MessagesRead,
}

/// Reads messages and accepts every request, until the turn is over or `messages` have been read.
async fn drive(app: &mut App, thread: &Thread, messages: Option<usize>) -> Driven {
    let mut left = messages.unwrap_or(usize::MAX);
    loop {
        if left == 0 {
            return Driven::MessagesRead;
        }
        left -= 1;
        let message = app.next_message().await;
        match message["method"].as_str() {
            Some("turn/completed") => return Driven::TurnOver,
            Some("item/commandExecution/requestApproval") => {
                let reply = json!({ "id": message["id"], "result": { "decision": "accept" } });
                app.send_raw(reply.to_string()).await;
                assert_eq!(message["params"]["threadId"], json!(thread.id));
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_users_command_that_is_killed_during_a_turn_has_failed_and_does_not_run_again() {
    let mut app = extended(Script::new().say("begun").hang()).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;
    app.until::<AgentMessageDelta>().await;
    let params = json!({ "threadId": thread.id, "command": "echo line >> lines; exec sleep 1000" });
    assert!(!app.keyed("thread/shellCommand", &params, "k").await.is_replayed);
    app.until_where::<ItemStarted>(|started| command_status(&started.item).is_some()).await;
    kill(&mut app).await;

    let resumed = app.resume(&thread).await;
    assert!(app.keyed("thread/shellCommand", &params, "k").await.is_replayed);
    let statuses: Vec<_> = resumed.turns[0].items.iter().filter_map(command_status).collect();
    assert_eq!(statuses, [CommandExecutionStatus::Failed]);
    assert!(lines(&app) <= 1);
    app.ignore_rest();
}

#[tokio::test]
async fn a_turn_that_is_cut_off_is_interrupted_or_asked_again() {
    for (config, expected) in
        [("", TurnStatus::Interrupted), ("cut_off_turns = \"resume\"", TurnStatus::Completed)]
    {
        let script = Script::new().say("part").hang().then().say("whole");
        let config = format!("[codicil]\n{config}\n");
        let mut app = plain(script).config(&config).start().await;
        let thread = app.start_thread().await;
        let turn = app.start_turn(&thread, "go").await;
        app.until_where::<ItemStarted>(|started| matches!(started.item, ThreadItem::AgentMessage { .. }))
            .await;
        kill(&mut app).await;

        let resumed = app.resume(&thread).await;
        let status = match resumed.turns[0].status.clone() {
            TurnStatus::InProgress => {
                let ended = app.until::<TurnCompleted>().await.turn;
                assert_eq!(ended.id, turn.id);
                ended.status
            }
            status => status,
        };
        assert_eq!(status, expected, "{config}");
        app.ignore_rest();
    }
}

#[tokio::test]
async fn a_deadline_that_passed_while_the_server_was_down_gives_the_default_answer() {
    let config = "[codicil.approvals]\ndeadline_ms = 3600000\ndefault = \"decline\"\n";
    let (mut app, thread) = asked_for_line(extended, config).await;
    app.expect_request::<CommandExecutionApproval>().await;
    let deadline = only_request(&mut app).await.deadline.expect("the request has a deadline");
    app.process().kill();
    app.process().wait().await;
    let mut file = ThreadFile::of(&app, &thread);
    let asked = file.first("asked");
    let mut record: Value = serde_json::from_str(&file.lines[asked]).unwrap();
    assert_eq!(record["deadlineMs"].as_i64().unwrap().div_euclid(1000), deadline);
    record["deadlineMs"] = json!(1);
    file.lines[asked] = record.to_string();
    file.write(file.lines.len());
    app.revive().await;
    app.resume(&thread).await;
    let completed =
        app.until_where::<ItemCompleted>(|completed| command_status(&completed.item).is_some()).await;
    assert_eq!(command_status(&completed.item), Some(CommandExecutionStatus::Declined));
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(lines(&app), 0);
    app.ignore_rest();
}
