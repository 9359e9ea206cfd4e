//! The declarations of hooks: `hooks.json` in the home and in trusted projects, and `[hooks]` in the configuration.
//! All have the same shape:
//!
//! ```json
//! { "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./check" }] }] } }
//! ```

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_config::{EffectiveConfig, Feature, HomeDirectory, TrustLevel};
use codicil_protocol::{
    AbsolutePathBuf, HookEventName, HookHandler, HookMetadata, HookSource, HookTrustStatus, HooksListEntry,
};
use regex_lite::Regex;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// How long a hook may take, unless it declares a timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Larger files are skipped.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The hooks of a turn, in the order in which they run.
#[derive(Debug, Default)]
pub(crate) struct TurnHooks(pub(super) Vec<DeclaredHook>);

/// One command that runs for one event.
#[derive(Clone, Debug)]
pub(super) struct DeclaredHook {
    pub event: HookEventName,
    /// The tools or start sources that the hook runs for; `None` for all.
    matcher: Option<Regex>,
    pub command: String,
    pub timeout: Duration,
    pub status_message: Option<String>,
    /// The file that declares it, and its layer.
    pub source: PathBuf,
    pub layer: HookSource,
    pub order: i64,
}

impl DeclaredHook {
    /// Whether the hook runs for this event. `subject` is compared with the matcher.
    pub fn matches(&self, event: &HookEventName, subject: Option<&str>) -> bool {
        let subject_matches = match (&self.matcher, subject) {
            (Some(matcher), Some(subject)) => matcher.is_match(subject),
            _ => true,
        };
        self.event == *event && subject_matches
    }
}

#[derive(Deserialize)]
struct HooksFile {
    #[serde(default)]
    hooks: BTreeMap<String, Vec<HookGroup>>,
}

#[derive(Deserialize)]
struct HookGroup {
    matcher: Option<String>,
    #[serde(default)]
    hooks: Vec<HookEntry>,
}

#[derive(Deserialize)]
struct HookEntry {
    #[serde(rename = "type")]
    kind: String,
    command: Option<String>,
    #[serde(alias = "timeoutSec")]
    timeout: Option<u64>,
    #[serde(rename = "statusMessage", alias = "status_message")]
    status_message: Option<String>,
}

impl TurnHooks {
    /// Reads all declarations. Invalid ones are logged and skipped. Blocks on the disk.
    pub fn load(home: &HomeDirectory, config: &EffectiveConfig) -> Self {
        let mut hooks = Self::default();
        hooks.read(&home.path().join("hooks.json"), &HookSource::User);
        if let Some(table) = config.value(&["hooks"]) {
            let file = home.path().join("config.toml");
            match table.clone().try_into() {
                Ok(groups) => hooks.add(&file, &HookSource::User, HooksFile { hooks: groups }),
                Err(error) => tracing::warn!("{}: hooks: {error}", file.display()),
            }
        }
        if let (Some(project), Some(TrustLevel::Trusted)) = (&config.project, config.trust) {
            let folder = project.root.join(".codex");
            if !config.unagreed.contains(&folder) {
                hooks.read(&folder.join("hooks.json"), &HookSource::Project);
            }
        }
        hooks
    }

    fn read(&mut self, path: &Path, layer: &HookSource) {
        let text = match std::fs::metadata(path) {
            Ok(file) if file.len() > MAX_FILE_BYTES => Err(io::Error::other("the file is too large")),
            Ok(_) => codicil_config::open_regular(path)
                .and_then(|file| io::read_to_string(file.take(MAX_FILE_BYTES))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Err(error),
        };
        let file = text.map_err(|error| error.to_string());
        match file.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
            Ok(file) => self.add(path, layer, file),
            Err(error) => tracing::warn!("{}: {error}; skipping its hooks", path.display()),
        }
    }

    fn add(&mut self, source: &Path, layer: &HookSource, file: HooksFile) {
        for (name, groups) in file.hooks {
            let Some(event) = event_named(&name) else {
                tracing::warn!("{}: unknown hook event `{name}`", source.display());
                continue;
            };
            for group in groups {
                self.add_group((source, layer), &event, group);
            }
        }
    }

    fn add_group(&mut self, (source, layer): (&Path, &HookSource), event: &HookEventName, group: HookGroup) {
        let matcher = match group.matcher.as_deref().map(str::trim) {
            None | Some("" | "*") => None,
            // The pattern has to match the whole subject: `Bash` does not match `BashOutput`.
            Some(pattern) => match Regex::new(&format!("^(?:{pattern})$")) {
                Ok(matcher) => Some(matcher),
                Err(error) => {
                    tracing::warn!("{}: invalid matcher `{pattern}`: {error}", source.display());
                    return;
                }
            },
        };
        for entry in group.hooks {
            let (Some(command), "command") = (entry.command, entry.kind.as_str()) else {
                tracing::warn!("{}: hooks of type `{}` are not supported", source.display(), entry.kind);
                continue;
            };
            self.0.push(DeclaredHook {
                event: event.clone(),
                matcher: matcher.clone(),
                command,
                timeout: entry.timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
                status_message: entry.status_message,
                source: source.to_owned(),
                layer: layer.clone(),
                order: i64::try_from(self.0.len()).unwrap_or(i64::MAX),
            });
        }
    }
}

fn event_named(name: &str) -> Option<HookEventName> {
    Some(match name {
        "PreToolUse" => HookEventName::PreToolUse,
        "PostToolUse" => HookEventName::PostToolUse,
        "SessionStart" => HookEventName::SessionStart,
        "UserPromptSubmit" => HookEventName::UserPromptSubmit,
        "Stop" => HookEventName::Stop,
        _ => return None,
    })
}

/// Lists the hooks of turns in a directory, for clients. Blocks on the disk.
pub fn declared_hooks(home: &HomeDirectory, config: &EffectiveConfig, cwd: &Path) -> HooksListEntry {
    let enabled = config.features.enabled(Feature::Hooks);
    let hooks = TurnHooks::load(home, config);
    let listed = hooks.0.iter().filter_map(|hook| metadata(hook, enabled));
    HooksListEntry {
        cwd: cwd.to_string_lossy().into_owned(),
        hooks: listed.collect(),
        warnings: Vec::new(),
        errors: Vec::new(),
    }
}

fn metadata(hook: &DeclaredHook, enabled: bool) -> Option<HookMetadata> {
    Some(HookMetadata {
        key: format!("{}:{}", hook.source.display(), hook.order),
        event_name: hook.event.clone(),
        handler: HookHandler::Command { command: hook.command.clone(), is_async: false },
        matcher: hook.matcher.as_ref().map(|matcher| pattern(matcher.as_str()).to_owned()),
        timeout_sec: hook.timeout.as_secs(),
        status_message: hook.status_message.clone(),
        additional_context_limit: None,
        source_path: AbsolutePathBuf::new(&hook.source)?,
        source: hook.layer.clone(),
        plugin_id: None,
        environment_id: None,
        display_order: hook.order,
        enabled,
        is_managed: false,
        current_hash: hash(hook),
        trust_status: HookTrustStatus::Trusted,
    })
}

/// Returns a matcher as it was declared.
fn pattern(matcher: &str) -> &str {
    matcher.strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$")).unwrap_or(matcher)
}

fn hash(hook: &DeclaredHook) -> String {
    let matcher = hook.matcher.as_ref().map_or("", |matcher| matcher.as_str());
    let digest = Sha256::digest(format!("{:?}\0{matcher}\0{}", hook.event, hook.command));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(text: &str) -> TurnHooks {
        let mut hooks = TurnHooks::default();
        hooks.add(Path::new("/h/hooks.json"), &HookSource::User, serde_json::from_str(text).unwrap());
        hooks
    }

    #[test]
    fn invalid_declarations_are_skipped() {
        let hooks = hooks(
            r#"{"hooks": {
                "PreToolUse": [
                    {"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
                    {"matcher": "(", "hooks": [{"type": "command", "command": "b"}]},
                    {"matcher": "*", "hooks": [{"type": "prompt", "prompt": "c"}, {"type": "command", "command": "d"}]}
                ],
                "Nonsense": [{"hooks": [{"type": "command", "command": "e"}]}]
            }}"#,
        );
        let commands: Vec<_> = hooks.0.iter().map(|hook| (hook.command.as_str(), hook.order)).collect();
        assert_eq!(commands, [("a", 0), ("d", 1)]);
        assert_eq!(hooks.0[0].timeout, Duration::from_secs(5));
        let matches = |at: usize, subject| hooks.0[at].matches(&HookEventName::PreToolUse, Some(subject));
        assert!(
            matches(0, "Bash") && matches(0, "Edit") && !matches(0, "BashOutput") && matches(1, "anything")
        );
        assert!(!hooks.0[0].matches(&HookEventName::PostToolUse, Some("Bash")));
    }
}
