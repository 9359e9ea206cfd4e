//! Storing the records of a thread: what cannot be stored now waits for the next append, and a thread that another process
//! has extended is loaded again where that is possible.

use codicil_protocol::{MessageSeq, TurnId};
use codicil_store::{Record, StoreError};
use jiff::Timestamp;

use super::{actor::ThreadActor, other_writers::MAX_RELOADS};
use crate::error::ThreadError;

impl ThreadActor {
    /// Returns the record of a new turn. It names the run of this process, whose lock is held from now on.
    pub(super) async fn turn_record(&mut self, turn: &TurnId) -> Result<Record, ThreadError> {
        self.state.mark_loaded(&self.engine.store).await;
        let run = if self.state.log.is_some() { self.engine.store.begin_run().await? } else { None };
        Ok(Record::Turn { turn_id: turn.clone(), run })
    }

    /// Stores records, after those that could not be stored before. If that fails, the new ones are dropped. An idle thread
    /// that was overtaken by another process is loaded again first.
    pub(super) async fn store(&mut self, mut records: Vec<Record>) -> Result<(), ThreadError> {
        let is_idle = self.is_idle();
        let extends = records.iter().any(Record::extends_conversation);
        if is_idle && extends {
            self.claim_conversation().await?;
        }
        for _ in 0..MAX_RELOADS {
            let late = self.late_records.len();
            let stored = self.store_or_keep(records).await;
            let Err(error) = stored else { return Ok(()) };
            records = self.late_records.split_off(late.min(self.late_records.len()));
            match error {
                error if error.is_conflict() => self.check_key_again().await?,
                error if !error.is_overtaken() || !is_idle => return Err(error),
                _ if extends => self.catch_up().await?,
                _ => self.take_newer_records().await?,
            }
        }
        Err(ThreadError::Busy)
    }

    /// Stores records that depend on the state of the thread, like [`store`](Self::store). If the thread was overtaken, or
    /// another process has written what they depend on, the caller catches up and makes them again.
    pub(super) async fn store_once(&mut self, records: Vec<Record>) -> Result<(), ThreadError> {
        let late = self.late_records.len();
        let stored = self.store_or_keep(records).await;
        if stored.is_err() {
            self.late_records.truncate(late);
        }
        stored
    }

    /// Stores records of what has happened already. If that fails, on a full disk or because another process has
    /// locked the file, they are stored with the next ones.
    pub(super) async fn store_or_keep(&mut self, records: Vec<Record>) -> Result<(), ThreadError> {
        let begun = records.iter().rev().find_map(|record| match record {
            Record::Turn { turn_id, .. } => Some(turn_id.clone()),
            _ => None,
        });
        let added = records.len() as u64;
        let was_late = !self.late_records.is_empty();
        self.late_records.extend(records);
        let records = std::mem::take(&mut self.late_records);
        if let Err(error) = self.append(&records).await {
            self.late_records = records;
            if error.is_overtaken() && !self.is_idle() {
                self.abandon_turn();
            }
            return Err(error);
        }
        if was_late {
            self.skip_late_messages(MessageSeq::durable((self.last_ordinal() + 1).saturating_sub(added), 0));
        }
        self.note_keys(&records);
        self.state.is_untouched_fork &= begun.is_none();
        self.state.last_turn = begun.or(self.state.last_turn.take());
        Ok(())
    }

    /// Tries again to store records of what has happened already.
    pub(super) async fn on_store_retry(&mut self) {
        if self.store_or_keep(Vec::new()).await.is_ok() {
            self.sync_later();
            tracing::info!(thread = %self.state.id, "stored the records that could not be stored before");
        }
    }

    /// Returns the ordinal of the last record.
    pub(super) fn last_ordinal(&self) -> u64 {
        let next = self.state.log.as_ref().map_or(self.next_ephemeral, |log| log.next_ordinal());
        next.saturating_sub(1)
    }

    /// Appends records to the thread's file, and takes over what other processes have written besides the conversation. The
    /// messages of the records wait to be sent.
    pub(super) async fn append(&mut self, records: &[Record]) -> Result<(), ThreadError> {
        let mut at = Timestamp::now();
        let mut first = self.next_ephemeral;
        match &mut self.state.log {
            Some(log) => {
                let appended = match log.append(records).await {
                    Err(StoreError::Conflict { thread, adopted }) => {
                        self.state.adopt(adopted);
                        return Err(StoreError::Conflict { thread, adopted: Vec::new() }.into());
                    }
                    appended => appended?,
                };
                at = appended.at;
                first = appended.ordinals.start;
                self.state.adopt(appended.adopted);
            }
            None => self.next_ephemeral += records.len() as u64,
        }
        for (ordinal, record) in (first..).zip(records) {
            self.state.facts.note(ordinal, record);
            self.unsent.add(ordinal, at, record);
        }
        Ok(())
    }
}
