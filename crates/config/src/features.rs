//! Resolving feature flags.
//!
//! The first of these that sets a feature decides: requirements, `--enable`/`--disable`, config files, clients at run time, the
//! default. The second and third are layers, so they are merged into `[features]` before.

use std::collections::BTreeMap;

use codicil_protocol::{ExperimentalFeature, ExperimentalFeatureListParams, ExperimentalFeatureListResponse};
use parking_lot::Mutex;

pub use crate::feature_table::{FEATURES, Feature, FeatureSpec, FeatureStage, SWITCHABLE};
use crate::{requirements::Requirements, settings::ConfigSettings};

/// Features that are no longer under development in the generation whose clients are warned about such features.
const STABLE_LATER: [Feature; 1] = [Feature::RealtimeConversation];

/// The resolved feature flags: for each its value if it was set, in the order of [`FEATURES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features(Vec<Option<bool>>);

impl Features {
    pub(crate) fn resolve(
        settings: &ConfigSettings,
        switched: &BTreeMap<Feature, bool>,
        requirements: &Requirements,
    ) -> Self {
        let configured = configured(settings);
        let resolve = |spec: &FeatureSpec| {
            let feature = spec.feature;
            let pinned = requirements.pinned_feature(feature);
            let configured = pinned.or_else(|| configured.get(&feature).copied());
            configured.or_else(|| switched.get(&feature).copied())
        };
        Self(FEATURES.iter().map(resolve).collect())
    }

    pub fn enabled(&self, feature: Feature) -> bool {
        self.configured(feature).unwrap_or(feature.default_enabled())
    }

    /// Returns the value that a requirement, a file, a flag or a client has set; `None` if the default applies.
    pub fn configured(&self, feature: Feature) -> Option<bool> {
        self.0.get(feature as usize).copied().flatten()
    }

    /// Returns the names of features under development that are switched on.
    pub fn enabled_unstable(&self) -> impl Iterator<Item = &'static str> {
        let is_unstable = |spec: &&FeatureSpec| {
            matches!(spec.stage, FeatureStage::UnderDevelopment | FeatureStage::Later)
                && !spec.default
                && !STABLE_LATER.contains(&spec.feature)
        };
        let unstable = FEATURES.iter().filter(is_unstable);
        unstable.filter(|spec| self.configured(spec.feature) == Some(true)).map(|spec| spec.name)
    }

    /// Returns one page of the flags. A cursor is the index of the first flag of its page.
    pub fn list(
        &self,
        params: &ExperimentalFeatureListParams,
    ) -> Result<ExperimentalFeatureListResponse, FeatureError> {
        let start = start_of_page(params.cursor.as_deref())?;
        let limit = params.limit.map_or(FEATURES.len(), |limit| limit.max(1) as usize);
        let end = start.saturating_add(limit).min(listed().count());
        let on_page = listed().skip(start).take(end - start);
        let data = on_page.map(|spec| self.describe(spec)).collect();
        let next_cursor = (end < listed().count()).then(|| end.to_string());
        Ok(ExperimentalFeatureListResponse { data, next_cursor })
    }

    fn describe(&self, spec: &FeatureSpec) -> ExperimentalFeature {
        let (title, description, announcement) = match spec.stage {
            FeatureStage::Beta { title, description, announcement } => {
                (Some(title), Some(description), announcement)
            }
            _ => (None, None, None),
        };
        ExperimentalFeature {
            name: spec.name.to_owned(),
            stage: spec.stage.to_wire(),
            display_name: title.map(str::to_owned),
            description: description.map(str::to_owned),
            announcement: announcement.map(str::to_owned),
            enabled: self.enabled(spec.feature),
            default_enabled: spec.default,
        }
    }
}

/// Returns the features set by files and flags. The name of a feature takes precedence over an alias, and an alias in
/// `[features]` over the old keys at the root.
fn configured(settings: &ConfigSettings) -> BTreeMap<Feature, bool> {
    let at_root = [
        ("include_apply_patch_tool", settings.include_apply_patch_tool),
        ("experimental_use_freeform_apply_patch", settings.experimental_use_freeform_apply_patch),
        ("experimental_use_unified_exec_tool", settings.experimental_use_unified_exec_tool),
    ];
    let at_root = at_root.into_iter().filter_map(|(name, on)| Some((name, on?)));
    let is_proper = |name: &str| FEATURES.iter().any(|spec| spec.name == name);
    let (proper, aliases): (Vec<_>, Vec<_>) = settings.features.iter().partition(|(name, _)| is_proper(name));
    let weakest_first = at_root.chain(aliases).chain(proper);
    weakest_first.filter_map(|(name, on)| Some((Feature::named(name)?, on))).collect()
}

/// Returns the features that clients see in lists.
fn listed() -> impl Iterator<Item = &'static FeatureSpec> {
    FEATURES.iter().filter(|spec| spec.stage != FeatureStage::Later)
}

fn start_of_page(cursor: Option<&str>) -> Result<usize, FeatureError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let start = cursor.parse().map_err(|_| FeatureError::BadCursor(cursor.to_owned()))?;
    match start {
        start if start > listed().count() => Err(FeatureError::CursorTooLarge(start)),
        start => Ok(start),
    }
}

/// The reason why a request about features is rejected. Clients match on these texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    #[error("invalid cursor: {0}")]
    BadCursor(String),
    #[error("cursor {0} exceeds total feature flags {total}", total = listed().count())]
    CursorTooLarge(usize),
    #[error("invalid feature enablement `{0}`")]
    Unknown(String),
    #[error("invalid feature enablement `{alias}`: use `{name}`")]
    Alias { alias: String, name: &'static str },
    #[error("unsupported feature enablement `{0}`: currently supported features are {all}", all = switchable())]
    NotSwitchable(String),
}

fn switchable() -> String {
    SWITCHABLE.map(Feature::name).join(", ")
}

/// The features that clients have switched since the server started.
#[derive(Debug, Default)]
pub(crate) struct FeatureEnablement(Mutex<BTreeMap<Feature, bool>>);

impl FeatureEnablement {
    /// Switches all given features, or none if one is invalid.
    pub(crate) fn set(&self, wanted: &BTreeMap<String, bool>) -> Result<(), FeatureError> {
        let features = wanted.iter().map(|(name, on)| Ok((switchable_feature(name)?, *on)));
        let features = features.collect::<Result<Vec<_>, FeatureError>>()?;
        self.0.lock().extend(features);
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<Feature, bool> {
        self.0.lock().clone()
    }
}

fn switchable_feature(name: &str) -> Result<Feature, FeatureError> {
    let feature = Feature::named(name).ok_or_else(|| FeatureError::Unknown(name.to_owned()))?;
    if feature.name() != name {
        return Err(FeatureError::Alias { alias: name.to_owned(), name: feature.name() });
    }
    if SWITCHABLE.contains(&feature) {
        Ok(feature)
    } else {
        Err(FeatureError::NotSwitchable(name.to_owned()))
    }
}
