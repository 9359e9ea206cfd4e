//! A provider that plays a script file, for demonstrations, tests and work without a network. It must be
//! configured explicitly and never replaces a real model.
//!
//! Its replies depend only on the script and the request, so the same conversation always gets the same
//! replies. The format of scripts is described in [`Script`].
//!
//! This is the only implementation of script files. `codicil mock-model` serves the same files over HTTP:
//! `codicil-testkit` calls [`Script::acts`] and translates the result. The scripts that tests build in Rust
//! are different and stay there: they control single deltas, gates and HTTP answers, for which this format,
//! made of whole messages and calls, has no words, and they must not become part of the binary.

mod play;
mod sample;
mod script;
mod situation;
mod step;

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    sync::OnceCell,
    time::{Instant, Sleep, sleep_until},
};

use self::play::play;
use crate::{
    EventStream, ModelError, ModelEvent, ModelProvider, ModelRequest, ProviderConfig, ProviderLimits,
    StreamFlow, WireApi, stream::EventSource,
};

pub use {
    play::ScriptAct,
    script::{Script, ScriptError},
};

/// A provider with a script. The file is read at the first request.
pub(crate) struct ScriptedProvider {
    id: String,
    limits: ProviderLimits,
    script: Arc<ScriptFile>,
}

struct ScriptFile {
    path: Option<PathBuf>,
    script: OnceCell<Arc<Script>>,
}

impl ScriptedProvider {
    pub fn new(id: &str, config: &ProviderConfig) -> Self {
        let script = ScriptFile { path: config.script.clone(), script: OnceCell::new() };
        Self { id: id.to_owned(), limits: config.limits(), script: Arc::new(script) }
    }

    fn with_script(id: &str, script: Script) -> Self {
        let script = ScriptFile { path: None, script: OnceCell::new_with(Some(Arc::new(script))) };
        Self { id: id.to_owned(), limits: ProviderConfig::default().limits(), script: Arc::new(script) }
    }
}

impl Script {
    /// Returns the reply to a request, for callers that play it themselves. It ends with `Completed` or a
    /// failure.
    pub fn acts(&self, request: &ModelRequest, limits: &ProviderLimits) -> Vec<ScriptAct> {
        play(self, request, limits)
    }

    /// Returns a provider for this script, without a configuration.
    pub fn into_provider(self, id: &str) -> Arc<dyn ModelProvider> {
        Arc::new(ScriptedProvider::with_script(id, self))
    }
}

impl ModelProvider for ScriptedProvider {
    fn id(&self) -> &str {
        &self.id
    }

    fn wire_api(&self) -> WireApi {
        WireApi::Scripted
    }

    fn limits(&self) -> &ProviderLimits {
        &self.limits
    }

    fn stream(&self, request: ModelRequest) -> EventStream {
        let file = self.script.clone();
        let limits = self.limits;
        let loading = async move {
            let script = file.get().await?;
            Ok(play(&script, &request, &limits))
        };
        EventStream::new(ScriptSource::Loading(Box::pin(loading)))
    }
}

impl ScriptFile {
    async fn get(&self) -> Result<Arc<Script>, ModelError> {
        let load = async || {
            let Some(path) = self.path.clone() else { return Ok(Arc::new(Script::builtin())) };
            let loaded = tokio::task::spawn_blocking(move || Script::load(&path)).await;
            let failed = |error: &dyn std::fmt::Display| ModelError::Config(error.to_string());
            loaded.map_err(|error| failed(&error))?.map(Arc::new).map_err(|error| failed(&error))
        };
        self.script.get_or_try_init(load).await.cloned()
    }
}

/// The stream of a reply: loads the script, then plays its acts.
enum ScriptSource {
    Loading(Pin<Box<dyn Future<Output = Result<Vec<ScriptAct>, ModelError>> + Send>>),
    Playing { acts: std::vec::IntoIter<ScriptAct>, pause: Option<Pin<Box<Sleep>>> },
}

impl EventSource for ScriptSource {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>> {
        if let Self::Loading(loading) = self {
            let acts = ready!(loading.as_mut().poll(cx))?;
            *self = Self::Playing { acts: acts.into_iter(), pause: None };
        }
        let Self::Playing { acts, pause } = self else { return Poll::Ready(Ok(StreamFlow::Done)) };
        loop {
            if let Some(sleep) = pause {
                ready!(sleep.as_mut().poll(cx));
                *pause = None;
            }
            match acts.next() {
                Some(ScriptAct::Emit(events)) => {
                    out.extend(events);
                    let is_done = matches!(out.last(), Some(ModelEvent::Completed { .. }));
                    return Poll::Ready(Ok(if is_done { StreamFlow::Done } else { StreamFlow::More }));
                }
                Some(ScriptAct::Wait(time)) => *pause = Some(Box::pin(sleep_until(Instant::now() + time))),
                Some(ScriptAct::Fail(error)) => return Poll::Ready(Err(error)),
                None => {
                    return Poll::Ready(Err(ModelError::Disconnected("the script ended early".to_owned())));
                }
            }
        }
    }
}
