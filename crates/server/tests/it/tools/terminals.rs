//! Commands that outlive their call and their turn.

use codicil_protocol::{
    CommandExecutionStatus, CommandExecutionTerminalInteraction, ThreadArchive, ThreadArchiveParams,
    ThreadBackgroundTerminalsClean, ThreadBackgroundTerminalsCleanParams, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::json;

use super::{call_output, command_end, free_thread};
use crate::processes::until_process_ends;

/// Makes a call of a command that waits for input in a terminal.
fn waiting() -> Script {
    let arguments = json!({ "cmd": "read line; echo got:$line", "tty": true, "yield_time_ms": 250 });
    Script::new().call("exec_command", arguments).call_id("open").then().say("It waits")
}

fn session(app: &App) -> u32 {
    let text = call_output(app, "open");
    let (_, rest) = text.split_once("Process running with session ID ").expect(&text);
    rest.lines().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_later_turn_can_write_to_a_terminal() {
    let mut app = App::start(waiting()).await;
    let thread = free_thread(&mut app).await;
    assert_eq!(app.run_turn(&thread, "open").await.status, TurnStatus::Completed);
    let typed = json!({ "session_id": session(&app), "chars": "hello\n", "yield_time_ms": 5000 });
    app.model().push(Script::new().call("write_stdin", typed).call_id("type").then().say("It answered"));

    app.start_turn(&thread, "type").await;

    let interaction = app.until::<CommandExecutionTerminalInteraction>().await;
    assert_eq!((&*interaction.item_id, interaction.stdin.as_str()), ("open", "hello\n"));
    let (status, code, output) = command_end(&mut app).await;
    assert_eq!((status, code), (CommandExecutionStatus::Completed, Some(0)));
    assert!(output.unwrap().contains("got:hello"));
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    let text = call_output(&app, "type");
    assert!(text.contains("Process exited with code 0") && text.contains("got:hello"), "{text}");
}

#[tokio::test]
async fn background_terminals_can_be_cleaned() {
    let mut app = App::builder().experimental().script(waiting()).start().await;
    let thread = free_thread(&mut app).await;
    app.run_turn(&thread, "open").await;

    let params = || ThreadBackgroundTerminalsCleanParams { thread_id: thread.id.clone() };
    app.call::<ThreadBackgroundTerminalsClean>(params()).await;

    let (status, code, _) = command_end(&mut app).await;
    assert_eq!((status, code), (CommandExecutionStatus::Failed, Some(-1)));
    app.call::<ThreadBackgroundTerminalsClean>(params()).await;
    app.rest().await;
    let stored = app.read(&thread).await;
    let kinds: Vec<_> = stored.turns[0].items.iter().filter_map(|item| item.id()).collect();
    assert!(kinds.iter().any(|id| &id[..] == "open"), "the end is stored with its turn: {kinds:?}");
}

#[tokio::test]
async fn terminals_end_with_their_thread() {
    let line = json!({ "cmd": "echo $$ > pid; sleep 1000", "yield_time_ms": 250 });
    let script = Script::new().call("exec_command", line).call_id("open").then().say("On its way");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.run_turn(&thread, "open").await;
    let pid = std::fs::read_to_string(app.workspace().join("pid")).unwrap();

    app.call::<ThreadArchive>(ThreadArchiveParams { thread_id: thread.id.clone() }).await;

    let seen = app.rest().await;
    assert!(seen.contains("failed exit -1"), "{seen}");
    until_process_ends(pid.trim().parse().unwrap()).await;
}
