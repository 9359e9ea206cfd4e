//! The state of a thread: what is stored of it, and what the next request needs.

use std::sync::Arc;

use codicil_config::EffectiveConfig;
use codicil_model::History;
use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    DynamicToolEntry, GitInfo, Personality, ResponseItem, SessionSource, Thread, ThreadGoal,
    ThreadHistoryMode, ThreadId, ThreadItem, ThreadStatus, ThreadTokenUsage, TurnId, TurnStatus,
};
use codicil_store::{
    AdoptedRecord, AppendedRecords, Epoch, FactChange, LoadedMark, LoadedThread, Record, Store, StoreError,
    StoredSettings, ThreadFacts, ThreadLog, ThreadMeta, ThreadPlacement, WorkspaceUse,
};
use serde_json::{Map, Value};

use super::{ContinuedTurn, other_writers::UnsettledTurn};
use crate::{
    clock::unix_now,
    permissions::{InheritedPermissions, StoredPermissions},
    request_key::KeyTable,
    settings::TurnSettings,
    settings_forms::StoredContext,
    subagent::{SubagentOrigin, SubagentSlot},
};

/// The state of one thread, owned by its actor.
pub(crate) struct ThreadState {
    pub id: ThreadId,
    /// The thread's file; `None` for an ephemeral thread.
    pub log: Option<ThreadLog>,
    pub config: Arc<EffectiveConfig>,
    /// Configuration values of the request that opened the thread.
    pub overrides: Map<String, Value>,
    pub settings: TurnSettings,
    /// The settings of the next turn, if they were changed during the running one.
    pub next_settings: Option<TurnSettings>,
    /// The settings as they were last stored.
    pub stored: Option<StoredContext>,
    pub history: History,
    pub context: Option<ContextSnapshot>,
    /// The personality that the thread began with.
    pub first_personality: Option<Personality>,
    /// The last turn, if its end is not stored and this process does not run it.
    pub unfinished: Option<UnsettledTurn>,
    /// The last turn that was not dropped.
    pub last_turn: Option<TurnId>,
    /// Whether this process has made the thread as a fork and started no turn of it.
    pub is_untouched_fork: bool,
    /// Whether the last turn was interrupted when the thread was loaded.
    pub is_last_turn_interrupted: bool,
    pub usage: ThreadTokenUsage,
    /// Whether a client has joined since the usage was last sent.
    pub is_usage_unsent: bool,
    pub status: ThreadStatus,
    /// The turn of an earlier process, until it continues.
    pub continued: Option<Box<ContinuedTurn>>,
    pub name: Option<String>,
    pub git: Option<GitInfo>,
    pub goal: Option<ThreadGoal>,
    pub facts: ThreadFacts,
    pub preview: Option<String>,
    /// The directory that the thread began in; turns may use another.
    pub cwd: String,
    pub source: SessionSource,
    pub cli_version: String,
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    pub forked_from: Option<ThreadId>,
    pub parent: Option<ThreadId>,
    pub originator: Option<String>,
    pub thread_source: Option<String>,
    pub history_mode: ThreadHistoryMode,
    /// The slot of a subagent; free again when the thread ends.
    pub slot: Option<SubagentSlot>,
    /// Unix seconds, like `updated_at`.
    pub created_at: i64,
    pub updated_at: i64,
    pub base_instructions: Option<String>,
    /// The instructions that the thread was started with.
    first_instructions: FirstInstructions,
    /// The label of the client's service, for the provider's metrics.
    pub service_name: Option<String>,
    /// The instructions of the request that opened the thread, else the stored ones.
    pub developer_instructions: Option<String>,
    /// Tools that the client runs.
    pub dynamic_tools: Vec<DynamicToolEntry>,
    pub raw_events: bool,
    /// Whether the client starts the thread in place of one that the user cleared. For hooks.
    pub is_cleared: bool,
    /// Shows other processes that this one has loaded the thread.
    pub loaded_mark: Option<LoadedMark>,
    /// The keys of requests, once there was one.
    pub keys: Option<KeyTable>,
}

/// The instructions in the first record of a thread.
struct FirstInstructions {
    base: Option<String>,
    developer: Option<String>,
}

/// What [`ThreadState::restore`] goes back to.
pub(crate) struct RestorePoint {
    settings: TurnSettings,
    next_settings: Option<TurnSettings>,
    stored: Option<StoredContext>,
    context: Option<ContextSnapshot>,
    git: Option<GitInfo>,
}

impl ThreadState {
    pub fn new(
        meta: &ThreadMeta,
        log: Option<ThreadLog>,
        config: Arc<EffectiveConfig>,
        settings: TurnSettings,
    ) -> Self {
        let now = unix_now();
        Self {
            id: meta.id.clone(),
            log,
            config,
            overrides: Map::new(),
            first_personality: settings.personality,
            settings,
            next_settings: None,
            stored: None,
            history: History::new(),
            context: None,
            unfinished: None,
            last_turn: None,
            is_untouched_fork: false,
            is_last_turn_interrupted: false,
            usage: ThreadTokenUsage::default(),
            is_usage_unsent: true,
            status: ThreadStatus::Idle,
            continued: None,
            name: None,
            git: None,
            goal: None,
            facts: ThreadFacts::default(),
            preview: None,
            cwd: meta.cwd.clone(),
            source: meta.source.clone(),
            cli_version: meta.cli_version.clone(),
            agent_nickname: meta.agent_nickname.clone(),
            agent_role: meta.agent_role.clone(),
            forked_from: meta.forked_from.clone(),
            parent: meta.parent_thread_id.clone(),
            originator: meta.originator.clone(),
            thread_source: meta.thread_source.clone(),
            history_mode: meta.history_mode.clone(),
            slot: None,
            created_at: now,
            updated_at: now,
            service_name: None,
            base_instructions: meta.base_instructions.clone(),
            first_instructions: FirstInstructions {
                base: meta.base_instructions.clone(),
                developer: meta.developer_instructions.clone(),
            },
            developer_instructions: meta.developer_instructions.clone(),
            dynamic_tools: meta.dynamic_tools.clone(),
            raw_events: false,
            is_cleared: false,
            loaded_mark: None,
            keys: None,
        }
    }

    /// Marks the thread as loaded. Without the mark, other processes may load it too.
    pub async fn mark_loaded(&mut self, store: &Store) {
        if self.loaded_mark.is_none() && self.log.is_some() {
            self.loaded_mark = store.mark_loaded(&self.id).await.unwrap_or_else(|error| {
                tracing::warn!(thread = %self.id, "failed to mark a thread as loaded: {error}");
                None
            });
        }
    }

    /// Returns the developer instructions of the thread, else those of the configuration.
    pub fn developer_instructions(&self) -> Option<String> {
        let configured = || self.config.settings.developer_instructions.clone();
        self.developer_instructions.clone().or_else(configured)
    }

    /// Restores what is stored of the thread.
    pub fn recall(&mut self, loaded: LoadedThread) {
        self.unfinished = UnsettledTurn::of(&loaded);
        self.continued = None;
        let LoadedThread { thread, history, .. } = loaded;
        self.history = history.into_iter().collect();
        self.context = thread.known_settings.as_ref().and_then(StoredContext::read_context);
        if let Some(settings) = &thread.settings {
            self.recall_settings(settings);
        }
        if let Some((_, usage)) = thread.usage {
            self.usage = usage;
        }
        self.last_turn = thread.turns.last().map(|turn| turn.id.clone());
        self.is_last_turn_interrupted =
            thread.turns.last().is_some_and(|turn| turn.status == TurnStatus::Interrupted);
        self.name = thread.name;
        self.git = thread.git;
        self.goal = thread.goal;
        self.facts = thread.facts;
        self.preview = thread.preview;
        self.created_at = thread.created_at;
        self.updated_at = thread.updated_at;
    }

    /// Restores what is stored of the thread after another process has written to it, including settings that it has changed.
    pub fn recall_again(&mut self, loaded: LoadedThread) {
        let known = self.stored.clone();
        self.usage = ThreadTokenUsage::default();
        self.recall(loaded);
        let Some(stored) = self.stored.clone().filter(|stored| Some(stored) != known.as_ref()) else {
            return;
        };
        let permissions = StoredPermissions::from(&stored.settings);
        let TurnSettings { approval_policy, approvals_reviewer, sandbox, profile, .. } =
            self.settings.clone();
        self.settings =
            TurnSettings { approval_policy, approvals_reviewer, sandbox, profile, ..stored.settings };
        self.settings.inherit(permissions, InheritedPermissions::ALL, &self.config);
        self.base_instructions = stored.base_instructions.or(self.base_instructions.take());
        self.developer_instructions = stored.developer_instructions.or(self.developer_instructions.take());
    }

    /// Takes over what is stored besides the settings, which were resolved before from request, configuration and record.
    fn recall_settings(&mut self, settings: &StoredSettings) {
        let Some(recalled) = StoredContext::read(settings, &self.current_context()) else { return };
        for field in &recalled.unreadable {
            let version = settings.version;
            tracing::warn!(
                thread = %self.id,
                field,
                version,
                "cannot read a stored setting; a permission takes its strictest value, others the configured one"
            );
        }
        self.first_personality = recalled.stored.first_personality;
        // An incomplete snapshot is written again with the next change.
        self.stored = recalled.is_complete.then_some(recalled.stored);
    }

    /// Returns the state that a turn changes before it is accepted.
    pub fn restore_point(&self) -> RestorePoint {
        let Self { settings, next_settings, stored, context, git, .. } = self;
        RestorePoint {
            settings: settings.clone(),
            next_settings: next_settings.clone(),
            stored: stored.clone(),
            context: context.clone(),
            git: git.clone(),
        }
    }

    /// Restores the state of a turn that was not accepted.
    pub fn restore(&mut self, before: RestorePoint) {
        self.settings = before.settings;
        self.next_settings = before.next_settings;
        self.stored = before.stored;
        self.context = before.context;
        self.git = before.git;
    }

    /// Returns the path of the thread's file; `None` for an ephemeral thread and for one in a database.
    pub fn path(&self) -> Option<String> {
        let path = self.log.as_ref()?.path();
        (!path.as_os_str().is_empty()).then(|| path.to_string_lossy().into_owned())
    }

    /// Returns the `threadSource` of a subagent.
    fn subagent_source(&self) -> Option<String> {
        SubagentOrigin::of(&self.source).map(|_| "subagent".to_owned())
    }

    /// Returns the thread as clients see it, without its turns.
    pub fn view(&self) -> Thread {
        Thread {
            id: self.id.clone(),
            session_id: Some(self.slot.as_ref().map_or(&self.id, SubagentSlot::root).clone()),
            forked_from_id: self.forked_from.clone(),
            parent_thread_id: self.parent.clone(),
            project_id: None,
            section: None,
            section_entered_at: None,
            environments: Some(self.settings.environments()),
            history_mode: self.history_mode.clone(),
            preview: self.preview.clone().unwrap_or_default(),
            ephemeral: self.log.is_none(),
            model_provider: self.settings.provider.clone(),
            model: Some(self.settings.model.clone()),
            reasoning_effort: self.settings.effort.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            recency_at: Some(self.updated_at),
            status: self.status.clone(),
            path: self.path(),
            cwd: self.cwd.clone(),
            cli_version: self.cli_version.clone(),
            source: self.source.clone(),
            originator: self.originator.clone(),
            thread_source: self.thread_source.clone().or_else(|| self.subagent_source()),
            can_accept_direct_input: Some(true),
            daybreak_enabled: None,
            extra: None,
            agent_nickname: self.agent_nickname.clone(),
            agent_role: self.agent_role.clone(),
            git_info: self.git.clone(),
            name: self.name.clone(),
            turns: Vec::new(),
        }
    }

    /// The record of the settings, if they are not what is on disk. Settings for the next turn count more than
    /// those of the turn that is running: they hold when the thread is opened again.
    pub fn settings_record(&mut self) -> Option<Record> {
        self.unstored_settings().map(Record::Settings)
    }

    fn unstored_settings(&mut self) -> Option<StoredSettings> {
        let now = self.current_context();
        if self.stored.as_ref() == Some(&now) {
            return None;
        }
        let settings = now.to_stored();
        self.stored = Some(now);
        Some(settings)
    }

    fn current_context(&self) -> StoredContext {
        let settings = self.next_settings.as_ref().unwrap_or(&self.settings).clone();
        let changed = |now: &Option<String>, first: &Option<String>| now.clone().filter(|_| now != first);
        StoredContext {
            settings,
            context: self.context.clone(),
            first_personality: self.first_personality,
            base_instructions: changed(&self.base_instructions, &self.first_instructions.base),
            developer_instructions: changed(&self.developer_instructions, &self.first_instructions.developer),
        }
    }

    /// Creates the file of a new thread with its settings: its permissions hold even if no turn ever runs.
    /// `parent_epoch` is the epoch at which the parent of a subagent was loaded.
    pub async fn create_log(
        &mut self,
        store: &Store,
        meta: &ThreadMeta,
        parent_epoch: Option<Epoch>,
    ) -> Result<(), StoreError> {
        let settings = self.unstored_settings().map(Record::Settings);
        let project = self.facts.project_id.clone();
        let project = project.map(|id| Record::fact(&FactChange::Project { project_id: Some(id) }));
        let records = settings.into_iter().chain(project).collect();
        let workspace =
            if self.settings.has_environment { WorkspaceUse::Directory } else { WorkspaceUse::None };
        let placement = ThreadPlacement { parent_epoch, workspace };
        self.log = Some(store.create_at(meta.clone(), records, placement).await?);
        Ok(())
    }

    /// Stores the settings if they have changed.
    pub async fn store_settings(&mut self) -> Result<(), StoreError> {
        let record = self.settings_record();
        if let (Some(record), Some(log)) = (record, &mut self.log) {
            let AppendedRecords { adopted, .. } = log.append(&[record]).await?;
            self.adopt(adopted);
        }
        Ok(())
    }

    /// Stores facts and takes them over. An ephemeral thread has none.
    pub async fn store_facts(&mut self, changes: Vec<FactChange>) -> Result<(), StoreError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let records: Vec<_> = changes.iter().map(Record::fact).collect();
        let AppendedRecords { ordinals, adopted, .. } = log.append(&records).await?;
        self.adopt(adopted);
        for (ordinal, change) in ordinals.zip(changes) {
            self.facts.apply(ordinal, change);
        }
        Ok(())
    }

    /// Takes over records that another process has written besides the conversation.
    pub fn adopt(&mut self, records: Vec<AdoptedRecord>) {
        for record in records {
            match record {
                AdoptedRecord::Name(name) => self.name = Some(name),
                AdoptedRecord::Git(git) => self.git = git,
                AdoptedRecord::Goal(goal) => self.goal = goal,
                AdoptedRecord::Fact { ordinal, change } => self.facts.apply(ordinal, change),
                // The table is read again with the next key.
                AdoptedRecord::Key => self.keys = None,
                AdoptedRecord::Position => {}
            }
        }
    }

    /// Extends the model's history.
    pub fn remember(&mut self, items: impl IntoIterator<Item = ResponseItem>) {
        self.history.extend(items);
    }

    /// Sets the preview to the first message. Ephemeral threads are not listed and need none.
    pub fn note_preview(&mut self, item: &ThreadItem) {
        if self.preview.is_none() && self.log.is_some() {
            self.preview = codicil_store::preview(item);
        }
    }
}
