//! Input for a turn that is running: written when it is taken, said when the model gets to see it.

use codicil_protocol::{CodexErrorInfo, NonSteerableTurnKind, ThreadItem, TurnError, TurnId, UserInput};
use codicil_store::Record;

use super::{
    TurnKind,
    active::ActiveTurn,
    actor::ThreadActor,
    input::{check_input, context_record, stored_form, user_message},
};
use crate::error::ThreadError;

/// Messages that may wait for the model to be asked again; more are refused as overload.
const MAX_STEERED: usize = 256;

impl ThreadActor {
    pub(super) async fn on_steer(
        &mut self,
        input: Vec<UserInput>,
        expected: &TurnId,
    ) -> Result<TurnId, ThreadError> {
        if expected.is_empty() {
            return Err(ThreadError::EmptyExpectedTurn);
        }
        let active = self.active.as_ref().ok_or(ThreadError::NothingToSteer)?;
        if active.id != *expected {
            return Err(ThreadError::OtherTurn { expected: expected.clone(), found: active.id.clone() });
        }
        check_input(&input)?;
        self.steer(input).await
    }

    /// Takes input for the turn that is running.
    pub(super) async fn steer(&mut self, input: Vec<UserInput>) -> Result<TurnId, ThreadError> {
        let active = self.active.as_ref().ok_or(ThreadError::NothingToSteer)?;
        active.check_steerable()?;
        if active.steered.len() >= MAX_STEERED {
            return Err(ThreadError::Busy);
        }
        let (turn, item) = (active.id.clone(), user_message(input));
        self.store(vec![message_record(&turn, &item)]).await?;
        if let Some(active) = &mut self.active {
            active.steered.push(item);
        }
        Ok(turn)
    }

    /// Messages that arrived during the turn become part of it, here: that is where they are stored too.
    pub(super) async fn take_steered(&mut self, turn: &TurnId, messages: Vec<ThreadItem>) {
        for item in messages {
            let ThreadItem::UserMessage { content: input, .. } = &item else { continue };
            let content = self.user_content(input).await;
            let mut records: Vec<_> = content.iter().map(|item| context_record(turn, item)).collect();
            records.push(message_record(turn, &item));
            if self.keep(records).await {
                self.say_raw(turn, &content);
                self.say_item(turn, &item);
            }
            self.state.remember(content);
        }
    }
}

fn message_record(turn: &TurnId, item: &ThreadItem) -> Record {
    Record::Item { turn_id: turn.clone(), item: stored_form(item) }
}

impl ActiveTurn {
    fn check_steerable(&self) -> Result<(), ThreadError> {
        let kind = match self.kind {
            TurnKind::Regular => return Ok(()),
            TurnKind::Review => NonSteerableTurnKind::Review,
            TurnKind::Compact => NonSteerableTurnKind::Compact,
            TurnKind::Shell => return Err(ThreadError::TurnRunning),
        };
        let error = TurnError {
            message: format!("cannot steer a {} turn", self.kind.name()),
            codex_error_info: Some(CodexErrorInfo::ActiveTurnNotSteerable { turn_kind: kind }),
            additional_details: None,
        };
        Err(ThreadError::NotSteerable { kind: self.kind, error: Box::new(error) })
    }
}
