//! Realtime sessions, with a scripted provider on loopback.

use codicil_protocol::{
    ErrorReported, Thread, ThreadRealtimeAppendAudio, ThreadRealtimeAppendText, ThreadRealtimeClosed,
    ThreadRealtimeError, ThreadRealtimeItemAdded, ThreadRealtimeOutputAudioDelta, ThreadRealtimeStart,
    ThreadRealtimeStarted, ThreadRealtimeStop, ThreadRealtimeTranscriptDone, ThreadRealtimeTranscriptUpdated,
    ThreadStatus, ThreadStatusChanged, ThreadTimelineList, ThreadUnsubscribe, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Script};
use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Duration, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

/// A provider of realtime sessions.
struct Provider {
    listener: TcpListener,
}

/// The provider's end of a session.
struct Line {
    socket: WebSocketStream<TcpStream>,
    uri: String,
    headers: Vec<(String, String)>,
}

impl Provider {
    async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// Accepts the next session without reading its first message.
    async fn accept(&self) -> Line {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut uri = String::new();
        let mut headers = Vec::new();
        #[expect(clippy::result_large_err, reason = "the library's own signature")]
        let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            uri = request.uri().to_string();
            let pairs = request.headers().iter();
            headers =
                pairs.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
            Ok(response)
        };
        let socket = soon(accept_hdr_async(stream, look)).await.unwrap();
        Line { socket, uri, headers }
    }
}

impl Line {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    async fn hear(&mut self) -> Value {
        loop {
            match soon(self.socket.next()).await.expect("the session goes on").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => panic!("the session is over"),
                _ => {}
            }
        }
    }

    async fn say(&mut self, event: Value) {
        self.socket.send(Message::text(event.to_string())).await.unwrap();
    }

    /// Waits for the other side to end the session.
    async fn ended(&mut self) {
        while let Some(Ok(message)) = soon(self.socket.next()).await {
            if matches!(message, Message::Close(_)) {
                return;
            }
        }
    }
}

pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), event).await.expect("the deadline has not passed")
}

fn params<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Starts a server whose threads use the provider, with more keys in its configuration.
async fn start(provider: &Provider, keys: &str, script: Script) -> App {
    let config = format!("experimental_realtime_ws_base_url = \"{}\"\n{keys}", provider.url());
    let builder = App::builder().script(script).experimental().config(&config);
    builder.provider("experimental_bearer_token = \"sk-voice\"").start().await
}

const ON: &str = "features.realtime_conversation = true";

async fn begin(app: &mut App, thread: &Thread) {
    let start = json!({ "threadId": thread.id, "prompt": "be brief" });
    app.call::<ThreadRealtimeStart>(params(start)).await;
}

/// Starts a session and returns it with its first message.
async fn open(app: &mut App, provider: &Provider, thread: &Thread) -> (Line, Value) {
    begin(app, thread).await;
    let mut line = provider.accept().await;
    let hello = line.hear().await;
    app.until::<ThreadRealtimeStarted>().await;
    (line, hello)
}

async fn stop(app: &mut App, thread: &Thread) {
    app.call::<ThreadRealtimeStop>(params(json!({ "threadId": thread.id }))).await;
    assert_eq!(app.until::<ThreadRealtimeClosed>().await.reason.as_deref(), Some("requested"));
}

async fn append_text(app: &mut App, thread: &Thread, text: &str) {
    app.call::<ThreadRealtimeAppendText>(params(json!({ "threadId": thread.id, "text": text }))).await;
}

#[tokio::test]
async fn audio_and_text_go_both_ways() {
    let provider = Provider::start().await;
    let mut app = start(&provider, ON, Script::new()).await;
    let thread = app.start_thread().await;
    let begun = json!({ "threadId": thread.id, "prompt": "be brief", "sessionId": "sess-9" });
    app.call::<ThreadRealtimeStart>(params(begun)).await;
    let mut line = provider.accept().await;
    let hello = line.hear().await;

    assert_eq!(line.uri, "/v1/realtime?intent=quicksilver");
    assert_eq!(line.header("authorization"), Some("Bearer sk-voice"));
    assert_eq!(line.header("x-session-id"), Some("sess-9"));
    assert!(line.header("user-agent").unwrap().starts_with("testkit/"));
    assert_eq!(
        (&hello["type"], &hello["session"]["instructions"]),
        (&json!("session.update"), &json!("be brief"))
    );
    let started = app.until::<ThreadRealtimeStarted>().await;
    assert_eq!(
        json!(started),
        json!({
            "threadId": thread.id, "sessionId": "sess-9", "realtimeSessionId": "sess-9", "version": "v1",
        })
    );

    line.say(json!({ "type": "session.updated", "session": { "id": "other" } })).await;
    line.say(json!({ "type": "conversation.item.added", "item": { "id": "i1" } })).await;
    assert_eq!(app.until::<ThreadRealtimeItemAdded>().await.item, json!({ "id": "i1" }));
    let sound = json!({ "delta": "AAAA", "sample_rate": 24000, "channels": 2, "type": "conversation.output_audio.delta" });
    line.say(sound).await;
    let heard = app.until::<ThreadRealtimeOutputAudioDelta>().await.audio;
    assert_eq!((heard.data.as_str(), heard.sample_rate, heard.num_channels), ("AAAA", 24_000, 2));
    line.say(json!({ "type": "conversation.input_transcript.delta", "delta": "hi" })).await;
    let said = app.until::<ThreadRealtimeTranscriptUpdated>().await;
    assert_eq!((said.role.as_str(), said.text.as_str()), ("user", "hi"));
    line.say(json!("no event")).await;

    append_text(&mut app, &thread, "hello").await;
    let typed = line.hear().await;
    assert_eq!(typed["item"]["content"], json!([{ "type": "text", "text": "hello" }]));
    let audio = json!({ "data": "BBBB", "sampleRate": 24000, "numChannels": 1 });
    app.call::<ThreadRealtimeAppendAudio>(params(json!({ "threadId": thread.id, "audio": audio }))).await;
    assert_eq!(line.hear().await, json!({ "type": "input_audio_buffer.append", "audio": "BBBB" }));

    stop(&mut app, &thread).await;
    line.ended().await;
    stop(&mut app, &thread).await;
}

#[tokio::test]
async fn a_handoff_runs_a_turn_and_its_message_is_spoken() {
    let provider = Provider::start().await;
    let script = Script::new().say("On it.").then().say("Unrelated.");
    let mut app = start(&provider, ON, script).await;
    let thread = app.start_thread().await;
    let (mut line, _) = open(&mut app, &provider, &thread).await;

    line.say(json!({ "type": "conversation.input_transcript.delta", "delta": "tidy " })).await;
    line.say(json!({ "type": "conversation.input_transcript.delta", "delta": "up" })).await;
    line.say(json!({ "type": "conversation.output_transcript.delta", "delta": "sure" })).await;
    let handoff = json!({ "handoff_id": "h1", "item_id": "i1", "input_transcript": "tidy up" });
    let mut event = handoff.clone();
    event["type"] = json!("conversation.handoff.requested");
    line.say(event).await;

    let item = app.until::<ThreadRealtimeItemAdded>().await.item;
    assert_eq!((&item["type"], &item["handoff_id"]), (&json!("handoff_request"), &json!("h1")));
    let spoken = json!([{ "role": "user", "text": "tidy up" }, { "role": "assistant", "text": "sure" }]);
    assert_eq!(item["active_transcript"], spoken);
    let completed = app.until::<TurnCompleted>().await.turn;
    assert_eq!(completed.status, TurnStatus::Completed);
    let request = &app.model().requests()[0];
    assert_eq!(request.last_user_text().as_deref(), Some("user: tidy up\nassistant: sure"));
    let answer =
        json!({ "type": "conversation.handoff.append", "handoff_id": "h1", "output_text": "On it." });
    assert_eq!(line.hear().await, answer);

    // A turn without a handoff is not spoken.
    app.run_turn(&thread, "And now?").await;
    append_text(&mut app, &thread, "last").await;
    assert_eq!(line.hear().await["type"], "conversation.item.create");
    stop(&mut app, &thread).await;
    app.rest().await;
}

#[tokio::test]
async fn the_public_api_hands_off_by_a_function_call() {
    let provider = Provider::start().await;
    let keys =
        format!("{ON}\nrealtime.version = \"v2\"\nexperimental_realtime_ws_startup_context = \"Be kind.\"");
    let script = Script::new().say("Done.").then().fail("server_error", "out of order");
    let mut app = start(&provider, &keys, script).await;
    let thread = app.start_thread().await;
    let (mut line, hello) = open(&mut app, &provider, &thread).await;
    assert_eq!(line.uri, "/v1/realtime?model=gpt-realtime");
    let session = &hello["session"];
    assert_eq!(
        (&session["type"], &session["instructions"]),
        (&json!("realtime"), &json!("be brief\n\nBe kind."))
    );
    assert_eq!(session["tools"][0]["name"], "background_agent");

    let call = |id: &str| {
        let arguments = json!({ "prompt": "tidy up" }).to_string();
        let item = json!({
            "type": "function_call", "id": "i1", "call_id": id, "name": "background_agent", "arguments": arguments,
        });
        json!({ "type": "conversation.item.done", "item": item })
    };
    line.say(call("c1")).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    let output =
        |id: &str, text: &str| json!({ "type": "function_call_output", "call_id": id, "output": text });
    assert_eq!(line.hear().await["item"], output("c1", "Done."));
    assert_eq!(line.hear().await["type"], "response.create");

    // A failed turn also completes the function call.
    line.say(call("c2")).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Failed);
    assert_eq!(line.hear().await["item"], output("c2", "The agent ended without an answer."));
    assert_eq!(line.hear().await["type"], "response.create");
    stop(&mut app, &thread).await;
}

#[tokio::test]
async fn input_without_a_session_is_reported_and_turns_go_on() {
    let provider = Provider::start().await;
    let mut app = start(&provider, ON, Script::new().say("Hello")).await;
    let thread = app.start_thread().await;
    append_text(&mut app, &thread, "too early").await;
    let is_error = |changed: &codicil_protocol::ThreadStatusChangedNotification| {
        changed.status == ThreadStatus::SystemError
    };
    app.until_where::<ThreadStatusChanged>(is_error).await;
    let error = app.until::<ErrorReported>().await;
    assert_eq!((error.error.message.as_str(), error.will_retry), ("conversation is not running", false));
    assert_eq!(json!(error.error.codex_error_info), json!("badRequest"));
    let turn = app.run_turn(&thread, "Hi").await;
    assert_eq!((turn.status, turn.error), (TurnStatus::Completed, None));
    app.rest().await;
}

#[tokio::test]
async fn an_error_of_the_provider_ends_the_session() {
    let provider = Provider::start().await;
    let mut app = start(&provider, ON, Script::new()).await;
    let thread = app.start_thread().await;
    let (mut line, _) = open(&mut app, &provider, &thread).await;
    line.say(json!({ "type": "error", "error": { "message": "no more" } })).await;
    assert_eq!(app.until::<ThreadRealtimeError>().await.message, "no more");
    assert_eq!(app.until::<ThreadRealtimeClosed>().await.reason.as_deref(), Some("error"));
    line.ended().await;

    let (mut line, _) = open(&mut app, &provider, &thread).await;
    line.socket.close(None).await.unwrap();
    assert_eq!(app.until::<ThreadRealtimeClosed>().await.reason.as_deref(), Some("transport_closed"));
    let (line, _) = open(&mut app, &provider, &thread).await;
    drop(line);
    assert_eq!(app.until::<ThreadRealtimeClosed>().await.reason.as_deref(), Some("transport_closed"));
}

#[tokio::test]
async fn a_failed_start_is_reported_without_secrets() {
    let nobody = Provider::start().await.url();
    let keys = format!("experimental_realtime_ws_base_url = \"{nobody}\"\n{ON}");
    let builder = App::builder().script(Script::new()).experimental().config(&keys);
    let mut app = builder.provider("experimental_bearer_token = \"sk-canary\"").start().await;
    let thread = app.start_thread().await;
    begin(&mut app, &thread).await;
    let message = app.until::<ThreadRealtimeError>().await.message;
    assert!(message.starts_with(&format!("could not reach {nobody}/v1/realtime: ")), "{message}");

    // The scripted model has no realtime endpoint.
    let builder = App::builder().script(Script::new()).experimental().config(ON);
    let mut app = builder.provider("experimental_bearer_token = \"sk-canary\"").start().await;
    let thread = app.start_thread().await;
    begin(&mut app, &thread).await;
    let message = app.until::<ThreadRealtimeError>().await.message;
    assert!(message.starts_with("unexpected status 404"), "{message}");
    assert!(!message.contains("canary"), "{message}");
}

#[tokio::test]
async fn a_thread_has_one_session_that_ends_with_it() {
    let provider = Provider::start().await;
    let mut app = start(&provider, ON, Script::new()).await;
    let thread = app.start_thread().await;
    let (mut first, _) = open(&mut app, &provider, &thread).await;
    begin(&mut app, &thread).await;
    let mut second = provider.accept().await;
    second.hear().await;
    first.ended().await;
    assert_eq!(app.until::<ThreadRealtimeClosed>().await.reason.as_deref(), Some("requested"));
    append_text(&mut app, &thread, "hello").await;
    assert_eq!(second.hear().await["type"], "conversation.item.create");
    app.call::<ThreadUnsubscribe>(params(json!({ "threadId": thread.id }))).await;
    second.ended().await;
    app.rest().await;

    let thread = app.start_thread().await;
    let (mut third, _) = open(&mut app, &provider, &thread).await;
    app.restart().await;
    third.ended().await;
}

#[tokio::test]
async fn realtime_requests_sent_in_one_write_run_in_order() {
    let provider = Provider::start().await;
    let mut app = start(&provider, ON, Script::new()).await;
    let thread = app.start_thread().await;
    let begun = json!({ "threadId": thread.id, "prompt": "be brief" });
    let start = app.send::<ThreadRealtimeStart>(params(begun)).await;
    let mut texts = Vec::new();
    for text in ["one", "two", "three"] {
        texts.push(
            app.send::<ThreadRealtimeAppendText>(params(json!({ "threadId": thread.id, "text": text })))
                .await,
        );
    }
    let mut line = provider.accept().await;
    assert_eq!(line.hear().await["type"], "session.update");
    for text in ["one", "two", "three"] {
        assert_eq!(line.hear().await["item"]["content"][0]["text"], text);
    }
    app.answer(start).await.unwrap();
    for text in texts {
        app.answer(text).await.unwrap();
    }
    app.until::<ThreadRealtimeStarted>().await;
    stop(&mut app, &thread).await;
}

#[tokio::test]
async fn a_thread_without_the_feature_has_no_realtime_session() {
    let mut app = App::builder().script(Script::new()).experimental().start().await;
    let thread = app.start_thread().await;
    let refused = |id: &str| format!("thread {id} does not support realtime conversation");
    for (method, more) in [
        ("start", json!({ "prompt": "p" })),
        ("appendText", json!({ "text": "x" })),
        ("appendAudio", json!({ "audio": { "data": "AAAA", "sampleRate": 24000, "numChannels": 1 } })),
        ("stop", json!({})),
    ] {
        let mut call = async |id: &str| {
            let mut params = more.clone();
            params["threadId"] = json!(id);
            let method = format!("thread/realtime/{method}");
            let answer = app.exchange(json!({ "id": method, "method": method, "params": params })).await;
            assert_eq!(answer["error"]["code"], -32600);
            answer["error"]["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(call(&thread.id).await, refused(&thread.id), "{method}");
        assert_eq!(call(crate::NO_THREAD).await, format!("thread not found: {}", crate::NO_THREAD));
        assert!(call("nope").await.starts_with("invalid thread id: "), "{method}");
    }
}

#[tokio::test]
async fn the_timeline_has_voice_sessions_between_turns() {
    let provider = Provider::start().await;
    let script = Script::new().say("1").then().say("2");
    let config = format!("experimental_realtime_ws_base_url = \"{}\"\n{ON}", provider.url());
    let builder = App::builder().script(script).experimental().later_client().config(&config);
    let mut app = builder.provider("experimental_bearer_token = \"sk-voice\"").start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let begin = json!({ "threadId": thread.id, "prompt": "hi", "outputModality": "text" });
    app.call::<ThreadRealtimeStart>(params(begin)).await;
    let mut line = provider.accept().await;
    line.hear().await;
    app.until::<ThreadRealtimeStarted>().await;
    let said =
        json!({ "type": "response.output_audio_transcript.done", "item_id": "i", "transcript": "hello" });
    line.say(said).await;
    app.until::<ThreadRealtimeTranscriptDone>().await;
    stop(&mut app, &thread).await;
    app.run_turn(&thread, "two").await;
    app.rest().await;
    app.restart().await;

    let page = |limit: u32| params(json!({ "threadId": thread.id, "limit": limit }));
    let listed = app.call::<ThreadTimelineList>(page(100)).await;
    let kinds: Vec<_> = listed
        .data
        .iter()
        .map(|entry| {
            let entry = serde_json::to_value(entry).unwrap();
            let item = entry["item"]["type"].as_str().unwrap_or_default();
            format!("{} {item}", entry["type"].as_str().unwrap()).trim().to_owned()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "turnStarted",
            "item userMessage",
            "item agentMessage",
            "turnCompleted",
            "realtime realtimeSessionStarted",
            "realtime transcriptSegment",
            "realtime realtimeSessionClosed",
            "turnStarted",
            "item userMessage",
            "item agentMessage",
            "turnCompleted",
        ]
    );
    assert_eq!(listed.active_realtime_session_at_page_start, None);
    let within = app.call::<ThreadTimelineList>(page(6)).await;
    assert_eq!(within.active_realtime_session_at_page_start.as_deref(), Some(&*thread.id.to_string()));
    app.rest().await;
}
