//! Requests with keys that add something to a thread or answer a request of the server, over lost responses and killed
//! servers: each has one effect.
//!
//! `CODICIL_KILLS` sets the number of kills.

use std::fs;

use codicil_protocol::{
    CodicilRequestList, CommandExecutionApproval, Thread, ThreadQueueList, ThreadStatus, TurnCompleted,
    TurnStatus,
};
use codicil_testkit::{App, Script, TestTransport};
use serde_json::{Value, from_value, json};

use crate::repeated_requests::{Kill, lose, read, repeat, rounds, start, user_texts};

async fn wait_until_idle(app: &mut App, thread: &Thread) -> Thread {
    loop {
        let read = read(app, &thread.id).await;
        match read.status {
            ThreadStatus::Active { .. } => app.until::<TurnCompleted>().await,
            _ => return read,
        };
    }
}

/// Sends a request whose first response is lost, and returns the result of its repetitions.
async fn send_again(app: &mut App, method: &str, params: &Value, round: usize) -> Value {
    let key = format!("{method}-{round}");
    lose(app, method, params, &key, Kill::of(round)).await;
    repeat(app, method, params, &key).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_added_to_a_thread_is_added_once_over_lost_responses_and_kills() {
    let mut app = start().await;
    app.ignore_rest();
    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    for round in 0..rounds() {
        let content = json!([{ "type": "input_text", "text": format!("note {round}.") }]);
        let items = json!([{ "type": "message", "role": "user", "content": content }]);
        send_again(&mut app, "thread/inject_items", &json!({ "threadId": thread.id, "items": items }), round)
            .await;
        app.run_turn(&thread, &format!("round {round}")).await;
        let sent = app.model().requests().pop().unwrap().body().to_string();
        assert_eq!(sent.matches(&format!("note {round}.")).count(), 1, "round {round}: {sent}");

        let before = wait_until_idle(&mut app, &thread).await.turns.len();
        let target = json!({ "type": "custom", "instructions": "Look" });
        let params = json!({ "threadId": thread.id, "target": target });
        let review = send_again(&mut app, "review/start", &params, round).await;
        let after = wait_until_idle(&mut app, &thread).await;
        assert_eq!(after.turns.len(), before + 1, "one review in round {round}");
        assert_eq!(json!(after.turns[before].id), review["turn"]["id"], "round {round}");

        let input = json!([{ "type": "text", "text": format!("queued {round}") }]);
        let params =
            json!({ "threadId": thread.id, "input": input, "clientUserMessageId": format!("m-{round}") });
        send_again(&mut app, "thread/queue/add", &params, round).await;
        // A queue that was paused by the restart goes on after a turn of the user.
        wait_until_idle(&mut app, &thread).await;
        app.run_turn(&thread, &format!("go on {round}")).await;
        let list =
            from_value::<codicil_protocol::ThreadQueueListParams>(json!({ "threadId": thread.id })).unwrap();
        while !app.call::<ThreadQueueList>(list.clone()).await.data.is_empty() {
            app.until::<TurnCompleted>().await;
        }
        let texts = user_texts(&wait_until_idle(&mut app, &thread).await);
        assert_eq!(texts.get(&format!("queued {round}")), Some(&1), "round {round}: {texts:?}");

        // Keeps the history short, in one step.
        let before = read(&mut app, &thread.id).await.turns.len();
        send_again(&mut app, "thread/compact/start", &json!({ "threadId": thread.id }), round).await;
        let after = wait_until_idle(&mut app, &thread).await.turns.len();
        assert_eq!(after, before + 1, "one compaction in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_used_once_over_lost_responses_and_kills() {
    let script = Script::new().append_lines();
    let builder = App::builder().script(script).extension().experimental();
    let mut app = builder.over(TestTransport::WebSocket).start().await;
    app.ignore_rest();
    let thread = app.start_thread().await;
    for round in 0..rounds() {
        let turn = app.start_turn(&thread, &format!("c{round}")).await;
        app.expect_request::<CommandExecutionApproval>().await;
        let listed = app.call::<CodicilRequestList>(Default::default()).await.data;
        let [request] = &listed[..] else { panic!("one request is open: {listed:?}") };
        let result = json!({ "decision": "accept" });
        let params = json!({ "threadId": thread.id, "request": request.request, "result": result });
        let answered = send_again(&mut app, "codicil/request/answer", &params, round).await;
        assert_eq!(answered["status"], "accepted", "round {round}");

        let ended = wait_until_idle(&mut app, &thread).await.turns.pop().unwrap();
        assert_eq!(ended.id, turn.id);
        let lines = fs::read_to_string(app.workspace().join("lines")).unwrap_or_default();
        let count = lines.lines().filter(|line| *line == format!("c{round}")).count();
        match ended.status {
            TurnStatus::Completed => assert_eq!(count, 1, "an accepted answer is not lost: round {round}"),
            // The command had begun when the server was killed.
            TurnStatus::Interrupted => {
                assert!(count <= 1 && Kill::of(round) != Kill::Never, "round {round}: {lines}");
            }
            other => panic!("round {round}: {other:?}"),
        }
        assert!(app.call::<CodicilRequestList>(Default::default()).await.data.is_empty(), "round {round}");
    }
    assert_eq!(app.model().faults(), Vec::<String>::new());
}
