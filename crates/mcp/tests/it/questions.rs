//! Questions of servers during a call.

use std::{future::Future, pin::Pin, sync::Arc};

use codicil_mcp::{Elicitor, McpCall};
use codicil_protocol::{
    McpServerElicitationAction as Action, McpServerElicitationRequest,
    McpServerElicitationRequestResponse as Response,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{World, ask_for, call, hanging, server, soon, text};

/// Gives the same answer to every question, or none at all.
pub struct Person {
    answer: Option<Response>,
    asked: Notify,
    seen: Mutex<Vec<(String, Value)>>,
}

impl Person {
    fn new(answer: Option<(Action, Option<Value>)>) -> Arc<Person> {
        let answer = answer.map(|(action, content)| Response { action, content, meta: None });
        Arc::new(Person { answer, asked: Notify::new(), seen: Mutex::default() })
    }

    /// Never answers.
    pub fn silent() -> Arc<Person> {
        Person::new(None)
    }

    pub fn accepting() -> Arc<Person> {
        Person::new(Some((Action::Accept, None)))
    }

    pub fn questions(&self) -> Vec<(String, Value)> {
        self.seen.lock().clone()
    }
}

impl Elicitor for Person {
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + 'a>> {
        Box::pin(async move {
            self.seen.lock().push((server.to_owned(), serde_json::to_value(request).unwrap()));
            self.asked.notify_one();
            match &self.answer {
                Some(answer) => answer.clone(),
                None => std::future::pending().await,
            }
        })
    }
}

fn asking(person: Option<&Arc<Person>>, params: Value) -> McpCall {
    let elicitor = person.map(|person| person.clone() as Arc<dyn Elicitor>);
    McpCall { elicitor, ..call("ask", json!({ "params": params })) }
}

fn form() -> Value {
    json!({ "message": "Your name?", "requestedSchema": {
        "type": "object", "properties": { "name": { "type": "string", "title": "Name" } }, "required": ["name"] } })
}

async fn answered(person: Option<&Arc<Person>>, params: Value) -> Value {
    let world = World::new();
    let servers = world.plain().await;
    let outcome = soon(servers.call(asking(person, params))).await.unwrap();
    serde_json::from_str(&text(&outcome)).unwrap()
}

#[tokio::test]
async fn a_form_is_answered() {
    let person = Person::new(Some((Action::Accept, Some(json!({ "name": "Ada" })))));
    assert_eq!(
        answered(Some(&person), form()).await,
        json!({ "action": "accept", "content": { "name": "Ada" } })
    );
    let seen = person.seen.lock();
    let mut expected = form();
    expected["mode"] = json!("form");
    expected["_meta"] = Value::Null;
    assert_eq!(*seen, [("test".to_owned(), expected)]);
}

#[tokio::test]
async fn a_page_is_answered() {
    let person = Person::new(Some((Action::Accept, None)));
    let params = json!({ "mode": "url", "message": "Open this", "url": "https://example.com/x", "elicitationId": "e" });
    assert_eq!(answered(Some(&person), params).await, json!({ "action": "accept", "content": {} }));
}

#[tokio::test]
async fn nobody_there_means_no() {
    assert_eq!(answered(None, form()).await, json!({ "action": "decline" }));
    let person = Person::new(Some((Action::Decline, None)));
    assert_eq!(answered(Some(&person), form()).await, json!({ "action": "decline" }));
    let person = Person::new(Some((Action::Cancel, None)));
    assert_eq!(answered(Some(&person), form()).await, json!({ "action": "cancel" }));
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_an_error() {
    let person = Person::new(Some((Action::Accept, None)));
    let answer = answered(Some(&person), json!({ "mode": "telepathy", "message": "?" })).await;
    assert_eq!(answer["code"], -32602);
    assert!(person.seen.lock().is_empty());
}

#[tokio::test]
async fn the_clock_stands_still_while_a_person_thinks() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("test", "plain", "tool_timeout_sec = 1.5"));
    let person = Arc::new(Slow);
    let elicitor = Some(person.clone() as Arc<dyn Elicitor>);
    let ask = McpCall { elicitor, ..call("ask", json!({ "params": form() })) };
    let outcome = soon(servers.call(ask)).await.unwrap();
    assert_eq!(text(&outcome), r#"{"action":"decline"}"#);
}

/// Thinks for longer than the call may take. It is the time itself that is tested here.
struct Slow;

impl Elicitor for Slow {
    fn elicit<'a>(
        &'a self,
        _: &'a str,
        _: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + 'a>> {
        Box::pin(async {
            tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
            Response { action: Action::Decline, content: None, meta: None }
        })
    }
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let world = World::new();
    let servers = world.plain().await;
    let person = Person::new(None);
    let ask = asking(Some(&person), form());
    let cancel = ask.cancel.clone();
    let (result, ()) = soon(async {
        tokio::join!(servers.call(ask), async {
            person.asked.notified().await;
            cancel.cancel();
        })
    })
    .await;
    assert!(result.is_err());
    // The answer leaves by itself a moment later, so the server is asked until it has come.
    let answers = soon(async {
        loop {
            let answers = ask_for(&servers, "answers").await;
            if answers != "[]" {
                return answers;
            }
        }
    });
    assert_eq!(answers.await, r#"[{"action":"cancel"}]"#);
}

#[tokio::test]
async fn nobody_is_shown_the_question_of_somebody_else() {
    let world = World::new();
    let (one, two) = (world.plain().await, world.plain().await);
    let (ada, ben) = (Person::new(None), Person::new(Some((Action::Accept, None))));
    let (hang, begun) = hanging();
    let hang = McpCall { elicitor: Some(ada.clone()), ..hang };
    let cancel = hang.cancel.clone();
    let (_, answer) = soon(async {
        tokio::join!(one.call(hang), async {
            begun.notified().await;
            let answer = two.call(asking(Some(&ben), form())).await;
            cancel.cancel();
            answer
        })
    })
    .await;
    assert_eq!(text(&answer.unwrap()), r#"{"action":"decline"}"#);
    assert!(ada.seen.lock().is_empty() && ben.seen.lock().is_empty());
}
