//! Messages in plan mode. The plan within a message is an item of its own and is streamed.
//!
//! The message item starts with its first visible character; a message that contains nothing but a plan has none.

use codicil_prompts::{PlanPiece, PlanSplitter};
use codicil_protocol::{Frame, ItemId, MessagePhase, PlanDelta, PlanDeltaNotification, ThreadItem};

use super::response::{ItemPlace, agent_message};
use crate::turn_channel::TurnEvent;

/// A message that may hold a plan.
pub(super) struct PlanMessage {
    id: ItemId,
    phase: Option<MessagePhase>,
    splitter: PlanSplitter,
    /// The message without the plan.
    text: String,
    plan: Option<String>,
    is_shown: bool,
}

impl PlanMessage {
    pub fn new(id: ItemId, phase: Option<MessagePhase>) -> Self {
        Self {
            id,
            phase,
            splitter: PlanSplitter::default(),
            text: String::new(),
            plan: None,
            is_shown: false,
        }
    }

    pub fn read(&mut self, place: &ItemPlace, delta: &str, events: &mut Vec<TurnEvent>) {
        let pieces = self.splitter.feed(delta);
        self.show(place, pieces, events);
    }

    /// Completes the plan and returns the rest of the message, if any is visible. `whole` is read first if the message
    /// arrived without deltas.
    pub fn end(mut self, place: &ItemPlace, whole: &str, events: &mut Vec<TurnEvent>) -> Option<String> {
        if self.text.is_empty() && self.plan.is_none() {
            self.read(place, whole, events);
        }
        let rest = self.splitter.finish();
        self.show(place, rest, events);
        let id = self.plan_id();
        if let Some(text) = self.plan {
            events.push(TurnEvent::Completed {
                item: Box::new(ThreadItem::Plan { id, text }),
                context: Vec::new(),
            });
        }
        self.is_shown.then_some(self.text)
    }

    /// Returns the items of an incomplete message that have started.
    pub fn cut_off(self) -> Vec<ThreadItem> {
        let plan_id = self.plan_id();
        let message = self.is_shown.then(|| agent_message(&self.id, self.text, self.phase));
        let plan = self.plan.map(|text| ThreadItem::Plan { id: plan_id, text });
        message.into_iter().chain(plan).collect()
    }

    fn show(&mut self, place: &ItemPlace, pieces: Vec<PlanPiece>, events: &mut Vec<TurnEvent>) {
        for piece in pieces {
            match piece {
                PlanPiece::Message(delta) => self.show_message(place, delta, events),
                PlanPiece::Plan(delta) => self.show_plan(place, delta, events),
            }
        }
    }

    fn show_message(&mut self, place: &ItemPlace, delta: String, events: &mut Vec<TurnEvent>) {
        self.text.push_str(&delta);
        if self.is_shown {
            events.push(place.message_delta(self.id.clone(), delta));
        } else if !self.text.trim().is_empty() {
            self.is_shown = true;
            events.push(TurnEvent::Started(Box::new(agent_message(
                &self.id,
                String::new(),
                self.phase.clone(),
            ))));
            events.push(place.message_delta(self.id.clone(), self.text.clone()));
        }
    }

    fn show_plan(&mut self, place: &ItemPlace, delta: String, events: &mut Vec<TurnEvent>) {
        let item_id = self.plan_id();
        if self.plan.is_none() {
            let item = ThreadItem::Plan { id: item_id.clone(), text: String::new() };
            events.push(TurnEvent::Started(Box::new(item)));
        }
        self.plan.get_or_insert_default().push_str(&delta);
        let params = PlanDeltaNotification {
            thread_id: place.thread.clone(),
            turn_id: place.turn.clone(),
            item_id,
            delta,
        };
        events.push(TurnEvent::Notification(Frame::notification::<PlanDelta>(&params)));
    }

    fn plan_id(&self) -> ItemId {
        ItemId::from(format!("{}-plan", self.id))
    }
}
