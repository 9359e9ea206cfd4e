//! Models, features and modes: `model/list`, `experimentalFeature/*`, `collaborationMode/list`, and the
//! settings of a model that threads and turns share.
//!
//! The types of collaboration modes are snake case on the wire.

use std::collections::BTreeMap;

use crate::{Patch, wire};

/// Which page of the models on offer.
#[wire(sparse)]
#[derive(Default)]
pub struct ModelListParams {
    pub cursor: Option<String>,
    /// 0 counts as 1.
    pub limit: Option<u32>,
    /// Also those that a picker should not show.
    pub include_hidden: Option<bool>,
}

/// One page of models; of all pages together exactly one model is the default.
#[wire]
pub struct ModelListResponse {
    pub data: Vec<Model>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// Which page of the feature flags.
#[wire(sparse)]
#[derive(Default)]
pub struct ExperimentalFeatureListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of feature flags.
#[wire]
pub struct ExperimentalFeatureListResponse {
    pub data: Vec<ExperimentalFeature>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// Turns features on or off for the whole process. What the configuration or the command line says is
/// stronger, and only some features can be set here.
#[wire]
pub struct ExperimentalFeatureEnablementSetParams {
    /// By feature name; the others stay as they are.
    pub enablement: BTreeMap<String, bool>,
}

/// What the request set, not the state of every feature.
#[wire]
pub struct ExperimentalFeatureEnablementSetResponse {
    pub enablement: BTreeMap<String, bool>,
}

/// There is nothing to choose and nothing to page.
#[wire]
#[derive(Default)]
pub struct CollaborationModeListParams {}

/// The presets that a client can offer; their instructions stay on the server.
#[wire]
pub struct CollaborationModeListResponse {
    pub data: Vec<CollaborationModeMask>,
}

/// Something to be echoed.
#[wire(sparse)]
#[derive(Default)]
pub struct MockExperimentalMethodParams {
    pub value: Option<String>,
}

/// The value that was sent.
#[wire]
pub struct MockExperimentalMethodResponse {
    pub echoed: Option<String>,
}

/// A model as a picker shows it.
#[wire]
pub struct Model {
    /// The entry's own id.
    pub id: String,
    /// What goes into the `model` of a thread or turn.
    pub model: String,
    /// The model that replaces this one; `upgrade_info` says more.
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
    /// Whether a [`Personality`] makes a difference.
    #[serde(default)]
    pub supports_personality: bool,
    pub is_default: bool,
}

/// How to advertise a model's successor.
#[wire]
pub struct ModelUpgradeInfo {
    /// The successor.
    pub model: String,
    /// A sentence in its favour.
    pub upgrade_copy: Option<String>,
    pub model_link: Option<String>,
    /// A longer text on what changes.
    pub migration_markdown: Option<String>,
}

/// What to tell people to whom a model has just become available.
#[wire]
pub struct ModelAvailabilityNux {
    pub message: String,
}

/// An effort that a model can be asked for, and what it is good for.
#[wire]
pub struct ReasoningEffortOption {
    pub reasoning_effort: ReasoningEffort,
    pub description: String,
}

/// What a model takes as input.
#[wire(open)]
#[derive(Eq)]
pub enum InputModality {
    Text,
    Image,
}

impl InputModality {
    /// What a model takes when its entry does not say.
    fn all() -> Vec<Self> {
        vec![Self::Text, Self::Image]
    }
}

/// How long the model is to think before it answers.
#[wire(open)]
#[derive(Eq)]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// How much the model is to tell of its thinking.
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
    /// No words on tone in the instructions.
    None,
    Friendly,
    Pragmatic,
}

/// At what speed and price the provider serves a request.
#[wire(open)]
#[derive(Eq)]
pub enum ServiceTier {
    Fast,
    Flex,
    /// The provider's ordinary tier, as clients of later generations name it; never sent.
    #[schemars(skip)]
    Default,
}

/// How agent and person work together from this turn on. Its settings are stronger than those beside it.
#[wire]
pub struct CollaborationMode {
    pub mode: ModeKind,
    pub settings: Settings,
}

/// What a collaboration mode is about.
#[wire(open)]
#[derive(Eq)]
pub enum ModeKind {
    /// The agent asks and proposes a plan before it changes anything.
    Plan,
    Default,
    /// Other names that the reference reads; the default mode is meant. Never sent.
    #[schemars(skip)]
    #[serde(alias = "custom", alias = "execute", alias = "pair_programming")]
    Code,
}

/// What a collaboration mode sets.
#[wire(sparse, rename_all = "snake_case")]
pub struct Settings {
    pub model: String,
    /// Null for the model's own default.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Null for those that come with the mode.
    pub developer_instructions: Option<String>,
}

/// A preset: what it names replaces the settings in use, the rest of them stays.
#[wire(rename_all = "snake_case")]
pub struct CollaborationModeMask {
    pub name: String,
    pub mode: Option<ModeKind>,
    /// Null keeps the model in use.
    pub model: Option<String>,
    /// Left out keeps the effort in use; null means the model's own default.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub reasoning_effort: Patch<ReasoningEffort>,
}

/// A feature flag and its state in this process.
#[wire]
pub struct ExperimentalFeature {
    /// The key under `features` in the configuration.
    pub name: String,
    pub stage: ExperimentalFeatureStage,
    /// Null unless the feature is in beta, as are the next two.
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// What to tell people when it is new.
    pub announcement: Option<String>,
    pub enabled: bool,
    pub default_enabled: bool,
}

/// How far a feature has come; only `beta` is meant to be offered to people.
#[wire(open)]
#[derive(Eq)]
pub enum ExperimentalFeatureStage {
    Beta,
    UnderDevelopment,
    Stable,
    Deprecated,
    /// The flag is still understood and does nothing.
    Removed,
}
