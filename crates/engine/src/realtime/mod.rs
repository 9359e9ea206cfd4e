//! Voice sessions: a thread speaks with a voice model of its provider, over a websocket.
//!
//! A session is a task beside its thread. It carries sound and text in both directions, tells the thread's
//! subscribers what it hears, and hands work over: when the voice model asks for the agent, the session
//! starts a turn, and what the agent says in that turn goes back to be spoken. Nothing of it is stored but
//! those turns. [`RealtimeSessions`] holds the one session that a thread may have.

mod dialect;
mod event;
mod session;
mod settings;
mod transcript;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use codicil_config::Feature;
use codicil_model::{ModelError, ProviderConfig};
use codicil_protocol::{
    CodexErrorInfo, ThreadId, ThreadItem, ThreadRealtimeAudioChunk, ThreadRealtimeClosed,
    ThreadRealtimeClosedNotification, ThreadRealtimeStartParams, TurnError, TurnId,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::session::RealtimeSession;
use crate::{
    error::ThreadError,
    thread::{ThreadHandle, ThreadSetup, TurnOrigin},
    threads::Threads,
    world::{EngineContext, provider_config},
};

/// What may wait to be sent to a provider: some seconds of sound.
const WAITING: usize = 256;

/// What goes to the voice model.
#[derive(Debug)]
pub(crate) enum RealtimeInput {
    Audio(ThreadRealtimeAudioChunk),
    Text(String),
    /// What the agent said in a turn.
    Said {
        turn: TurnId,
        text: String,
    },
    TurnOver(TurnId),
}

/// Whether something was taken by a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputAccepted {
    Yes,
    /// The thread has no session.
    NotRunning,
}

/// The sessions of a process, one for each thread at most. Clones are the same sessions.
#[derive(Clone, Default)]
pub(crate) struct RealtimeSessions(Arc<RealtimeInner>);

#[derive(Default)]
struct RealtimeInner {
    running: Mutex<HashMap<ThreadId, RunningSession>>,
    next: AtomicU64,
    /// Owns the sessions' tasks.
    tasks: TaskTracker,
}

struct RunningSession {
    /// Tells a session from one that took its place.
    number: u64,
    inputs: mpsc::Sender<RealtimeInput>,
    stop: CancellationToken,
}

impl RealtimeSessions {
    /// Opens a session. One that the thread has already ends.
    fn start(&self, voice: ThreadVoice, params: ThreadRealtimeStartParams, origin: TurnOrigin) {
        let (inputs, waiting) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let running = RunningSession { number, inputs, stop: stop.clone() };
        let (sessions, id) = (self.clone(), voice.thread.id().clone());
        if let Some(before) = self.lock().insert(id.clone(), running) {
            before.stop.cancel();
        }
        let session = RealtimeSession::new(voice, params, origin, waiting, stop);
        self.0.tasks.spawn(async move {
            session.run(|| sessions.forget(&id, number)).await;
        });
    }

    /// Sends something to the voice model. Sound that nobody has time for is dropped, as it would be out of
    /// date; text that cannot wait is refused.
    pub fn append(&self, thread: &ThreadId, input: RealtimeInput) -> Result<InputAccepted, ThreadError> {
        let Some(inputs) = self.lock().get(thread).map(|running| running.inputs.clone()) else {
            return Ok(InputAccepted::NotRunning);
        };
        match inputs.try_send(input) {
            Ok(()) => Ok(InputAccepted::Yes),
            Err(mpsc::error::TrySendError::Full(RealtimeInput::Text(_))) => Err(ThreadError::Busy),
            Err(mpsc::error::TrySendError::Full(_)) => {
                tracing::warn!(%thread, "sound was dropped: the provider takes it too slowly");
                Ok(InputAccepted::Yes)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Ok(InputAccepted::NotRunning),
        }
    }

    /// An item of a turn is complete; a session may be waiting for what the agent says.
    pub fn item_completed(&self, thread: &ThreadId, turn: &TurnId, item: &ThreadItem) {
        let ThreadItem::AgentMessage { text, .. } = item else { return };
        if !text.is_empty() {
            // A session that is full or gone will not say it.
            let _ = self.append(thread, RealtimeInput::Said { turn: turn.clone(), text: text.clone() });
        }
    }

    /// A turn has ended; a session may be waiting for it.
    pub fn turn_completed(&self, thread: &ThreadId, turn: &TurnId) {
        let _ = self.append(thread, RealtimeInput::TurnOver(turn.clone()));
    }

    /// Ends a session; one that says so itself, or that nobody opened, is told as ended all the same.
    pub fn stop(&self, world: &EngineContext, thread: &ThreadId) {
        match self.lock().remove(thread) {
            Some(running) => running.stop.cancel(),
            None => say_closed(world, thread, "requested"),
        }
    }

    /// Ends a session with its thread.
    pub fn end(&self, thread: &ThreadId) {
        if let Some(running) = self.lock().remove(thread) {
            running.stop.cancel();
        }
    }

    /// Ends all sessions and waits for them.
    pub async fn end_all(&self) {
        self.lock().drain().for_each(|(_, running)| running.stop.cancel());
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// A session is over by itself. What took its place stays.
    fn forget(&self, thread: &ThreadId, number: u64) {
        let mut running = self.lock();
        if running.get(thread).is_some_and(|running| running.number == number) {
            running.remove(thread);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, RunningSession>> {
        self.0.running.lock()
    }
}

impl Threads {
    /// The voice of a loaded thread, if its configuration gives it one.
    pub async fn voice(&self, thread: &ThreadId) -> Result<ThreadVoice, ThreadError> {
        let handle = self.get(thread)?;
        let setup = handle.setup().await?;
        match setup.config.features.enabled(Feature::RealtimeConversation) {
            true => Ok(ThreadVoice { world: self.world().clone(), thread: handle, setup }),
            false => Err(ThreadError::NoRealtime(thread.clone())),
        }
    }
}

/// A thread that may have a voice session.
pub struct ThreadVoice {
    world: Arc<EngineContext>,
    thread: ThreadHandle,
    setup: ThreadSetup,
}

impl ThreadVoice {
    /// Opens a session. What comes of it is told to the thread's subscribers.
    pub fn start(self, params: ThreadRealtimeStartParams, origin: TurnOrigin) {
        self.world.realtime.clone().start(self, params, origin);
    }

    pub fn append_audio(&self, audio: ThreadRealtimeAudioChunk) -> Result<InputAccepted, ThreadError> {
        self.world.realtime.append(self.thread.id(), RealtimeInput::Audio(audio))
    }

    pub fn append_text(&self, text: String) -> Result<InputAccepted, ThreadError> {
        self.world.realtime.append(self.thread.id(), RealtimeInput::Text(text))
    }

    /// Tells the thread's subscribers that there was no session to append to.
    pub fn complain(&self) {
        self.thread.report_error(TurnError {
            message: "conversation is not running".to_owned(),
            codex_error_info: Some(CodexErrorInfo::BadRequest),
            additional_details: None,
        });
    }

    fn provider(&self) -> Result<ProviderConfig, ModelError> {
        provider_config(&self.setup.settings.provider, &self.setup.config)
    }

    /// Closes the session; harmless without one.
    pub fn stop(&self) {
        self.world.realtime.stop(&self.world, self.thread.id());
    }
}

fn say_closed(world: &EngineContext, thread: &ThreadId, reason: &str) {
    let params =
        ThreadRealtimeClosedNotification { thread_id: thread.clone(), reason: Some(reason.to_owned()) };
    world.audience.notify::<ThreadRealtimeClosed>(thread, &params);
}
