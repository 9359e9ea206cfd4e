//! Voice sessions: a websocket connection between a thread and a voice model of its provider.
//!
//! A session is a task beside its thread. It forwards audio and text in both directions, and notifies the thread's
//! subscribers of what it receives. When the voice model calls the agent, the session starts a turn and sends the agent's
//! messages back to the voice model. Those turns are stored and, in the form of 0.166, the entries of the session.
//! [`RealtimeSessions`] holds the sessions, at most one for each thread.

mod dialect;
mod event;
mod notifier;
mod session;
mod transcript;
mod voices;

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
    CodexErrorInfo, ConversationTextRole, ProtocolGeneration, ThreadId, ThreadItem, ThreadRealtimeAudioChunk,
    ThreadRealtimeClosed, ThreadRealtimeClosedNotification, ThreadRealtimeInitialItem,
    ThreadRealtimeStartParams, TurnError, TurnId,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{notifier::RealtimeForm, voices::realtime_voices};

use self::session::RealtimeSession;
use crate::{
    engine_context::{EngineContext, provider_config},
    error::ThreadError,
    thread::{ThreadHandle, ThreadSetup, TurnOrigin},
    threads::Threads,
};

/// Inputs that may wait to be sent to the provider: some seconds of audio.
const QUEUE_LENGTH: usize = 256;

/// An input of a voice session.
#[derive(Debug)]
pub(crate) enum RealtimeInput {
    Audio(ThreadRealtimeAudioChunk),
    Text {
        text: String,
        role: ConversationTextRole,
    },
    /// A text that the voice model says in its own words.
    Speech(String),
    /// An agent message of a turn.
    AgentMessage {
        turn: TurnId,
        text: String,
    },
    TurnOver(TurnId),
}

/// Whether a session has taken an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputAccepted {
    Yes,
    /// The thread has no session.
    NotRunning,
}

/// The sessions of the process, at most one for each thread. Clones share them.
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
    /// Distinguishes a session from one that replaced it.
    number: u64,
    inputs: mpsc::Sender<RealtimeInput>,
    stop: CancellationToken,
}

impl RealtimeSessions {
    /// Opens a session. It replaces the session that the thread has.
    fn start(
        &self,
        voice: ThreadVoice,
        params: ThreadRealtimeStartParams,
        origin: TurnOrigin,
        form: RealtimeForm,
    ) {
        let (inputs, waiting) = mpsc::channel(QUEUE_LENGTH);
        for ThreadRealtimeInitialItem { role, text } in params.initial_items.iter().flatten().cloned() {
            // The caller has checked that there are not too many.
            let _ = inputs.try_send(RealtimeInput::Text { text, role });
        }
        let stop = CancellationToken::new();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let running = RunningSession { number, inputs, stop: stop.clone() };
        let sessions = self.clone();
        let id = voice.thread.id().clone();
        if let Some(before) = self.lock().insert(id.clone(), running) {
            before.stop.cancel();
        }
        let session = RealtimeSession::new(voice, params, (origin, form), waiting, stop);
        self.0.tasks.spawn(async move {
            session.run(|| sessions.forget(&id, number)).await;
        });
    }

    /// Queues an input for the voice model. If the queue is full, audio is dropped and text is refused.
    pub fn append(&self, thread: &ThreadId, input: RealtimeInput) -> Result<InputAccepted, ThreadError> {
        let Some(inputs) = self.lock().get(thread).map(|running| running.inputs.clone()) else {
            return Ok(InputAccepted::NotRunning);
        };
        match inputs.try_send(input) {
            Ok(()) => Ok(InputAccepted::Yes),
            Err(mpsc::error::TrySendError::Full(RealtimeInput::Text { .. } | RealtimeInput::Speech(_))) => {
                Err(ThreadError::Busy)
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                tracing::warn!(%thread, "dropping audio: the provider reads it too slowly");
                Ok(InputAccepted::Yes)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Ok(InputAccepted::NotRunning),
        }
    }

    /// Forwards an agent message to the thread's session, which may be waiting for it.
    pub fn item_completed(&self, thread: &ThreadId, turn: &TurnId, item: &ThreadItem) {
        let ThreadItem::AgentMessage { text, .. } = item else { return };
        if !text.is_empty() {
            // A session that is full or closed misses the message.
            let _ =
                self.append(thread, RealtimeInput::AgentMessage { turn: turn.clone(), text: text.clone() });
        }
    }

    /// Notifies the thread's session, which may be waiting for the end of the turn.
    pub fn turn_completed(&self, thread: &ThreadId, turn: &TurnId) {
        let _ = self.append(thread, RealtimeInput::TurnOver(turn.clone()));
    }

    /// Ends a session on request. `thread/realtime/closed` is sent also if there is none.
    pub fn stop(&self, engine: &EngineContext, thread: &ThreadId) {
        match self.lock().remove(thread) {
            Some(running) => running.stop.cancel(),
            None => notify_closed(engine, thread, "requested"),
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

    /// Removes a session that has ended, unless another one has replaced it.
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
    /// Returns the voice of a loaded thread. Before the 0.166 generation, its configuration has to enable one.
    pub async fn voice(
        &self,
        thread: &ThreadId,
        generation: ProtocolGeneration,
    ) -> Result<ThreadVoice, ThreadError> {
        let handle = self.get(thread)?;
        let setup = handle.setup().await?;
        let needs_feature = generation == ProtocolGeneration::V118;
        if needs_feature && !setup.config.features.enabled(Feature::RealtimeConversation) {
            return Err(ThreadError::NoRealtime(thread.clone()));
        }
        Ok(ThreadVoice { engine: self.engine().clone(), thread: handle, setup })
    }
}

/// A thread that may have a voice session.
pub struct ThreadVoice {
    engine: Arc<EngineContext>,
    thread: ThreadHandle,
    setup: ThreadSetup,
}

impl ThreadVoice {
    /// Opens a session. Its results are notifications to the thread's subscribers.
    pub fn start(self, params: ThreadRealtimeStartParams, origin: TurnOrigin, form: RealtimeForm) {
        self.engine.realtime.clone().start(self, params, origin, form);
    }

    pub fn append_audio(&self, audio: ThreadRealtimeAudioChunk) -> Result<InputAccepted, ThreadError> {
        self.engine.realtime.append(self.thread.id(), RealtimeInput::Audio(audio))
    }

    pub fn append_text(
        &self,
        text: String,
        role: ConversationTextRole,
    ) -> Result<InputAccepted, ThreadError> {
        self.engine.realtime.append(self.thread.id(), RealtimeInput::Text { text, role })
    }

    /// Has the voice model say a text.
    pub fn append_speech(&self, text: String) -> Result<InputAccepted, ThreadError> {
        self.engine.realtime.append(self.thread.id(), RealtimeInput::Speech(text))
    }

    /// Reports to the thread's subscribers that there is no session.
    pub fn complain(&self) {
        self.thread.report_error(TurnError {
            message: "conversation is not running".to_owned(),
            codex_error_info: Some(CodexErrorInfo::BadRequest),
            additional_details: None,
            misalignment: None,
        });
    }

    fn provider(&self) -> Result<ProviderConfig, ModelError> {
        provider_config(&self.setup.settings.provider, &self.setup.config)
    }

    /// Closes the session, if there is one.
    pub fn stop(&self) {
        self.engine.realtime.stop(&self.engine, self.thread.id());
    }
}

fn notify_closed(engine: &EngineContext, thread: &ThreadId, reason: &str) {
    let params =
        ThreadRealtimeClosedNotification { thread_id: thread.clone(), reason: Some(reason.to_owned()) };
    engine.clients.notify::<ThreadRealtimeClosed>(thread, &params);
}
