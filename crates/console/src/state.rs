//! What all requests share.

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_client::{
    Client,
    protocol::{Model, ModelListParams},
};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessControl,
    live::{Overview, ThreadHubs},
    questions::QuestionBoard,
    thread_tokens::ThreadTokens,
};

/// How long the list of models is used before it is read again.
const MODELS_TIME: Duration = Duration::from_secs(60);

/// How long a page waits for the list of models.
const MODELS_WAIT: Duration = Duration::from_millis(100);

/// The console as handlers see it. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleParts>);

/// The parts of a console.
pub struct ConsoleParts {
    pub access: Arc<AccessControl>,
    /// A connection without subscriptions, for reading.
    pub client: Client,
    /// The connection that is subscribed to the threads that pages show.
    pub threads_client: Client,
    pub hubs: ThreadHubs,
    pub overview: Overview,
    pub questions: QuestionBoard,
    /// Cancelled when the console ends.
    pub stopping: CancellationToken,
    pub models: Mutex<Option<ListedModels>>,
    pub tokens: ThreadTokens,
}

/// The models of the server, and when they were read.
pub struct ListedModels {
    models: Arc<Vec<Model>>,
    read_at: Instant,
}

impl Console {
    pub fn new(parts: ConsoleParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns the models of the server; none if it cannot list them.
    pub async fn models(&self) -> Arc<Vec<Model>> {
        let known = self
            .models
            .lock()
            .as_ref()
            .filter(|listed| listed.read_at.elapsed() < MODELS_TIME)
            .map(|listed| listed.models.clone());
        if let Some(models) = known {
            return models;
        }
        // They are suggestions only, so a page does not wait long for a provider.
        let models = match timeout(MODELS_WAIT, self.client.list_models(ModelListParams::default())).await {
            Ok(Ok(found)) => Arc::new(found.data),
            Ok(Err(error)) => {
                tracing::debug!("cannot list the models: {error}");
                Arc::default()
            }
            Err(_) => return Arc::default(),
        };
        *self.models.lock() = Some(ListedModels { models: models.clone(), read_at: Instant::now() });
        models
    }
}

impl Deref for Console {
    type Target = ConsoleParts;

    fn deref(&self) -> &ConsoleParts {
        &self.0
    }
}
