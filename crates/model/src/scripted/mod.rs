//! A model that follows a script instead of thinking: for demonstrations, tests and work without a
//! network. It is chosen by name and never stands in for a real one.
//!
//! What it says depends on the script and the request alone, so the same conversation always goes the
//! same way. The format of scripts is described in [`Script`].

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

use self::play::perform;
use crate::{
    Event, EventStream, Flow, Limits, ModelError, Provider, ProviderConfig, Request, WireApi, stream::Source,
};

pub use {
    play::Act,
    script::{Script, ScriptError},
};

/// A provider with a script. The file is read when the first request needs it.
pub(crate) struct Scripted {
    id: String,
    limits: Limits,
    script: Arc<ScriptFile>,
}

struct ScriptFile {
    path: Option<PathBuf>,
    script: OnceCell<Arc<Script>>,
}

impl Scripted {
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
    /// What happens in answer to a request, for those who play it themselves. It ends with `Completed` or a
    /// failure.
    pub fn acts(&self, request: &Request, limits: &Limits) -> Vec<Act> {
        perform(self, request, limits)
    }

    /// A provider that follows this script, without a config.
    pub fn into_provider(self, id: &str) -> Arc<dyn Provider> {
        Arc::new(Scripted::with_script(id, self))
    }
}

impl Provider for Scripted {
    fn id(&self) -> &str {
        &self.id
    }

    fn wire_api(&self) -> WireApi {
        WireApi::Scripted
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn stream(&self, request: Request) -> EventStream {
        let (file, limits) = (self.script.clone(), self.limits);
        let opening = async move {
            let script = file.get().await?;
            Ok(perform(&script, &request, &limits))
        };
        EventStream::new(ScriptSource::Opening(Box::pin(opening)))
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

/// First the script is found, then its acts are performed one after the other.
enum ScriptSource {
    Opening(Pin<Box<dyn Future<Output = Result<Vec<Act>, ModelError>> + Send>>),
    Performing { acts: std::vec::IntoIter<Act>, pause: Option<Pin<Box<Sleep>>> },
}

impl Source for ScriptSource {
    fn poll_batch(&mut self, cx: &mut Context<'_>, out: &mut Vec<Event>) -> Poll<Result<Flow, ModelError>> {
        if let Self::Opening(opening) = self {
            let acts = ready!(opening.as_mut().poll(cx))?;
            *self = Self::Performing { acts: acts.into_iter(), pause: None };
        }
        let Self::Performing { acts, pause } = self else { return Poll::Ready(Ok(Flow::Done)) };
        loop {
            if let Some(sleep) = pause {
                ready!(sleep.as_mut().poll(cx));
                *pause = None;
            }
            match acts.next() {
                Some(Act::Tell(events)) => {
                    out.extend(events);
                    let is_done = matches!(out.last(), Some(Event::Completed { .. }));
                    return Poll::Ready(Ok(if is_done { Flow::Done } else { Flow::More }));
                }
                Some(Act::Wait(time)) => *pause = Some(Box::pin(sleep_until(Instant::now() + time))),
                Some(Act::Fail(error)) => return Poll::Ready(Err(error)),
                None => {
                    return Poll::Ready(Err(ModelError::Disconnected("the script ended early".to_owned())));
                }
            }
        }
    }
}
