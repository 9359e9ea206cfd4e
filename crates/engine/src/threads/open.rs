//! Opening threads: `thread/start`, `thread/resume`, `thread/fork`.

use std::{path::PathBuf, sync::Arc};

use codicil_config::{ConfigQuery, EffectiveConfig};
use codicil_protocol::{
    MultiAgentMode, ProtocolGeneration, ReasoningEffort, ResponseItem, ThreadAttachment, ThreadForkParams,
    ThreadHistoryMode, ThreadId, ThreadItem, ThreadResumeParams, ThreadSandbox, ThreadStartParams,
    ThreadStartSource, ThreadStatus, TurnId, TurnStatus,
};
use codicil_store::{
    AttachmentChange, FactChange, ForkPoint, LoadedThread, Record, StoreError, StoredThread, StoredTurn,
    ThreadMeta, TurnEndCause, new_thread_id,
};
use uuid::Uuid;

use super::{
    IncludeTurns, OpenedThread, Threads,
    ids::{canonical, thread_of_file},
    not_stored,
};
use crate::{
    error::{ForkError, SettingsError, ThreadError},
    model_support::{ModelSupport, StartNotice},
    profiles::NamedProfile,
    settings::{SettingsOverrides, TurnSettings, join},
    settings_forms::{StoredInstructions, StoredSetting},
    thread::{JoinRequest, ThreadHandle, ThreadState},
    tools::check_dynamic_tools,
};

impl Threads {
    /// Starts a thread for the client with this name. A request with a key has chosen the id of the thread before; a thread
    /// with this id is that of an earlier attempt.
    pub async fn start(
        &self,
        mut params: ThreadStartParams,
        originator: String,
        generation: ProtocolGeneration,
        chosen_id: Option<ThreadId>,
    ) -> Result<OpenedThread, ThreadError> {
        let mut project_id = None;
        if let Some(project) = params.project_id.take() {
            self.check_project(&project).await?;
            project_id = Some(project);
        }
        if params.selected_capability_roots.take().is_some_and(|roots| !roots.is_empty()) {
            return Err(SettingsError::Unsupported("selectedCapabilityRoots").into());
        }
        let agents_notice = multi_agent_notice(params.multi_agent_mode.as_ref());
        check_dynamic_tools(params.dynamic_tools.as_deref().unwrap_or_default())
            .map_err(ThreadError::DynamicTools)?;
        let given = SettingsOverrides::try_from(&mut params)?.of(generation);
        if let Some(id) = &chosen_id
            && self.is_started(id).await
        {
            return self.load_or_join(id, given).await;
        }
        let (config, mut settings) = self.configure(&given, None).await?;
        let mut notices = self.first_notices(&config, &mut settings);
        notices.extend(agents_notice.map(StartNotice::later_only));
        let meta = ThreadMeta {
            dynamic_tools: params.dynamic_tools.take().unwrap_or_default(),
            originator: Some(originator).filter(|name| !name.is_empty()),
            thread_source: params.thread_source.take(),
            history_mode: params.history_mode.take().unwrap_or_default(),
            base_instructions: given.base_instructions.clone(),
            developer_instructions: given.developer_instructions.clone(),
            ..self.meta(chosen_id.unwrap_or_else(new_thread_id), &settings)
        };
        let mut state = ThreadState::new(&meta, None, config, settings);
        state.facts.project_id = project_id;
        if params.ephemeral != Some(true) {
            state.create_log(&self.0.engine.store, &meta, None).await?;
        }
        state.overrides = given.config.clone();
        state.raw_events = params.experimental_raw_events;
        state.is_cleared = params.session_start_source == Some(ThreadStartSource::Clear);
        state.service_name = params.service_name;
        let opened = self.open(state, Vec::new(), given).await?;
        Ok(OpenedThread { notices, ..opened })
    }

    /// Returns the notices about the settings of a new thread. A service tier that its model does not have is left out.
    fn first_notices(&self, config: &EffectiveConfig, settings: &mut TurnSettings) -> Vec<StartNotice> {
        let info = self.0.engine.catalogue().look_up(&settings.model);
        let tier_notice = ModelSupport { info, config }.omit_unknown_tier(settings);
        let features_notice = unstable_features_notice(config).map(StartNotice::later_only);
        tier_notice.into_iter().chain(features_notice).collect()
    }

    /// Returns whether an earlier attempt has started the thread.
    async fn is_started(&self, id: &ThreadId) -> bool {
        self.get(id).is_ok() || self.0.engine.store.find(id).await.is_ok()
    }

    async fn load_or_join(
        &self,
        id: &ThreadId,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        if let Ok(handle) = self.get(id) {
            let turns = IncludeTurns::Included;
            return self.join(&handle, None, JoinRequest { turns, given }).await;
        }
        let stored = self.load(id).await?;
        self.reopen(stored, given).await
    }

    /// Joins a loaded thread, or loads a stored one. In the 0.166 generation, a thread that another process has loaded is
    /// refused.
    pub async fn resume(
        &self,
        mut params: ThreadResumeParams,
        generation: ProtocolGeneration,
    ) -> Result<OpenedThread, ThreadError> {
        let given = SettingsOverrides::try_from(&mut params)?.of(generation);
        if let Some(history) = params.history.take() {
            return self.resume_history(history, given).await;
        }
        // The id counts for a loaded thread, else the path.
        if let Ok(handle) = self.get(&params.thread_id) {
            return self.resume_loaded(&handle, &params, given).await;
        }
        let id = match &params.path {
            Some(path) => thread_of_file(path).await?,
            None => canonical(&params.thread_id)?,
        };
        if let Ok(handle) = self.get(&id) {
            let params = ThreadResumeParams { path: None, ..params };
            return self.resume_loaded(&handle, &params, given).await;
        }
        self.check_writer(&id, generation).await?;
        self.check_archive(&id, generation).await?;
        let stored = self.load(&id).await?;
        self.reopen(stored, given).await
    }

    /// Joins a loaded thread. The usage is that of the turns in the response.
    async fn resume_loaded(
        &self,
        handle: &ThreadHandle,
        params: &ThreadResumeParams,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        // The response has cursors, also if it has no turns.
        let turns = IncludeTurns::Included;
        let mut opened = self.join(handle, params.path.as_deref(), JoinRequest { turns, given }).await?;
        if params.exclude_turns {
            opened.usage = None;
        }
        Ok(opened)
    }

    /// Loads a thread without its turns, also if another process has loaded it: the extension is made for processes that take
    /// turns.
    pub(super) async fn resume_shared(&self, id: &ThreadId) -> Result<OpenedThread, ThreadError> {
        let params = ThreadResumeParams { exclude_turns: true, ..ThreadResumeParams::new(id.clone()) };
        self.resume(params, ProtocolGeneration::V118).await
    }

    /// Loads a thread whose server is gone: its turn continues, or is settled.
    pub async fn take_over(&self, id: &ThreadId) -> Result<(), ThreadError> {
        self.resume_shared(id).await.map(drop)
    }

    /// Moves the workspace of a thread to a directory of this server, and loads the thread.
    pub async fn rehome(&self, id: &ThreadId, cwd: String) -> Result<OpenedThread, ThreadError> {
        let id = canonical(id)?;
        let backend = self.0.engine.store.backend().ok_or(ThreadError::NotShared)?;
        self.close(&id).await;
        backend.rehome(&id, &join(&self.0.engine.cwd, &cwd).to_string_lossy()).await.map_err(not_stored)?;
        let params =
            ThreadResumeParams { cwd: Some(cwd), exclude_turns: true, ..ThreadResumeParams::new(id) };
        self.resume(params, ProtocolGeneration::V118).await
    }

    /// Refuses a thread that another process has loaded. Before the 0.166 generation, processes take turns.
    pub async fn check_writer(
        &self,
        id: &ThreadId,
        generation: ProtocolGeneration,
    ) -> Result<(), ThreadError> {
        let id = canonical(id)?;
        let is_checked = generation == ProtocolGeneration::V166;
        if is_checked && self.0.engine.store.other_writer(&id).await?.is_some() {
            return Err(ThreadError::OtherWriter(id));
        }
        Ok(())
    }

    /// Refuses an archived thread in the words of the 0.166 generation. Before it, the thread seems unknown.
    async fn check_archive(&self, id: &ThreadId, generation: ProtocolGeneration) -> Result<(), ThreadError> {
        if generation == ProtocolGeneration::V166 && self.is_archived(id).await {
            return Err(ThreadError::Archived(id.clone()));
        }
        Ok(())
    }

    async fn resume_history(
        &self,
        history: Vec<ResponseItem>,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        if history.is_empty() {
            return Err(ThreadError::EmptyHistory);
        }
        let (config, settings) = self.configure(&given, None).await?;
        let meta = ThreadMeta {
            base_instructions: given.base_instructions.clone(),
            developer_instructions: given.developer_instructions.clone(),
            ..self.meta(new_thread_id(), &settings)
        };
        let mut state = ThreadState::new(&meta, None, config, settings);
        state.create_log(&self.0.engine.store, &meta, None).await?;
        let records: Vec<_> =
            (history.iter().cloned()).map(|item| Record::Context { turn_id: None, item }).collect();
        if let Some(log) = &mut state.log {
            log.append(&records).await?;
        }
        state.overrides = given.config.clone();
        state.preview = (history.iter())
            .find(|item| is_from_user(item) && !codicil_prompts::is_context_message(item))
            .map(codicil_prompts::message_text);
        state.remember(history);
        let opened = self.open(state, Vec::new(), given).await?;
        self.broadcast_status(&opened.thread.id, ThreadStatus::Idle);
        Ok(opened)
    }

    async fn reopen(
        &self,
        stored: LoadedThread,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        let meta = stored.thread.meta.clone();
        let (config, mut settings) = self.configure(&given, Some(&stored.thread)).await?;
        let inherited = given.inherited();
        self.narrow_to_parents(&meta.source, &mut settings, inherited).await;
        if given.provider.is_none() && !given.config.contains_key("model_provider") {
            settings.provider.clone_from(&meta.model_provider);
        }
        let log = self.0.engine.store.open_log_after(&stored.thread).await?;
        let mut state = ThreadState::new(&meta, Some(log), config, settings);
        state.overrides = given.config.clone();
        let stored_instructions = StoredInstructions::read(stored.thread.settings.as_ref());
        state.base_instructions =
            (given.base_instructions.clone()).or(stored_instructions.base).or(state.base_instructions);
        state.developer_instructions = (given.developer_instructions.clone())
            .or(stored_instructions.developer)
            .or(state.developer_instructions);
        let turns = stored.thread.turns.clone();
        state.recall(stored);
        state.mark_loaded(&self.0.engine.store).await;
        if state.unfinished.is_some() {
            return self.open_unfinished(state, given).await;
        }
        let opened = self.open(state, turns, given).await?;
        if opened.announce.is_none() {
            self.broadcast_status(&opened.thread.id, ThreadStatus::Idle);
        }
        Ok(opened)
    }

    /// Copies a stored thread, as a whole or up to one of its turns. A request with a key has chosen the id of the copy
    /// before; a thread with this id is that of an earlier attempt, which is completed.
    pub async fn fork(
        &self,
        mut params: ThreadForkParams,
        generation: ProtocolGeneration,
        chosen_id: Option<ThreadId>,
    ) -> Result<OpenedThread, ThreadError> {
        if params.attach_to_source {
            return Err(SettingsError::Unsupported("attachToSource").into());
        }
        let point = take_fork_point(&mut params)?;
        let given = SettingsOverrides::try_from(&mut params)?.of(generation);
        if let Some(id) = &chosen_id
            && self.get(id).is_ok()
        {
            return self.load_or_join(id, given).await;
        }
        let source = match &params.path {
            Some(path) => thread_of_file(path).await?,
            None => canonical(&params.thread_id)?,
        };
        self.check_archive(&source, generation).await?;
        let loaded = self.load(&source).await?;
        let is_later = generation == ProtocolGeneration::V166;
        let is_paginated = loaded.thread.meta.history_mode == ThreadHistoryMode::Paginated;
        if is_later && is_paginated && params.ephemeral == Some(true) && !params.exclude_turns {
            return Err(ForkError::EphemeralTurns.into());
        }
        let unended = loaded.thread.turns.last().filter(|turn| !turn.ended).map(|turn| &turn.id);
        let running = unended.filter(|_| self.get(&source).is_ok());
        check_fork_point(&point, &loaded.thread.turns, running)?;
        let (config, settings) = self.configure(&given, Some(&loaded.thread)).await?;
        // The reference keeps names since a release between 0.118 and 0.166.
        let name = loaded.thread.name.clone().filter(|_| is_later);
        let meta = ThreadMeta {
            forked_from: Some(source.clone()),
            dynamic_tools: loaded.thread.meta.dynamic_tools.clone(),
            originator: loaded.thread.meta.originator.clone(),
            thread_source: params.thread_source.take(),
            history_mode: loaded.thread.meta.history_mode.clone(),
            base_instructions: (given.base_instructions.clone())
                .or_else(|| loaded.thread.meta.base_instructions.clone()),
            developer_instructions: (given.developer_instructions.clone())
                .or_else(|| loaded.thread.meta.developer_instructions.clone()),
            ..self.meta(chosen_id.unwrap_or_else(new_thread_id), &settings)
        };
        let store = &self.0.engine.store;
        let mut is_copied_before = false;
        let mut log = match params.ephemeral {
            Some(true) => None,
            _ => Some(match store.fork(&source, point.clone(), meta.clone()).await {
                Err(StoreError::Exists(id)) => {
                    is_copied_before = true;
                    store.open_log(&id).await?
                }
                created => created?,
            }),
        };
        let first_facts = facts_of_copy(&loaded.thread.facts.attachments);
        let loaded = match point {
            ForkPoint::End if !is_copied_before => {
                let mut copied = loaded;
                copied.thread.facts = copied.thread.facts.of_copy();
                copied
            }
            // The store knows what belongs to the turns before the point.
            ForkPoint::End | ForkPoint::After(_) | ForkPoint::Before(_) => store.load(&meta.id).await?,
        };
        // A turn that is running in the source is interrupted in the copy.
        let cut_off = loaded.thread.turns.last().filter(|turn| !turn.ended).map(|turn| turn.id.clone());
        let mut last_messages = unfinished_response(&loaded);
        last_messages.extend(cut_off.as_ref().map(|_| codicil_prompts::turn_aborted_message()));
        if let (Some(log), Some(turn_id)) = (&mut log, cut_off) {
            log.append(&end_of_cut_off_turn(&turn_id, &last_messages)).await?;
        }
        if let (Some(log), Some(name)) = (&mut log, name.clone()) {
            log.append(&[Record::Name { name }]).await?;
        }
        let mut state = ThreadState::new(&meta, log, config, settings);
        state.overrides = given.config.clone();
        let created_at = state.created_at;
        let turns = loaded.thread.turns.clone();
        state.recall(loaded);
        // The copy has the current settings of its source, also if it ends at an earlier turn.
        state.store_settings().await?;
        if state.facts.read.revision.is_none() {
            state.store_facts(first_facts).await?;
        }
        state.remember(last_messages);
        state.name = name;
        state.goal = None;
        // The copy has its end.
        state.unfinished = None;
        state.created_at = created_at;
        state.updated_at = created_at;
        state.is_untouched_fork = !is_copied_before;
        self.open(state, turns, given).await
    }

    /// Forks a loaded thread for a detached review.
    pub async fn fork_for_review(
        &self,
        id: &ThreadId,
        chosen_id: Option<ThreadId>,
    ) -> Result<OpenedThread, ThreadError> {
        self.get(id)?;
        self.fork(ThreadForkParams::new(id.clone()), ProtocolGeneration::V118, chosen_id).await
    }

    /// Returns the configuration and settings of a thread that is about to be opened. Settings that the request does
    /// not name come from the stored thread, else from the configuration.
    async fn configure(
        &self,
        given: &SettingsOverrides,
        stored: Option<&StoredThread>,
    ) -> Result<(Arc<EffectiveConfig>, TurnSettings), ThreadError> {
        let engine = self.0.engine.clone();
        let stored_cwd = stored.map(stored_directory);
        let cwd: PathBuf = match given.cwd.as_deref().or(stored_cwd.as_deref()) {
            Some(cwd) => join(&engine.cwd, cwd),
            None => engine.cwd.clone(),
        };
        let query = ConfigQuery { cwd: Some(cwd.clone()), overrides: given.config.clone() };
        let loading = tokio::task::spawn_blocking({
            let engine = engine.clone();
            move || engine.load_config(&query)
        });
        let config = loading.await.map_err(|_| ThreadError::Closed)??;
        check_overrides(given, &config)?;
        let mut settings = TurnSettings::resolve(&config, engine.config.home(), cwd, given);
        let provider = engine.provider(&settings.provider, &config).map_err(SettingsError::Provider)?;
        let is_named = given.model.is_some() || config.settings.model.is_some();
        if let Some(model) = engine.catalogue().default_model(provider.wire_api()).filter(|_| !is_named) {
            settings.model.clone_from(&model.slug);
        }
        if let Some(stored) = stored {
            if !given.choose_model() {
                settings.use_model_of(stored);
            }
            settings.keep_permissions(stored, given, &config, engine.config.home());
            settings.keep_others(stored, given);
        }
        Ok((Arc::new(config), settings))
    }

    pub(super) fn meta(&self, id: ThreadId, settings: &TurnSettings) -> ThreadMeta {
        let cwd = settings.cwd.to_string_lossy();
        ThreadMeta {
            cli_version: self.0.engine.version.clone(),
            ..ThreadMeta::new(id, cwd, self.0.engine.source.clone(), &settings.provider)
        }
    }

    pub(super) async fn load(&self, id: &ThreadId) -> Result<LoadedThread, ThreadError> {
        // A thread that is being unloaded still stores the end of its turn.
        let leaving = self.lock().leaving(id).cloned();
        if let Some(leaving) = leaving {
            leaving.over().await;
        }
        let location = self.0.engine.store.find(id).await.map_err(not_stored)?;
        if location.archived {
            return Err(ThreadError::NotStored(id.clone()));
        }
        self.0.engine.store.load(id).await.map_err(not_stored)
    }
}

/// Returns the warning about a mode for subagents that has no effect.
pub(crate) fn multi_agent_notice(mode: Option<&MultiAgentMode>) -> Option<String> {
    let is_default = mode.is_none_or(|mode| *mode == MultiAgentMode::ExplicitRequestOnly);
    (!is_default)
        .then(|| "`multiAgentMode` has no effect: agents are started on explicit request only.".to_owned())
}

/// Returns the warning about features under development that are switched on.
fn unstable_features_notice(config: &EffectiveConfig) -> Option<String> {
    if config.settings.suppress_unstable_features_warning == Some(true) {
        return None;
    }
    let unstable: Vec<_> = config.features.enabled_unstable().collect();
    (!unstable.is_empty()).then(|| {
        format!(
            "Features under development are enabled: {}. They are incomplete and may not work as expected. To turn this \
             warning off, set `suppress_unstable_features_warning = true` in config.toml.",
            unstable.join(", ")
        )
    })
}

/// Returns the last working directory of a stored thread.
fn stored_directory(stored: &StoredThread) -> String {
    match StoredSetting::read(stored.settings.as_ref(), "cwd") {
        StoredSetting::Value(cwd) => cwd,
        StoredSetting::Missing | StoredSetting::Unreadable => stored.meta.cwd.clone(),
    }
}

/// Refuses settings that the administrator's requirements forbid.
fn check_overrides(given: &SettingsOverrides, config: &EffectiveConfig) -> Result<(), SettingsError> {
    if let Some(policy) = &given.approval_policy {
        config.requirements.check_approval_policy(policy)?;
    }
    if config.settings.model_reasoning_effort == Some(ReasoningEffort::Unrecognized(String::new())) {
        return Err(SettingsError::EmptyConfiguredEffort);
    }
    match &given.sandbox {
        Some(ThreadSandbox::Mode(mode)) => config.requirements.check_sandbox_mode(mode)?,
        Some(ThreadSandbox::Policy(policy)) => config.requirements.check_sandbox_policy(policy)?,
        None => {}
    }
    NamedProfile::configured(config)?;
    if let Some(id) = &given.profile {
        NamedProfile::find(id, config)?.check_allowed(config)?;
    }
    Ok(())
}

/// Returns the facts that a copy begins with. Everything in it counts as read, and it has the attachments of its source under
/// new ids.
fn facts_of_copy(attachments: &[ThreadAttachment]) -> Vec<FactChange> {
    let attached = attachments.iter().cloned().map(|attachment| {
        let id = Uuid::now_v7().to_string();
        FactChange::Attachment(AttachmentChange::Add(ThreadAttachment { id, ..attachment }))
    });
    std::iter::once(FactChange::ReadState { first_unread: None }).chain(attached).collect()
}

/// Returns the records that end a turn in a copy, after the messages that its unfinished response has completed.
fn end_of_cut_off_turn(turn_id: &TurnId, last_messages: &[ResponseItem]) -> Vec<Record> {
    let message =
        |item: &ResponseItem| Record::Context { turn_id: Some(turn_id.clone()), item: item.clone() };
    let end = Record::TurnEnd {
        turn_id: turn_id.clone(),
        status: TurnStatus::Interrupted,
        error: None,
        cause: Some(TurnEndCause::Forked),
    };
    last_messages.iter().map(message).chain([end]).collect()
}

/// Returns the finished messages of a response that is not complete yet, which are part of the turn but not of the history.
fn unfinished_response(loaded: &LoadedThread) -> Vec<ResponseItem> {
    let Some(turn) = loaded.thread.turns.last().filter(|turn| !turn.ended) else { return Vec::new() };
    let known: Vec<_> = loaded.unfinished.iter().map(codicil_prompts::message_text).collect();
    let texts = turn.decode().items.into_iter().rev().filter_map(|item| match item {
        ThreadItem::AgentMessage { text, .. } => Some(text),
        _ => None,
    });
    let mut missing: Vec<_> =
        texts.take_while(|text| !known.contains(text)).map(codicil_prompts::assistant_message).collect();
    missing.reverse();
    missing
}

/// Takes the fork point out of a request, and checks it as far as the request alone allows.
fn take_fork_point(params: &mut ThreadForkParams) -> Result<ForkPoint, ForkError> {
    let point = match (params.last_turn_id.take(), params.before_turn_id.take()) {
        (Some(_), Some(_)) => return Err(ForkError::TwoPoints),
        (Some(last), None) => ForkPoint::After(last),
        (None, Some(next)) => ForkPoint::Before(next),
        (None, None) => ForkPoint::End,
    };
    if point != ForkPoint::End && params.ephemeral == Some(true) {
        return Err(ForkError::Ephemeral);
    }
    Ok(point)
}

/// Checks that the source has the turn of a fork point. A running turn has no end that could be copied.
fn check_fork_point(
    point: &ForkPoint,
    turns: &[StoredTurn],
    running: Option<&TurnId>,
) -> Result<(), ForkError> {
    let id = match point {
        ForkPoint::End => return Ok(()),
        ForkPoint::After(id) | ForkPoint::Before(id) => id,
    };
    if !turns.iter().any(|turn| turn.id == *id) {
        return Err(ForkError::NoTurn(id.clone()));
    }
    match point {
        ForkPoint::After(last) if running == Some(last) => Err(ForkError::TurnRunning(last.clone())),
        _ => Ok(()),
    }
}

fn is_from_user(item: &ResponseItem) -> bool {
    matches!(item, ResponseItem::Message { role, .. } if role == "user")
}
