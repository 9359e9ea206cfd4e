//! A client with a cursor over a server that is killed again and again: its messages add up to what `thread/read` returns, and
//! an approval that was open is asked for again.
//!
//! `CODICIL_KILLS` sets the number of kills (12). Each comes after another number of messages, from 0 to 60.

use std::{collections::BTreeSet, env};

use codicil_protocol::{
    CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse, ThreadRead, ThreadReadParams,
    ThreadStart, ThreadStartParams, ThreadStarted, TurnStatus, TurnSteer, rpc::RequestId,
};
use codicil_testkit::{App, FoldedThread, ReceivedMessage, RecordedRequest, Reply, Script, TestTransport};
use serde_json::{from_value, json};

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

/// Answers with a command, then with one that has to be approved, then with a last message.
fn answer(request: &RecordedRequest) -> Reply {
    let last = request.input().last().filter(|last| last["type"] == "function_call_output");
    let call = last.and_then(|last| last["call_id"].as_str()).unwrap_or_default();
    let number = request.number();
    if call.starts_with("ask-") {
        return Reply::new().say("The commands are done, and this is the answer.");
    }
    if call.starts_with("echo-") {
        let escalated = json!({ "cmd": "echo asked", "sandbox_permissions": "require_escalated" });
        return Reply::new().call("exec_command", escalated).call_id(format!("ask-{number}"));
    }
    let reply = Reply::new().think("Let me see").say("one two three four");
    reply.call("exec_command", json!({ "cmd": "echo hi" })).call_id(format!("echo-{number}"))
}

/// The client's side of a thread, on one connection after the other.
struct FollowingClient {
    app: App,
    known: FoldedThread,
    /// The requests of this connection that were accepted.
    accepted: BTreeSet<String>,
}

impl FollowingClient {
    /// Takes over a message. Returns the id of a server request.
    fn add(&mut self, message: &ReceivedMessage) -> Option<RequestId> {
        self.known.add(message);
        message.id.clone()
    }

    async fn accept(&mut self, id: &RequestId) {
        assert!(self.accepted.insert(format!("{id:?}")), "{id:?} came twice");
        let response = json!({ "id": id, "result": { "decision": "accept" } });
        self.app.send_raw(response.to_string()).await;
    }

    async fn add_and_accept(&mut self, message: &ReceivedMessage) {
        if let Some(id) = self.add(message) {
            self.accept(&id).await;
        }
    }

    /// Reads so many messages of a turn, or until it ends. Returns whether a request was left open.
    async fn read(&mut self, messages: usize, accepts: bool) -> bool {
        for _ in 0..messages {
            let Some(message) = self.app.next_received().await else { break };
            match self.add(&message) {
                Some(_) if !accepts => return true,
                Some(id) => self.accept(&id).await,
                None if message.method == "turn/completed" => break,
                None => {}
            }
        }
        false
    }
}

#[tokio::test]
async fn messages_add_up_over_any_number_of_kills() {
    let app = App::builder().script(Script::new().respond_with(answer)).cursor().over(TestTransport::Stdio);
    let mut app = app.start().await;
    let started = app.call::<ThreadStart>(ThreadStartParams::default()).await;
    app.take::<ThreadStarted>().await;
    let known = FoldedThread::at(started.seq);
    let mut client = FollowingClient { app, known, accepted: BTreeSet::new() };
    let thread = started.thread;
    let kills = kills();
    for round in 0..kills {
        client.app.start_turn(&thread, &format!("question {round}")).await;
        // Spread over 0 to 60, so that few rounds cover every phase too.
        let is_open = client.read((round * 61 / kills.min(61)) % 61, round % 2 == 0).await;
        client.app.process().kill();
        client.app.revive().await;
        client.accepted.clear();

        let after = client.known.after();
        let params = CodicilSubscribeParams { after, ..CodicilSubscribeParams::new(thread.id.clone()) };
        let answer = client.app.call::<CodicilSubscribe>(params).await;
        client.known.subscribed(&answer);
        let CodicilSubscribeResponse::Replay { requests, .. } = &answer else { panic!("{answer:?}") };
        for request in requests {
            client.accept(&request.id).await;
        }
        // A turn whose command had not begun continues.
        let mut is_read_again = false;
        let stored = loop {
            let read = ThreadReadParams { thread_id: thread.id.clone(), include_turns: true };
            let stored = client.app.call::<ThreadRead>(read).await.thread;
            while let Some(message) = client.app.unread_message() {
                client.add_and_accept(&message).await;
            }
            let is_over = stored.turns.iter().all(|turn| turn.status != TurnStatus::InProgress);
            match (client.known.is_running(), is_over) {
                (false, true) => break stored,
                (true, _) => {
                    let message = client.app.next_received().await.expect("the turn goes on");
                    client.add_and_accept(&message).await;
                }
                // The end may be announced after the thread was read and before the response is sent. It is stored then.
                (false, false) => {
                    assert!(!std::mem::replace(&mut is_read_again, true), "the turn has no end")
                }
            }
        };
        client.known.check(&stored);
        client.known.check_status(&stored);
        assert!(!is_open || !client.accepted.is_empty(), "the open request was not asked again");
        assert_eq!(stored.turns.len(), round + 1, "an accepted turn is stored, however it ended");
    }
    client.app.ignore_rest();
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
