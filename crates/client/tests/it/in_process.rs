//! The real server in this process, over channels.

use codicil_client::{Client, ClientEvent, Endpoint, IncludeTurns, protocol::*, turn};
use codicil_server::{Server, connect};
use codicil_testkit::{ModelServer, Script, TestHome};

use crate::soon;

/// A server with its own home and scripted model.
pub struct Host {
    pub server: Server,
    _model: ModelServer,
    _home: TestHome,
}

impl Host {
    pub async fn start(script: Script) -> Self {
        let model = ModelServer::start(script).await;
        let home = TestHome::new("", Some(model.base_url()), "");
        Self { server: home.server(), _model: model, _home: home }
    }

    pub async fn client(&self) -> Client {
        let (to_server, from_server) = connect(&self.server).split();
        let endpoint = Endpoint::channels(to_server, from_server);
        soon(Client::builder().name("test", "1").connect(endpoint)).await.unwrap()
    }
}

#[tokio::test]
async fn a_turn_is_streamed_collected_and_stored() {
    let host = Host::start(Script::new().think("Hm").say_deltas(["Hel", "lo"])).await;
    let client = host.client().await;
    assert!(client.server().unwrap().user_agent.starts_with("test/0.118.0"));
    let thread = soon(client.start_thread(Default::default())).await.unwrap();
    let mut running = soon(client.turn(turn(&thread.id, "Hi"))).await.unwrap();
    let mut text = String::new();
    while let Some(event) = soon(running.next()).await {
        if let ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta)) = event {
            text.push_str(&delta.delta);
        }
    }
    let done = soon(running.finish()).await.unwrap();
    assert_eq!((text.as_str(), done.agent_message.as_str()), ("Hello", "Hello"));
    assert!(done.items.iter().any(|item| matches!(item, ThreadItem::Reasoning { .. })));
    assert!(done.token_usage.is_some());

    let stored = soon(client.read_thread(&thread.id, IncludeTurns::Yes)).await.unwrap();
    assert_eq!(stored.turns.len(), 1);
    assert_eq!(stored.turns[0].items, done.items, "what was streamed is what is stored");
    soon(client.close()).await;
    host.server.stop().await;
}

#[tokio::test]
async fn a_turn_can_be_interrupted() {
    let host = Host::start(Script::new().say("Let me look").hang()).await;
    let client = host.client().await;
    let thread = soon(client.start_thread(Default::default())).await.unwrap();
    let mut running = soon(client.turn(turn(&thread.id, "Hi"))).await.unwrap();
    let mut text = String::new();
    while let Some(event) = soon(running.next()).await {
        if let ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta)) = event {
            text.push_str(&delta.delta);
            if text == "Let me look" {
                soon(running.interrupt()).await.unwrap();
            }
        }
    }
    let error = soon(running.finish()).await.unwrap_err();
    assert_eq!(error.name(), "turn_cancelled");
    assert_eq!(error.unfinished().unwrap().so_far.agent_message, "Let me look");
    host.server.stop().await;
}

#[tokio::test]
async fn a_review_is_run() {
    let host = Host::start(Script::new().say(r#"{"findings":[],"overall_correctness":"patch is correct","overall_explanation":"All good.","overall_confidence_score":0.9}"#)).await;
    let client = host.client().await;
    let thread = soon(client.start_thread(Default::default())).await.unwrap();
    let target = ReviewTarget::Custom { instructions: "Look at it".into() };
    let done = soon(client.run_review(codicil_client::review(&thread.id, target))).await.unwrap();
    assert!(done.review_text.contains("All good."), "{}", done.review_text);
    assert_eq!(done.review_thread_id, thread.id);
    host.server.stop().await;
}
