//! Requests with keys: reading the key of a request, and carrying out requests that have no thread's file at most once.
//!
//! The key stands beside the params, `"codicil": {"key": "…"}`. It counts on connections that asked for the extension;
//! elsewhere an unknown member of a message has no effect. Requests to a thread pass their key on to the thread, which
//! stores it with the effect (`codicil_engine::RequestKey`). Requests that create, move or delete threads run inside
//! [`carry_out_once`].

use codicil_engine::{MAX_KEY_BYTES, RequestKey, ThreadError};
use codicil_protocol::{KEYED_REQUESTS, Method, ThreadId, ThreadResumeParams, TurnStart, TurnSteer};
use codicil_store::{HomeKeyLock, KeyIntent, StoreError, new_thread_id};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{clients::ClientSession, cx::Cx, error::RpcError};

/// The member `codicil` of a request.
#[derive(Deserialize)]
struct RequestExtension {
    #[serde(default)]
    key: Option<Value>,
}

/// The params of requests that have a key of their own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageParams {
    client_user_message_id: Option<String>,
}

/// Why the key of a request cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("`codicil.key` must be a string of 1 to {MAX_KEY_BYTES} bytes")]
    Malformed,
    #[error("{0} takes no key; send it without `codicil.key`")]
    NotKeyed(String),
}

/// Returns the key of a request, if the client uses the extension.
pub fn request_key(
    cx: &Cx,
    method: &str,
    params: Option<&RawValue>,
    extension: Option<&RawValue>,
) -> Result<Option<RequestKey>, KeyError> {
    let may_use_keys = |session: &ClientSession| session.codicil.is_some() || session.is_relayed;
    if !cx.client.session().is_some_and(may_use_keys) {
        return Ok(None);
    }
    let message_key =
        if method == TurnStart::NAME || method == TurnSteer::NAME { message_key(params) } else { None };
    let (key, message_key) = match extension.map(read_key).transpose()?.flatten() {
        Some(_) if !KEYED_REQUESTS.contains(&method) => return Err(KeyError::NotKeyed(method.to_owned())),
        // A repetition without the explicit key has that of the message.
        Some(key) => (Some(key), message_key),
        None => (message_key, None),
    };
    let Some(key) = key else { return Ok(None) };
    let params = params.map_or(Ok(Value::Null), |params| serde_json::from_str(params.get()));
    // Params that are not JSON are refused when they are decoded.
    Ok(params.ok().map(|params| RequestKey::with_message(&key, message_key.as_deref(), method, &params)))
}

fn read_key(extension: &RawValue) -> Result<Option<String>, KeyError> {
    let extension: RequestExtension =
        serde_json::from_str(extension.get()).map_err(|_| KeyError::Malformed)?;
    match extension.key {
        None => Ok(None),
        Some(Value::String(key)) if (1..=MAX_KEY_BYTES).contains(&key.len()) => Ok(Some(key)),
        Some(_) => Err(KeyError::Malformed),
    }
}

/// Returns the client's id of a message, which is a key by itself.
fn message_key(params: Option<&RawValue>) -> Option<String> {
    let params: MessageParams = serde_json::from_str(params?.get()).ok()?;
    params.client_user_message_id.map(|id| format!("clientUserMessageId:{id}"))
}

/// A request that is carried out now.
pub struct Attempt {
    /// The id for the thread that the request creates; `None` without a key.
    pub thread_id: Option<ThreadId>,
    /// Whether an earlier attempt may have had its effect already.
    pub is_repeated: bool,
}

/// What a request creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creates {
    Nothing,
    StoredThread,
    EphemeralThread,
}

impl Creates {
    pub fn thread(ephemeral: Option<bool>) -> Self {
        if ephemeral == Some(true) { Self::EphemeralThread } else { Self::StoredThread }
    }
}

/// A response that was made now, or that of the first request with the same key.
#[derive(Serialize)]
#[serde(untagged)]
pub enum OnceResponse<T> {
    Made(T),
    Encoded(Box<RawValue>),
}

/// Carries out a request, or answers with the result of an earlier one with the same key. The client joins the thread that
/// the earlier request created.
pub async fn carry_out_once<T: Serialize, R>(
    cx: &Cx,
    creates: Creates,
    work: impl FnOnce(Attempt) -> R,
) -> Result<OnceResponse<T>, RpcError>
where
    R: Future<Output = Result<T, RpcError>>,
{
    let Some(key) = cx.key() else {
        let response = work(Attempt { thread_id: None, is_repeated: false }).await?;
        return Ok(OnceResponse::Made(response));
    };
    let mut lock = cx.threads().engine().store.lock_key(key.hash()).await.map_err(ThreadError::from)?;
    if let Some(intent) = lock.intent() {
        key.check(&intent.digest).map_err(ThreadError::from)?;
    }
    if let Some(result) = replayed(cx, &lock).await {
        key.set_replayed();
        return Ok(OnceResponse::Encoded(result));
    }
    let attempt = begin(&mut lock, &key, creates).await.map_err(ThreadError::from)?;
    // Without a thread of its own, a first attempt that fails has changed nothing. Otherwise the next one continues it.
    let may_forget = creates == Creates::Nothing && !attempt.is_repeated;
    let response = match work(attempt).await {
        Ok(response) => response,
        Err(error) => {
            if may_forget {
                lock.forget().await;
            }
            return Err(error);
        }
    };
    let result = to_raw_value(&response).map_err(|error| ThreadError::from(StoreError::from(error)))?;
    lock.finish(&result).await.map_err(ThreadError::from)?;
    Ok(OnceResponse::Encoded(result))
}

/// Stores the intent, unless an earlier attempt has.
async fn begin(lock: &mut HomeKeyLock, key: &RequestKey, creates: Creates) -> Result<Attempt, StoreError> {
    let is_repeated = lock.intent().is_some();
    let thread_id = match lock.intent() {
        Some(intent) => intent.thread_id.clone(),
        None if creates == Creates::Nothing => None,
        None => Some(new_thread_id()),
    };
    let intent = KeyIntent {
        digest: key.digest().to_owned(),
        thread_id: thread_id.clone(),
        ephemeral: creates == Creates::EphemeralThread,
    };
    lock.begin(intent).await?;
    Ok(Attempt { thread_id, is_repeated })
}

/// Returns the stored result, after the client has joined the thread that it is about. An ephemeral thread that is gone is
/// created again.
async fn replayed(cx: &Cx, lock: &HomeKeyLock) -> Option<Box<RawValue>> {
    let result = lock.result()?.to_owned();
    let intent = lock.intent()?;
    let Some(id) = &intent.thread_id else { return Some(result) };
    if intent.ephemeral {
        cx.threads().get(id).ok()?;
        cx.clients().subscribe(&cx.client, id);
        return Some(result);
    }
    match cx.threads().resume(ThreadResumeParams::new(id.clone()), cx.generation()).await {
        Ok(opened) => {
            cx.clients().subscribe(&cx.client, id);
            cx.hold(opened.announce);
        }
        // The thread was archived or deleted since, or is in use elsewhere.
        Err(error) => {
            tracing::debug!(thread = %id, "the thread of a replayed response cannot be joined: {error}")
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{CLIENT_REQUESTS, CODICIL_REQUESTS};

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn keys_are_short_strings() {
        let check = |text: &str, expected: Result<Option<&str>, KeyError>| {
            assert_eq!(read_key(&raw(text)), expected.map(|key| key.map(str::to_owned)), "{text}");
        };
        check(r#"{}"#, Ok(None));
        check(r#"{"later":1}"#, Ok(None));
        check(r#"{"key":"k-1"}"#, Ok(Some("k-1")));
        check(r#"{"key":""}"#, Err(KeyError::Malformed));
        check(r#"{"key":7}"#, Err(KeyError::Malformed));
        check(&format!(r#"{{"key":"{}"}}"#, "k".repeat(MAX_KEY_BYTES + 1)), Err(KeyError::Malformed));
        check("7", Err(KeyError::Malformed));
    }

    #[test]
    fn every_keyed_request_exists() {
        for name in KEYED_REQUESTS {
            let mut known = CLIENT_REQUESTS.iter().chain(CODICIL_REQUESTS);
            assert!(known.any(|method| method.name == *name), "{name}");
        }
    }
}
