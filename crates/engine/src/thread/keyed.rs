//! Requests with keys: the key is stored with the effect, and a repetition gets the first result.
//!
//! A thread handles one command at a time, so a repetition is looked up only after the first request has stored its effect.
//! The table of keys is read with the first key; a thread without keys holds nothing.

use codicil_protocol::{Thread, TurnId};
use codicil_store::{Record, StoredKey, StoredTurn};
use codicil_telemetry::TracePosition;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    AnnouncedReply, AnswerOutcome, CommandReply, PostedCommand, ThreadCommand,
    actor::{ThreadActor, answer},
};
use crate::{
    clock::unix_now,
    error::ThreadError,
    request_key::{KeyStorage, KeyTable, RequestKey, find_key},
};

impl ThreadActor {
    /// Handles a command, or answers it if its key is known.
    pub(super) async fn on_posted(&mut self, posted: PostedCommand) {
        let PostedCommand { command, key, trace } = posted;
        self.request_trace = trace;
        match key {
            None => self.on_command(command).await,
            Some(key) => match self.find_key(&key).await.transpose() {
                Some(known) => self.replay(command, &key, known).await,
                None => {
                    self.request_key = Some(key);
                    self.on_command(command).await;
                    self.request_key = None;
                }
            },
        }
        self.request_trace = TracePosition::default();
    }

    /// Returns the records of the keys of the current request, for the append that has its effect.
    pub(super) fn key_records(&self, result: &impl Serialize) -> Result<Vec<Record>, ThreadError> {
        self.request_key.as_ref().map_or(Ok(Vec::new()), |key| key.records(result))
    }

    /// Refuses to carry out the current request after records of another server were loaded that have its key. The client
    /// repeats the request and gets their result.
    pub(super) async fn check_key_again(&mut self) -> Result<(), ThreadError> {
        let Some(key) = self.request_key.clone() else { return Ok(()) };
        self.state.keys = None;
        match self.find_key(&key).await? {
            Some(_) => Err(ThreadError::Busy),
            None => Ok(()),
        }
    }

    /// Stores the key of the current request alone, for a request whose effect is not in the thread's file.
    pub(super) async fn store_key(&mut self, result: &impl Serialize) -> Result<(), ThreadError> {
        if self.request_key.is_none() {
            return Ok(());
        }
        self.store(self.key_records(result)?).await
    }

    /// Adds the keys of records that were stored to the table, if there is one.
    pub(super) fn note_keys<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        let (storage, table) = match &self.state.log {
            // The table is read from the file when a key is looked up.
            Some(_) => (KeyStorage::File, self.state.keys.as_mut()),
            None => (KeyStorage::Memory, Some(self.state.keys.get_or_insert_default())),
        };
        let Some(table) = table else { return };
        for record in records.into_iter().filter_map(Record::as_key) {
            table.insert(record, unix_now(), storage);
        }
    }

    async fn find_key(&mut self, key: &RequestKey) -> Result<Option<StoredKey>, ThreadError> {
        let Some(log) = &self.state.log else {
            return Ok(self.state.keys.as_ref().and_then(|table| table.kept(key)));
        };
        // Another server may have carried out the request.
        if !log.is_current().await {
            self.state.keys = None;
        }
        let is_new = self.state.keys.as_ref().is_some_and(|table| !table.contains(key));
        if is_new {
            return Ok(None);
        }
        let stored = self.engine.store.keys(&self.state.id).await?;
        let found = find_key(&stored, key).cloned();
        self.state.keys.get_or_insert_with(|| KeyTable::read(stored));
        Ok(found)
    }

    async fn replay(
        &mut self,
        command: ThreadCommand,
        key: &RequestKey,
        known: Result<StoredKey, ThreadError>,
    ) {
        match command {
            ThreadCommand::StartTurn(_, _, reply) | ThreadCommand::Review(_, _, reply) => {
                replay_announced(reply, key, known)
            }
            ThreadCommand::Steer(_, _, reply) => replay_answer(reply, key, known),
            ThreadCommand::Interrupt(turn, reply) => self.replay_interrupt(turn, reply, key, known),
            ThreadCommand::Compact(_, reply) | ThreadCommand::Shell(_, reply) => {
                replay_announced(reply, key, known)
            }
            ThreadCommand::Rollback(_, reply) => {
                let thread = self.replay_rollback(key, known).await;
                answer(reply, thread.map(|thread| AnnouncedReply::new(thread).0));
            }
            ThreadCommand::Revert(_, reply) => replay_announced(reply, key, known),
            ThreadCommand::Inject(_, reply) | ThreadCommand::SetName(_, reply) => {
                replay_answer(reply, key, known)
            }
            ThreadCommand::UpdateSettings(_, reply) => replay_answer(reply, key, known),
            ThreadCommand::SetGoal(_, _, reply) => replay_announced(reply, key, known),
            ThreadCommand::ClearGoal(reply) => replay_answer(reply, key, known),
            ThreadCommand::QueueAdd(_, _, reply) => replay_announced(reply, key, known),
            ThreadCommand::QueueUpdate(_, reply) => replay_answer(reply, key, known),
            ThreadCommand::QueueDelete(_, reply) => replay_answer(reply, key, known),
            ThreadCommand::QueueReorder(_, reply) => replay_answer(reply, key, known),
            ThreadCommand::QueueStart(_, _, reply) => replay_announced(reply, key, known),
            // Only an answer that was accepted has stored its key.
            ThreadCommand::AnswerRequest(_, _, reply) => {
                let replayed = known.and_then(|known| key.replay::<()>(&known));
                answer(reply, replayed.map(|()| Some(AnswerOutcome::Accepted)));
            }
            // Commands that change nothing.
            other => self.on_command(other).await,
        }
    }

    /// The interrupted turn may still be about to end; the repetition waits for that like the first request.
    fn replay_interrupt(
        &mut self,
        turn: Option<TurnId>,
        reply: CommandReply<AnnouncedReply<()>>,
        key: &RequestKey,
        known: Result<StoredKey, ThreadError>,
    ) {
        match known.and_then(|known| key.replay(&known)) {
            Ok(()) => match self.active.as_mut().filter(|active| turn.as_ref() == Some(&active.id)) {
                Some(active) => {
                    active.cancel.cancel();
                    active.interrupts.push(reply);
                }
                None => answer(reply, Ok(AnnouncedReply::new(()).0)),
            },
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// The turns of the result are not stored twice: they are those before the key in the thread's file.
    async fn replay_rollback(
        &self,
        key: &RequestKey,
        known: Result<StoredKey, ThreadError>,
    ) -> Result<Thread, ThreadError> {
        let known = known?;
        let thread: Thread = key.replay(&known)?;
        let turns = self.engine.store.turns_after(&self.state.id, known.ordinal).await?;
        Ok(Thread { turns: turns.iter().map(StoredTurn::decode).collect(), ..thread })
    }
}

fn replay_answer<T: DeserializeOwned>(
    reply: CommandReply<T>,
    key: &RequestKey,
    known: Result<StoredKey, ThreadError>,
) {
    answer(reply, known.and_then(|known| key.replay(&known)));
}

fn replay_announced<T: DeserializeOwned>(
    reply: CommandReply<AnnouncedReply<T>>,
    key: &RequestKey,
    known: Result<StoredKey, ThreadError>,
) {
    let replayed = known.and_then(|known| key.replay(&known));
    answer(reply, replayed.map(|value| AnnouncedReply::new(value).0));
}
