//! Deprecated settings.

use codicil_protocol::DeprecationNoticeNotification;
use toml::{Table, Value};

use crate::{
    feature_table::{ALIASES, AliasKind},
    layers::value_at,
};

/// Deprecated keys and their replacements.
const KEYS: &[(&[&str], &str)] = &[
    (&["features", "web_search_request"], "Set `web_search = \"live\"`, or \"disabled\"."),
    (&["features", "web_search_cached"], "Set `web_search = \"cached\"`, or \"disabled\"."),
    (
        &["features", "use_legacy_landlock"],
        "Remove it: the best confinement of the system is found by itself.",
    ),
    (&["experimental_instructions_file"], "Use `model_instructions_file`."),
    (&["experimental_use_unified_exec_tool"], "Use `unified_exec` in `[features]`."),
    (&["experimental_use_freeform_apply_patch"], "Use `apply_patch_freeform` in `[features]`."),
    (&["include_apply_patch_tool"], "Use `apply_patch_freeform` in `[features]`."),
    (&["model_personality"], "Use `personality`."),
    (&["tools_view_image"], "Use `view_image` in `[tools]`."),
];

/// Returns a notice for each deprecated key that is set.
pub(crate) fn notices(table: &Table) -> Vec<DeprecationNoticeNotification> {
    let keys = KEYS.iter().filter(|(path, _)| value_at(table, path).is_some());
    let mut notices: Vec<_> = keys.map(|(path, instead)| notice(&path.join("."), instead)).collect();
    notices.extend(old_feature_names(table));
    if matches!(value_at(table, &["tools", "web_search"]), Some(Value::Boolean(_))) {
        notices.push(notice("tools.web_search", "Set `web_search` to \"live\", \"cached\" or \"disabled\"."));
    }
    notices
}

fn old_feature_names(table: &Table) -> impl Iterator<Item = DeprecationNoticeNotification> {
    let old = ALIASES.iter().filter(|(.., naming)| *naming == AliasKind::Old);
    old.filter(|(name, ..)| value_at(table, &["features", name]).is_some()).map(|(name, feature, _)| {
        notice(&format!("features.{name}"), &format!("Use `{}` in `[features]`.", feature.name()))
    })
}

fn notice(key: &str, instead: &str) -> DeprecationNoticeNotification {
    DeprecationNoticeNotification {
        summary: format!("`{key}` is deprecated."),
        details: Some(instead.to_owned()),
    }
}
