//! Decides how a turn goes on, and builds its next model request.

use codicil_config::Feature;
use codicil_extensions::MessageMentions;
use codicil_model::{ModelInfo, ModelRequest, SystemInstructions};
use codicil_protocol::{
    ProtocolGeneration, ReasoningEffort, ResponseItem, SandboxPolicy, ThreadItem, TurnId, UserInput,
};

use super::{
    TurnKind,
    actor::ThreadActor,
    input::{FirstInput, context_record},
};
use crate::{
    error::ThreadError,
    file_access::AccessSources,
    ids::new_turn_id,
    model_context::ModelContext,
    samples::SampleRequest,
    settings::TurnSettings,
    subagent::SubagentOrigin,
    turn_channel::{FollowUp, NextAction},
};

/// The share of the context window that the history may fill; the rest is for the response.
const USABLE_PERCENT: i64 = 95;

impl ThreadActor {
    /// Adds new input to the history and decides how the turn goes on.
    pub(super) async fn next_action(&mut self, turn: &TurnId, follow_up: FollowUp) -> NextAction {
        let Some(active) = self.active.as_mut() else { return NextAction::End };
        if active.cancel.is_cancelled() {
            return NextAction::End;
        }
        match (active.kind, follow_up) {
            (TurnKind::Compact, _) if active.was_compacted => return NextAction::End,
            (TurnKind::Compact, _) => return NextAction::Compact(Box::new(self.compaction_request(turn))),
            (_, FollowUp::IfSteered) if !active.has_unseen_input() => return NextAction::End,
            _ => active.needs_request = false,
        }
        // A history that is still too long after a compaction does not get shorter by another one.
        let was_compacted = std::mem::take(&mut active.was_compacted);
        if !was_compacted && !self.is_reviewing() && self.is_too_long() {
            return NextAction::Compact(Box::new(self.compaction_request(turn)));
        }
        self.take_first_input(turn).await;
        self.take_notices(turn).await;
        self.take_injected(turn);
        let steered = self.active.as_mut().map(|active| std::mem::take(&mut active.steered));
        self.take_steered(turn, steered.unwrap_or_default()).await;
        if !self.is_reviewing() {
            self.repeat_token_usage(turn);
        }
        let request = self.request(turn);
        NextAction::Respond(Box::new(self.adapt_for_review(request)))
    }

    /// Adds the turn's input to the history and announces it.
    async fn take_first_input(&mut self, turn: &TurnId) {
        let Some(first) = self.active.as_mut().and_then(|active| active.first.take()) else { return };
        let FirstInput { item, context, mut content, mut unstored, .. } = first;
        if let Some(ThreadItem::UserMessage { content: input, .. }) = &item {
            let apps = self.mentioned_apps(input).await;
            unstored.extend(apps.iter().map(|item| context_record(turn, item)));
            content.extend(apps);
        }
        if !self.store_or_fail_turn(unstored).await {
            return;
        }
        self.notifier.raw_items(turn, &context);
        self.notifier.raw_items(turn, &content);
        self.state.remember(content);
        if let Some(item) = &item {
            self.emit_item(turn, item);
        }
    }

    /// Announces the token usage again if a client has joined since.
    fn repeat_token_usage(&mut self, turn: &TurnId) {
        if std::mem::take(&mut self.state.is_usage_unsent) {
            // Clients of the 0.166 generation have it with the response that loaded the thread.
            self.notifier.unchanged_usage(turn, &self.state.usage, ProtocolGeneration::V118);
        }
    }

    pub(super) fn request(&mut self, turn: &TurnId) -> ModelRequest {
        let input = self.state.history.snapshot();
        let info = self.model_info().clone();
        let settings = &self.state.settings;
        let active = self.active.as_ref();
        let support = self.model_support();
        let mut request = ModelRequest {
            model: settings.model.clone(),
            instructions: self.instructions(),
            input,
            tools: active.map(|active| active.offered.clone()).unwrap_or_default(),
            parallel_tool_calls: info.parallel_tool_calls,
            reasoning: support.reasoning(settings),
            output_schema: active.and_then(|active| active.output_schema.clone()),
            verbosity: self.state.config.settings.model_verbosity.clone().or_else(|| info.verbosity.clone()),
            service_tier: support
                .service_tier(settings, active.and_then(|active| active.service_tier.as_ref())),
            may_compress: self.state.config.features.enabled(Feature::EnableRequestCompression),
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
        let mut metadata =
            serde_json::json!({ "session_id": self.state.id, "turn_id": turn, "sandbox": sandbox });
        if let (Some(name), Some(members)) = (&self.state.service_name, metadata.as_object_mut()) {
            members.insert("service_name".to_owned(), name.as_str().into());
        }
        request.set_header("x-codex-turn-metadata", &metadata.to_string());
        if SubagentOrigin::of(&self.state.source).is_some() {
            request.set_header("x-openai-subagent", "collab_spawn");
        }
        request
    }

    /// Returns a request with the thread's settings and without input, for a model request outside turns.
    pub(super) fn on_sample_request(
        &mut self,
        effort: Option<ReasoningEffort>,
    ) -> Result<SampleRequest, ThreadError> {
        let provider = self.provider()?;
        let mut request = self.request(&new_turn_id());
        if effort.is_some() {
            let settings = TurnSettings { effort, ..self.state.settings.clone() };
            request.reasoning = self.model_support().reasoning(&settings);
        }
        request.output_schema = None;
        Ok(SampleRequest { provider, request })
    }

    /// Returns the base instructions, with the personality that the thread began with. A later one is a message, so
    /// that the provider's cache stays valid.
    fn instructions(&self) -> SystemInstructions {
        let own =
            (self.state.base_instructions.as_deref()).or(self.state.config.settings.instructions.as_deref());
        let has_personality = self.model_support().has_personality();
        codicil_prompts::base_instructions(has_personality, self.state.first_personality, own).into()
    }

    pub(super) fn model_info(&self) -> &ModelInfo {
        self.engine.catalogue().look_up(&self.state.settings.model)
    }

    /// Returns how many tokens the history may have.
    pub(super) fn context_window(&self) -> Option<i64> {
        let reported = || self.served.as_ref()?.known_window(&self.state.settings.model).map(i64::from);
        let known = || i64::from(self.model_info().context_window);
        let configured = self.state.config.settings.model_context_window;
        let window = configured.or_else(reported).unwrap_or_else(known);
        Some(window.saturating_mul(USABLE_PERCENT) / 100)
    }

    /// Returns the messages for what has changed since the model's last context.
    pub(super) async fn context_messages(&mut self) -> Vec<ResponseItem> {
        self.watch_skills();
        let update = self.model_context(self.state.settings.clone()).update(self.state.context.clone()).await;
        if update.snapshot.is_some() {
            self.state.context = update.snapshot;
        }
        update.messages
    }

    /// Returns the full context of a reviewer, whose history is not the thread's.
    pub(super) async fn reviewer_context(&mut self) -> Vec<ResponseItem> {
        self.watch_skills();
        self.model_context(self.tool_settings(TurnKind::Review)).update(None).await.messages
    }

    /// Returns the input of an item as the model sees it.
    pub(super) async fn item_content(&self, item: &ThreadItem) -> Vec<ResponseItem> {
        match item {
            ThreadItem::UserMessage { content, .. } => self.user_content(content).await,
            ThreadItem::FunctionCallOutput { name, namespace, output, .. } => {
                vec![ResponseItem::FunctionCallOutput {
                    call_id: None,
                    name: Some(name.clone()),
                    namespace: namespace.clone(),
                    output: output.clone(),
                }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns user input as the model sees it. Blocks on files only if the input refers to any.
    async fn user_content(&self, input: &[UserInput]) -> Vec<ResponseItem> {
        let mentions = MessageMentions::of(input);
        if !codicil_prompts::reads_files(input) && mentions.is_empty() {
            return codicil_prompts::user_message(input, &self.state.settings.cwd).into_iter().collect();
        }
        self.model_context(self.state.settings.clone()).user_messages(input.to_vec(), mentions).await
    }

    fn model_context(&self, settings: TurnSettings) -> ModelContext {
        ModelContext {
            access: AccessSources::new(&settings, &self.tools, self.tools.grants().access()),
            settings,
            config: self.state.config.clone(),
            extensions: self.engine.extensions.clone(),
            home: self.engine.config.home().path().to_path_buf(),
            supports_personality: self.model_support().has_personality(),
            developer_instructions: self.state.developer_instructions(),
        }
    }
}
