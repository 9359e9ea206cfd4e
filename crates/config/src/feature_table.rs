//! Every feature flag, as data.
//!
//! The names are those of the reference server, so that existing files and command lines keep their
//! meaning. `removed` here means: accepted and without effect, because Codicil always does it, never does
//! it, or does it in another way.

use codicil_protocol::ExperimentalFeatureStage;

/// How far along a feature is. Only those in beta are offered to people, with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureStage {
    UnderDevelopment,
    Beta { title: &'static str, description: &'static str, announcement: Option<&'static str> },
    Stable,
    Deprecated,
    Removed,
}

impl FeatureStage {
    pub(crate) fn to_wire(self) -> ExperimentalFeatureStage {
        match self {
            Self::UnderDevelopment => ExperimentalFeatureStage::UnderDevelopment,
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
        /// A switch in `[features]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $($(#[doc = $doc])* $feature,)*
        }

        /// All features in the order in which they are listed to clients. A feature's number is its place.
        pub const FEATURES: &[FeatureSpec] = &[
            $(FeatureSpec { feature: Feature::$feature, name: $name, stage: $stage, default: $default },)*
        ];
    };
}

use FeatureStage::{Deprecated, Removed, Stable, UnderDevelopment};

const GUARDIAN: FeatureStage = FeatureStage::Beta {
    title: "Guardian approvals",
    description: "Let a reviewing agent answer approval requests, and refuse what it finds too risky.",
    announcement: None,
};

features! {
    /// The model may run commands at all.
    ShellTool = "shell_tool", Stable, true;
    /// Commands run in sessions that can be written to and polled, instead of one call each.
    UnifiedExec = "unified_exec", Stable, cfg!(not(windows));
    /// The user's shell environment is taken once and reused.
    ShellSnapshot = "shell_snapshot", Stable, true;
    /// The model gets apply_patch as a free-form tool.
    ApplyPatchFreeform = "apply_patch_freeform", UnderDevelopment, false;
    /// Commands may ask for more permissions and stay sandboxed.
    ExecPermissionApprovals = "exec_permission_approvals", UnderDevelopment, false;
    /// The request_permissions tool.
    RequestPermissionsTool = "request_permissions_tool", UnderDevelopment, false;
    /// request_user_input also outside plan mode.
    DefaultModeRequestUserInput = "default_mode_request_user_input", UnderDevelopment, false;
    /// Approvals answered by a reviewing agent.
    GuardianApproval = "guardian_approval", GUARDIAN, false;
    /// Commands of the user's that run at fixed points of a turn.
    Hooks = "codex_hooks", UnderDevelopment, false;
    /// Tools to start and steer other agents.
    MultiAgent = "multi_agent", Stable, true;
    /// Agents that are addressed by the path of their task.
    MultiAgentV2 = "multi_agent_v2", UnderDevelopment, false;
    /// Many agents over the rows of a table.
    AgentFanout = "enable_fanout", UnderDevelopment, false;
    /// Apps of the account, as tools.
    Apps = "apps", Stable, true;
    /// Plugins from marketplaces.
    Plugins = "plugins", Stable, true;
    /// Tools that are found by searching instead of being listed.
    ToolSearch = "tool_search", Stable, true;
    /// Suggestions of tools that could be installed.
    ToolSuggest = "tool_suggest", Stable, true;
    /// MCP tool approvals are asked as elicitations.
    ToolCallMcpElicitation = "tool_call_mcp_elicitation", Stable, true;
    /// MCP servers that a skill needs may be installed.
    SkillMcpDependencyInstall = "skill_mcp_dependency_install", Stable, true;
    /// The provider's image tool.
    ImageGeneration = "image_generation", UnderDevelopment, false;
    /// Voice conversations.
    RealtimeConversation = "realtime_conversation", UnderDevelopment, false;
    /// A tone can be chosen.
    Personality = "personality", Stable, true;
    /// The fast service tier can be chosen.
    FastMode = "fast_mode", Stable, true;
    /// Large request bodies are compressed where the provider takes that.
    EnableRequestCompression = "enable_request_compression", Stable, true;
    /// Instructions of the folders below the working directory.
    ChildAgentsMd = "child_agents_md", UnderDevelopment, false;
    /// What is worth remembering is kept between threads.
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
}

/// Older and newer names of the same switches. Naming one is a deprecation only where the second part
/// says so: `hooks` is what later versions of the reference call `codex_hooks`.
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

/// Whether an alias is on its way out or on its way in.
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

    /// By its name or an alias.
    pub fn named(name: &str) -> Option<Self> {
        let by_name = FEATURES.iter().find(|spec| spec.name == name).map(|spec| spec.feature);
        let alias = || ALIASES.iter().find(|(alias, ..)| *alias == name).map(|(_, feature, _)| *feature);
        by_name.or_else(alias)
    }
}

/// The features that a client may switch while the server runs, in the order of the refusal's text.
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
    fn the_names_of_a_feature_lead_back_to_it() {
        for spec in FEATURES {
            assert_eq!(Feature::named(spec.name), Some(spec.feature));
            assert_eq!(spec.feature.name(), spec.name);
        }
        assert_eq!(Feature::named("collab"), Some(Feature::MultiAgent));
        assert_eq!(Feature::named("bogus"), None);
    }
}
