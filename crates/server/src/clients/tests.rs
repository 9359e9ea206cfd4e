use codicil_protocol::{
    FileChangeApproval, Method, NotificationMethod, ThreadArchived, ThreadArchivedNotification,
    ThreadUnarchived, ThreadUnarchivedNotification, rpc::ErrorObject,
};
use futures_util::FutureExt;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

fn initialized(clients: &ClientRegistry, opted_out: &[&str]) -> Arc<ConnectedClient> {
    let client = clients.connect();
    let hello = json!({
        "clientInfo": { "name": "test", "version": "1" },
        "capabilities": { "optOutNotificationMethods": opted_out },
    });
    assert!(
        client
            .initialize(ClientSession::new(serde_json::from_value(hello).unwrap(), ProtocolGeneration::V118))
    );
    client
}

fn archived() -> Frame {
    Frame::notification::<ThreadArchived>(&ThreadArchivedNotification { thread_id: "t".into() })
}

fn unarchived() -> Frame {
    Frame::notification::<ThreadUnarchived>(&ThreadUnarchivedNotification { thread_id: "t".into() })
}

fn approval(id: &RequestId) -> Frame {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i" });
    Frame::request::<FileChangeApproval>(id, &serde_json::from_value(params).unwrap())
}

fn received(client: &ConnectedClient) -> Vec<Value> {
    let batch = client.outbox.take().now_or_never().flatten().unwrap_or_default();
    batch.iter().map(|message| serde_json::from_slice(message).unwrap()).collect()
}

fn methods(client: &ConnectedClient) -> Vec<String> {
    received(client).iter().map(|message| message["method"].as_str().unwrap().to_owned()).collect()
}

fn acceptance() -> ClientReply {
    Ok(to_raw_value(&json!({ "decision": "accept" })).unwrap())
}

#[test]
fn opting_out_needs_the_exact_method() {
    let check = |opted_out: &[&str], expected: &[&str]| {
        let clients = ClientRegistry::default();
        let client = initialized(&clients, opted_out);
        clients.notify_all(&archived());
        clients.notify_all(&unarchived());
        assert_eq!(methods(&client), expected, "{opted_out:?}");
    };
    let both = [ThreadArchived::NAME, ThreadUnarchived::NAME];
    check(&[], &both);
    check(&["thread/archived"], &["thread/unarchived"]);
    check(&["thread/archived", "thread/unarchived"], &[]);
    check(&["Thread/Archived", "thread/*", "thread/", "thread/archived ", "no/such/method"], &both);
}

#[test]
fn a_question_cannot_be_opted_out_of() {
    let clients = ClientRegistry::default();
    let early = initialized(&clients, &[FileChangeApproval::NAME]);
    let late = initialized(&clients, &[FileChangeApproval::NAME]);
    clients.subscribe(&early, &"t".into());
    let question = clients.ask(&"t".into(), &approval);
    clients.subscribe(&late, &"t".into());
    assert_eq!(methods(&early), [FileChangeApproval::NAME]);
    assert_eq!(methods(&late), [FileChangeApproval::NAME]);
    drop(question);
}

#[test]
fn only_responses_are_sent_before_initialize() {
    let clients = ClientRegistry::default();
    let client = clients.connect();
    clients.subscribe(&client, &"t".into());
    clients.notify_all(&archived());
    clients.notify_subscribers(&"t".into(), &archived());
    assert_eq!(methods(&client), [""; 0]);
    assert!(client.session().is_none());
}

#[test]
fn only_subscribers_receive_notifications_of_a_thread() {
    let clients = ClientRegistry::default();
    let subscriber = initialized(&clients, &[]);
    let other = initialized(&clients, &[]);
    clients.subscribe(&subscriber, &"t".into());
    clients.subscribe(&subscriber, &"t".into());
    clients.subscribe(&other, &"other".into());
    clients.notify_subscribers(&"t".into(), &archived());
    assert_eq!(received(&subscriber).len(), 1, "subscribing twice has no effect");
    assert_eq!(received(&other).len(), 0);

    assert!(clients.unsubscribe(subscriber.id, &"t".into()));
    assert!(!clients.unsubscribe(subscriber.id, &"t".into()));
    clients.notify_subscribers(&"t".into(), &archived());
    assert_eq!(received(&subscriber).len(), 0);
    assert!(!clients.is_last_subscriber(subscriber.id, &"t".into()));
    clients.disconnect(other.id);
    assert!(!clients.has_subscribers(&"other".into()));
    assert_eq!(clients.count(), 1);
}

#[test]
fn the_first_answer_of_a_subscriber_counts() {
    let clients = ClientRegistry::default();
    let first = initialized(&clients, &[]);
    let second = initialized(&clients, &[]);
    let stranger = initialized(&clients, &[]);
    clients.subscribe(&first, &"t".into());
    clients.subscribe(&second, &"t".into());
    clients.subscribe(&stranger, &"other".into());

    let mut question = clients.ask(&"t".into(), &approval);
    assert_eq!(received(&first), received(&second), "the same question with the same id");
    assert_eq!(received(&stranger).len(), 0);
    clients.answer(stranger.id, &question.id, acceptance());
    assert!((&mut question.answer).now_or_never().is_none(), "this client was not asked");
    clients.answer(second.id, &RequestId::Integer(99), acceptance());
    assert!((&mut question.answer).now_or_never().is_none(), "this is another question");

    let refusal = ErrorObject { code: -1, message: "no".into(), data: None };
    clients.answer(second.id, &question.id, acceptance());
    clients.answer(first.id, &question.id, Err(refusal));
    let answer = (&mut question.answer).now_or_never().unwrap().unwrap().reply.unwrap();
    assert_eq!(answer.get(), r#"{"decision":"accept"}"#);
}

#[test]
fn a_later_subscriber_receives_the_open_questions_but_no_withdrawn_ones() {
    let clients = ClientRegistry::default();
    let early = initialized(&clients, &[]);
    let late = initialized(&clients, &[]);
    clients.subscribe(&early, &"t".into());
    let questions: Vec<_> = (0..12).map(|_| clients.ask(&"t".into(), &approval)).collect();
    let ids: Vec<_> = questions.iter().map(|question| json!(question.id)).collect();
    assert_eq!(
        ids,
        (ids[0].as_i64().unwrap()..).take(12).map(Value::from).collect::<Vec<_>>(),
        "ids are consecutive"
    );
    let mut questions = questions.into_iter();
    drop(questions.next());

    clients.subscribe(&late, &"t".into());
    let seen: Vec<_> = received(&late).iter().map(|message| message["id"].clone()).collect();
    assert_eq!(seen, ids[1..], "oldest first");
}

#[test]
fn a_notification_that_is_too_long_is_left_out_with_a_warning() {
    let clients = ClientRegistry::default();
    let client = initialized(&clients, &[]);
    let without_warnings = initialized(&clients, &[ConfigWarning::NAME]);
    clients.notify_all(&Frame::written::<ThreadArchived>(vec![b' '; MAX_NOTIFICATION_BYTES + 1]));
    clients.notify_all(&unarchived());
    let messages = received(&client);
    assert_eq!(messages[0]["method"], "configWarning");
    assert_eq!(messages[0]["params"]["summary"], "a `thread/archived` notification was left out");
    assert_eq!(messages[1]["method"], "thread/unarchived", "the connection stays open");
    assert_eq!(methods(&without_warnings), ["thread/unarchived"]);
}

#[test]
fn a_question_that_is_too_long_is_answered_with_an_error() {
    let clients = ClientRegistry::default();
    let client = initialized(&clients, &[]);
    clients.subscribe(&client, &"t".into());
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "x".repeat(MAX_RESPONSE_BYTES) });
    // Encoded once, because encoding megabytes takes long. Both questions have the same id, which does not matter here.
    let id = RequestId::Integer(0);
    let frame = Frame::request::<FileChangeApproval>(&id, &serde_json::from_value(params).unwrap());
    let encode = |_: &RequestId| frame.clone();
    for mut question in [clients.ask(&"t".into(), &encode), clients.ask_client(client.id, &encode).unwrap()] {
        let answer = (&mut question.answer).now_or_never().unwrap().unwrap();
        let error = answer.reply.unwrap_err();
        assert_eq!(error.code, -32603);
        assert!(error.message.starts_with("the request is too long to send: "), "{}", error.message);
    }
    assert_eq!(received(&client), [] as [Value; 0]);
}

#[test]
fn among_many_clients_only_those_that_list_threads_follow_all_of_them() {
    let clients = ClientRegistry::default();
    let thread = "t".into();
    let subscriber = initialized(&clients, &[]);
    clients.subscribe(&subscriber, &thread);
    let lister = initialized(&clients, &[]);
    lister.note_listing();
    let others: Vec<_> = (clients.count()..MANY_CLIENTS).map(|_| initialized(&clients, &[])).collect();

    clients.notify_followers(&thread, &archived());
    for client in others.iter().chain([&subscriber, &lister]) {
        assert_eq!(received(client).len(), 1, "few clients follow every thread");
    }

    let one_more = initialized(&clients, &[]);
    clients.notify_followers(&thread, &archived());
    assert_eq!(received(&subscriber).len(), 1);
    assert_eq!(received(&lister).len(), 1);
    for client in others.iter().chain([&one_more]) {
        assert_eq!(received(client).len(), 0, "neither a subscriber nor a list of threads");
    }
}
