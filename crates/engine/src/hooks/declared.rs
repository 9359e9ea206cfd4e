//! Where hooks are declared: `hooks.json` in the home and in trusted projects, and `[hooks]` in the
//! configuration. All have the same shape:
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

use codicil_config::{EffectiveConfig, HomeDirectory, TrustLevel};
use codicil_protocol::HookEventName;
use regex_lite::Regex;
use serde::Deserialize;

/// How long a hook may take, unless it says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Larger files are not read.
const LARGEST_FILE: u64 = 1 << 20;

/// The hooks of a turn, in the order in which they run.
#[derive(Debug, Default)]
pub(crate) struct TurnHooks(pub(super) Vec<DeclaredHook>);

/// One command to run at one point.
#[derive(Clone, Debug)]
pub(super) struct DeclaredHook {
    pub event: HookEventName,
    /// Which tools, or kinds of start, it is for; `None` for all.
    pub(super) matcher: Option<Regex>,
    pub command: String,
    pub timeout: Duration,
    pub status_message: Option<String>,
    /// The file that declares it.
    pub source: PathBuf,
    pub order: i64,
}

impl DeclaredHook {
    /// Whether it is for this event; `subject` is what matchers are about.
    pub fn is_for(&self, event: &HookEventName, subject: Option<&str>) -> bool {
        let fits = match (&self.matcher, subject) {
            (Some(matcher), Some(subject)) => matcher.is_match(subject),
            _ => true,
        };
        self.event == *event && fits
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
    /// Reads every declaration. What cannot be used is left out and said in the log. Blocks.
    pub fn load(home: &HomeDirectory, config: &EffectiveConfig) -> Self {
        let mut hooks = Self::default();
        hooks.read(&home.path().join("hooks.json"));
        if let Some(table) = config.value(&["hooks"]) {
            let file = home.path().join("config.toml");
            match table.clone().try_into() {
                Ok(groups) => hooks.add(&file, HooksFile { hooks: groups }),
                Err(error) => tracing::warn!("{}: hooks: {error}", file.display()),
            }
        }
        if let (Some(project), Some(TrustLevel::Trusted)) = (&config.project, config.trust) {
            let folder = project.root.join(".codex");
            if !config.unagreed.contains(&folder) {
                hooks.read(&folder.join("hooks.json"));
            }
        }
        hooks
    }

    fn read(&mut self, path: &Path) {
        let text = match std::fs::metadata(path) {
            Ok(file) if file.len() > LARGEST_FILE => Err(io::Error::other("the file is too large")),
            Ok(_) => codicil_config::open_regular(path)
                .and_then(|file| io::read_to_string(file.take(LARGEST_FILE))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Err(error),
        };
        let file = text.map_err(|error| error.to_string());
        match file.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
            Ok(file) => self.add(path, file),
            Err(error) => tracing::warn!("{}: {error}; its hooks are left out", path.display()),
        }
    }

    fn add(&mut self, source: &Path, file: HooksFile) {
        for (name, groups) in file.hooks {
            let Some(event) = event_named(&name) else {
                tracing::warn!("{}: there is no hook event `{name}`", source.display());
                continue;
            };
            for group in groups {
                self.add_group(source, &event, group);
            }
        }
    }

    fn add_group(&mut self, source: &Path, event: &HookEventName, group: HookGroup) {
        let matcher = match group.matcher.as_deref().map(str::trim) {
            None | Some("" | "*") => None,
            // The whole name has to fit: `Bash` is not `BashOutput`.
            Some(pattern) => match Regex::new(&format!("^(?:{pattern})$")) {
                Ok(matcher) => Some(matcher),
                Err(error) => {
                    tracing::warn!("{}: the matcher `{pattern}` is no pattern: {error}", source.display());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(text: &str) -> TurnHooks {
        let mut hooks = TurnHooks::default();
        hooks.add(Path::new("/h/hooks.json"), serde_json::from_str(text).unwrap());
        hooks
    }

    #[test]
    fn what_can_be_used_is_used_and_the_rest_left_out() {
        let hooks = hooks(
            r#"{"hooks": {
                "PreToolUse": [
                    {"matcher": "Bash|apply_patch", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
                    {"matcher": "(", "hooks": [{"type": "command", "command": "b"}]},
                    {"matcher": "*", "hooks": [{"type": "prompt", "prompt": "c"}, {"type": "command", "command": "d"}]}
                ],
                "Nonsense": [{"hooks": [{"type": "command", "command": "e"}]}]
            }}"#,
        );
        let commands: Vec<_> = hooks.0.iter().map(|hook| (hook.command.as_str(), hook.order)).collect();
        assert_eq!(commands, [("a", 0), ("d", 1)]);
        assert_eq!(hooks.0[0].timeout, Duration::from_secs(5));
        let fits = |at: usize, subject| hooks.0[at].is_for(&HookEventName::PreToolUse, Some(subject));
        assert!(fits(0, "Bash") && fits(0, "apply_patch") && !fits(0, "BashOutput") && fits(1, "anything"));
        assert!(!hooks.0[0].is_for(&HookEventName::PostToolUse, Some("Bash")));
    }
}
