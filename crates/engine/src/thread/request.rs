//! What the model is asked next: the history, and how to go on from it.

use codicil_extensions::MessageMentions;
use codicil_model::{Instructions, ModelInfo, ModelRequest, ReasoningOptions};
use codicil_protocol::{ReasoningSummary, ResponseItem, SandboxPolicy, TurnId, UserInput};

use super::{TurnKind, actor::ThreadActor};
use crate::{
    file_access::AccessSources,
    kin::SubagentOrigin,
    model_context::ModelContext,
    settings::TurnSettings,
    step::{FollowUp, NextAction},
};

/// The share of a context window that a conversation may fill; the rest is for the answer.
const USABLE_PERCENT: i64 = 95;

impl ThreadActor {
    /// Takes in what was steered and decides how the turn goes on.
    pub(super) async fn next_request(&mut self, turn: &TurnId, follow_up: FollowUp) -> NextAction {
        let Some(active) = self.active.as_mut() else { return NextAction::End };
        if active.cancel.is_cancelled() {
            return NextAction::End;
        }
        let steered = std::mem::take(&mut active.steered);
        match (active.kind, follow_up) {
            (TurnKind::Compact, _) if active.compacted => return NextAction::End,
            (TurnKind::Compact, _) => return NextAction::Compact(Box::new(self.compaction_request(turn))),
            (_, FollowUp::IfSteered) if steered.is_empty() && !active.wants_more && !active.has_news() => {
                return NextAction::End;
            }
            _ => active.wants_more = false,
        }
        // Once: what is still too long then will not get shorter by doing it again.
        let compacted = std::mem::take(&mut active.compacted);
        if !compacted && !self.is_reviewing() && self.is_too_long() {
            if let Some(active) = self.active.as_mut() {
                active.steered = steered;
            }
            return NextAction::Compact(Box::new(self.compaction_request(turn)));
        }
        self.say_first(turn).await;
        self.take_notices(turn).await;
        self.take_steered(turn, steered).await;
        if !self.is_reviewing() {
            self.say_usage_again(turn);
        }
        let request = self.request(turn);
        NextAction::Respond(Box::new(self.for_review(request)))
    }

    pub(super) fn request(&mut self, turn: &TurnId) -> ModelRequest {
        let input = self.state.history.snapshot();
        let info = self.model_info().clone();
        let settings = &self.state.settings;
        let active = self.active.as_ref();
        // People know more models than the catalogue does.
        let reasons =
            info.reasons() || self.state.config.settings.model_supports_reasoning_summaries == Some(true);
        let mut request = ModelRequest {
            model: settings.model.clone(),
            instructions: self.instructions(&info),
            input,
            tools: active.map(|active| active.offered.clone()).unwrap_or_default(),
            parallel_tool_calls: info.parallel_tool_calls,
            reasoning: reasons.then(|| self.reasoning(&info)),
            output_schema: active.and_then(|active| active.output_schema.clone()),
            verbosity: self.state.config.settings.model_verbosity.clone().or_else(|| info.verbosity.clone()),
            service_tier: settings.service_tier.clone(),
            prompt_cache_key: Some(self.state.id.to_string()),
            ..ModelRequest::default()
        };
        if let Some(active) = active {
            request.set_header("originator", &active.origin.name);
            request.set_header("user-agent", &active.origin.user_agent);
        }
        request.set_header("session_id", &self.state.id);
        request.set_header("x-client-request-id", &self.state.id);
        let sandbox = match &settings.sandbox {
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => "none",
            _ => "seccomp",
        };
        let metadata =
            serde_json::json!({ "session_id": self.state.id, "turn_id": turn, "sandbox": sandbox });
        request.set_header("x-codex-turn-metadata", &metadata.to_string());
        if SubagentOrigin::of(&self.state.source).is_some() {
            request.set_header("x-openai-subagent", "collab_spawn");
        }
        request
    }

    fn reasoning(&self, info: &ModelInfo) -> ReasoningOptions {
        let settings = &self.state.settings;
        let summary = settings.summary.clone().unwrap_or_else(|| info.default_summary.clone());
        ReasoningOptions {
            effort: settings.effort.clone().or_else(|| info.default_effort.clone()),
            summary: (summary != ReasoningSummary::None).then_some(summary),
        }
    }

    /// The standing instructions. Their tone is that of the thread's beginning: a later one is told as a
    /// message, so that what the provider has cached stays valid.
    fn instructions(&self, info: &ModelInfo) -> Instructions {
        let own =
            (self.state.base_instructions.as_deref()).or(self.state.config.settings.instructions.as_deref());
        codicil_prompts::base_instructions(info.personality, self.state.tone, own).into()
    }

    pub(super) fn model_info(&self) -> &ModelInfo {
        self.world.catalogue().look_up(&self.state.settings.model)
    }

    /// What a conversation may fill, in tokens.
    pub(super) fn context_window(&self) -> Option<i64> {
        let known = i64::from(self.model_info().context_window);
        let window = self.state.config.settings.model_context_window.unwrap_or(known);
        Some(window.saturating_mul(USABLE_PERCENT) / 100)
    }

    /// Returns the messages for what has changed since the model's last context.
    pub(super) async fn context_messages(&mut self) -> Vec<ResponseItem> {
        self.watch_skills();
        let update = self.model_context(self.state.settings.clone()).update(self.state.told.clone()).await;
        if update.snapshot.is_some() {
            self.state.told = update.snapshot;
        }
        update.messages
    }

    /// Returns the full context of a reviewer, whose history is not the thread's.
    pub(super) async fn reviewer_context(&mut self) -> Vec<ResponseItem> {
        self.watch_skills();
        self.model_context(self.tool_settings(TurnKind::Review)).update(None).await.messages
    }

    /// Returns user input as the model sees it. Blocks on files only if the input refers to any.
    pub(super) async fn user_content(&self, input: &[UserInput]) -> Vec<ResponseItem> {
        let mentions = MessageMentions::of(input);
        if !codicil_prompts::reads_files(input) && mentions.is_empty() {
            return codicil_prompts::user_message(input, &self.state.settings.cwd).into_iter().collect();
        }
        self.model_context(self.state.settings.clone()).user_messages(input.to_vec(), mentions).await
    }

    fn model_context(&self, settings: TurnSettings) -> ModelContext {
        ModelContext {
            access: AccessSources::new(&settings, &self.kit, self.kit.grants().access()),
            settings,
            config: self.state.config.clone(),
            extensions: self.world.extensions.clone(),
            home: self.world.config.home().path().to_path_buf(),
            supports_personality: self.model_info().personality,
            developer_instructions: self.state.developer_instructions.clone(),
        }
    }
}
