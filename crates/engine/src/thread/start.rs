//! Starts turns and feeds the running one: `turn/start`, `turn/steer`, `turn/interrupt`, `thread/compact/start`,
//! `thread/shellCommand`.
//!
//! A turn is checked and stored first; then the request is answered, the turn is announced, and its task's messages
//! are handled.

use std::{sync::Arc, time::Duration};

use codicil_config::Feature;
use codicil_extensions::MessageMentions;
use codicil_model::{ModelProvider, WireApi};
use codicil_protocol::{
    ApprovalsReviewer, AskForApproval, ConfigWarning, ProtocolGeneration, ReasoningEffort, ThreadItem,
    ThreadSettingsUpdated, ThreadSettingsUpdatedNotification, ThreadStatus, Turn, TurnId, TurnStartParams,
    TurnSteerParams,
};
use codicil_store::Record;
use codicil_telemetry::spans::{TurnIds, turn_span};
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active_turn::{ActiveTurn, TurnBeginning},
    actor::{ThreadActor, answer},
    input::{FirstInput, RequestInput, SteeredInput, context_record, stored_form},
    other_writers::MAX_RELOADS,
    state::RestorePoint,
    turn_count::InterruptCause,
};
use crate::{
    error::{SettingsError, ThreadError, TurnInputError},
    ids::new_turn_id,
    model_support::warning,
    profiles::{self, NamedProfile},
    settings::{TurnSettings, local_environment},
    subagent::SubagentOrigin,
    threads::multi_agent_notice,
    tools::{MentionedSkills, ThreadRole, ToolCall, ToolOffer, TurnConfig, TurnTools, shell_start},
    turn::{ResponseVisibility, ShellTask, TurnTask},
    turn_channel::TurnReporter,
};

/// Steered messages that may wait for the next request; more are refused as overload.
const MAX_STEERED: usize = 256;

/// A turn that is about to run.
pub(super) struct NewTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    pub provider: Arc<dyn ModelProvider>,
    pub origin: TurnOrigin,
    pub output_schema: Option<Value>,
    /// The user's text, for turns that start with user input.
    pub prompt: Option<String>,
    pub skills: Option<MentionedSkills>,
    /// The calls that a turn of an earlier process still has to run. It does not start from the beginning then.
    pub continued_calls: Option<Vec<ToolCall>>,
}

impl NewTurn {
    pub fn new(id: TurnId, kind: TurnKind, provider: Arc<dyn ModelProvider>, origin: TurnOrigin) -> Self {
        Self {
            id,
            kind,
            provider,
            origin,
            output_schema: None,
            prompt: None,
            skills: None,
            continued_calls: None,
        }
    }
}

/// A turn whose input has been stored.
struct PreparedTurn {
    id: TurnId,
    provider: Arc<dyn ModelProvider>,
    first: FirstInput,
}

impl ThreadActor {
    pub(super) async fn on_start_turn(
        &mut self,
        mut params: TurnStartParams,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        if self.active.is_none() {
            if let Err(error) = self.claim_conversation().await {
                return answer(reply, Err(error));
            }
            self.refresh_config().await;
        }
        let input = RequestInput::take(&mut params);
        // In the 0.166 generation, a turn may go on from what is there.
        let may_be_empty = origin.generation == ProtocolGeneration::V166 && self.active.is_none();
        if let Err(error) = self.check_turn(&input, &params, may_be_empty) {
            return answer(reply, Err(error));
        }
        self.last_origin = origin.clone();
        if self.active.is_none() {
            return match self.begin_turn(input, params, origin).await {
                Ok(id) => {
                    self.accept(reply, Turn::in_progress(id.clone())).await;
                    self.announce_begun(&id);
                }
                Err(error) => answer(reply, Err(error)),
            };
        }
        // A thread runs one turn at a time, so the input joins the running one.
        let steered = self.steer_with_settings(input, &mut params).await;
        answer(reply, steered.map(|turn| AnnouncedReply::new(turn).0));
    }

    async fn steer_with_settings(
        &mut self,
        input: RequestInput,
        params: &mut TurnStartParams,
    ) -> Result<Turn, ThreadError> {
        let turn = Turn::in_progress(self.steerable_turn()?);
        let before = self.state.restore_point();
        let (_, settings_record) = self.change_later(params);
        let mut records: Vec<_> = settings_record.into_iter().collect();
        records.extend(self.key_record(&turn)?);
        if let Err(error) = self.steer(turn.id.clone(), input, records).await {
            self.state.restore(before);
            return Err(error);
        }
        Ok(turn)
    }

    /// Changes the settings of the next turn. A running turn keeps those that it began with.
    pub(super) async fn on_update_settings(
        &mut self,
        change: TurnStartParams,
    ) -> Result<TurnSettings, ThreadError> {
        self.check_allowed(&change)?;
        if self.active.is_some() {
            let before = self.state.restore_point();
            let (settings, record) = self.change_later(&mut change.clone());
            let records = record.into_iter().chain(self.key_record(&())?).collect();
            if let Err(error) = self.store(records).await {
                self.state.restore(before);
                return Err(error);
            }
            return Ok(self.shown_settings(settings));
        }
        self.claim_conversation().await?;
        for _ in 0..MAX_RELOADS {
            let before = self.state.restore_point();
            self.state.settings.apply(&mut change.clone(), &self.state.config);
            let records = self.state.settings_record().into_iter().chain(self.key_record(&())?).collect();
            match self.store_once(records).await {
                Ok(()) => return Ok(self.shown_settings(self.state.settings.clone())),
                Err(error) => self.restore_or_catch_up(before, error).await?,
            }
        }
        Err(ThreadError::Busy)
    }

    /// Changes the settings of the running turn, which its next model request has. The turns after it have the settings from
    /// before. Returns false if the turn does not run.
    pub(super) fn on_update_turn_settings(
        &mut self,
        turn: &TurnId,
        mut change: TurnStartParams,
    ) -> Result<bool, ThreadError> {
        self.check_allowed(&change)?;
        if self.active.as_ref().is_none_or(|active| active.id != *turn) {
            return Ok(false);
        }
        if let Some(reviewer) = &change.approvals_reviewer {
            self.tools.set_turn_reviewer(turn.clone(), reviewer.clone());
        }
        self.state.next_settings.get_or_insert_with(|| self.state.settings.clone());
        self.state.settings.apply(&mut change, &self.state.config);
        self.report_missing_reviewer();
        Ok(true)
    }

    /// Restores the state of a change that was not stored. Returns the error, unless the thread was overtaken by another
    /// process: then its records are loaded, and the change can be tried again.
    pub(super) async fn restore_or_catch_up(
        &mut self,
        before: RestorePoint,
        error: ThreadError,
    ) -> Result<(), ThreadError> {
        self.state.restore(before);
        if !error.is_overtaken() {
            return Err(error);
        }
        self.catch_up().await
    }

    /// Returns settings as clients see them: without a personality if the configuration switches personalities off.
    fn shown_settings(&self, settings: TurnSettings) -> TurnSettings {
        let is_on = self.state.config.features.enabled(Feature::Personality);
        TurnSettings { personality: settings.personality.filter(|_| is_on), ..settings }
    }

    /// Changes the settings of the turns after the running one. Their record is stored at once: a thread that is forked
    /// or loaded again meanwhile has them too.
    fn change_later(&mut self, change: &mut TurnStartParams) -> (TurnSettings, Option<Record>) {
        let mut settings = self.state.next_settings.as_ref().unwrap_or(&self.state.settings).clone();
        settings.apply(change, &self.state.config);
        self.state.next_settings = Some(settings.clone());
        (settings, self.state.settings_record())
    }

    fn check_turn(
        &self,
        input: &RequestInput,
        params: &TurnStartParams,
        may_be_empty: bool,
    ) -> Result<(), ThreadError> {
        if !may_be_empty || !input.is_empty() {
            input.check(|| self.dialect())?;
        }
        Ok(self.check_allowed(params)?)
    }

    /// Returns the dialect of the thread's provider.
    pub(super) fn dialect(&self) -> WireApi {
        let provider = crate::provider_config(&self.state.settings.provider, &self.state.config);
        provider.map(|provider| provider.wire_api).unwrap_or_default()
    }

    /// Refuses what the administrator's requirements forbid, before anything of the request takes effect.
    fn check_allowed(&self, params: &TurnStartParams) -> Result<(), SettingsError> {
        if params.effort == Some(ReasoningEffort::Unrecognized(String::new())) {
            return Err(SettingsError::EmptyEffort);
        }
        if params.disabled_plugin_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            return Err(SettingsError::Unsupported("disabledPluginIds"));
        }
        local_environment(params.environments.clone().unwrap_or_default())?;
        let requirements = &self.state.config.requirements;
        if let Some(policy) = &params.approval_policy {
            requirements.check_approval_policy(policy)?;
        }
        if let Some(policy) = &params.sandbox_policy {
            requirements.check_sandbox_policy(policy)?;
        }
        let is_given = params.sandbox_policy.is_some();
        profiles::check_request(params.permissions.as_deref(), "sandboxPolicy", is_given)?;
        if let Some(id) = &params.permissions {
            NamedProfile::find(id, &self.state.config)?.check_allowed(&self.state.config)?;
        }
        Ok(())
    }

    /// Stores a turn and starts its task. Clients do not see it yet.
    pub(super) async fn begin_turn(
        &mut self,
        input: RequestInput,
        params: TurnStartParams,
        origin: TurnOrigin,
    ) -> Result<TurnId, ThreadError> {
        self.check_workspace()?;
        self.refresh_servers().await;
        let mentions = MessageMentions::of(input.user_input());
        let PreparedTurn { id, provider, first } = self.prepare_current_turn(input, &params).await?;
        let mut active = self.launch(NewTurn {
            output_schema: params.output_schema,
            prompt: Some(first.text()),
            skills: Some(MentionedSkills { mentions, query: self.config_query() }),
            ..NewTurn::new(id.clone(), TurnKind::Regular, provider, origin)
        });
        active.first = Some(first);
        active.service_tier = params.service_tier_for_turn;
        self.active = Some(active);
        self.subagent_started();
        Ok(id)
    }

    /// Announces a turn that [`begin_turn`](Self::begin_turn) has started.
    pub(super) fn announce_begun(&mut self, id: &TurnId) {
        self.announce_turn(id);
        self.warn_about_model();
        self.report_missing_reviewer();
    }

    /// Prepares a turn on the history as it is now, also if another process extends it meanwhile.
    async fn prepare_current_turn(
        &mut self,
        input: RequestInput,
        params: &TurnStartParams,
    ) -> Result<PreparedTurn, ThreadError> {
        for _ in 0..MAX_RELOADS {
            let before = self.state.restore_point();
            let known_settings = self.state.settings.clone();
            self.state.settings.apply(&mut params.clone(), &self.state.config);
            if let Some(environments) = &params.environments {
                self.state.next_settings = Some(self.state.settings.clone());
                self.state.settings.apply_environments(environments);
            }
            self.learn_about_model().await;
            match self.prepare_turn(input.clone(), params).await {
                Ok(prepared) => {
                    self.announce_settings(&known_settings);
                    self.warn_about_unknown_model();
                    if let Some(notice) = multi_agent_notice(params.multi_agent_mode.as_ref()) {
                        self.notifier.warning(notice);
                    }
                    return Ok(prepared);
                }
                Err(error) => self.restore_or_catch_up(before, error).await?,
            }
        }
        Err(ThreadError::Busy)
    }

    /// Announces settings that a turn has changed.
    fn announce_settings(&self, known: &TurnSettings) {
        let settings = self.state.next_settings.as_ref().unwrap_or(&self.state.settings);
        let settings = self.shown_settings(settings.clone());
        if settings != self.shown_settings(known.clone()) {
            let thread_id = self.state.id.clone();
            let thread_settings = settings.into_wire();
            let params = ThreadSettingsUpdatedNotification { thread_id, thread_settings };
            self.notifier.notify::<ThreadSettingsUpdated>(&params);
        }
    }

    /// Reads the turn's context and stores its input. Clients see none of it yet.
    async fn prepare_turn(
        &mut self,
        input: RequestInput,
        params: &TurnStartParams,
    ) -> Result<PreparedTurn, ThreadError> {
        let provider = self.provider()?;
        let id = new_turn_id();
        let context = self.context_messages().await;
        // Part of the input, not of the context: a compaction before the first request must not drop it.
        let mut content = input.new_context(&self.state.history);
        let queue_record = input.queue_record();
        let item = (!input.is_empty()).then(|| input.into_item());
        if let Some(item) = &item {
            content.extend(self.item_content(item).await);
        }
        let mut records = vec![self.turn_record(&id).await?];
        records.extend(queue_record);
        records.extend(params.output_schema.as_ref().map(|schema| Record::output_schema(&id, schema)));
        records.extend(self.state.settings_record());
        records.extend(self.git_record().await);
        records.extend(context.iter().map(|item| context_record(&id, item)));
        // A hook may reject this prompt. The stored item is then withdrawn and never enters the model's history.
        records.extend(self.key_record(&Turn::in_progress(id.clone()))?);
        let waits_for_hooks = self.state.config.features.enabled(Feature::Hooks);
        // A history that is too long is compacted first, without this input.
        let is_queued = self.is_too_long() || waits_for_hooks;
        let content_records = content.iter().map(|item| context_record(&id, item));
        let mut unstored = Vec::new();
        let message = item.as_ref().map(|item| message_record(&id, item));
        if is_queued {
            let queued = item.as_ref().and_then(ThreadItem::id);
            records.extend(queued.map(|item| Record::queued(&id, item)));
            records.extend(message.clone());
            unstored.extend(content_records);
            // Written again where the model gets it.
            unstored.extend(message);
        } else {
            records.extend(message);
            records.extend(content_records);
        }
        self.store_once(records).await?;
        if let Some(item) = &item {
            self.state.note_preview(item);
        }
        self.state.remember(context.iter().cloned());
        let first = FirstInput { item, context, content, unstored, waits_for_hooks };
        Ok(PreparedTurn { id, provider, first })
    }

    /// Answers the request, and waits until the answer has been sent: notifications that follow must come after it.
    pub(super) async fn accept<T>(&mut self, reply: CommandReply<AnnouncedReply<T>>, value: T) {
        let (announced, sent) = AnnouncedReply::new(value);
        answer(reply, Ok(announced));
        let _: Result<(), oneshot::error::RecvError> = sent.await;
    }

    pub(super) fn announce_turn(&mut self, id: &TurnId) {
        self.notifier.keep_recent();
        self.set_status(ThreadStatus::Active { active_flags: Vec::new() });
        let started_at = self.announce_turn_started(id);
        if let Some(active) = &mut self.active {
            active.beginning = Some(TurnBeginning { started: Instant::now(), started_at });
        }
    }

    /// Warns, once for a loaded thread, that approvals go to the user although the settings choose the guardian.
    fn report_missing_reviewer(&mut self) {
        let is_missing = self.state.settings.approvals_reviewer == ApprovalsReviewer::GuardianSubagent
            && !self.state.config.features.enabled(Feature::GuardianApproval);
        if !is_missing || std::mem::replace(&mut self.is_reviewer_reported, true) {
            return;
        }
        self.notifier.notify::<ConfigWarning>(&warning(
            "`approvalsReviewer: guardian_subagent` has no effect: the feature `guardian_approval` is disabled"
                .to_owned(),
            "Approval requests go to the user. Set `features.guardian_approval = true` to have the guardian answer them.",
        ));
    }

    pub(super) fn provider(&self) -> Result<Arc<dyn ModelProvider>, ThreadError> {
        let provider = self.engine.provider(&self.state.settings.provider, &self.state.config);
        Ok(provider.map_err(SettingsError::Provider)?)
    }

    /// Starts the turn's task. Its first messages wait until the turn has been announced.
    pub(super) fn launch(&self, new: NewTurn) -> ActiveTurn {
        let NewTurn { id, kind, provider, origin, output_schema, prompt, skills, continued_calls } = new;
        let config = TurnConfig {
            settings: self.tool_settings(kind),
            config: self.state.config.clone(),
            provider: provider.clone(),
            offer: self.offer(kind, &origin),
            transcript: self.state.path(),
            skills,
            origin: origin.clone(),
        };
        let mut over = CancellationToken::new();
        let end_response = watch::Sender::new(0);
        let response_ends = end_response.subscribe();
        let run = |reporter: TurnReporter, cancel: CancellationToken| {
            let tools =
                TurnTools::new(self.tools.clone(), id.clone(), config, reporter.clone(), cancel.clone());
            over = tools.ended.clone();
            let task = TurnTask {
                thread: self.state.id.clone(),
                turn: id.clone(),
                provider,
                reporter,
                cancel,
                response_ends,
                visibility: self.visibility(kind),
                tools,
                prompt,
                continued_calls,
            };
            task.run()
        };
        let mut active = ActiveTurn::new(id.clone(), kind, self.turn_span(&id), self.reporter(&id), run);
        active.over = over;
        active.end_response = end_response;
        active.origin = origin;
        active.output_schema = output_schema.map(Arc::new);
        active
    }

    /// Returns the span of a new turn, below the current request.
    fn turn_span(&self, id: &TurnId) -> Span {
        turn_span(TurnIds { thread: &self.state.id, turn: id }, &self.request_trace)
    }

    fn offer(&self, kind: TurnKind, origin: &TurnOrigin) -> Option<ToolOffer> {
        let role = match kind {
            TurnKind::Regular | TurnKind::Shell => match SubagentOrigin::of(&self.state.source) {
                Some(origin) => ThreadRole::Agent { depth: origin.depth },
                None => ThreadRole::Main,
            },
            TurnKind::Review => ThreadRole::Reviewer,
            TurnKind::Compact => return None,
        };
        let knows_goals = origin.generation == ProtocolGeneration::V166 || self.state.goal.is_some();
        let goals = role == ThreadRole::Main && self.state.log.is_some() && knows_goals;
        let offer = ToolOffer { goals, ..ToolOffer::new(role, &self.state.config, self.model_info()) };
        Some(if self.state.settings.has_environment { offer } else { offer.without_environment() })
    }

    /// Returns the settings of a turn's tools. A reviewer asks for no approvals.
    pub(super) fn tool_settings(&self, kind: TurnKind) -> TurnSettings {
        let mut settings = self.state.settings.clone();
        if kind == TurnKind::Review {
            settings.approval_policy = AskForApproval::Never;
        }
        settings
    }

    fn visibility(&self, kind: TurnKind) -> ResponseVisibility {
        ResponseVisibility {
            raw_reasoning: self.state.config.settings.show_raw_agent_reasoning.unwrap_or(false),
            plans: self.state.settings.is_plan_mode() && kind == TurnKind::Regular,
            patches: self.state.config.features.enabled(Feature::ApplyPatchStreamingEvents),
            // A reviewer answers in JSON; clients see the text that is made of it.
            messages: kind != TurnKind::Review,
        }
    }

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
        let records = self.key_record(&turn)?.into_iter().collect();
        self.steer(turn.clone(), input, records).await?;
        if let Some(active) = self.active.as_ref().filter(|_| generation == ProtocolGeneration::V166) {
            active.end_response.send_modify(|count| *count += 1);
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
        let context = input.new_context(&self.state.history);
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

    /// Refuses a request about the running turn if another process runs it.
    async fn check_running_here(&mut self) -> Result<(), ThreadError> {
        if self.active.is_none() { self.claim_conversation().await } else { Ok(()) }
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

    /// Starts a compaction, which replaces the running turn.
    pub(super) async fn on_compact(&mut self, origin: TurnOrigin, reply: CommandReply<AnnouncedReply<()>>) {
        let provider = match self.provider() {
            Ok(provider) => provider,
            Err(error) => return answer(reply, Err(error)),
        };
        self.end_active_turn().await;
        let id = new_turn_id();
        if let Err(error) = self.store_turn(&id).await {
            return answer(reply, Err(error));
        }
        self.active = Some(self.launch(NewTurn::new(id.clone(), TurnKind::Compact, provider, origin)));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }

    /// Runs a user's shell command beside the running turn, or as a turn of its own.
    pub(super) async fn on_shell(
        &mut self,
        (command, timeout): (String, Option<Duration>),
        reply: CommandReply<AnnouncedReply<()>>,
    ) {
        if command.trim().is_empty() {
            return answer(reply, Err(TurnInputError::EmptyCommand.into()));
        }
        let shell = self.engine.shell().await;
        let active_id = self.active.as_ref().map(|active| active.id.clone());
        let id = active_id.unwrap_or_else(new_turn_id);
        let own_reporter = self.reporter(&id);
        let thread = self.state.id.clone();
        let turn = id.clone();
        let cwd = self.state.settings.cwd.clone();
        let start = shell_start(&self.state.config, None);
        let run = |reporter, cancel| {
            let task = ShellTask { thread, turn, command, timeout, cwd, shell, start, reporter, cancel };
            task.run()
        };
        if self.active.is_some()
            && let Err(error) = self.store_key(&()).await
        {
            return answer(reply, Err(error));
        }
        if let Some(active) = &mut self.active {
            active.run_beside(own_reporter, run);
            return self.accept(reply, ()).await;
        }
        if let Err(error) = self.store_turn(&id).await {
            return answer(reply, Err(error));
        }
        self.active =
            Some(ActiveTurn::new(id.clone(), TurnKind::Shell, self.turn_span(&id), own_reporter, run));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }

    /// Stores the start of a turn without input.
    async fn store_turn(&mut self, id: &TurnId) -> Result<(), ThreadError> {
        let mut records = vec![self.turn_record(id).await?];
        records.extend(self.key_record(&())?);
        self.store(records).await
    }
}

fn message_record(turn: &TurnId, item: &ThreadItem) -> Record {
    Record::Item { turn_id: turn.clone(), item: stored_form(item) }
}
