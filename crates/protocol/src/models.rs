//! Models, features and modes: `model/list`, `experimentalFeature/*`, `collaborationMode/list`, and the model settings that
//! threads and turns share.
//!
//! The types of collaboration modes are snake case on the wire.

use std::collections::BTreeMap;

use crate::{Patch, ThreadId, wire};

/// Lists the available models.
#[wire(sparse)]
#[derive(Default)]
pub struct ModelListParams {
    pub cursor: Option<String>,
    /// The page size; 0 counts as 1.
    pub limit: Option<u32>,
    /// Includes models that a picker should not show.
    pub include_hidden: Option<bool>,
}

/// One page of models. Exactly one model of all pages is the default.
#[wire]
pub struct ModelListResponse {
    pub data: Vec<Model>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Lists feature flags.
#[wire(sparse)]
#[derive(Default)]
pub struct ExperimentalFeatureListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Uses the configuration of this thread instead of the global one.
    #[since("0.166")]
    pub thread_id: Option<ThreadId>,
}

/// One page of feature flags.
#[wire]
pub struct ExperimentalFeatureListResponse {
    pub data: Vec<ExperimentalFeature>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Enables or disables features for the whole process. The configuration and the command line take precedence, and only
/// some features can be set.
#[wire]
pub struct ExperimentalFeatureEnablementSetParams {
    /// The new values by feature name. Other features are not changed.
    pub enablement: BTreeMap<String, bool>,
}

/// The values that the request set, not the state of all features.
#[wire]
pub struct ExperimentalFeatureEnablementSetResponse {
    pub enablement: BTreeMap<String, bool>,
}

/// Lists the collaboration mode presets. Has no parameters.
#[wire]
#[derive(Default)]
pub struct CollaborationModeListParams {}

/// The presets that a client can offer, without their instructions.
#[wire]
pub struct CollaborationModeListResponse {
    pub data: Vec<CollaborationModeMask>,
}

/// A value to echo.
#[wire(sparse)]
#[derive(Default)]
pub struct MockExperimentalMethodParams {
    pub value: Option<String>,
}

/// The echoed value.
#[wire]
pub struct MockExperimentalMethodResponse {
    pub echoed: Option<String>,
}

/// A model, as shown by a picker.
#[wire]
pub struct Model {
    /// The id of the entry.
    pub id: String,
    /// The value for `model` of a thread or turn.
    pub model: String,
    /// The successor of this model, described by `upgradeInfo`.
    pub upgrade: Option<String>,
    pub upgrade_info: Option<ModelUpgradeInfo>,
    pub availability_nux: Option<ModelAvailabilityNux>,
    pub display_name: String,
    pub description: String,
    pub hidden: bool,
    pub supported_reasoning_efforts: Vec<ReasoningEffortOption>,
    pub default_reasoning_effort: ReasoningEffort,
    #[serde(default = "InputModality::all")]
    pub input_modalities: Vec<InputModality>,
    /// Whether [`Personality`] has an effect.
    #[serde(default)]
    pub supports_personality: bool,
    pub is_default: bool,
    /// The service tiers that a request may name, besides the default. Not known to this server, like the members below.
    #[since("0.166")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_tiers: Vec<ModelServiceTier>,
    /// The ids of tiers that are faster than the default.
    #[since("0.166")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_speed_tiers: Vec<String>,
    /// The tier of requests that name none, if it is not the provider's default.
    #[omit]
    #[since("0.166")]
    pub default_service_tier: Option<String>,
    #[omit]
    #[since("0.166")]
    pub available_access_programs: Option<ModelAccessPrograms>,
    #[omit]
    #[since("0.166")]
    pub model_specialty: Option<String>,
    #[omit]
    #[since("0.166")]
    pub multi_agent_version: Option<MultiAgentVersion>,
}

/// How to present the successor of a model.
#[wire]
pub struct ModelUpgradeInfo {
    /// The successor.
    pub model: String,
    /// A short promotional text.
    pub upgrade_copy: Option<String>,
    pub model_link: Option<String>,
    /// A description of the changes, in Markdown.
    pub migration_markdown: Option<String>,
    /// Unix seconds. Not known to this server.
    #[omit]
    #[since("0.166")]
    pub retirement_at: Option<i64>,
}

/// The message for users to whom a model has become available.
#[wire]
pub struct ModelAvailabilityNux {
    pub message: String,
}

/// A supported reasoning effort and its description.
#[wire]
pub struct ReasoningEffortOption {
    pub reasoning_effort: ReasoningEffort,
    pub description: String,
}

/// A kind of model input.
#[wire(open)]
#[derive(Eq)]
pub enum InputModality {
    Text,
    Image,
    #[since("0.166")]
    Audio,
}

impl InputModality {
    /// Returns the default for models that do not specify their inputs.
    fn all() -> Vec<Self> {
        vec![Self::Text, Self::Image]
    }
}

/// The amount of reasoning before a response. Any other name is passed on to the provider, since models of later
/// generations have further ones.
#[wire(open, lenient)]
#[derive(Eq)]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// The detail of reasoning summaries.
#[wire(open)]
#[derive(Eq)]
pub enum ReasoningSummary {
    /// The provider decides.
    Auto,
    Concise,
    Detailed,
    None,
}

/// The tone of the agent, for models that support it.
#[wire]
#[derive(Copy, Eq)]
pub enum Personality {
    /// No instructions about tone.
    None,
    Friendly,
    Pragmatic,
}

/// The speed and price at which the provider serves a request. Any other name is passed on to providers that may have
/// such a tier.
#[wire(open, lenient)]
#[derive(Eq)]
pub enum ServiceTier {
    Fast,
    Flex,
    /// The provider's default tier, as newer clients spell it. Never sent.
    #[unpublished]
    Default,
}

/// When the agent may start other agents.
#[wire(open)]
#[derive(Default, Eq)]
pub enum MultiAgentMode {
    /// When the user asks for it.
    #[default]
    ExplicitRequestOnly,
    /// Whenever it helps.
    Proactive,
    /// As these instructions say.
    Custom(String),
}

/// How agent and user collaborate from this turn on. Its settings take precedence over those of the request.
#[wire]
pub struct CollaborationMode {
    pub mode: ModeKind,
    pub settings: Settings,
}

/// The kind of a collaboration mode.
#[wire(open)]
#[derive(Eq)]
pub enum ModeKind {
    /// The agent asks questions and proposes a plan before it changes anything.
    Plan,
    Default,
    /// Other names for the default mode that the reference server accepts. Never sent.
    #[unpublished]
    #[serde(alias = "custom", alias = "execute", alias = "pair_programming")]
    Code,
}

/// The settings of a collaboration mode.
#[wire(rename_all = "snake_case")]
pub struct Settings {
    pub model: String,
    /// Null: the model's default.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Null: the mode's built-in instructions.
    pub developer_instructions: Option<String>,
}

/// A preset. Its values replace the current settings; others are kept.
#[wire(rename_all = "snake_case")]
pub struct CollaborationModeMask {
    pub name: String,
    pub mode: Option<ModeKind>,
    /// Null keeps the current model.
    pub model: Option<String>,
    /// Absent keeps the current effort; null selects the model's default.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub reasoning_effort: Patch<ReasoningEffort>,
}

/// A feature flag and its state in this process.
#[wire]
pub struct ExperimentalFeature {
    /// The key under `features` in the configuration.
    pub name: String,
    pub stage: ExperimentalFeatureStage,
    /// Null unless the feature is in beta, like the next two.
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// The announcement of a new feature.
    pub announcement: Option<String>,
    pub enabled: bool,
    pub default_enabled: bool,
}

/// The maturity of a feature. Only `beta` features are meant to be offered to users.
#[wire(open)]
#[derive(Eq)]
pub enum ExperimentalFeatureStage {
    Beta,
    UnderDevelopment,
    Stable,
    Deprecated,
    /// The flag is accepted and has no effect.
    Removed,
}

/// Returns what the current provider can do. Has no parameters.
#[wire]
#[derive(Default)]
pub struct ModelProviderCapabilitiesReadParams {}

/// What the current provider can do.
#[wire]
pub struct ModelProviderCapabilitiesReadResponse {
    pub image_generation: bool,
    pub web_search: bool,
}

/// Why a thread cannot use a provider. The `data` of an error response.
#[wire(open, tag = "type")]
pub enum ModelProviderError {
    ModelProviderMismatch { current_model_provider: String, model_provider: String },
    ModelProviderNotConfigured { model_provider: String },
    ModelProviderPolicyConflict { model_provider: String, required_model_provider: String },
}

/// A service tier of a model.
#[wire]
pub struct ModelServiceTier {
    pub id: String,
    pub description: String,
    pub name: String,
}

/// Programs that give access to a model.
#[wire]
pub struct ModelAccessPrograms {
    pub cyber: Vec<CyberAccessProgram>,
}

/// A program of OpenAI for security work.
#[wire(open)]
#[derive(Eq)]
pub enum CyberAccessProgram {
    Standard,
    DaybreakBlue,
    DaybreakRed,
}

/// The tools with which a model controls other agents.
#[wire(open)]
#[derive(Eq)]
pub enum MultiAgentVersion {
    Disabled,
    V1,
    V2,
}
