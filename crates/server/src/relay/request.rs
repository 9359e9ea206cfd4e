//! Requests that can be relayed, and their form for the owner.

use bytes::Bytes;
use codicil_engine::RequestKey;
use codicil_protocol::{
    CodicilSubscribe, CodicilSubscribeParams, KEYED_REQUESTS, Method, SubscriptionScope, ThreadArchive,
    ThreadId, ThreadRead, ThreadResume, ThreadUnsubscribe, TurnInterrupt, rpc::RequestId,
};
use codicil_telemetry::TracePosition;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::clients::ClientSession;

/// The beginnings of the methods that are about one thread.
const THREAD_METHODS: &[&str] =
    &["thread/", "turn/", "review/", "mcpServer/", "mcpServerStatus/", "codicil/"];

/// Methods among them that every node serves itself: they list or copy what is stored, create threads, or mean the machine of this
/// node.
const OWN_METHODS: &[&str] = &[
    "thread/start",
    "thread/fork",
    "thread/list",
    "thread/loaded/list",
    "thread/search",
    "mcpServer/oauth/login",
    "codicil/thread/rehome",
];

/// Methods without a key that can be repeated.
const REPEATABLE: &[&str] = &[
    ThreadResume::NAME,
    ThreadRead::NAME,
    ThreadUnsubscribe::NAME,
    CodicilSubscribe::NAME,
    "codicil/request/list",
    "codicil/turn/read",
    "mcpServerStatus/list",
    "thread/turns/list",
    "thread/items/list",
    "thread/items/read",
    "thread/timeline/list",
    "thread/searchOccurrences",
    "thread/goal/get",
    "thread/queue/list",
    "thread/attachment/list",
    "thread/backgroundTerminals/list",
];

/// A request as it arrived.
pub struct RequestParts<'a> {
    pub id: &'a RequestId,
    pub method: &'a str,
    pub params: Option<&'a RawValue>,
    /// The member `codicil`.
    pub extension: Option<&'a RawValue>,
    pub trace: Option<&'a RawValue>,
}

/// A request about a thread that another node may own.
#[derive(Debug)]
pub struct RelayRequest {
    pub id: RequestId,
    pub method: String,
    pub thread: ThreadId,
    pub params: Box<RawValue>,
    pub extension: Option<Box<RawValue>>,
    trace: Option<Box<RawValue>>,
    /// The key that this node gives to a request without one, so that it can be sent to the next owner if the first one is lost.
    own_key: Option<String>,
}

impl RelayRequest {
    /// Returns the request if it is about a thread and may be served by another node. `has_key` says whether the client has given it
    /// a key.
    pub fn read(session: &ClientSession, parts: &RequestParts<'_>, has_key: bool) -> Option<Self> {
        let is_extension = parts.method.starts_with("codicil/");
        if session.is_relayed || !is_about_thread(parts.method) || is_extension && session.codicil.is_none() {
            return None;
        }
        let params = parts.params?;
        let thread = canonical(serde_json::from_str::<ThreadParams>(params.get()).ok()?.thread_id?);
        Some(Self {
            id: parts.id.clone(),
            method: parts.method.to_owned(),
            thread,
            params: params.to_owned(),
            // Without the extension, the member has no meaning.
            extension: parts.extension.filter(|_| session.codicil.is_some()).map(ToOwned::to_owned),
            trace: parts.trace.map(ToOwned::to_owned),
            own_key: (!has_key && takes_key(parts.method)).then(|| Uuid::now_v7().to_string()),
        })
    }

    /// Returns the message for the owner.
    pub fn encode(&self, id: i64) -> Bytes {
        let extension = match (&self.own_key, &self.extension) {
            (Some(key), _) => Some(OwnerExtension::Key { key }),
            (None, Some(extension)) => Some(OwnerExtension::Client(extension)),
            (None, None) => None,
        };
        encode(&OwnerRequest {
            method: &self.method,
            id,
            params: &self.params,
            codicil: extension,
            trace: self.trace.as_deref(),
        })
    }

    /// Returns the key that this node has given to the request.
    pub fn own_key(&self) -> Option<RequestKey> {
        let params = serde_json::from_str(self.params.get()).ok()?;
        Some(RequestKey::new(self.own_key.as_ref()?, &self.method, &params))
    }

    pub fn trace_position(&self) -> TracePosition {
        TracePosition::of_request(self.trace.as_deref())
    }

    pub fn only_reads(&self) -> bool {
        REPEATABLE.contains(&self.method.as_str())
    }

    /// Returns the threads that the client is subscribed to if the request succeeds.
    pub fn subscribes_to(&self) -> Option<SubscriptionScope> {
        match self.method.as_str() {
            ThreadResume::NAME => Some(SubscriptionScope::Tree),
            CodicilSubscribe::NAME => {
                let params: Option<CodicilSubscribeParams> = serde_json::from_str(self.params.get()).ok();
                params.map(|params| params.scope)
            }
            _ => None,
        }
    }

    /// Returns whether the client has left the thread if the request succeeds.
    pub fn leaves_thread(&self) -> bool {
        [ThreadUnsubscribe::NAME, ThreadArchive::NAME].contains(&self.method.as_str())
    }
}

/// Returns the message with which this node subscribes to a thread of another one.
pub fn encode_subscription(id: i64, params: &CodicilSubscribeParams) -> Bytes {
    encode(&OwnerRequest { method: CodicilSubscribe::NAME, id, params, codicil: None, trace: None })
}

/// Returns a request of this node itself.
pub fn encode_own<M: Method>(id: i64, params: &M::Params) -> Bytes {
    encode(&OwnerRequest { method: M::NAME, id, params, codicil: None, trace: None })
}

fn encode<T: Serialize + ?Sized>(request: &OwnerRequest<'_, T>) -> Bytes {
    serde_json::to_vec(request).expect("wire types are always JSON").into()
}

fn is_about_thread(method: &str) -> bool {
    THREAD_METHODS.iter().any(|prefix| method.starts_with(prefix)) && !OWN_METHODS.contains(&method)
}

/// Returns the form of an id that threads use in their messages.
pub fn canonical(id: ThreadId) -> ThreadId {
    Uuid::parse_str(&id).map_or(id, |uuid| ThreadId::from(uuid.to_string()))
}

/// Returns whether this node can give a key to a request. An interrupt with a key must name its turn, and repeating it could not
/// stop another one.
fn takes_key(method: &str) -> bool {
    KEYED_REQUESTS.contains(&method) && method != TurnInterrupt::NAME
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThreadParams {
    thread_id: Option<ThreadId>,
}

/// The member `codicil` of a request to the owner.
#[derive(Serialize)]
#[serde(untagged)]
enum OwnerExtension<'a> {
    Key { key: &'a str },
    Client(&'a RawValue),
}

#[derive(Serialize)]
struct OwnerRequest<'a, T: Serialize + ?Sized> {
    method: &'a str,
    id: i64,
    params: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    codicil: Option<OwnerExtension<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{InitializeParams, ProtocolGeneration};
    use serde_json::{Value, from_str, from_value, json, value::to_raw_value};

    use super::*;

    fn read(capabilities: Value, method: &str, params: &Value) -> Option<RelayRequest> {
        let hello = json!({ "clientInfo": { "name": "c", "version": "1" }, "capabilities": capabilities });
        let hello: InitializeParams = from_value(hello).unwrap();
        let session = ClientSession::new(hello, ProtocolGeneration::V118);
        let params = to_raw_value(params).unwrap();
        let key = to_raw_value(&json!({ "key": "k" })).unwrap();
        let parts = RequestParts {
            id: &RequestId::Integer(7),
            method,
            params: Some(&params),
            extension: Some(&key),
            trace: None,
        };
        RelayRequest::read(&session, &parts, session.codicil.is_some())
    }

    #[test]
    fn requests_about_a_thread_can_be_relayed() {
        let thread = json!({ "threadId": "0199A0B0-0000-7000-8000-000000000000", "input": [] });
        let request = read(json!({}), "turn/start", &thread).unwrap();
        assert_eq!(&*request.thread, "0199a0b0-0000-7000-8000-000000000000");
        let mut sent: Value = from_str(std::str::from_utf8(&request.encode(3)).unwrap()).unwrap();
        // The key of this node, not the member of a client that does not use the extension.
        assert!(sent["codicil"]["key"].as_str().unwrap().len() > 30);
        sent.as_object_mut().unwrap().remove("codicil");
        assert_eq!(sent, json!({ "method": "turn/start", "id": 3, "params": thread }));
        for own in ["thread/fork", "thread/start", "fs/readFile", "command/exec", "codicil/thread/rehome"] {
            assert!(read(json!({}), own, &thread).is_none(), "{own}");
        }
        assert!(read(json!({}), "thread/list", &json!({})).is_none());
    }

    #[test]
    fn the_extension_is_relayed_for_clients_that_use_it() {
        let thread = json!({ "threadId": "t" });
        assert!(read(json!({}), "codicil/subscribe", &thread).is_none());
        let extension = json!({ "codicil": { "version": 1 } });
        assert!(read(extension.clone(), "codicil/subscribe", &thread).is_some());
        let request = read(extension, "turn/start", &thread).unwrap();
        let sent: Value = from_str(std::str::from_utf8(&request.encode(3)).unwrap()).unwrap();
        assert_eq!(sent["codicil"], json!({ "key": "k" }));
    }

    #[test]
    fn a_relayed_request_is_not_relayed_again() {
        let relay = json!({ "extension": true, "generation": "0.118.0" });
        let capabilities = json!({ "codicil": { "version": 1, "relay": relay } });
        assert!(read(capabilities, "turn/start", &json!({ "threadId": "t" })).is_none());
    }
}
