//! The catalogue of models: `catalogue.toml` and the overrides of the configuration.

use codicil_protocol::{
    InputModality, Model, ModelUpgradeInfo, ReasoningEffort, ReasoningEffortOption, ReasoningSummary,
    Verbosity,
};
use serde::Deserialize;
use toml::{Table, Value};

use crate::WireApi;

const BUILTIN: &str = include_str!("catalogue.toml");

/// The known models, and a fallback entry for all others.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ModelCatalogue {
    fallback: ModelInfo,
    #[serde(rename = "model")]
    models: Vec<ModelInfo>,
}

/// A model or a family of models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Empty for the fallback.
    #[serde(default)]
    pub slug: String,
    #[serde(default)]
    pub wire_api: WireApi,
    pub description: String,
    /// Listed only on request.
    #[serde(default)]
    pub hidden: bool,
    /// The default when the user has not chosen a model. One per dialect.
    #[serde(default)]
    pub is_default: bool,
    /// Slug of the successor.
    pub upgrade: Option<String>,
    pub context_window: u32,
    pub max_output_tokens: u32,
    /// Empty for models that do not reason or are not known to.
    #[serde(default)]
    pub efforts: Vec<ReasoningEffort>,
    pub default_effort: Option<ReasoningEffort>,
    #[serde(default = "auto")]
    pub default_summary: ReasoningSummary,
    /// Value of `text.verbosity`; `None` omits it.
    pub verbosity: Option<Verbosity>,
    #[serde(default = "text_and_images")]
    pub modalities: Vec<InputModality>,
    #[serde(default)]
    pub apply_patch: ApplyPatch,
    #[serde(default)]
    pub parallel_tool_calls: bool,
    #[serde(default)]
    pub personality: bool,
    #[serde(default)]
    pub thinking: ThinkingStyle,
    #[serde(default)]
    pub structured_output: bool,
}

/// The form in which a model is offered the patch tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApplyPatch {
    /// Not offered: the model applies patches with the shell.
    #[default]
    None,
    /// A custom tool that takes free text.
    Freeform,
}

/// The thinking mode of an Anthropic model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingStyle {
    #[default]
    None,
    /// The model decides, guided by the effort.
    Adaptive,
    /// Bounded by a number of tokens.
    Budget,
}

/// A catalogue that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    #[error("invalid model catalogue: {0}")]
    Syntax(String),
    #[error("invalid model catalogue: the default effort of model `{0}` is not among its efforts")]
    DefaultEffort(String),
}

impl ModelCatalogue {
    /// Loads the built-in catalogue with `overrides`, TOML of the same shape. An entry with a known slug changes
    /// the members it names; other entries are added.
    pub fn load(overrides: Option<&str>) -> Result<Self, CatalogueError> {
        let syntax = |error: toml::de::Error| CatalogueError::Syntax(error.message().to_owned());
        let mut table: Table = toml::from_str(BUILTIN).map_err(syntax)?;
        if let Some(overrides) = overrides {
            merge(&mut table, toml::from_str(overrides).map_err(syntax)?);
        }
        let catalogue: Self = table.try_into().map_err(syntax)?;
        catalogue.models.iter().try_for_each(ModelInfo::check)?;
        Ok(catalogue)
    }

    /// Returns the entry of `slug`, of its family, or the fallback.
    pub fn look_up(&self, slug: &str) -> &ModelInfo {
        // Gateways prefix the vendor, as in `openai/gpt-5.4`.
        let name = slug.rsplit('/').next().unwrap_or(slug);
        let serves = |model: &&ModelInfo| model.serves(slug) || model.serves(name);
        self.models.iter().filter(serves).max_by_key(|model| model.slug.len()).unwrap_or(&self.fallback)
    }

    /// Returns whether `slug` or its family has an entry.
    pub fn knows(&self, slug: &str) -> bool {
        !self.look_up(slug).slug.is_empty()
    }

    /// Returns the models of a dialect as `model/list` reports them, hidden ones included.
    pub fn list(&self, wire_api: WireApi) -> Vec<Model> {
        let models = self.models.iter().filter(|model| model.wire_api == wire_api);
        models.map(|model| Model { upgrade_info: self.upgrade_info(model), ..Model::from(model) }).collect()
    }

    /// Describes the successor of a model.
    fn upgrade_info(&self, model: &ModelInfo) -> Option<ModelUpgradeInfo> {
        let slug = model.upgrade.clone()?;
        let successor = self.look_up(&slug);
        let is_known = !successor.slug.is_empty();
        Some(ModelUpgradeInfo {
            model: slug,
            upgrade_copy: is_known.then(|| format!("{}: {}", successor.slug, successor.description)),
            model_link: None,
            migration_markdown: None,
            retirement_at: None,
        })
    }

    /// Returns the models of a dialect. `chosen` is the configured model; if it is not one of them, it comes first and is
    /// the default.
    pub fn list_with(&self, wire_api: WireApi, chosen: Option<&str>) -> Vec<Model> {
        let mut models = self.list(wire_api);
        if let Some(chosen) = chosen.filter(|chosen| !models.iter().any(|model| model.id == *chosen)) {
            models.iter_mut().for_each(|model| model.is_default = false);
            models.insert(0, Model { is_default: true, hidden: false, ..self.describe(chosen) });
        }
        models
    }

    /// Returns the models that a provider reports, as `model/list` reports them. `chosen` is the configured model. It
    /// is the default, and is listed even if the provider does not report it; without it, the first one is the default.
    pub fn describe_served(&self, reported: &[String], chosen: Option<&str>) -> Vec<Model> {
        let missing = chosen.filter(|chosen| !reported.iter().any(|name| name == chosen));
        let names = missing.into_iter().chain(reported.iter().map(String::as_str));
        let mut models: Vec<Model> = names.map(|name| self.describe(name)).collect();
        let is_default = |model: &&mut Model| chosen.is_none_or(|chosen| model.id == chosen);
        if let Some(default) = models.iter_mut().find(is_default) {
            default.is_default = true;
            default.hidden = false;
        }
        models
    }

    fn describe(&self, name: &str) -> Model {
        // Local servers list embedding models beside the others; no picker should offer them.
        let is_embedding = name.to_ascii_lowercase().contains("embed");
        Model {
            id: name.to_owned(),
            model: name.to_owned(),
            display_name: name.to_owned(),
            upgrade: None,
            upgrade_info: None,
            hidden: is_embedding,
            is_default: false,
            ..Model::from(self.look_up(name))
        }
    }

    /// Returns the default model of a dialect.
    pub fn default_model(&self, wire_api: WireApi) -> Option<&ModelInfo> {
        self.models.iter().find(|model| model.wire_api == wire_api && model.is_default)
    }
}

impl Default for ModelCatalogue {
    fn default() -> Self {
        Self::load(None).expect("the built-in catalogue is covered by a test")
    }
}

impl ModelInfo {
    /// Returns whether requests to the model ask for reasoning.
    pub fn can_reason(&self) -> bool {
        !self.efforts.is_empty()
    }

    pub fn has_effort(&self, effort: &ReasoningEffort) -> bool {
        self.efforts.contains(effort)
    }

    pub fn accepts(&self, modality: &InputModality) -> bool {
        self.modalities.contains(modality)
    }

    fn serves(&self, slug: &str) -> bool {
        let rest = slug.strip_prefix(self.slug.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@']))
    }

    fn check(&self) -> Result<(), CatalogueError> {
        if self.default_effort.as_ref().is_some_and(|effort| !self.has_effort(effort)) {
            return Err(CatalogueError::DefaultEffort(self.slug.clone()));
        }
        Ok(())
    }
}

impl From<&ModelInfo> for Model {
    fn from(model: &ModelInfo) -> Self {
        let none = [ReasoningEffort::None];
        let efforts = if model.efforts.is_empty() { &none[..] } else { &model.efforts };
        // An effort that the published protocol does not have makes older clients reject the whole list.
        let is_published = |effort: &&ReasoningEffort| !matches!(effort, ReasoningEffort::Unrecognized(_));
        let option = |effort: &ReasoningEffort| ReasoningEffortOption {
            reasoning_effort: effort.clone(),
            description: describe(effort).to_owned(),
        };
        Self {
            id: model.slug.clone(),
            model: model.slug.clone(),
            upgrade: model.upgrade.clone(),
            upgrade_info: None,
            availability_nux: None,
            // The name that clients of the reference server expect and look for on the screen.
            display_name: model.slug.clone(),
            description: model.description.clone(),
            hidden: model.hidden,
            supported_reasoning_efforts: efforts.iter().filter(is_published).map(option).collect(),
            default_reasoning_effort: model.default_effort.clone().unwrap_or(ReasoningEffort::None),
            input_modalities: model.modalities.clone(),
            supports_personality: model.personality,
            is_default: model.is_default,
            service_tiers: Vec::new(),
            additional_speed_tiers: Vec::new(),
            default_service_tier: None,
            available_access_programs: None,
            model_specialty: None,
            multi_agent_version: None,
        }
    }
}

fn describe(effort: &ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::None => "Answers without reasoning",
        ReasoningEffort::Minimal => "As little reasoning as possible",
        ReasoningEffort::Low => "Quick answers with light reasoning",
        ReasoningEffort::Medium => "Speed and depth in balance",
        ReasoningEffort::High => "More thought for hard problems",
        ReasoningEffort::Xhigh => "The most thought, for the hardest problems",
        ReasoningEffort::Unrecognized(_) => "",
    }
}

fn auto() -> ReasoningSummary {
    ReasoningSummary::Auto
}

fn text_and_images() -> Vec<InputModality> {
    vec![InputModality::Text, InputModality::Image]
}

/// Applies `overrides` to `table`: `fallback` member by member, `model` entry by entry.
fn merge(table: &mut Table, overrides: Table) {
    for (key, value) in overrides {
        match (table.get_mut(&key), value) {
            (Some(Value::Array(models)), Value::Array(changes)) => {
                changes.into_iter().for_each(|change| merge_model(models, change));
            }
            (Some(Value::Table(before)), Value::Table(changes)) => before.extend(changes),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn merge_model(models: &mut Vec<Value>, change: Value) {
    let slug = change.get("slug").cloned();
    let known = models.iter_mut().find(|model| slug.is_some() && model.get("slug") == slug.as_ref());
    match (known, change) {
        (Some(Value::Table(known)), Value::Table(change)) => known.extend(change),
        (_, change) => models.push(change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_catalogue_is_valid() {
        let catalogue = ModelCatalogue::default();
        for wire_api in [WireApi::Responses, WireApi::Chat, WireApi::Anthropic, WireApi::Scripted] {
            let models = catalogue.list(wire_api);
            assert_eq!(models.iter().filter(|model| model.is_default).count(), 1, "{wire_api:?}");
            for model in &models {
                let supported = &model.supported_reasoning_efforts;
                assert!(
                    supported.iter().any(|option| option.reasoning_effort == model.default_reasoning_effort),
                    "{}",
                    model.id
                );
                assert!(model.upgrade.as_ref().is_none_or(|slug| catalogue.knows(slug)), "{}", model.id);
                let info = model.upgrade_info.as_ref();
                assert_eq!(info.map(|info| &info.model), model.upgrade.as_ref(), "{}", model.id);
                assert!(info.is_none_or(|info| info.upgrade_copy.is_some()), "{}", model.id);
            }
        }
        assert!(catalogue.list(WireApi::Responses).iter().any(|model| model.hidden));
    }

    #[test]
    fn models_are_listed_as_the_reference_lists_them() {
        let listed = ModelCatalogue::default().list(WireApi::Responses);
        let visible: Vec<_> = listed.iter().filter(|model| !model.hidden).collect();
        let ids: Vec<_> = visible.iter().map(|model| model.id.as_str()).collect();
        let expected = [
            "gpt-5.3-codex",
            "gpt-5.4",
            "gpt-5.2-codex",
            "gpt-5.1-codex-max",
            "gpt-5.2",
            "gpt-5.1-codex-mini",
        ];
        assert_eq!(ids, expected);
        assert!(visible[0].is_default);
        assert_eq!(visible[0].upgrade_info.as_ref().unwrap().model, "gpt-5.4");
        for model in &listed {
            assert_eq!(model.display_name, model.model);
            assert_eq!(model.upgrade_info.as_ref().map(|info| &info.model), model.upgrade.as_ref());
            let efforts = model.supported_reasoning_efforts.iter().map(|option| &option.reasoning_effort);
            assert!(efforts.clone().all(|effort| !matches!(effort, ReasoningEffort::Unrecognized(_))));
        }
    }

    #[test]
    fn served_models_have_exactly_one_default() {
        let catalogue = ModelCatalogue::default();
        let check = |reported: &[&str], chosen: Option<&str>, expected: &[(&str, bool, bool)]| {
            let reported: Vec<_> = reported.iter().map(|name| (*name).to_owned()).collect();
            let models = catalogue.describe_served(&reported, chosen);
            let shown: Vec<_> =
                models.iter().map(|model| (model.id.as_str(), model.is_default, model.hidden)).collect();
            assert_eq!(shown, expected);
        };
        check(&["a", "b"], None, &[("a", true, false), ("b", false, false)]);
        check(&["a", "b"], Some("b"), &[("a", false, false), ("b", true, false)]);
        check(&["a"], Some("c"), &[("c", true, false), ("a", false, false)]);
        check(
            &["text-embedding-x", "a"],
            Some("a"),
            &[("text-embedding-x", false, true), ("a", true, false)],
        );
        check(&[], None, &[]);
        let served = catalogue.describe_served(&["openai/gpt-oss-20b".to_owned()], None);
        assert_eq!(served[0].supported_reasoning_efforts.len(), 3);
        assert_eq!(served[0].display_name, "openai/gpt-oss-20b");
    }

    #[test]
    fn families_match_by_their_longest_entry() {
        let catalogue = ModelCatalogue::default();
        let check = |slug: &str, expected: &str| assert_eq!(catalogue.look_up(slug).slug, expected, "{slug}");
        check("gpt-5", "gpt-5");
        check("gpt-5-2025-08-07", "gpt-5");
        check("gpt-5.2-codex", "gpt-5.2-codex");
        check("gpt-5.2-2025-12-11", "gpt-5.2");
        check("gpt-5.1-codex-mini", "gpt-5.1-codex-mini");
        check("gpt-5.1-codex-max", "gpt-5.1-codex-max");
        check("gpt-5.1-codex-2026-01-01", "gpt-5.1-codex");
        check("gpt-6.1-sol", "gpt-6.1");
        check("openai/gpt-5.4", "gpt-5.4");
        check("claude-haiku-4-5-20251001", "claude-haiku-4-5");
        check("claude-opus-4-8", "claude");
        check("gpt-5.9", "");
        check("gpt-50", "");
        check("some-local-model", "");
    }

    #[test]
    fn request_options_match_the_reference_for_each_model() {
        let catalogue = ModelCatalogue::default();
        let check = |slug: &str, parallel, summary: &str, verbosity: Option<Verbosity>, patch| {
            let model = catalogue.look_up(slug);
            assert_eq!(model.parallel_tool_calls, parallel, "{slug}");
            assert_eq!(crate::request::wire_name(&model.default_summary).as_deref(), Some(summary), "{slug}");
            assert_eq!(model.verbosity, verbosity, "{slug}");
            assert_eq!(model.apply_patch, patch, "{slug}");
        };
        check("gpt-5", false, "auto", None, ApplyPatch::None);
        check("gpt-5.1-codex", false, "auto", None, ApplyPatch::Freeform);
        check("gpt-5.2-codex", true, "auto", None, ApplyPatch::Freeform);
        check("gpt-5.3-codex", true, "none", Some(Verbosity::Low), ApplyPatch::Freeform);
        check("gpt-5.4", true, "none", Some(Verbosity::Low), ApplyPatch::Freeform);
        let unknown = catalogue.look_up("some-local-model");
        assert!(!unknown.can_reason() && !unknown.parallel_tool_calls);
        assert_eq!(unknown.apply_patch, ApplyPatch::None);
    }

    #[test]
    fn a_config_changes_and_adds_models() {
        let catalogue = ModelCatalogue::load(Some(
            r#"
            fallback = { context_window = 8192 }
            [[model]]
            slug = "gpt-5"
            context_window = 1000
            [[model]]
            slug = "mine"
            wire_api = "chat"
            description = "My own"
            context_window = 4096
            max_output_tokens = 512
            "#,
        ))
        .unwrap();
        assert_eq!(catalogue.look_up("gpt-5").context_window, 1000);
        assert!(catalogue.look_up("gpt-5").hidden);
        assert_eq!(catalogue.look_up("mine-7b").max_output_tokens, 512);
        assert_eq!(catalogue.look_up("other").context_window, 8192);
    }

    #[test]
    fn errors_name_the_invalid_entry() {
        let check = |text: &str, expected: &str| {
            let error = ModelCatalogue::load(Some(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("[[model]]\nslug = 'gpt-5'\ndefault_effort = 'xhigh'", "default effort of model `gpt-5`");
        check("[[model]]\nslug = 'x'", "missing field");
        check("nonsense", "invalid model catalogue");
    }
}
