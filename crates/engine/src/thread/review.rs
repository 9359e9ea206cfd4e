//! Reviews: a turn whose model sees nothing but its task, and whose answer becomes part of the thread.

use codicil_model::{History, ModelRequest};
use codicil_prompts::{
    NO_REVIEW, REVIEW_CUT_SHORT, REVIEW_INSTRUCTIONS, ReviewEnd, ReviewOutput, assistant_message,
    review_label, review_prompt, user_action_review_message, user_text_message,
};
use codicil_protocol::{ReviewTarget, ThreadItem, Turn, TurnId, TurnStatus, UserInput};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active::ActiveTurn,
    actor::{ThreadActor, answer},
    input::{context_record, user_message},
    say::in_progress,
    turns::NewTurn,
};
use crate::{
    error::ThreadError,
    git,
    ids::{new_item_id, new_turn_id},
};

/// Refuses a review target that names nothing, before anything is done about it.
pub fn check_review_target(target: &ReviewTarget) -> Result<(), ThreadError> {
    Ok(codicil_prompts::check_review_target(target)?)
}

/// What only a review has.
pub(super) struct ActiveReview {
    pub label: String,
    /// What the reviewer sees: its own conversation, not the thread's.
    pub history: History,
    /// The last thing the reviewer said.
    pub answer: Option<String>,
}

impl ThreadActor {
    pub(super) async fn on_review(
        &mut self,
        target: ReviewTarget,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        match self.begin_review(&target, origin).await {
            Ok((id, label, items)) => {
                let named =
                    ThreadItem::UserMessage { id: (&id[..]).into(), content: vec![text_input(label)] };
                self.accept(reply, Turn { items: vec![named], ..in_progress(id.clone()) }).await;
                let [entered, prompt] = items;
                self.say_item(&id, &entered);
                self.announce_turn(&id);
                self.say_item(&id, &prompt);
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    async fn begin_review(
        &mut self,
        target: &ReviewTarget,
        origin: TurnOrigin,
    ) -> Result<(TurnId, String, [ThreadItem; 2]), ThreadError> {
        check_review_target(target)?;
        let provider = self.provider()?;
        // It takes the place of whatever is running.
        self.end_active_turn().await;
        let id = new_turn_id();
        let label = review_label(target);
        // Without it, the reviewer finds out by itself where the work left the base branch.
        let merge_base = match target {
            ReviewTarget::BaseBranch { branch } => git::merge_base(&self.state.settings.cwd, branch).await,
            _ => None,
        };
        let task = review_prompt(target, merge_base.as_deref());
        let entered = ThreadItem::EnteredReviewMode { id: new_item_id(), review: label.clone() };
        let prompt = user_message(vec![text_input(task.clone())]);
        let mut records = vec![Record::Turn { turn_id: id.clone() }];
        records.extend(self.state.settings_record());
        records.extend(self.git_record().await);
        records
            .extend([&entered, &prompt].map(|item| Record::Item { turn_id: id.clone(), item: item.clone() }));
        self.store(records).await?;
        self.state.note_preview(&prompt);
        let context = self.reviewer_context().await;
        let mut active = self.launch(NewTurn::new(id.clone(), TurnKind::Review, provider, origin));
        let history = context.into_iter().chain([user_text_message(task)]).collect();
        active.review = Some(ActiveReview { label: label.clone(), history, answer: None });
        self.active = Some(active);
        Ok((id, label, [entered, prompt]))
    }

    /// The same request, about the review's own conversation.
    pub(super) fn for_review(&mut self, mut request: ModelRequest) -> ModelRequest {
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

    /// The end of a review: what it found is an item, a message, and known to the thread's model.
    pub(super) async fn finish_review(&mut self, active: &mut ActiveTurn, status: &TurnStatus) {
        let Some(review) = active.review.take() else { return };
        let (found, text) = match (&review.answer, status) {
            (Some(answer), _) => {
                let text = ReviewOutput::parse(answer).text();
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
        };
        let end = match status {
            TurnStatus::Interrupted => ReviewEnd::Interrupted,
            _ => ReviewEnd::Finished,
        };
        let told = [user_action_review_message(&review.label, end), assistant_message(text.as_str())];
        let mut records: Vec<_> = told.iter().map(|item| context_record(&active.id, item)).collect();
        records.extend(
            [&exited, &message].map(|item| Record::Item { turn_id: active.id.clone(), item: item.clone() }),
        );
        if let Err(error) = self.store(records).await {
            tracing::error!(thread = %self.state.id, "a review could not be stored: {error}");
            return;
        }
        self.state.remember(told);
        self.say_item(&active.id, &exited);
        self.say_item(&active.id, &message);
    }
}

fn text_input(text: String) -> UserInput {
    UserInput::Text { text, text_elements: Vec::new() }
}
