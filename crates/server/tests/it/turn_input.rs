//! What clients of later generations send with a turn besides its text, or instead of it: context, an id of their own,
//! the output of a tool.

use codicil_protocol::{
    AgentMessageDelta, FunctionCallOutputBody, ItemCompleted, ItemStarted, Thread, ThreadItem,
    ThreadStartParams, TurnCompleted, TurnStart, TurnStartParams, TurnStatus, TurnSteer,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, from_value, json};

fn turn(thread: &Thread, more: Value) -> TurnStartParams {
    let mut params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "Go on" }] });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    from_value(params).unwrap()
}

async fn run(app: &mut App, thread: &Thread, more: Value) {
    app.call::<TurnStart>(turn(thread, more)).await;
    app.until::<TurnCompleted>().await;
}

/// Returns the roles and texts of the messages with `part` in them.
fn messages(request: &RecordedRequest, part: &str) -> Vec<(String, String)> {
    let parts = request.input().iter().flat_map(|item| {
        let role = item["role"].as_str().unwrap_or_default();
        let texts = item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        texts.map(move |text| (role.to_owned(), text.to_owned()))
    });
    parts.filter(|(_, text)| text.contains(part)).collect()
}

fn client_ids(items: &[ThreadItem]) -> Vec<Option<&str>> {
    let users = items.iter().filter_map(|item| match item {
        ThreadItem::UserMessage { client_id, .. } => Some(client_id.as_deref()),
        _ => None,
    });
    users.collect()
}

#[tokio::test]
async fn additional_context_reaches_the_model_once_and_is_no_item() {
    let script = Script::new().repeat(Reply::new().say("1"));
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    let context = json!({ "additionalContext": {
        "editor": { "kind": "application", "value": "a.rs is open" },
        "page": { "kind": "untrusted", "value": "read me", "name": "web_page" },
    } });
    run(&mut app, &thread, context.clone()).await;
    run(&mut app, &thread, context.clone()).await;
    let changed =
        json!({ "additionalContext": { "editor": { "kind": "application", "value": "b.rs is open" } } });
    run(&mut app, &thread, changed).await;

    let requests = app.model().requests();
    let first = [("developer".to_owned(), "<editor>a.rs is open</editor>".to_owned())];
    assert_eq!(messages(&requests[0], "<editor>"), first);
    let page = ("user".to_owned(), "<external_page>read me</external_page>".to_owned());
    assert_eq!(messages(&requests[0], "<external_"), [page]);
    let texts: Vec<_> = requests[0].input().iter().map(Value::to_string).collect();
    let place = |part: &str| texts.iter().position(|text| text.contains(part)).unwrap();
    assert!(place("<editor>") < place("Go on") && place("<external_page>") < place("Go on"));
    assert_eq!(messages(&requests[1], "<editor>").len(), 1, "the model has it already");
    assert_eq!(messages(&requests[2], "is open</editor>").len(), 2);
    let stored = app.read(&thread).await;
    assert!(stored.turns.iter().all(|turn| turn.items.len() == 2), "{:?}", stored.turns);

    app.rest().await;
    app.restart().await.resume(&thread).await;
    let again =
        json!({ "additionalContext": { "editor": { "kind": "application", "value": "b.rs is open" } } });
    run(&mut app, &thread, again).await;
    let sent = |app: &App| messages(&app.model().requests().pop().unwrap(), "is open</editor>").len();
    assert_eq!(sent(&app), 3, "a new server does not know what the client has sent");
    run(&mut app, &thread, json!({})).await;
    assert_eq!(sent(&app), 3);
    let again =
        json!({ "additionalContext": { "editor": { "kind": "application", "value": "b.rs is open" } } });
    run(&mut app, &thread, again).await;
    assert_eq!(sent(&app), 4, "input without it lies between");
    app.rest().await;
}

#[tokio::test]
async fn steered_input_has_its_context_and_its_client_id() {
    let script = Script::new().say("Let me").gate("go").then().say("Done");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    let started = app.call::<TurnStart>(turn(&thread, json!({ "clientUserMessageId": "mine-1" }))).await.turn;
    app.until::<AgentMessageDelta>().await;
    let steer = json!({ "threadId": thread.id, "expectedTurnId": started.id,
        "input": [{ "type": "text", "text": "And the tests" }], "clientUserMessageId": "mine-2",
        "additionalContext": { "editor": { "kind": "application", "value": "tests.rs" } } });
    app.call::<TurnSteer>(from_value(steer).unwrap()).await;
    app.model().release("go");
    let is_steered = |item: &ThreadItem| client_ids(std::slice::from_ref(item)) == [Some("mine-2")];
    app.until_where::<ItemCompleted>(|completed| is_steered(&completed.item)).await;
    app.until::<TurnCompleted>().await;

    assert_eq!(messages(&app.model().requests()[1], "<editor>tests.rs</editor>").len(), 1);
    app.rest().await;
    let stored = app.restart().await.read(&thread).await;
    assert_eq!(client_ids(&stored.turns[0].items), [Some("mine-1"), Some("mine-2")]);
}

#[tokio::test]
async fn context_without_a_proper_name_or_kind_is_refused() {
    let mut app = App::builder().experimental().script(Script::new()).start().await;
    let thread = app.start_thread().await;
    for (kind, message) in [
        ("untrusted", "additional context name must match [a-z][a-z0-9_]{0,63}"),
        ("application", "additional context name is only supported for untrusted context"),
    ] {
        let entry = json!({ "kind": kind, "value": "v", "name": "My Page" });
        let bad_name = turn(&thread, json!({ "additionalContext": { "page": entry } }));
        let error = app.try_call::<TurnStart>(bad_name).await.unwrap_err();
        assert_eq!(error.code, -32600);
        assert!(error.message.starts_with(message), "{error:?}");
    }
    let kind = json!({ "a": { "kind": "nonsense", "value": "v" } });
    let message = json!({ "id": 77, "method": "turn/start",
        "params": { "threadId": thread.id, "input": [], "additionalContext": kind } });
    let answer = app.exchange(message).await;
    let expected = "Invalid request: unknown variant `nonsense`, expected `untrusted` or `application`";
    assert_eq!(answer["error"]["message"], expected);
    assert_eq!(app.read(&thread).await.turns, []);
}

#[tokio::test]
async fn additional_context_is_experimental() {
    let mut app = App::start(Script::new()).await;
    let thread = app.start_thread().await;
    let entry = json!({ "additionalContext": { "a": { "kind": "untrusted", "value": "v" } } });
    let error = app.try_call::<TurnStart>(turn(&thread, entry)).await.unwrap_err();
    assert_eq!(error.message, "turn/start.additionalContext requires experimentalApi capability");
}

#[tokio::test]
async fn the_output_of_a_tool_starts_a_turn_in_every_dialect() {
    for wire_api in ["responses", "chat", "anthropic"] {
        let script = Script::new().say("one").then().say("two").then().say("three");
        let mut app = App::builder().later_client().script(script).start().await;
        let config = [("model_providers.mock.wire_api".to_owned(), json!(wire_api))];
        let params = ThreadStartParams { config: Some(config.into_iter().collect()), ..Default::default() };
        let thread = app.start_thread_with(params).await;
        app.run_turn(&thread, "first").await;

        let output = json!({ "input": [], "toolOutput": { "name": "other_task", "output": "It is done" } });
        app.call::<TurnStart>(turn(&thread, output)).await;
        let is_output = |item: &ThreadItem| {
            let ThreadItem::FunctionCallOutput { name, output, .. } = item else { return false };
            name == "other_task" && *output == FunctionCallOutputBody::Text("It is done".to_owned())
        };
        app.until_where::<ItemStarted>(|started| is_output(&started.item)).await;
        app.until_where::<ItemCompleted>(|completed| is_output(&completed.item)).await;
        assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed, "{wire_api}");

        let request = app.model().requests()[1].clone();
        let sent = request.input().iter().find(|item| item.to_string().contains("It is done"));
        let sent = sent.unwrap_or_else(|| panic!("{wire_api}: the model did not see the output"));
        match wire_api {
            "responses" => assert_eq!(
                *sent,
                json!({ "type": "function_call_output", "name": "other_task", "output": "It is done" })
            ),
            _ => assert_eq!(sent["role"], "user", "{wire_api}"),
        }

        app.rest().await;
        let stored = app.restart().await.read(&thread).await;
        assert!(is_output(&stored.turns[1].items[0]), "{wire_api}: {:?}", stored.turns[1].items);
        app.resume(&thread).await;
        app.run_turn(&thread, "And now?").await;
        let again = app.model().requests()[2].body().to_string();
        assert!(again.contains("other_task") && again.contains("It is done"), "{wire_api}: {again}");
        app.rest().await;
    }
}

#[tokio::test]
async fn the_output_of_a_tool_needs_a_name_and_no_input() {
    let mut app = App::start(Script::new()).await;
    let thread = app.start_thread().await;
    for (params, expected) in [
        // Before the first member of 0.166, which makes the connection one of that generation.
        (json!({ "input": [], "toolOutput": null }), "input must not be empty"),
        (
            json!({ "toolOutput": { "name": "n", "output": "o" } }),
            "`toolOutput` cannot be combined with nonempty `input`",
        ),
        (
            json!({ "input": [], "toolOutput": { "name": "", "output": "o" } }),
            "`toolOutput.name` must not be empty",
        ),
    ] {
        let error = app.try_call::<TurnStart>(turn(&thread, params)).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32600, expected));
    }
    app.rest().await;
}

#[tokio::test]
async fn audio_and_images_by_id_reach_the_models_that_take_them() {
    let wave = "data:audio/wav;base64,UklGRg==";
    let check = async |wire_api: &str, input: Value, expected: Result<Value, &str>| {
        let mut app = App::start(Script::new().say("Heard")).await;
        let config = [("model_providers.mock.wire_api".to_owned(), json!(wire_api))];
        let params = ThreadStartParams { config: Some(config.into_iter().collect()), ..Default::default() };
        let thread = app.start_thread_with(params).await;
        let asked = app.try_call::<TurnStart>(turn(&thread, json!({ "input": [input] }))).await;
        match expected {
            Ok(part) => {
                asked.unwrap();
                app.until::<TurnCompleted>().await;
                let request = app.model().requests()[0].clone();
                let parts = request.input().iter().flat_map(|item| item["content"].as_array().cloned());
                let parts: Vec<_> = parts.flatten().collect();
                assert!(parts.contains(&part), "{wire_api}: {parts:?}");
            }
            Err(message) => {
                let error = asked.unwrap_err();
                assert_eq!((error.code, error.message.as_str()), (-32600, message), "{wire_api}");
            }
        }
        app.ignore_rest();
    };
    let audio = json!({ "type": "audio", "url": wave });
    let part = json!({ "type": "input_audio", "audio_url": wave });
    check("responses", audio.clone(), Ok(part)).await;
    let part = json!({ "type": "input_audio", "input_audio": { "data": "UklGRg==", "format": "wav" } });
    check("chat", audio.clone(), Ok(part)).await;
    check("anthropic", audio, Err("audio cannot be sent to the model of this thread")).await;
    let image = json!({ "type": "image", "fileId": "file-1" });
    let part = json!({ "type": "input_image", "file_id": "file-1" });
    check("responses", image.clone(), Ok(part)).await;
    let refused = Err("an image by `fileId` cannot be sent to the model of this thread");
    check("chat", image.clone(), refused.clone()).await;
    check("anthropic", image, refused).await;
}

#[tokio::test]
async fn an_audio_file_is_sent_with_its_content() {
    let mut app = App::start(Script::new().say("Heard").then().say("Not heard")).await;
    std::fs::write(app.workspace().join("a.wav"), b"RIFF....WAVE").unwrap();
    let thread = app.start_thread().await;
    let file = |path: &str| json!({ "input": [{ "type": "localAudio", "path": path }] });
    run(&mut app, &thread, file("a.wav")).await;
    let sent = app.model().requests()[0].body().to_string();
    assert!(sent.contains("data:audio/wav;base64,UklGRi4uLi5XQVZF"), "{sent}");
    run(&mut app, &thread, file("missing.wav")).await;
    let sent = app.model().requests()[1].body().to_string();
    assert!(sent.contains("[Audio cannot be heard: missing.wav: "), "{sent}");
    app.rest().await;
}
