//! Messages of plan mode: the plan within one is an item of its own, shown as it is written.
//!
//! The message itself begins with its first visible letter: one that is nothing but a plan is not shown.

use codicil_prompts::{PlanPiece, PlanSplitter};
use codicil_protocol::{Frame, ItemId, MessagePhase, PlanDelta, PlanDeltaNotification, ThreadItem};

use super::stream::{ItemPlace, agent_message};
use crate::step::TurnEvent;

/// A message that may hold a plan.
pub(super) struct PlanMessage {
    id: ItemId,
    phase: Option<MessagePhase>,
    splitter: PlanSplitter,
    /// What was said besides the plan.
    text: String,
    plan: Option<String>,
    is_shown: bool,
}

impl PlanMessage {
    pub fn new(id: ItemId, phase: Option<MessagePhase>) -> Self {
        let (splitter, text) = (PlanSplitter::default(), String::new());
        Self { id, phase, splitter, text, plan: None, is_shown: false }
    }

    pub fn read(&mut self, place: &ItemPlace, delta: &str, steps: &mut Vec<TurnEvent>) {
        let pieces = self.splitter.feed(delta);
        self.show(place, pieces, steps);
    }

    /// Completes the plan before its message and returns the message without it, if there is more to it. What came
    /// as a whole has not been read yet.
    pub fn end(mut self, place: &ItemPlace, whole: &str, steps: &mut Vec<TurnEvent>) -> Option<String> {
        if self.text.is_empty() && self.plan.is_none() {
            self.read(place, whole, steps);
        }
        let rest = self.splitter.finish();
        self.show(place, rest, steps);
        let id = self.plan_id();
        if let Some(text) = self.plan {
            steps.push(TurnEvent::Completed { item: ThreadItem::Plan { id, text }, context: Vec::new() });
        }
        self.is_shown.then_some(self.text)
    }

    /// The message as far as it came; `None` for one that nobody has seen.
    pub fn cut_off(self) -> Option<ThreadItem> {
        self.is_shown.then(|| agent_message(&self.id, self.text, self.phase))
    }

    fn show(&mut self, place: &ItemPlace, pieces: Vec<PlanPiece>, steps: &mut Vec<TurnEvent>) {
        for piece in pieces {
            match piece {
                PlanPiece::Message(delta) => self.show_message(place, delta, steps),
                PlanPiece::Plan(delta) => self.show_plan(place, delta, steps),
            }
        }
    }

    fn show_message(&mut self, place: &ItemPlace, delta: String, steps: &mut Vec<TurnEvent>) {
        self.text.push_str(&delta);
        if self.is_shown {
            steps.push(place.message_delta(self.id.clone(), delta));
        } else if !self.text.trim().is_empty() {
            self.is_shown = true;
            steps.push(TurnEvent::Started(agent_message(&self.id, String::new(), self.phase.clone())));
            steps.push(place.message_delta(self.id.clone(), self.text.clone()));
        }
    }

    fn show_plan(&mut self, place: &ItemPlace, delta: String, steps: &mut Vec<TurnEvent>) {
        let item_id = self.plan_id();
        if self.plan.is_none() {
            let item = ThreadItem::Plan { id: item_id.clone(), text: String::new() };
            steps.push(TurnEvent::Started(item));
        }
        self.plan.get_or_insert_default().push_str(&delta);
        let (thread_id, turn_id) = (place.thread.clone(), place.turn.clone());
        let params = PlanDeltaNotification { thread_id, turn_id, item_id, delta };
        steps.push(TurnEvent::Told(Frame::notification::<PlanDelta>(&params)));
    }

    fn plan_id(&self) -> ItemId {
        ItemId::from(format!("{}-plan", self.id))
    }
}
