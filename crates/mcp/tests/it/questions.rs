//! Elicitation requests during a call.

use std::{future::Future, pin::Pin, sync::Arc};

use codicil_mcp::{CallError, Elicitor, McpCall, ThreadServers};
use codicil_protocol::{
    McpServerElicitationAction as Action, McpServerElicitationRequest,
    McpServerElicitationRequestResponse as Response,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{World, ask_for, call, hanging, server, soon, text};

/// An elicitor that gives the same answer to every request, or none.
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

/// A person who completes a page before giving an answer, or instead of it.
struct Visitor {
    servers: Arc<ThreadServers>,
    page: &'static str,
    answer: Option<Action>,
}

impl Elicitor for Visitor {
    fn elicit<'a>(
        &'a self,
        _: &'a str,
        _: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + 'a>> {
        Box::pin(async {
            self.servers.call(call("finish", json!({ "page": self.page }))).await.unwrap();
            match self.answer {
                Some(action) => Response { action, content: None, meta: None },
                None => std::future::pending().await,
            }
        })
    }
}

#[tokio::test]
async fn a_page_that_the_server_reports_as_complete_is_accepted() {
    let servers = Arc::new(World::new().plain().await);
    let elicitor: Arc<dyn Elicitor> = Arc::new(Visitor { servers: servers.clone(), page: "e", answer: None });
    let params = json!({ "mode": "url", "message": "Open this", "url": "https://example.com/x", "elicitationId": "e" });
    let ask = McpCall { elicitor: Some(elicitor), ..call("ask", json!({ "params": params })) };
    let outcome = soon(servers.call(ask)).await.unwrap();
    assert_eq!(text(&outcome), r#"{"action":"accept","content":{}}"#);
}

#[tokio::test]
async fn a_call_that_requires_a_page_is_repeated_after_the_visit() {
    let servers = Arc::new(World::new().plain().await);
    let gate = async |answer: Option<Action>| {
        let visitor = Visitor { servers: servers.clone(), page: "gate", answer };
        let elicitor: Arc<dyn Elicitor> = match answer {
            Some(Action::Decline) => Person::new(Some((Action::Decline, None))),
            _ => Arc::new(visitor),
        };
        soon(servers.call(McpCall { elicitor: Some(elicitor), ..call("gate", json!({})) })).await
    };
    let refused = gate(Some(Action::Decline)).await.unwrap_err();
    assert!(matches!(refused, CallError::Server { code: -32042, .. }), "{refused}");
    assert_eq!(text(&gate(Some(Action::Accept)).await.unwrap()), "through the gate");
}

#[tokio::test]
async fn both_kinds_of_elicitation_are_declared() {
    let servers = World::new().plain().await;
    let hello: Value = serde_json::from_str(&ask_for(&servers, "hello").await).unwrap();
    assert_eq!(hello["capabilities"], json!({ "elicitation": { "form": {}, "url": {} } }));
    assert_eq!(hello["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_request_is_declined_without_an_elicitor() {
    assert_eq!(answered(None, form()).await, json!({ "action": "decline" }));
    let person = Person::new(Some((Action::Decline, None)));
    assert_eq!(answered(Some(&person), form()).await, json!({ "action": "decline" }));
    let person = Person::new(Some((Action::Cancel, None)));
    assert_eq!(answered(Some(&person), form()).await, json!({ "action": "cancel" }));
}

#[tokio::test]
async fn an_invalid_request_is_an_error() {
    let person = Person::new(Some((Action::Accept, None)));
    let answer = answered(Some(&person), json!({ "mode": "telepathy", "message": "?" })).await;
    assert_eq!(answer["code"], -32602);
    assert!(person.seen.lock().is_empty());
}

#[tokio::test]
async fn the_timeout_is_paused_while_a_request_is_open() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("test", "plain", "tool_timeout_sec = 1.5"));
    let servers = Arc::new(servers);
    let elicitor: Arc<dyn Elicitor> = Arc::new(SlowPerson { servers: servers.clone() });
    let ask = McpCall { elicitor: Some(elicitor), ..call("ask", json!({ "params": form() })) };
    let outcome = soon(servers.call(ask)).await.unwrap();
    assert_eq!(text(&outcome), r#"{"action":"decline"}"#);
}

/// Answers after another call, begun later and with the same timeout, has timed out.
struct SlowPerson {
    servers: Arc<ThreadServers>,
}

impl Elicitor for SlowPerson {
    fn elicit<'a>(
        &'a self,
        _: &'a str,
        _: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = Response> + Send + 'a>> {
        Box::pin(async {
            let error = self.servers.call(call("hang", json!({}))).await.unwrap_err();
            assert!(matches!(error, CallError::TimedOut(_)), "{error}");
            Response { action: Action::Decline, content: None, meta: None }
        })
    }
}

#[tokio::test]
async fn a_request_ends_with_its_call() {
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
    // The response is sent in the background, so the server is polled until it has arrived.
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
async fn an_ambiguous_request_is_shown_to_no_user() {
    let world = World::new();
    let one = world.plain().await;
    let two = world.plain().await;
    let ada = Person::silent();
    let ben = Person::accepting();
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
