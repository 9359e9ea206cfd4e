//! Requests to the running turn: `turn/steer`, a `turn/start` that joins it, and `turn/interrupt`.

use codicil_protocol::{ProtocolGeneration, ThreadItem, Turn, TurnId, TurnStartParams, TurnSteerParams};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply,
    actor::{ThreadActor, answer},
    input::{RequestInput, SteeredInput, context_record, message_record},
    turn_count::InterruptCause,
};
use crate::error::{ThreadError, TurnInputError};

/// Steered messages that may wait for the next request; more are refused as overload.
const MAX_STEERED: usize = 256;

impl ThreadActor {
    /// Adds input to the running turn. In the 0.166 generation, the response that is being received ends with that.
    pub(super) async fn on_steer(
        &mut self,
        params: TurnSteerParams,
        generation: ProtocolGeneration,
    ) -> Result<TurnId, ThreadError> {
        let expected = &params.expected_turn_id;
        if expected.is_empty() {
            return Err(TurnInputError::EmptyExpectedTurn.into());
        }
        self.check_running_here().await?;
        let active = self.active.as_ref().ok_or(TurnInputError::NothingToSteer)?;
        if active.id != *expected {
            let found = active.id.clone();
            return Err(TurnInputError::OtherTurn { expected: expected.clone(), found }.into());
        }
        let input = RequestInput::from(params);
        input.check(|| self.dialect())?;
        let turn = self.steerable_turn()?;
        let records = self.key_records(&turn)?;
        self.steer(turn.clone(), input, records).await?;
        if let Some(active) = self.active.as_ref().filter(|_| generation == ProtocolGeneration::V166) {
            active.end_response.send_modify(|count| *count += 1);
        }
        Ok(turn)
    }

    pub(super) async fn steer_with_settings(
        &mut self,
        input: RequestInput,
        params: &mut TurnStartParams,
    ) -> Result<Turn, ThreadError> {
        let turn = Turn::in_progress(self.steerable_turn()?);
        let before = self.state.restore_point();
        let settings_record = self.change_later(params);
        let mut records: Vec<_> = settings_record.into_iter().collect();
        records.extend(self.key_records(&turn)?);
        if let Err(error) = self.steer(turn.id.clone(), input, records).await {
            self.state.restore(before);
            return Err(error);
        }
        Ok(turn)
    }

    /// Returns the running turn, if it takes input.
    fn steerable_turn(&self) -> Result<TurnId, ThreadError> {
        let active = self.active.as_ref().ok_or(TurnInputError::NothingToSteer)?;
        active.check_steerable()?;
        if active.steered.len() >= MAX_STEERED {
            return Err(ThreadError::Busy);
        }
        Ok(active.id.clone())
    }

    /// Stores input for the running turn, with further records of the request. Clients see it as an item when the next
    /// request contains it.
    async fn steer(
        &mut self,
        turn: TurnId,
        input: RequestInput,
        mut records: Vec<Record>,
    ) -> Result<(), ThreadError> {
        let context = input.new_context(&self.state.history, &mut self.previous_context);
        let item = input.into_item();
        let mark = item.id().map(|item| Record::queued(&turn, item));
        records.splice(0..0, mark.into_iter().chain([message_record(&turn, &item)]));
        self.store(records).await?;
        if let Some(active) = &mut self.active {
            active.steered.push(SteeredInput { item, context });
        }
        Ok(())
    }

    /// Adds steered messages to the history, here: this is also their place in the stored turn.
    pub(super) async fn take_steered(&mut self, turn: &TurnId, inputs: Vec<SteeredInput>) {
        for SteeredInput { item, context } in inputs {
            let mut content = context;
            content.extend(self.item_content(&item).await);
            if let ThreadItem::UserMessage { content: input, .. } = &item {
                content.extend(self.mentioned_apps(input).await);
            }
            let mut records: Vec<_> = content.iter().map(|item| context_record(turn, item)).collect();
            records.push(message_record(turn, &item));
            if self.store_or_fail_turn(records).await {
                self.notifier.raw_items(turn, &content);
                self.emit_item(turn, &item);
            }
            self.state.remember(content);
        }
    }

    pub(super) async fn on_interrupt(
        &mut self,
        turn: Option<TurnId>,
        reply: CommandReply<AnnouncedReply<()>>,
    ) {
        if let Err(error) = self.check_interrupt(turn).await {
            return answer(reply, Err(error));
        }
        // Before the turn ends: the end is the effect, and it follows also if this process is killed.
        if let Err(error) = self.store_key(&()).await {
            return answer(reply, Err(error));
        }
        if let Some(active) = &mut self.active {
            active.cancel.cancel();
            active.interrupt_cause = Some(InterruptCause::Client);
            active.interrupts.push(reply);
        }
    }

    async fn check_interrupt(&mut self, turn: Option<TurnId>) -> Result<(), ThreadError> {
        if turn.is_none() && self.request_key.is_some() {
            return Err(TurnInputError::InterruptWithoutTurn.into());
        }
        self.check_running_here().await?;
        let active = self.active.as_ref().ok_or(TurnInputError::NothingToInterrupt)?;
        match turn.filter(|turn| *turn != active.id) {
            Some(expected) => Err(TurnInputError::OtherTurn { expected, found: active.id.clone() }.into()),
            None => Ok(()),
        }
    }

    /// Refuses a request about the running turn if another process runs it.
    async fn check_running_here(&mut self) -> Result<(), ThreadError> {
        if self.active.is_none() { self.claim_conversation().await } else { Ok(()) }
    }
}
