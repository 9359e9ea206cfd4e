//! Starts turns: `turn/start`, `thread/compact/start`, `thread/shellCommand`.
//!
//! A turn is checked and stored first; then the request is answered, the turn is announced, and its task's messages
//! are handled. `launch.rs` starts the task; `steer.rs` adds input to a turn that runs already.

use std::{sync::Arc, time::Duration};

use codicil_config::Feature;
use codicil_extensions::MessageMentions;
use codicil_model::{ModelProvider, WireApi};
use codicil_protocol::{ProtocolGeneration, ThreadItem, ThreadStatus, Turn, TurnId, TurnStartParams};
use codicil_store::Record;
use tokio::{sync::oneshot, time::Instant};

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active_turn::{ActiveTurn, TurnBeginning},
    actor::{ThreadActor, answer},
    input::{FirstInput, RequestInput, context_record, message_record},
    launch::NewTurn,
    other_writers::MAX_RELOADS,
};
use crate::{
    error::{ThreadError, TurnInputError},
    ids::new_turn_id,
    threads::multi_agent_notice,
    tools::{MentionedSkills, shell_start},
    turn::{ShellCommand, ShellTask},
};

/// A turn whose input has been stored.
struct PreparedTurn {
    id: TurnId,
    provider: Arc<dyn ModelProvider>,
    mentions: MessageMentions,
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
        self.last_origin = TurnOrigin { root_turn: None, ..origin.clone() };
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

    /// Stores a turn and starts its task. Clients do not see it yet.
    pub(super) async fn begin_turn(
        &mut self,
        input: RequestInput,
        params: TurnStartParams,
        origin: TurnOrigin,
    ) -> Result<TurnId, ThreadError> {
        self.check_workspace()?;
        self.refresh_servers().await;
        let PreparedTurn { id, provider, mentions, first } =
            self.prepare_current_turn(input, &params, &origin).await?;
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
        origin: &TurnOrigin,
    ) -> Result<PreparedTurn, ThreadError> {
        for _ in 0..MAX_RELOADS {
            let current = input.current(&self.state.facts.queue)?;
            let before = self.state.restore_point();
            let known_settings = self.state.settings.clone();
            self.state.settings.apply(&mut params.clone(), &self.state.config);
            if let Some(environments) = &params.environments {
                self.state.next_settings = Some(self.state.settings.clone());
                self.state.settings.apply_environments(environments);
            }
            self.learn_about_model().await;
            match self.prepare_turn(current, params, origin).await {
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

    /// Reads the turn's context and stores its input. Clients see none of it yet.
    async fn prepare_turn(
        &mut self,
        input: RequestInput,
        params: &TurnStartParams,
        origin: &TurnOrigin,
    ) -> Result<PreparedTurn, ThreadError> {
        let provider = self.provider()?;
        let id = new_turn_id();
        let context = self.context_messages().await;
        // Part of the input, not of the context: a compaction before the first request must not drop it.
        let mut content = input.new_context(&self.state.history, &mut self.previous_context);
        let queue_record = input.queue_record();
        let mentions = MessageMentions::of(input.user_input());
        let item = (!input.is_empty()).then(|| input.into_item());
        if let Some(item) = &item {
            content.extend(self.item_content(item).await);
        }
        let root_record = origin.root_turn.as_ref().map(|root| Record::root_turn(&id, root));
        let mut records: Vec<_> = root_record.into_iter().chain([self.turn_record(&id).await?]).collect();
        records.extend(queue_record);
        records.extend(params.output_schema.as_ref().map(|schema| Record::output_schema(&id, schema)));
        records.extend(self.state.settings_record());
        records.extend(self.git_record().await);
        records.extend(context.iter().map(|item| context_record(&id, item)));
        // A hook may reject this prompt. The stored item is then withdrawn and never enters the model's history.
        records.extend(self.key_records(&Turn::in_progress(id.clone()))?);
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
        Ok(PreparedTurn { id, provider, mentions, first })
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
        let cwd = self.state.settings.cwd.clone();
        let argv = shell.argv(&command, shell_start(&self.state.config, None));
        let command = ShellCommand::new(id.clone(), command, timeout, cwd, argv);
        if let Err(error) = self.store_shell(&id, &command).await {
            return answer(reply, Err(error));
        }
        let run = |reporter, cancel| ShellTask { thread, command, reporter, cancel }.run();
        if let Some(active) = &mut self.active {
            active.run_beside(own_reporter, run);
            return self.accept(reply, ()).await;
        }
        let span = self.turn_span(&id);
        let cancel = self.fence.child_token();
        self.active = Some(ActiveTurn::new(id.clone(), TurnKind::Shell, span, own_reporter, cancel, run));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }

    /// Stores that a user's command begins, with the turn of its own unless one is running.
    async fn store_shell(&mut self, id: &TurnId, command: &ShellCommand) -> Result<(), ThreadError> {
        let mut records = Vec::new();
        if self.active.is_none() {
            records.push(self.turn_record(id).await?);
        }
        records.push(command.begun());
        records.extend(self.key_records(&())?);
        self.store(records).await
    }

    /// Stores the start of a turn without input.
    async fn store_turn(&mut self, id: &TurnId) -> Result<(), ThreadError> {
        let mut records = vec![self.turn_record(id).await?];
        records.extend(self.key_records(&())?);
        self.store(records).await
    }
}
