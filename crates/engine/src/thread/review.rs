//! `review/start`: a turn with a history of its own, whose result becomes part of the thread's history.

use codicil_model::{History, ModelRequest};
use codicil_prompts::{
    NO_REVIEW, REVIEW_CUT_SHORT, REVIEW_INSTRUCTIONS, ReviewEnd, ReviewOutput, assistant_message,
    review_label, review_prompt, user_action_review_message, user_text_message,
};
use codicil_protocol::{ResponseItem, ReviewTarget, ThreadItem, Turn, TurnStatus, UserInput};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active_turn::ActiveTurn,
    actor::{ThreadActor, answer},
    input::{context_record, user_message},
    launch::NewTurn,
    other_writers::MAX_RELOADS,
};
use crate::{
    error::ThreadError,
    git,
    ids::{new_item_id, new_turn_id},
};

/// Refuses a review target that names nothing, before the thread does anything.
pub fn check_review_target(target: &ReviewTarget) -> Result<(), ThreadError> {
    Ok(codicil_prompts::check_review_target(target)?)
}

/// The part of an active turn that only a review has.
pub(super) struct ActiveReview {
    label: String,
    /// The reviewer's history. It starts with the task and is not stored.
    history: History,
    /// The text of the reviewer's last message.
    last_message: Option<String>,
}

impl ActiveReview {
    pub fn extend_history(&mut self, items: Vec<ResponseItem>) {
        let message = items.iter().rfind(|item| matches!(item, ResponseItem::Message { .. }));
        if let Some(message) = message {
            self.last_message = Some(codicil_prompts::message_text(message));
        }
        self.history.extend(items);
    }
}

/// A review that has been stored and is not announced yet.
struct NewReview {
    /// The turn as the response shows it.
    turn: Turn,
    entered: ThreadItem,
    prompt: ThreadItem,
}

impl ThreadActor {
    pub(super) async fn on_review(
        &mut self,
        target: ReviewTarget,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        match self.begin_review(&target, origin).await {
            Ok(NewReview { turn, entered, prompt }) => {
                let turn_id = turn.id.clone();
                self.accept(reply, turn).await;
                self.emit_item(&turn_id, &entered);
                self.announce_turn(&turn_id);
                self.emit_item(&turn_id, &prompt);
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    async fn begin_review(
        &mut self,
        target: &ReviewTarget,
        origin: TurnOrigin,
    ) -> Result<NewReview, ThreadError> {
        check_review_target(target)?;
        let provider = self.provider()?;
        // A review replaces the running turn.
        self.end_active_turn().await;
        self.claim_conversation().await?;
        let id = new_turn_id();
        let label = review_label(target);
        // Without a merge base, the reviewer looks for it.
        let merge_base = match target {
            ReviewTarget::BaseBranch { branch } => git::merge_base(&self.state.settings.cwd, branch).await,
            _ => None,
        };
        let task = review_prompt(target, merge_base.as_deref());
        let entered = ThreadItem::EnteredReviewMode { id: new_item_id(), review: label.clone() };
        let prompt = user_message(vec![text_input(task.clone())]);
        let named = ThreadItem::UserMessage {
            id: (&id[..]).into(),
            content: vec![text_input(label.clone())],
            client_id: None,
        };
        let turn = Turn { items: vec![named], ..Turn::in_progress(id.clone()) };
        self.store_review(&turn, [&entered, &prompt]).await?;
        self.state.note_preview(&prompt);
        let context = self.reviewer_context().await;
        let mut active = self.launch(NewTurn::new(id, TurnKind::Review, provider, origin));
        let history = context.into_iter().chain([user_text_message(task)]).collect();
        active.review = Some(ActiveReview { label, history, last_message: None });
        self.active = Some(active);
        Ok(NewReview { turn, entered, prompt })
    }

    /// Stores the start of a review, on the thread as it is now.
    async fn store_review(&mut self, turn: &Turn, items: [&ThreadItem; 2]) -> Result<(), ThreadError> {
        for _ in 0..MAX_RELOADS {
            let before = self.state.restore_point();
            let [entered, prompt] =
                items.map(|item| Record::Item { turn_id: turn.id.clone(), item: item.clone() });
            // In the order in which clients see them.
            let mut records = vec![entered, self.turn_record(&turn.id).await?];
            records.extend(self.state.settings_record());
            records.extend(self.git_record().await);
            records.push(prompt);
            records.extend(self.key_records(turn)?);
            match self.store_once(records).await {
                Ok(()) => return Ok(()),
                Err(error) => self.restore_or_catch_up(before, error).await?,
            }
        }
        Err(ThreadError::Busy)
    }

    /// Makes a request of a review one about the reviewer's history. Other requests stay as they are.
    pub(super) fn adapt_for_review(&mut self, mut request: ModelRequest) -> ModelRequest {
        if let Some(review) = self.active.as_mut().and_then(|active| active.review.as_mut()) {
            request.input = review.history.snapshot();
            request.instructions = REVIEW_INSTRUCTIONS.into();
            if let Some(model) = &self.state.config.settings.review_model {
                request.model.clone_from(model);
            }
            request.set_header("x-openai-subagent", "review");
        }
        request
    }

    /// Adds the result of a review to the thread: as items, and to the model's history.
    pub(super) async fn finish_review(&mut self, active: &mut ActiveTurn, status: &TurnStatus) {
        let Some(review) = active.review.take() else { return };
        let (found, text) = match (&review.last_message, status) {
            (Some(message), _) => {
                let text = ReviewOutput::parse(message).text();
                (text.clone(), text)
            }
            (None, TurnStatus::Completed) => (NO_REVIEW.to_owned(), NO_REVIEW.to_owned()),
            (None, _) => (NO_REVIEW.to_owned(), REVIEW_CUT_SHORT.to_owned()),
        };
        let exited = ThreadItem::ExitedReviewMode { id: new_item_id(), review: found };
        let message = ThreadItem::AgentMessage {
            id: new_item_id(),
            text: text.clone(),
            phase: None,
            memory_citation: None,
            delivery: None,
            questions: None,
        };
        let end = match status {
            TurnStatus::Interrupted => ReviewEnd::Interrupted,
            _ => ReviewEnd::Finished,
        };
        let messages = [user_action_review_message(&review.label, end), assistant_message(text.as_str())];
        let mut records: Vec<_> = messages.iter().map(|item| context_record(&active.id, item)).collect();
        records.extend(
            [&exited, &message].map(|item| Record::Item { turn_id: active.id.clone(), item: item.clone() }),
        );
        if let Err(error) = self.store(records).await {
            tracing::error!(thread = %self.state.id, "failed to store the result of a review: {error}");
            return;
        }
        self.state.remember(messages);
        self.emit_item(&active.id, &exited);
        self.emit_item(&active.id, &message);
    }
}

fn text_input(text: String) -> UserInput {
    UserInput::Text { text, text_elements: Vec::new() }
}
