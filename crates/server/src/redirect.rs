//! Requests for threads of other servers, from clients that follow them there.

use codicil_protocol::ThreadId;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{clients::ClientSession, cx::Cx, error::RpcError};

/// The thread of a request that can be carried out at another server instead.
pub struct RedirectedRequest(ThreadId);

impl RedirectedRequest {
    /// Returns the thread that the params name, if the client follows threads to other servers and there may be some.
    pub fn new(cx: &Cx, params: Option<&RawValue>) -> Option<Self> {
        let wants_redirect = cx.client.session().is_some_and(ClientSession::wants_redirect);
        if !wants_redirect || cx.backend().is_none() {
            return None;
        }
        let named: NamedThread = serde_json::from_str(params?.get()).ok()?;
        Some(Self(named.thread_id))
    }

    /// Returns the error that sends the client to the server that owns the thread; `error` if this server may have it, or the
    /// other one has no address.
    pub async fn replace(self, cx: &Cx, error: RpcError) -> RpcError {
        let Some(backend) = cx.backend() else { return error };
        match backend.other_owner(&self.0).await {
            Ok(Some(owner)) if !owner.url.is_empty() => RpcError::moved(&self.0, owner),
            Ok(_) => error,
            Err(failed) => {
                tracing::debug!("cannot find out who owns a thread: {failed}");
                error
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedThread {
    thread_id: ThreadId,
}
