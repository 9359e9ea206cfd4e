//! What a model supports: which settings of a thread its requests carry, and which ones have no effect.
//!
//! The same rules decide about both, so that a setting is either sent or reported.

use codicil_config::{EffectiveConfig, Feature};
use codicil_model::{ModelInfo, ReasoningOptions, WireApi, anthropic_tier};
use codicil_protocol::{
    ConfigWarningNotification, Personality, ReasoningEffort, ReasoningSummary, ServiceTier,
};
use serde::Serialize;

use crate::settings::TurnSettings;

/// Tiers of OpenAI's API besides those that the protocol names.
const OTHER_TIERS: [&str; 3] = ["priority", "auto", "scale"];

const KNOWN_TIERS: &str = "Known tiers are `fast` (also called `priority`) and `flex`.";

/// The efforts that stand for a number of thinking tokens, for models of Anthropic's API that are not in the catalogue.
const THINKING_EFFORTS: [ReasoningEffort; 5] = [
    ReasoningEffort::Minimal,
    ReasoningEffort::Low,
    ReasoningEffort::Medium,
    ReasoningEffort::High,
    ReasoningEffort::Xhigh,
];

/// A notice about the settings of a new thread.
#[derive(Debug)]
pub struct StartNotice {
    /// The text for clients of the 0.166 generation.
    pub message: String,
    /// The same for older clients, if they get it.
    pub config_warning: Option<ConfigWarningNotification>,
}

impl StartNotice {
    /// Creates a notice about something that only clients of the 0.166 generation can ask for, or that older ones do not get.
    pub(crate) fn later_only(message: String) -> Self {
        Self { message, config_warning: None }
    }
}

/// A model and the configuration that restricts or extends it.
pub(crate) struct ModelSupport<'a> {
    pub info: &'a ModelInfo,
    pub config: &'a EffectiveConfig,
}

impl ModelSupport<'_> {
    /// Returns the reasoning options of a request; `None` if it must not have any.
    pub fn reasoning(&self, settings: &TurnSettings) -> Option<ReasoningOptions> {
        let summary = settings.summary.clone().unwrap_or_else(|| self.info.default_summary.clone());
        self.can_reason().then(|| ReasoningOptions {
            effort: (settings.effort.clone().map(|effort| self.known_effort(effort)))
                .or_else(|| self.plan_effort(settings))
                .or_else(|| self.info.default_effort.clone()),
            summary: (summary != ReasoningSummary::None).then_some(summary),
        })
    }

    /// Replaces the highest effort of some models by the highest of models that do not have it.
    fn known_effort(&self, effort: ReasoningEffort) -> ReasoningEffort {
        let is_ultra = matches!(&effort, ReasoningEffort::Unrecognized(name) if name == "ultra");
        let is_known = self.info.efforts.is_empty() || self.info.efforts.contains(&effort);
        if is_ultra && !is_known { ReasoningEffort::Xhigh } else { effort }
    }

    /// Leaves out a service tier that the catalogue's model does not have from the settings of a new thread. Returns a notice
    /// about it.
    pub fn omit_unknown_tier(&self, settings: &mut TurnSettings) -> Option<StartNotice> {
        let unknown = match &settings.service_tier {
            Some(ServiceTier::Unrecognized(name)) if self.is_in_catalogue() && !is_known_tier(name) => name,
            _ => return None,
        };
        let model = &settings.model;
        let message = format!(
            "Configured service tier `{unknown}` is not advertised as supported for model `{model}` and will be \
             omitted from requests."
        );
        let config_warning = Some(unused_tier_warning(unknown, model));
        settings.service_tier = None;
        Some(StartNotice { message, config_warning })
    }

    /// Returns the effort that the configuration has for plan mode, if the thread plans.
    fn plan_effort(&self, settings: &TurnSettings) -> Option<ReasoningEffort> {
        self.config.settings.plan_mode_reasoning_effort.clone().filter(|_| settings.is_plan_mode())
    }

    /// Returns the service tier of a request. A tier that the catalogue's model does not have would fail every request;
    /// what other models have is for their provider to decide.
    /// `for_turn` counts more than the thread's tier.
    pub fn service_tier(
        &self,
        settings: &TurnSettings,
        for_turn: Option<&ServiceTier>,
    ) -> Option<ServiceTier> {
        let tier = for_turn.or(settings.service_tier.as_ref())?.clone();
        let is_sent = match &tier {
            tier if is_fast(tier) => self.config.features.enabled(Feature::FastMode),
            ServiceTier::Unrecognized(name) => is_known_tier(name) || !self.is_in_catalogue(),
            ServiceTier::Fast | ServiceTier::Flex => true,
            ServiceTier::Default => false,
        };
        is_sent.then_some(tier)
    }

    /// Returns whether the model's instructions have a personality.
    pub fn has_personality(&self) -> bool {
        self.info.personality && self.config.features.enabled(Feature::Personality)
    }

    pub fn is_in_catalogue(&self) -> bool {
        !self.info.slug.is_empty()
    }

    /// The configuration may know models that are not in the catalogue.
    fn can_reason(&self) -> bool {
        self.info.can_reason() || self.config.settings.model_supports_reasoning_summaries == Some(true)
    }

    /// Returns a warning for each setting that does not have the effect that its name promises.
    pub fn warnings(&self, settings: &TurnSettings, wire_api: WireApi) -> Vec<ConfigWarningNotification> {
        let found = [
            self.effort_warning(settings, wire_api),
            self.summary_warning(settings, wire_api),
            self.personality_warning(settings),
            self.tier_warning(settings, wire_api),
        ];
        found.into_iter().flatten().collect()
    }

    fn effort_warning(
        &self,
        settings: &TurnSettings,
        wire_api: WireApi,
    ) -> Option<ConfigWarningNotification> {
        let effort = settings.effort.as_ref().filter(|effort| **effort != ReasoningEffort::None)?;
        let model = &settings.model;
        let name = word(effort);
        if !self.can_reason() {
            return Some(warning(
                format!("effort `{name}` has no effect: model `{model}` is not known to reason"),
                "Set `model_supports_reasoning_summaries = true` in config.toml if it does.",
            ));
        }
        let known = match wire_api {
            WireApi::Anthropic if self.info.efforts.is_empty() => &THINKING_EFFORTS[..],
            _ => &self.info.efforts,
        };
        if known.is_empty() || known.contains(effort) {
            return None;
        }
        let consequence = match wire_api {
            WireApi::Anthropic => "the nearest effort is used",
            _ => "it is sent as it is, and the provider may refuse it",
        };
        let efforts: Vec<_> = known.iter().map(word).collect();
        Some(warning(
            format!("model `{model}` is not known to have effort `{name}`: {consequence}"),
            &format!("Its efforts are {}.", efforts.join(", ")),
        ))
    }

    fn summary_warning(
        &self,
        settings: &TurnSettings,
        wire_api: WireApi,
    ) -> Option<ConfigWarningNotification> {
        let is_specific =
            |summary: &&ReasoningSummary| !matches!(summary, ReasoningSummary::Auto | ReasoningSummary::None);
        let summary = settings.summary.as_ref().filter(is_specific)?;
        let model = &settings.model;
        let name = word(summary);
        if !self.can_reason() {
            return Some(warning(
                format!("summary `{name}` has no effect: model `{model}` is not known to reason"),
                "Set `model_supports_reasoning_summaries = true` in config.toml if it does.",
            ));
        }
        (wire_api == WireApi::Chat).then(|| {
            warning(
                format!("summary `{name}` has no effect with model `{model}`"),
                "The Chat Completions API has no reasoning summaries. Reasoning is shown as the model writes it.",
            )
        })
    }

    fn personality_warning(&self, settings: &TurnSettings) -> Option<ConfigWarningNotification> {
        let personality = settings.personality.filter(|personality| *personality != Personality::None)?;
        if self.has_personality() {
            return None;
        }
        let name = word(&personality);
        Some(if self.config.features.enabled(Feature::Personality) {
            let model = &settings.model;
            warning(
                format!(
                    "personality `{name}` has no effect: model `{model}` is not known to have personalities"
                ),
                "Describe the tone in `developer_instructions` or in AGENTS.md instead.",
            )
        } else {
            warning(
                format!("personality `{name}` has no effect: personalities are switched off"),
                "Remove `personality = false` from `[features]` to use it.",
            )
        })
    }

    fn tier_warning(&self, settings: &TurnSettings, wire_api: WireApi) -> Option<ConfigWarningNotification> {
        let tier = settings.service_tier.as_ref().filter(|tier| **tier != ServiceTier::Default)?;
        let model = &settings.model;
        let name = word(tier);
        let is_used = self.service_tier(settings, None).is_some();
        if !is_used && is_fast(tier) {
            return Some(warning(
                format!("service tier `{name}` is not used: fast mode is switched off"),
                "Remove `fast_mode = false` from `[features]` to use it.",
            ));
        }
        if !is_used {
            return Some(unused_tier_warning(&name, model));
        }
        let text = match tier {
            tier if wire_api == WireApi::Anthropic => {
                if anthropic_tier(tier).is_some() {
                    return None;
                }
                format!("service tier `{name}` has no effect: Anthropic's API does not have it")
            }
            ServiceTier::Unrecognized(name) if !is_known_tier(name) => {
                format!(
                    "service tier `{name}` is unknown: it is sent as it is, and the provider may refuse it"
                )
            }
            _ => return None,
        };
        Some(warning(text, KNOWN_TIERS))
    }
}

fn unused_tier_warning(name: &str, model: &str) -> ConfigWarningNotification {
    warning(
        format!("service tier `{name}` is not used: model `{model}` is not known to have it"),
        KNOWN_TIERS,
    )
}

fn is_fast(tier: &ServiceTier) -> bool {
    match tier {
        ServiceTier::Fast => true,
        ServiceTier::Unrecognized(name) => name == "priority",
        ServiceTier::Flex | ServiceTier::Default => false,
    }
}

fn is_known_tier(name: &str) -> bool {
    OTHER_TIERS.contains(&name)
}

/// Returns the name of a setting in the protocol.
fn word(setting: &impl Serialize) -> String {
    let value = serde_json::to_value(setting).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn warning(summary: String, details: &str) -> ConfigWarningNotification {
    ConfigWarningNotification { summary, details: Some(details.to_owned()), path: None, range: None }
}
