//! A client with a cursor over a server that is killed again and again: its messages add up to what `thread/read` returns.
//!
//! `CODICIL_KILLS` sets the number of kills (12). Each comes after another number of messages, from 0 to 60.

use std::env;

use codicil_protocol::{
    CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse, ThreadRead, ThreadReadParams,
    ThreadStart, ThreadStartParams, ThreadStarted, TurnStatus, TurnSteer,
};
use codicil_testkit::{App, FoldedThread, Reply, Script, TestTransport};
use serde_json::{from_value, json};

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

#[tokio::test]
async fn messages_add_up_over_any_number_of_kills() {
    let script = Script::new().respond_with(|request| {
        let is_after_tool = request.body()["input"]
            .as_array()
            .and_then(|input| input.last())
            .is_some_and(|last| last["type"] == "function_call_output");
        if is_after_tool {
            return Reply::new().say("The command is done, and this is the answer.");
        }
        Reply::new()
            .think("Let me see")
            .say("one two three four")
            .call("exec_command", json!({ "cmd": "echo hi" }))
    });
    let app = App::builder().script(script).cursor().over(TestTransport::Stdio);
    let mut app = app.start().await;
    let started = app.call::<ThreadStart>(ThreadStartParams::default()).await;
    app.take::<ThreadStarted>().await;
    let mut known = FoldedThread::at(started.seq);
    let thread = started.thread;
    let kills = kills();
    for round in 0..kills {
        app.start_turn(&thread, &format!("question {round}")).await;
        // Spread over 0 to 60, so that few rounds cover every phase too.
        for _ in 0..(round * 61 / kills.min(61)) % 61 {
            let Some(message) = app.next_received().await else { break };
            known.add(&message);
            if message.method == "turn/completed" {
                break;
            }
        }
        app.process().kill();
        app.revive().await;

        let params =
            CodicilSubscribeParams { after: known.after(), ..CodicilSubscribeParams::new(thread.id.clone()) };
        let answer = app.call::<CodicilSubscribe>(params).await;
        known.subscribed(&answer);
        assert!(matches!(answer, CodicilSubscribeResponse::Replay { .. }), "{answer:?}");
        // A turn whose command had not begun continues.
        let mut is_read_again = false;
        let stored = loop {
            let read = ThreadReadParams { thread_id: thread.id.clone(), include_turns: true };
            let stored = app.call::<ThreadRead>(read).await.thread;
            while let Some(message) = app.unread_message() {
                known.add(&message);
            }
            let is_over = stored.turns.iter().all(|turn| turn.status != TurnStatus::InProgress);
            match (known.is_running(), is_over) {
                (false, true) => break stored,
                (true, _) => known.add(&app.next_received().await.expect("the turn goes on")),
                // The end may be announced after the thread was read and before the response is sent. It is stored then.
                (false, false) => {
                    assert!(!std::mem::replace(&mut is_read_again, true), "the turn has no end")
                }
            }
        };
        known.check(&stored);
        assert_eq!(stored.turns.len(), round + 1, "an accepted turn is stored, however it ended");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn input_that_a_killed_turn_has_not_used_is_replayed_completely() {
    let script = Script::new().say("begun").hang();
    let mut app = App::builder().script(script).cursor().over(TestTransport::Stdio).start().await;
    let started = app.call::<ThreadStart>(ThreadStartParams::default()).await;
    app.take::<ThreadStarted>().await;
    let mut known = FoldedThread::at(started.seq);
    let thread = started.thread;
    let turn = app.start_turn(&thread, "go").await;
    loop {
        let message = app.next_received().await.unwrap();
        known.add(&message);
        if message.method == "item/agentMessage/delta" {
            break;
        }
    }
    for number in 0..20 {
        let input = json!([{ "type": "text", "text": format!("and {number}") }]);
        let steer = json!({ "threadId": thread.id, "expectedTurnId": turn.id, "input": input });
        app.call::<TurnSteer>(from_value(steer).unwrap()).await;
    }
    app.process().kill();
    app.revive().await;

    let thread_id = thread.id.clone();
    let params = CodicilSubscribeParams { after: known.after(), ..CodicilSubscribeParams::new(thread_id) };
    let answer = app.call::<CodicilSubscribe>(params).await;
    known.subscribed(&answer);
    let stored = app.read(&thread).await;
    while let Some(message) = app.unread_message() {
        known.add(&message);
    }
    known.check(&stored);
    assert_eq!((stored.turns[0].items.len(), &stored.turns[0].status), (22, &TurnStatus::Interrupted));
    app.ignore_rest();
}
