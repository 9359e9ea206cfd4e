//! The hooks that are declared, for clients that show them.

use std::path::Path;

use codicil_config::{EffectiveConfig, Feature, HomeDirectory};
use codicil_protocol::{AbsolutePathBuf, HookMetadata, HooksListEntry};
use sha2::{Digest, Sha256};

use super::{TurnHooks, declared::DeclaredHook};

/// The hooks that turns in this directory have. Blocks.
pub fn declared_hooks(home: &HomeDirectory, config: &EffectiveConfig, cwd: &Path) -> HooksListEntry {
    let enabled = config.features.enabled(Feature::Hooks);
    let hooks = TurnHooks::load(home, config);
    let shown = hooks.0.iter().filter_map(|hook| metadata(hook, home, enabled));
    HooksListEntry {
        cwd: cwd.to_string_lossy().into_owned(),
        hooks: shown.collect(),
        warnings: Vec::new(),
        errors: Vec::new(),
    }
}

fn metadata(hook: &DeclaredHook, home: &HomeDirectory, enabled: bool) -> Option<HookMetadata> {
    let source = if hook.source.starts_with(&**home.path()) { "user" } else { "project" };
    Some(HookMetadata {
        key: format!("{}:{}", hook.source.display(), hook.order),
        event_name: hook.event.clone(),
        handler_type: "command".to_owned(),
        command: hook.command.clone(),
        is_async: false,
        matcher: hook.matcher.as_ref().map(|matcher| pattern(matcher.as_str()).to_owned()),
        timeout_sec: hook.timeout.as_secs(),
        status_message: hook.status_message.clone(),
        additional_context_limit: None,
        source_path: AbsolutePathBuf::new(&hook.source)?,
        source: source.to_owned(),
        plugin_id: None,
        environment_id: None,
        display_order: hook.order,
        enabled,
        is_managed: false,
        current_hash: hash(hook),
        trust_status: "trusted".to_owned(),
    })
}

/// The matcher as it was written.
fn pattern(matcher: &str) -> &str {
    matcher.strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$")).unwrap_or(matcher)
}

fn hash(hook: &DeclaredHook) -> String {
    let matcher = hook.matcher.as_ref().map_or("", |matcher| matcher.as_str());
    let digest = Sha256::digest(format!("{:?}\0{matcher}\0{}", hook.event, hook.command));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
