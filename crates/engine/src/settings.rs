//! The settings of a thread: resolved when it starts, changed by turns, stored with the thread.

use std::path::{Path, PathBuf};

use codicil_config::{EffectiveConfig, HomeDirectory, TrustLevel};
use codicil_protocol::{
    AbsolutePathBuf, ApprovalsReviewer, AskForApproval, CollaborationMode, LegacyAppPathString, ModeKind,
    Patch, Personality, ProtocolGeneration, ReadOnlyAccess, ReasoningEffort, ReasoningSummary, SandboxMode,
    SandboxPolicy, ServiceTier, ThreadEnvironment, ThreadForkParams, ThreadResumeParams, ThreadSandbox,
    ThreadStartParams, TurnEnvironmentParams, TurnStartParams, normal_path,
};
use codicil_store::StoredThread;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::SettingsError,
    permissions::{InheritedPermissions, StoredPermissions},
    profiles::{self, NamedProfile, ThreadProfile},
    settings_forms::StoredSetting,
    tools::LOCAL_ENVIRONMENT,
};

/// The model if none is named and the catalogue has none for the provider. For the default provider it is the same as
/// the catalogue's.
const DEFAULT_MODEL: &str = "gpt-5.3-codex";
/// The provider if none is named.
pub(crate) const DEFAULT_PROVIDER: &str = "openai";

/// What holds for the turns of a thread until something else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSettings {
    pub model: String,
    pub provider: String,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub service_tier: Option<ServiceTier>,
    pub cwd: PathBuf,
    /// The directories of the workspace; empty: the working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspace_roots: Vec<PathBuf>,
    /// Whether the thread uses the machine of the server. Without it, the model has no tools for commands and files.
    #[serde(default = "uses_environment", skip_serializing_if = "bool::clone")]
    pub has_environment: bool,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Where the policy comes from, if it goes by a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ThreadProfile>,
    pub personality: Option<Personality>,
    pub collaboration_mode: Option<CollaborationMode>,
}

/// The settings that `thread/start`, `thread/resume` and `thread/fork` have in common.
#[derive(Clone, Debug, Default)]
pub struct SettingsOverrides {
    pub model: Option<String>,
    pub provider: Option<String>,
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub workspace_roots: Option<Vec<PathBuf>>,
    /// Whether the thread has an environment; `None` if the request does not say.
    pub has_environment: Option<bool>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox: Option<ThreadSandbox>,
    /// The name of a permission profile.
    pub profile: Option<String>,
    pub personality: Option<Personality>,
    pub config: Map<String, Value>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// The generation of the client that opens the thread.
    pub generation: ProtocolGeneration,
}

/// Takes the common settings out of one of the three requests.
macro_rules! take_overrides {
    ($params:expr, $personality:expr) => {
        SettingsOverrides {
            profile: {
                let id = $params.permissions.take();
                profiles::check_request(id.as_deref(), "sandbox", $params.sandbox.is_some())?;
                id
            },
            model: $params.model.take(),
            provider: $params.model_provider.take(),
            service_tier: std::mem::take(&mut $params.service_tier),
            cwd: $params.cwd.take(),
            workspace_roots: $params.runtime_workspace_roots.take().map(root_paths),
            has_environment: None,
            approval_policy: $params.approval_policy.take(),
            approvals_reviewer: $params.approvals_reviewer.take(),
            sandbox: $params.sandbox.take(),
            personality: $personality,
            config: $params.config.take().unwrap_or_default(),
            base_instructions: $params.base_instructions.take(),
            developer_instructions: $params.developer_instructions.take(),
            generation: ProtocolGeneration::default(),
        }
    };
}

impl TryFrom<&mut ThreadStartParams> for SettingsOverrides {
    type Error = SettingsError;

    fn try_from(params: &mut ThreadStartParams) -> Result<Self, SettingsError> {
        let mut given = take_overrides!(params, params.personality.take());
        let Some(environments) = params.environments.take() else { return Ok(given) };
        let environment = local_environment(environments)?;
        given.has_environment = Some(environment.is_some());
        if let Some(TurnEnvironmentParams { cwd, runtime_workspace_roots, .. }) = environment {
            given.cwd = Some(cwd.0);
            given.workspace_roots = Some(environment_roots(runtime_workspace_roots));
        }
        Ok(given)
    }
}

impl TryFrom<&mut ThreadResumeParams> for SettingsOverrides {
    type Error = SettingsError;

    fn try_from(params: &mut ThreadResumeParams) -> Result<Self, SettingsError> {
        Ok(take_overrides!(params, params.personality.take()))
    }
}

impl TryFrom<&mut ThreadForkParams> for SettingsOverrides {
    type Error = SettingsError;

    fn try_from(params: &mut ThreadForkParams) -> Result<Self, SettingsError> {
        Ok(take_overrides!(params, None))
    }
}

impl SettingsOverrides {
    /// Returns them as those of a client of a generation.
    pub fn of(self, generation: ProtocolGeneration) -> Self {
        Self { generation, ..self }
    }

    /// Returns whether they name the model or its effort. Those of a stored thread then have no effect.
    pub fn choose_model(&self) -> bool {
        self.model.is_some()
            || self.provider.is_some()
            || self.config.contains_key("model")
            || self.config.contains_key("model_reasoning_effort")
    }

    /// Returns the permissions that they do not name.
    pub(crate) fn inherited(&self) -> InheritedPermissions {
        let is_set = |key: &str| self.config.get(key).is_some_and(|value| !value.is_null());
        let names_sandbox = self.sandbox.is_some() || self.profile.is_some();
        InheritedPermissions {
            sandbox: !names_sandbox && !is_set("sandbox_mode") && !is_set("default_permissions"),
            approval_policy: self.approval_policy.is_none() && !is_set("approval_policy"),
            approvals_reviewer: self.approvals_reviewer.is_none() && !is_set("approvals_reviewer"),
        }
    }

    /// Returns whether they name details of the `workspace-write` sandbox.
    fn name_workspace_details(&self) -> bool {
        let is_detail = |key: &String| {
            let rest = key.strip_prefix("sandbox_workspace_write");
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.config.keys().any(is_detail)
    }
}

impl TurnSettings {
    /// Resolves the settings of a new thread: those of the request, else those of the configuration.
    pub fn resolve(
        config: &EffectiveConfig,
        home: &HomeDirectory,
        cwd: PathBuf,
        given: &SettingsOverrides,
    ) -> Self {
        let set = &config.settings;
        let named = named_profile(config, given);
        let (profile, policy) = named.map_or((None, None), |named| (Some(named.profile), named.policy));
        let sandbox = match (&given.sandbox, policy) {
            (Some(ThreadSandbox::Policy(policy)), _) => policy.clone(),
            (Some(ThreadSandbox::Mode(mode)), _) => sandbox_policy(mode, config, home, given.generation),
            (None, Some(policy)) => policy,
            (None, None) => {
                let mode = set.sandbox_mode.clone().unwrap_or_else(|| usual_mode(config));
                sandbox_policy(&mode, config, home, given.generation)
            }
        };
        // A thread for which nothing names a sandbox has the profile of the usual one.
        let names_none = given.sandbox.is_none() && set.sandbox_mode.is_none();
        let profile = profile.or_else(|| ThreadProfile::of_mode(&usual_mode(config)).filter(|_| names_none));
        Self {
            model: given
                .model
                .clone()
                .or_else(|| set.model.clone())
                .unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
            provider: (given.provider.clone().or_else(|| set.model_provider.clone()))
                .unwrap_or_else(|| DEFAULT_PROVIDER.to_owned()),
            effort: set.model_reasoning_effort.clone(),
            summary: set.model_reasoning_summary.clone(),
            service_tier: match &given.service_tier {
                Patch::Value(tier) => Some(tier.clone()),
                Patch::Null if given.generation == ProtocolGeneration::V166 => Some(ServiceTier::Default),
                tier => ordinary(tier.clone().apply(set.service_tier.clone())),
            },
            approval_policy: (given.approval_policy.clone().or_else(|| set.approval_policy.clone()))
                .unwrap_or_else(|| usual_policy(config)),
            approvals_reviewer: (given.approvals_reviewer.clone().or_else(|| set.approvals_reviewer.clone()))
                .unwrap_or(ApprovalsReviewer::User),
            sandbox,
            profile,
            personality: given.personality.or_else(|| set.personality()),
            collaboration_mode: None,
            workspace_roots: given.workspace_roots.clone().unwrap_or_default(),
            has_environment: given.has_environment.unwrap_or(true),
            cwd,
        }
    }

    /// Returns the directories of the workspace. A thread without an environment has none.
    pub fn workspace_roots(&self) -> Vec<PathBuf> {
        if !self.has_environment {
            return Vec::new();
        }
        if self.workspace_roots.is_empty() { vec![self.cwd.clone()] } else { self.workspace_roots.clone() }
    }

    pub(crate) fn is_plan_mode(&self) -> bool {
        self.collaboration_mode.as_ref().is_some_and(|mode| mode.mode == ModeKind::Plan)
    }

    /// Returns the environments of the thread: that of the server, or none.
    pub(crate) fn environments(&self) -> Vec<ThreadEnvironment> {
        let text = |path: &Path| LegacyAppPathString(path.to_string_lossy().into_owned());
        let local = self.has_environment.then(|| ThreadEnvironment {
            environment_id: LOCAL_ENVIRONMENT.to_owned(),
            cwd: text(&self.cwd),
            runtime_workspace_roots: self.workspace_roots().iter().map(|root| text(root)).collect(),
        });
        local.into_iter().collect()
    }

    /// Applies the environments of a turn. Unknown ones have been refused before.
    pub(crate) fn apply_environments(&mut self, environments: &[TurnEnvironmentParams]) {
        self.has_environment = !environments.is_empty();
        if let Some(environment) = environments.first() {
            self.cwd = join(&self.cwd, &environment.cwd.0);
            self.workspace_roots = environment_roots(environment.runtime_workspace_roots.clone());
        }
    }

    /// Applies the settings of a turn. They hold for later turns too.
    pub fn apply(&mut self, turn: &mut TurnStartParams, config: &EffectiveConfig) {
        if let Some(model) = turn.model.take() {
            self.model = model;
        }
        if let Some(effort) = turn.effort.take() {
            self.effort = Some(effort);
        }
        if let Some(mode) = &mut self.collaboration_mode {
            mode.settings.model.clone_from(&self.model);
            mode.settings.reasoning_effort.clone_from(&self.effort);
        }
        if let Some(summary) = turn.summary.take() {
            self.summary = Some(summary);
        }
        if let Some(cwd) = turn.cwd.take() {
            self.cwd = join(&self.cwd, &cwd);
        }
        if let Some(roots) = turn.runtime_workspace_roots.take() {
            self.workspace_roots = root_paths(roots);
        }
        if let Some(policy) = turn.approval_policy.take() {
            self.approval_policy = policy;
        }
        if let Some(reviewer) = turn.approvals_reviewer.take() {
            self.approvals_reviewer = reviewer;
        }
        if let Some(sandbox) = turn.sandbox_policy.take() {
            (self.sandbox, self.profile) = (sandbox, None);
        }
        // Unknown profiles have been refused before.
        if let Some(named) = turn.permissions.take().and_then(|id| NamedProfile::find(&id, config).ok()) {
            self.profile = Some(named.profile);
            self.sandbox = named.policy.unwrap_or_else(|| self.sandbox.clone());
        }
        if let Some(personality) = turn.personality.take() {
            self.personality = Some(personality);
        }
        match std::mem::take(&mut turn.service_tier) {
            Patch::Missing => {}
            Patch::Null => self.service_tier = Some(ServiceTier::Default),
            Patch::Value(tier) => self.service_tier = Some(tier),
        }
        // A collaboration mode also sets the model and effort, so it comes last.
        if let Some(mode) = turn.collaboration_mode.take() {
            self.model.clone_from(&mode.settings.model);
            self.effort.clone_from(&mode.settings.reasoning_effort);
            self.collaboration_mode = Some(mode);
        }
    }

    /// Uses the last model and effort of a stored thread.
    pub(crate) fn use_model_of(&mut self, stored: &StoredThread) {
        if let Some(used) = &stored.settings
            && let Some(model) = &used.model
        {
            self.model.clone_from(model);
            self.effort.clone_from(&used.effort);
        }
    }

    /// Restores the other settings of a stored thread that the request does not name: the summary, the service tier, the
    /// personality and the collaboration mode.
    pub(crate) fn keep_others(&mut self, stored: &StoredThread, given: &SettingsOverrides) {
        let stored = stored.settings.as_ref();
        let names = |key: &str| given.config.contains_key(key);
        if let StoredSetting::Value(summary) = StoredSetting::read(stored, "summary")
            && !names("model_reasoning_summary")
        {
            self.summary = Some(summary);
        }
        if let StoredSetting::Value(roots) = StoredSetting::read(stored, "workspaceRoots")
            && given.workspace_roots.is_none()
        {
            self.workspace_roots = roots;
        }
        if let StoredSetting::Value(has_environment) = StoredSetting::read(stored, "hasEnvironment")
            && given.has_environment.is_none()
        {
            self.has_environment = has_environment;
        }
        if let StoredSetting::Value(tier) = StoredSetting::read(stored, "serviceTier")
            && given.service_tier.is_missing()
            && !names("service_tier")
        {
            self.service_tier = Some(tier);
        }
        if let StoredSetting::Value(personality) = StoredSetting::read(stored, "personality")
            && given.personality.is_none()
            && !names("personality")
            && !names("model_personality")
        {
            self.personality = Some(personality);
        }
        if let StoredSetting::Value::<CollaborationMode>(mut mode) =
            StoredSetting::read(stored, "collaborationMode")
        {
            mode.settings.model.clone_from(&self.model);
            mode.settings.reasoning_effort.clone_from(&self.effort);
            self.collaboration_mode = Some(mode);
        }
    }

    /// Restores the permissions of a stored thread that the request does not name. A request that names only details of
    /// the `workspace-write` sandbox changes those, if the thread has that sandbox.
    pub(crate) fn keep_permissions(
        &mut self,
        stored: &StoredThread,
        given: &SettingsOverrides,
        config: &EffectiveConfig,
        home: &HomeDirectory,
    ) {
        let permissions = StoredPermissions::read(stored.settings.as_ref());
        self.inherit(permissions, given.inherited(), config);
        let is_workspace = matches!(self.sandbox, SandboxPolicy::WorkspaceWrite { .. });
        if given.inherited().sandbox && given.name_workspace_details() && is_workspace {
            let mode = SandboxMode::WorkspaceWrite;
            let sandbox = sandbox_policy(&mode, config, home, given.generation);
            (self.sandbox, self.profile) = (sandbox, None);
        }
    }
}

/// Returns the profile of a request, else that of the configuration. A built-in profile overrides the configured sandbox
/// mode, which overrides a profile of the configuration. Unknown profiles are refused when a thread is opened, and ignored
/// elsewhere.
fn named_profile(config: &EffectiveConfig, given: &SettingsOverrides) -> Option<NamedProfile> {
    if given.sandbox.is_some() {
        return None;
    }
    if let Some(id) = &given.profile {
        return NamedProfile::find(id, config).ok();
    }
    let configured = NamedProfile::configured(config).ok().flatten()?;
    let is_overridden = config.settings.sandbox_mode.is_some();
    match configured.profile {
        ThreadProfile::Configured { .. } if is_overridden || configured.policy.is_none() => None,
        ThreadProfile::Builtin(_) | ThreadProfile::Configured { .. } => Some(configured),
    }
}

fn uses_environment() -> bool {
    true
}

/// Returns the environment that a request names; `None` if it names none. Only that of the server is known.
pub(crate) fn local_environment(
    environments: Vec<TurnEnvironmentParams>,
) -> Result<Option<TurnEnvironmentParams>, SettingsError> {
    if let Some(unknown) = environments.iter().find(|named| named.environment_id != LOCAL_ENVIRONMENT) {
        return Err(SettingsError::NoEnvironment(unknown.environment_id.clone()));
    }
    if environments.len() > 1 {
        return Err(SettingsError::EnvironmentTwice(LOCAL_ENVIRONMENT));
    }
    let environment = environments.into_iter().next();
    match environment.as_ref().map(|environment| &environment.cwd.0) {
        Some(cwd) if !Path::new(cwd).is_absolute() => {
            Err(SettingsError::RelativeEnvironment { environment: LOCAL_ENVIRONMENT, cwd: cwd.clone() })
        }
        _ => Ok(environment),
    }
}

/// Returns the directories that a request names for an environment; empty for its working directory alone.
fn environment_roots(roots: Option<Vec<LegacyAppPathString>>) -> Vec<PathBuf> {
    roots.into_iter().flatten().map(|root| normal_path(Path::new(&root.0))).collect()
}

fn root_paths(roots: Vec<AbsolutePathBuf>) -> Vec<PathBuf> {
    roots.iter().map(|root| normal_path(root)).collect()
}

/// Returns the sandbox mode if none is named. A user who has decided about a project, either way, wants to work in it.
fn usual_mode(config: &EffectiveConfig) -> SandboxMode {
    let may_write = config.requirements.check_sandbox_mode(&SandboxMode::WorkspaceWrite).is_ok();
    if config.trust.is_some() && may_write { SandboxMode::WorkspaceWrite } else { SandboxMode::ReadOnly }
}

/// Returns the approval policy if none is named.
fn usual_policy(config: &EffectiveConfig) -> AskForApproval {
    let is_allowed = config.requirements.check_approval_policy(&AskForApproval::Untrusted).is_ok();
    match config.trust {
        Some(TrustLevel::Untrusted) if is_allowed => AskForApproval::Untrusted,
        _ => AskForApproval::OnRequest,
    }
}

/// Returns `None` for the default service tier, which is not sent to the provider.
pub(crate) fn ordinary(tier: Option<ServiceTier>) -> Option<ServiceTier> {
    tier.filter(|tier| *tier != ServiceTier::Default)
}

/// Joins a working directory to `base` and normalizes it. It need not exist, and links in it stay.
pub(crate) fn join(base: &Path, cwd: &str) -> PathBuf {
    normal_path(&base.join(cwd))
}

/// Returns the sandbox policy of a mode.
fn sandbox_policy(
    mode: &SandboxMode,
    config: &EffectiveConfig,
    home: &HomeDirectory,
    generation: ProtocolGeneration,
) -> SandboxPolicy {
    match mode {
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::WorkspaceWrite => {
            let set = config.settings.sandbox_workspace_write.clone();
            let roots = set.iter().flat_map(|set| &set.writable_roots).filter_map(AbsolutePathBuf::new);
            // Notes that the agent keeps across threads. In the 0.166 generation they are not part of the workspace.
            let memories = AbsolutePathBuf::new(home.path().join("memories"))
                .filter(|_| generation == ProtocolGeneration::V118);
            SandboxPolicy::WorkspaceWrite {
                writable_roots: roots.chain(memories).collect(),
                read_only_access: ReadOnlyAccess::FullAccess,
                network_access: set.as_ref().is_some_and(|set| set.network_access),
                exclude_tmpdir_env_var: set.as_ref().is_some_and(|set| set.exclude_tmpdir_env_var),
                exclude_slash_tmp: set.as_ref().is_some_and(|set| set.exclude_slash_tmp),
            }
        }
        // Unknown modes have been refused before; the strictest policy is the safe fallback.
        SandboxMode::ReadOnly | SandboxMode::Unrecognized(_) => {
            SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
        }
    }
}
