//! The running `thread/sample` requests of a connection, by the ids of their requests.

use std::{collections::HashMap, sync::Arc};

use codicil_protocol::rpc::RequestId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The running samples of one client.
#[derive(Debug, Default)]
pub struct RunningSamples(Arc<SampleTable>);

type SampleTable = Mutex<HashMap<String, CancellationToken>>;

/// A running sample, which is forgotten when this is dropped.
pub struct RunningSample {
    samples: Arc<SampleTable>,
    request: Option<String>,
    token: CancellationToken,
}

impl RunningSamples {
    /// Adds the sample of a request.
    pub fn begin(&self, request: Option<&RequestId>) -> RunningSample {
        let request = request.map(RequestId::to_string);
        let token = CancellationToken::new();
        if let Some(request) = &request {
            self.0.lock().insert(request.clone(), token.clone());
        }
        RunningSample { samples: self.0.clone(), request, token }
    }

    /// Cancels a sample, if it runs.
    pub fn cancel(&self, request: &RequestId) {
        if let Some(token) = self.0.lock().remove(&request.to_string()) {
            token.cancel();
        }
    }
}

impl RunningSample {
    /// Returns the token that is cancelled when a client cancels the sample.
    pub fn cancelled(&self) -> CancellationToken {
        self.token.clone()
    }
}

impl Drop for RunningSample {
    fn drop(&mut self) {
        if let Some(request) = &self.request {
            self.samples.lock().remove(request);
        }
    }
}
