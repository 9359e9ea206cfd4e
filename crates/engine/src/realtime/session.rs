//! One voice session, from the handshake to its end.

use std::time::Duration;

use codicil_model::{ModelError, RealtimeRequest, RealtimeSocket, open_realtime};
use codicil_protocol::{
    ThreadRealtimeSessionOutcome, ThreadRealtimeStartParams, TurnId, TurnStartParams, UserInput,
};
use codicil_store::{FactChange, Record, StoreError};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tokio_tungstenite::tungstenite::{Error, Message, error::ProtocolError};
use tokio_util::sync::CancellationToken;

use super::{
    RealtimeInput, ThreadVoice,
    dialect::{HandoffAnswer, VoiceSettings},
    event::{self, AgentHandoff, RealtimeEvent},
    notifier::{RealtimeForm, VoiceNotifier},
    transcript::VoiceTranscript,
};
use crate::thread::TurnOrigin;

/// Time that a provider has to read a message, and to close the connection.
const SEND_TIME: Duration = Duration::from_secs(10);
const CLOSE_TIME: Duration = Duration::from_secs(1);

pub(super) struct RealtimeSession {
    voice: ThreadVoice,
    settings: VoiceSettings,
    /// The provider's id for the session.
    id: String,
    prompt: String,
    origin: TurnOrigin,
    inputs: mpsc::Receiver<RealtimeInput>,
    stop: CancellationToken,
    transcript: VoiceTranscript,
    handoff: Option<ActiveHandoff>,
    notifier: VoiceNotifier,
}

/// A turn that the voice model waits for.
struct ActiveHandoff {
    id: String,
    turn: TurnId,
    answer: HandoffAnswer,
}

/// How a session ended.
enum SessionEnd {
    /// The connection could not be opened. The error has been reported.
    NotStarted,
    Requested,
    Failed,
    ConnectionLost,
}

impl RealtimeSession {
    pub fn new(
        voice: ThreadVoice,
        params: ThreadRealtimeStartParams,
        (origin, form): (TurnOrigin, RealtimeForm),
        inputs: mpsc::Receiver<RealtimeInput>,
        stop: CancellationToken,
    ) -> Self {
        let thread_id = voice.thread.id().clone();
        let configured = VoiceSettings::of(&voice.setup.config);
        let settings = match form {
            RealtimeForm::Updates => configured,
            RealtimeForm::Timeline => configured.requested(&params),
        };
        let given_id = params.session_id.or(params.realtime_session_id);
        let id = given_id.unwrap_or_else(|| thread_id.to_string());
        Self {
            settings,
            notifier: VoiceNotifier::new(voice.engine.clone(), thread_id, id.clone(), form),
            id,
            prompt: params.prompt.unwrap_or_default(),
            voice,
            origin,
            inputs,
            stop,
            transcript: VoiceTranscript::default(),
            handoff: None,
        }
    }

    /// Runs the session to its end. `on_end` is called before the end is announced, so that a client can then start
    /// another session at once.
    pub async fn run(mut self, on_end: impl FnOnce()) {
        let end = self.open_and_talk().await;
        on_end();
        let (outcome, reason) = match end {
            SessionEnd::NotStarted => return,
            SessionEnd::Requested => (ThreadRealtimeSessionOutcome::Ended, "requested"),
            SessionEnd::Failed => (ThreadRealtimeSessionOutcome::Failed, "error"),
            SessionEnd::ConnectionLost => (ThreadRealtimeSessionOutcome::Ended, "transport_closed"),
        };
        self.notifier.end_entries(outcome);
        self.store_entries().await;
        self.notifier.closed(reason);
    }

    /// Stores the entries that are complete, for the timeline of the thread. An ephemeral thread has none.
    async fn store_entries(&mut self) {
        let thread = self.voice.thread.id();
        for entry in self.notifier.take_unstored() {
            let record = Record::fact(&FactChange::Realtime(entry));
            match self.voice.engine.store.append_beside(thread, record).await {
                Ok(_) | Err(StoreError::NotFound(_)) => {}
                Err(error) => tracing::warn!(%thread, "failed to store an entry of a voice session: {error}"),
            }
        }
    }

    async fn open_and_talk(&mut self) -> SessionEnd {
        let stop = self.stop.clone();
        if let Some(reason) = self.settings.contradiction() {
            self.notifier.error(reason.to_owned());
            return SessionEnd::NotStarted;
        }
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => return SessionEnd::Requested,
            opened = self.open() => opened,
        };
        let mut socket = match opened {
            Ok(socket) => socket,
            Err(error) => {
                self.notifier.error(error.to_string());
                return SessionEnd::NotStarted;
            }
        };
        self.notifier.started(self.settings.version());
        self.store_entries().await;
        let end = self.talk(&mut socket).await;
        // The connection is dropped if the provider does not answer in time.
        let _ = timeout(CLOSE_TIME, socket.close(None)).await;
        end
    }

    async fn open(&self) -> Result<RealtimeSocket, ModelError> {
        let provider = self.voice.provider()?;
        let mut headers = http::HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = http::HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        set("x-session-id", &self.id);
        set("originator", &self.origin.name);
        set("user-agent", &self.origin.user_agent);
        let request = RealtimeRequest {
            base_url: self.settings.base_url.clone(),
            query: self.settings.dialect.query(self.settings.model.as_deref()),
            headers,
        };
        let id = &self.voice.setup.settings.provider;
        let mut socket = open_realtime(id, &provider, &self.voice.engine.models, request).await?;
        let hello = self.settings.session(&self.prompt);
        send(&mut socket, &hello).await.map_err(ModelError::Disconnected)?;
        Ok(socket)
    }

    async fn talk(&mut self, socket: &mut RealtimeSocket) -> SessionEnd {
        let stop = self.stop.clone();
        loop {
            let outgoing = tokio::select! {
                biased;
                () = stop.cancelled() => return SessionEnd::Requested,
                Some(input) = self.inputs.recv() => self.on_input(input),
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => {
                        let handled = self.on_message(&text).await;
                        self.store_entries().await;
                        match handled {
                            Ok(()) => continue,
                            Err(end) => return end,
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => {
                        return SessionEnd::ConnectionLost;
                    }
                    Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => {
                        return SessionEnd::ConnectionLost;
                    }
                    // Audio arrives as text; other messages belong to the connection.
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return self.fail(error.to_string()),
                },
            };
            for message in outgoing {
                if let Err(error) = send(socket, &message).await {
                    return self.fail(error);
                }
            }
        }
    }

    /// Returns the messages to the provider for an input.
    fn on_input(&mut self, input: RealtimeInput) -> Vec<Value> {
        let dialect = self.settings.dialect;
        match input {
            RealtimeInput::Audio(chunk) => vec![dialect.audio(&chunk.data)],
            RealtimeInput::Text { text, role } => dialect.text(&text, &role),
            RealtimeInput::Speech(text) => dialect.speech(&text),
            RealtimeInput::AgentMessage { turn, text } => {
                let Some(handoff) = self.handoff.as_mut().filter(|handoff| handoff.turn == turn) else {
                    return Vec::new();
                };
                let answer = std::mem::replace(&mut handoff.answer, HandoffAnswer::More);
                dialect.handoff_output(&handoff.id, &text, answer)
            }
            RealtimeInput::TurnOver(turn) => match self.handoff.take_if(|handoff| handoff.turn == turn) {
                Some(ActiveHandoff { id, answer: HandoffAnswer::First, .. }) => {
                    dialect.handoff_without_output(&id)
                }
                _ => Vec::new(),
            },
        }
    }

    async fn on_message(&mut self, text: &str) -> Result<(), SessionEnd> {
        match event::read(text) {
            None => {}
            Some(RealtimeEvent::Audio(audio)) => self.notifier.audio(audio),
            Some(RealtimeEvent::Transcript { role, text }) => {
                self.transcript.add(role, &text);
                self.notifier.transcript_delta(role, text);
            }
            Some(RealtimeEvent::TranscriptDone { role, text }) => self.notifier.transcript_done(role, text),
            Some(RealtimeEvent::Item(item)) => self.notifier.item(item),
            Some(RealtimeEvent::Handoff(handoff)) => self.on_handoff(handoff).await,
            Some(RealtimeEvent::Failed(message)) => return Err(self.fail(message)),
        }
        Ok(())
    }

    /// Hands the conversation over to the agent, as the input of a new or of the running turn.
    async fn on_handoff(&mut self, handoff: AgentHandoff) {
        self.notifier.item(json!({
            "type": "handoff_request",
            "handoff_id": handoff.id,
            "item_id": handoff.item_id,
            "input_transcript": handoff.input_transcript,
            "active_transcript": self.transcript.entries(),
        }));
        let request = Some(handoff.input_transcript).filter(|text| !text.is_empty());
        let Some(text) = self.transcript.take_text().or(request) else { return };
        let input = vec![UserInput::Text { text, text_elements: Vec::new() }];
        match self
            .voice
            .thread
            .start_turn(TurnStartParams::new(self.voice.thread.id().clone(), input), self.origin.clone())
            .await
        {
            // Dropping the guard lets the thread announce the turn at once.
            Ok(announced) => {
                let turn = announced.answer.id;
                self.handoff = Some(ActiveHandoff { id: handoff.id, turn, answer: HandoffAnswer::First });
            }
            Err(error) => self.notifier.error(format!("the agent could not take over: {error}")),
        }
    }

    fn fail(&self, message: String) -> SessionEnd {
        self.notifier.error(message);
        SessionEnd::Failed
    }
}

async fn send(socket: &mut RealtimeSocket, message: &Value) -> Result<(), String> {
    match timeout(SEND_TIME, socket.send(Message::text(message.to_string()))).await {
        Ok(sent) => sent.map_err(|error| error.to_string()),
        Err(_) => Err("the provider takes no more messages".to_owned()),
    }
}
