//! The table of feature flags.
//!
//! The names are those of the reference server, so that existing files and command lines keep working. `Removed` flags are
//! accepted and have no effect, because Codicil always does it, never does it, or does it differently.

use codicil_protocol::ExperimentalFeatureStage;

/// The maturity of a feature. Only features in beta are offered to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    UnderDevelopment,
    Beta {
        title: &'static str,
        description: &'static str,
        announcement: Option<&'static str>,
    },
    Stable,
    Deprecated,
    Removed,
    /// A flag of later versions of the reference server. Clients of them set it; it is not listed.
    Later,
}

impl FeatureStage {
    pub(crate) fn to_wire(self) -> ExperimentalFeatureStage {
        match self {
            Self::UnderDevelopment | Self::Later => ExperimentalFeatureStage::UnderDevelopment,
            Self::Beta { .. } => ExperimentalFeatureStage::Beta,
            Self::Stable => ExperimentalFeatureStage::Stable,
            Self::Deprecated => ExperimentalFeatureStage::Deprecated,
            Self::Removed => ExperimentalFeatureStage::Removed,
        }
    }
}

/// One line of the table.
pub struct FeatureSpec {
    pub feature: Feature,
    pub name: &'static str,
    pub stage: FeatureStage,
    pub default: bool,
}

macro_rules! features {
    ($($(#[doc = $doc:literal])* $feature:ident = $name:literal, $stage:expr, $default:expr;)*) => {
        /// A feature flag in `[features]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($(#[doc = $doc])* $feature,)*
        }

        /// All features in the order of lists. The discriminant of a feature is its index.
        pub const FEATURES: &[FeatureSpec] = &[
            $(FeatureSpec { feature: Feature::$feature, name: $name, stage: $stage, default: $default },)*
        ];
    };
}

use FeatureStage::{Deprecated, Later, Removed, Stable, UnderDevelopment};

const GUARDIAN: FeatureStage = FeatureStage::Beta {
    title: "Guardian approvals",
    description: "Let a reviewing agent answer approval requests, and refuse what it finds too risky.",
    announcement: None,
};

features! {
    /// Whether the model may run commands.
    ShellTool = "shell_tool", Stable, true;
    /// Runs commands in sessions that accept input and can be polled.
    UnifiedExec = "unified_exec", Stable, cfg!(not(windows));
    /// Reads the user's shell environment once and reuses it.
    ShellSnapshot = "shell_snapshot", Stable, true;
    /// Offers `apply_patch` as a free-form tool.
    ApplyPatchFreeform = "apply_patch_freeform", UnderDevelopment, false;
    /// Lets sandboxed commands request more permissions.
    ExecPermissionApprovals = "exec_permission_approvals", UnderDevelopment, false;
    /// Offers the `request_permissions` tool.
    RequestPermissionsTool = "request_permissions_tool", UnderDevelopment, false;
    /// Offers `request_user_input` outside plan mode too.
    DefaultModeRequestUserInput = "default_mode_request_user_input", UnderDevelopment, false;
    /// Lets a reviewing agent decide about approvals.
    GuardianApproval = "guardian_approval", GUARDIAN, false;
    /// Runs commands of the user at certain points of a turn.
    Hooks = "codex_hooks", UnderDevelopment, false;
    /// Offers tools to start and control subagents.
    MultiAgent = "multi_agent", Stable, true;
    /// Addresses subagents by the path of their task.
    MultiAgentV2 = "multi_agent_v2", UnderDevelopment, false;
    /// Runs many subagents over the rows of a table.
    AgentFanout = "enable_fanout", UnderDevelopment, false;
    /// Offers the apps of the account as tools.
    Apps = "apps", Stable, true;
    /// Enables plugins from marketplaces.
    Plugins = "plugins", Stable, true;
    /// Lets the model search for tools instead of listing them.
    ToolSearch = "tool_search", Stable, true;
    /// Suggests tools to install.
    ToolSuggest = "tool_suggest", Stable, true;
    /// Requests approvals of MCP tools as elicitations.
    ToolCallMcpElicitation = "tool_call_mcp_elicitation", Stable, true;
    /// Lets skills install the MCP servers that they need.
    SkillMcpDependencyInstall = "skill_mcp_dependency_install", Stable, true;
    /// Offers the provider's image generation.
    ImageGeneration = "image_generation", UnderDevelopment, false;
    /// Enables voice sessions.
    RealtimeConversation = "realtime_conversation", UnderDevelopment, false;
    /// Lets users choose a personality.
    Personality = "personality", Stable, true;
    /// Lets users choose the fast service tier.
    FastMode = "fast_mode", Stable, true;
    /// Compresses large requests if the provider supports it.
    EnableRequestCompression = "enable_request_compression", Stable, true;
    /// Asks the model to read project instructions below the working directory.
    ChildAgentsMd = "child_agents_md", UnderDevelopment, false;
    /// Stores memories across threads.
    Memories = "memories", UnderDevelopment, false;
    WebSearchRequest = "web_search_request", Deprecated, false;
    WebSearchCached = "web_search_cached", Deprecated, false;
    UseLegacyLandlock = "use_legacy_landlock", Deprecated, false;
    CollaborationModes = "collaboration_modes", Removed, true;
    Steer = "steer", Removed, true;
    Sqlite = "sqlite", Removed, true;
    TuiAppServer = "tui_app_server", Removed, true;
    WorkspaceDependencies = "workspace_dependencies", Removed, false;
    PreventIdleSleep = "prevent_idle_sleep", Removed, false;
    CodeMode = "code_mode", Removed, false;
    CodeModeOnly = "code_mode_only", Removed, false;
    JsRepl = "js_repl", Removed, false;
    JsReplToolsOnly = "js_repl_tools_only", Removed, false;
    ShellZshFork = "shell_zsh_fork", Removed, false;
    RuntimeMetrics = "runtime_metrics", Removed, false;
    GeneralAnalytics = "general_analytics", Removed, false;
    Undo = "undo", Removed, false;
    SearchTool = "search_tool", Removed, false;
    RequestRule = "request_rule", Removed, false;
    RemoteModels = "remote_models", Removed, false;
    CodexGitCommit = "codex_git_commit", Removed, false;
    ImageDetailOriginal = "image_detail_original", Removed, false;
    UseLinuxSandboxBwrap = "use_linux_sandbox_bwrap", Removed, false;
    ExperimentalWindowsSandbox = "experimental_windows_sandbox", Removed, false;
    ElevatedWindowsSandbox = "elevated_windows_sandbox", Removed, false;
    ResponsesWebsockets = "responses_websockets", Removed, false;
    ResponsesWebsocketsV2 = "responses_websockets_v2", Removed, false;
    /// Offers the `view_image` tool.
    ViewImage = "view_image", Later, true;
    /// Sends `item/fileChange/patchUpdated` while the model writes a patch.
    ApplyPatchStreamingEvents = "apply_patch_streaming_events", Later, false;
    ContextManagement = "context_management", Later, false;
    CurrentTimeReminder = "current_time_reminder", Later, false;
    DeferredExecutor = "deferred_executor", Later, false;
    /// Offers the tools for goals to threads of the 0.166 generation. A thread with a goal has them always.
    Goals = "goals", Later, true;
    StandaloneWebSearch = "standalone_web_search", Later, false;
    TokenBudget = "token_budget", Later, false;
}

/// Older and newer names of features. Only older names are deprecated: `hooks` is the name of `codex_hooks` in newer versions of
/// the reference server.
pub(crate) const ALIASES: &[(&str, Feature, AliasKind)] = &[
    ("collab", Feature::MultiAgent, AliasKind::Old),
    ("connectors", Feature::Apps, AliasKind::Old),
    ("memory_tool", Feature::Memories, AliasKind::Old),
    ("request_permissions", Feature::ExecPermissionApprovals, AliasKind::Old),
    ("web_search", Feature::WebSearchRequest, AliasKind::Old),
    ("enable_experimental_windows_sandbox", Feature::ExperimentalWindowsSandbox, AliasKind::Old),
    ("experimental_use_unified_exec_tool", Feature::UnifiedExec, AliasKind::Old),
    ("experimental_use_freeform_apply_patch", Feature::ApplyPatchFreeform, AliasKind::Old),
    ("include_apply_patch_tool", Feature::ApplyPatchFreeform, AliasKind::Old),
    ("hooks", Feature::Hooks, AliasKind::New),
];

/// Whether an alias is deprecated or from a newer version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AliasKind {
    Old,
    New,
}

impl Feature {
    fn spec(self) -> &'static FeatureSpec {
        FEATURES.get(self as usize).expect("the enum and the table come from one macro, in one order")
    }

    pub fn name(self) -> &'static str {
        self.spec().name
    }

    pub fn stage(self) -> FeatureStage {
        self.spec().stage
    }

    pub fn default_enabled(self) -> bool {
        self.spec().default
    }

    /// Returns the feature with this name or alias.
    pub fn named(name: &str) -> Option<Self> {
        let by_name = FEATURES.iter().find(|spec| spec.name == name).map(|spec| spec.feature);
        let alias = || ALIASES.iter().find(|(alias, ..)| *alias == name).map(|(_, feature, _)| *feature);
        by_name.or_else(alias)
    }
}

/// The features that clients can switch at run time, in the order of the error message.
pub const SWITCHABLE: [Feature; 5] = [
    Feature::Apps,
    Feature::Plugins,
    Feature::ToolSearch,
    Feature::ToolSuggest,
    Feature::ToolCallMcpElicitation,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_feature() {
        let mut names: Vec<_> = FEATURES.iter().map(|spec| spec.name).collect();
        names.extend(ALIASES.iter().map(|(name, ..)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn features_are_found_by_their_names() {
        for spec in FEATURES {
            assert_eq!(Feature::named(spec.name), Some(spec.feature));
            assert_eq!(spec.feature.name(), spec.name);
        }
        assert_eq!(Feature::named("collab"), Some(Feature::MultiAgent));
        assert_eq!(Feature::named("bogus"), None);
    }
}
