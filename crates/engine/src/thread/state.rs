//! What a thread is: everything its actor owns.

use std::sync::Arc;

use codicil_config::EffectiveConfig;
use codicil_model::History;
use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    DynamicToolEntry, GitInfo, Personality, ResponseItem, SessionSource, Thread, ThreadGoal, ThreadId,
    ThreadItem, ThreadStatus, ThreadTokenUsage,
};
use codicil_store::{LoadedThread, Record, Store, StoreError, StoredSettings, ThreadLog, ThreadMeta};
use serde_json::{Map, Value};

use crate::{clock::unix_now, kin::SubagentSlot, settings::TurnSettings, settings_forms::StoredContext};

/// The state of one thread. Only its actor touches it.
pub(crate) struct ThreadState {
    pub id: ThreadId,
    /// Where it is kept; `None` for an ephemeral thread.
    pub log: Option<ThreadLog>,
    pub config: Arc<EffectiveConfig>,
    /// What of its configuration was given with the request that opened it.
    pub overrides: Map<String, Value>,
    pub settings: TurnSettings,
    /// What the next turn has, if that changed while one was running.
    pub next_settings: Option<TurnSettings>,
    /// What of the settings is on disk.
    pub stored: Option<StoredContext>,
    pub history: History,
    pub told: Option<ContextSnapshot>,
    /// How the model was asked to speak when the thread began.
    pub tone: Option<Personality>,
    pub usage: ThreadTokenUsage,
    /// Whether somebody has joined who was not told the usage.
    pub usage_unsaid: bool,
    pub status: ThreadStatus,
    pub name: Option<String>,
    pub git: Option<GitInfo>,
    pub goal: Option<ThreadGoal>,
    pub preview: Option<String>,
    /// Where the thread began; turns may work elsewhere.
    pub cwd: String,
    pub source: SessionSource,
    pub cli_version: String,
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    /// Its place among the agents of its tree; free again when the thread ends.
    pub seat: Option<SubagentSlot>,
    pub session: ThreadId,
    /// Unix seconds, like `updated_at`.
    pub created_at: i64,
    pub updated_at: i64,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// Tools that the client runs.
    pub dynamic_tools: Vec<DynamicToolEntry>,
    pub raw_events: bool,
}

/// What [`ThreadState::restore`] goes back to.
pub(crate) struct RestorePoint {
    settings: TurnSettings,
    stored: Option<StoredContext>,
    told: Option<ContextSnapshot>,
    git: Option<GitInfo>,
}

impl ThreadState {
    /// A thread that begins now.
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
            tone: settings.personality,
            settings,
            next_settings: None,
            stored: None,
            history: History::new(),
            told: None,
            usage: ThreadTokenUsage::default(),
            usage_unsaid: true,
            status: ThreadStatus::Idle,
            name: None,
            git: None,
            goal: None,
            preview: None,
            cwd: meta.cwd.clone(),
            source: meta.source.clone(),
            cli_version: meta.cli_version.clone(),
            agent_nickname: meta.agent_nickname.clone(),
            agent_role: meta.agent_role.clone(),
            seat: None,
            session: (meta.parent_thread_id.clone())
                .or_else(|| meta.forked_from.clone())
                .unwrap_or_else(|| meta.id.clone()),
            created_at: now,
            updated_at: now,
            base_instructions: meta.base_instructions.clone(),
            developer_instructions: meta.developer_instructions.clone(),
            dynamic_tools: meta.dynamic_tools.clone(),
            raw_events: false,
        }
    }

    /// Takes over what was stored of the thread.
    pub fn recall(&mut self, loaded: LoadedThread) {
        let LoadedThread { thread, history } = loaded;
        self.history = history.into_iter().collect();
        self.told = thread.known_settings.as_ref().and_then(StoredContext::read_context);
        if let Some(settings) = &thread.settings {
            self.recall_settings(settings);
        }
        if let Some((_, usage)) = thread.usage {
            self.usage = usage;
        }
        self.name = thread.name;
        self.git = thread.git;
        self.goal = thread.goal;
        self.preview = thread.preview;
        self.created_at = thread.created_at;
        self.updated_at = thread.updated_at;
    }

    /// The thread's settings themselves were resolved before, from the request, the configuration and the record.
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
        self.tone = recalled.stored.first_personality;
        // An incomplete snapshot is written again with the next change.
        self.stored = recalled.is_complete.then_some(recalled.stored);
    }

    /// What a turn changes before it is accepted.
    pub fn standing(&self) -> RestorePoint {
        let Self { settings, stored, told, git, .. } = self;
        RestorePoint {
            settings: settings.clone(),
            stored: stored.clone(),
            told: told.clone(),
            git: git.clone(),
        }
    }

    /// Goes back to what held before: nothing of the turn was written.
    pub fn restore(&mut self, before: RestorePoint) {
        let RestorePoint { settings, stored, told, git } = before;
        (self.settings, self.stored, self.told, self.git) = (settings, stored, told, git);
    }

    /// The thread's file; an ephemeral one has none.
    pub fn path(&self) -> Option<String> {
        self.log.as_ref().map(|log| log.path().to_string_lossy().into_owned())
    }

    /// As clients see it, without its turns.
    pub fn view(&self) -> Thread {
        Thread {
            id: self.id.clone(),
            session_id: Some(self.session.clone()),
            preview: self.preview.clone().unwrap_or_default(),
            ephemeral: self.log.is_none(),
            model_provider: self.settings.provider.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            status: self.status.clone(),
            path: self.path(),
            cwd: self.cwd.clone(),
            cli_version: self.cli_version.clone(),
            source: self.source.clone(),
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
        StoredContext { settings, context: self.told.clone(), first_personality: self.tone }
    }

    /// Begins the file of a new thread, with its settings: what it may do holds even if no turn ever runs.
    pub async fn create_log(&mut self, store: &Store, meta: &ThreadMeta) -> Result<(), StoreError> {
        let settings = self.unstored_settings();
        self.log = Some(store.create_with(meta.clone(), settings).await?);
        Ok(())
    }

    /// Writes the settings if they are not what is on disk.
    pub async fn store_settings(&mut self) -> Result<(), StoreError> {
        let record = self.settings_record();
        if let (Some(record), Some(log)) = (record, &mut self.log) {
            log.append(&[record]).await?;
        }
        Ok(())
    }

    /// Adds to what the model sees.
    pub fn remember(&mut self, items: impl IntoIterator<Item = ResponseItem>) {
        self.history.extend(items);
    }

    /// The first message names the thread in lists. An ephemeral thread is in none.
    pub fn note_preview(&mut self, item: &ThreadItem) {
        if self.preview.is_none() && self.log.is_some() {
            self.preview = codicil_store::preview(item);
        }
    }
}
