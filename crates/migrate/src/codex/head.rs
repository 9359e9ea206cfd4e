//! Parses the first line of a rollout file: the identity and origin of a thread.

use codicil_protocol::{GitInfo, SessionSource, SubAgentSource, ThreadId};
use codicil_store::ThreadMeta;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::rollout::{RolloutEntry, RolloutLine, member, owned, text};

/// The provider of threads that name none.
const DEFAULT_PROVIDER: &str = "openai";

/// Beginnings of the instructions that ship with codex. They describe its own tools, so they are not
/// imported.
const CODEX_INSTRUCTIONS: [&str; 2] = ["You are Codex", "You are a coding agent"];

/// Reasons why the first line does not begin a thread.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    #[error("the first line is not the beginning of a thread")]
    NotMeta,
    #[error("the thread has no id")]
    NoId,
    #[error("the thread has an invalid id: {id}")]
    InvalidId { id: String, source: uuid::Error },
    #[error("the thread does not say when it began")]
    NoTime,
}

/// The first line of a rollout file.
#[derive(Debug)]
pub struct RolloutHead {
    pub meta: ThreadMeta,
    pub started_at: Timestamp,
    pub git: Option<GitInfo>,
    /// Whether the file has the oldest format, where lines are items and there are no events.
    pub is_bare: bool,
    /// Whether the file stores whole items, as later versions of codex do.
    pub has_whole_items: bool,
}

impl RolloutHead {
    pub fn parse(first: &str) -> Result<Self, HeadError> {
        let Some(RolloutLine { at, entry: RolloutEntry::Meta(meta) }) = RolloutLine::parse(first) else {
            return Err(HeadError::NotMeta);
        };
        let id = text(&meta, "id").ok_or(HeadError::NoId)?;
        let id = Uuid::parse_str(id).map_err(|source| HeadError::InvalidId { id: id.to_owned(), source })?;
        let started_at = text(&meta, "timestamp").and_then(|at| at.parse().ok()).or(at);
        let started_at = started_at.ok_or(HeadError::NoTime)?;
        let git = meta.get("git").map(git).filter(|git| *git != GitInfo::default());
        Ok(Self {
            meta: self::meta(id.to_string(), &meta),
            started_at,
            git,
            has_whole_items: text(&meta, "history_mode") == Some("paginated"),
            is_bare: !first.contains("\"payload\""),
        })
    }
}

fn meta(id: String, given: &Value) -> ThreadMeta {
    let source = source(given.get("source"));
    let (parent, nickname, role) = match &source {
        SessionSource::SubAgent(SubAgentSource::ThreadSpawn {
            parent_thread_id,
            agent_nickname,
            agent_role,
            ..
        }) => (Some(parent_thread_id.clone()), agent_nickname.clone(), agent_role.clone()),
        _ => (None, None, None),
    };
    let instructions = given.get("base_instructions").and_then(|base| text(base, "text"));
    let ships_with_codex = |text: &&str| CODEX_INSTRUCTIONS.iter().any(|start| text.starts_with(start));
    let provider = text(given, "model_provider").unwrap_or(DEFAULT_PROVIDER);
    ThreadMeta {
        cli_version: owned(given, "cli_version"),
        forked_from: text(given, "forked_from_id").map(ThreadId::from),
        parent_thread_id: parent,
        agent_nickname: member(given, "agent_nickname").or(nickname),
        agent_role: member(given, "agent_role").or(role),
        originator: member(given, "originator"),
        thread_source: member(given, "thread_source"),
        history_mode: member(given, "history_mode").unwrap_or_default(),
        dynamic_tools: member(given, "dynamic_tools").unwrap_or_default(),
        base_instructions: instructions.filter(|text| !ships_with_codex(text)).map(str::to_owned),
        ..ThreadMeta::new(ThreadId::from(id), owned(given, "cwd"), source, provider)
    }
}

fn git(given: &Value) -> GitInfo {
    let part = |name| text(given, name).map(str::to_owned);
    GitInfo { sha: part("commit_hash"), branch: part("branch"), origin_url: part("repository_url") }
}

/// Parses the source. Codex spells those of subagents differently than its own protocol does.
fn source(given: Option<&Value>) -> SessionSource {
    let Some(given) = given else { return SessionSource::Unknown };
    if let Some(agent) = given.get("subagent") {
        return serde_json::from_value(agent.clone()).map_or(SessionSource::Unknown, SessionSource::SubAgent);
    }
    match given.as_str() {
        Some("cli") => SessionSource::Cli,
        Some("vscode") => SessionSource::Vscode,
        Some("exec") => SessionSource::Exec,
        Some("mcp" | "app_server") => SessionSource::AppServer,
        _ => match text(given, "custom") {
            Some(name) => SessionSource::Custom(name.to_owned()),
            None => SessionSource::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "01a1e24a-8d00-7532-b7b5-6d33c86bf60d";

    fn head(payload: Value) -> Result<RolloutHead, HeadError> {
        let line =
            json!({ "timestamp": "2026-11-16T02:58:19.010Z", "type": "session_meta", "payload": payload });
        RolloutHead::parse(&line.to_string())
    }

    #[test]
    fn the_first_line_becomes_the_metadata_of_the_thread() {
        let head = head(json!({
            "id": ID, "timestamp": "2026-11-16T02:58:12Z", "cwd": "/w", "cli_version": "0.118.0",
            "source": "cli", "model_provider": "mine", "base_instructions": { "text": "You are Codex, ..." },
            "git": { "commit_hash": "abc", "branch": "main" },
        }))
        .unwrap();
        assert_eq!((&*head.meta.id, head.meta.cwd.as_str()), (ID, "/w"));
        assert_eq!(head.meta.source, SessionSource::Cli);
        assert_eq!(head.meta.base_instructions, None);
        assert_eq!(head.git.unwrap().branch.as_deref(), Some("main"));
        assert_eq!(head.started_at.to_string(), "2026-11-16T02:58:12Z");
        assert!(!head.is_bare);
    }

    #[test]
    fn custom_instructions_are_kept() {
        let head = head(json!({ "id": ID, "base_instructions": { "text": "Speak like a pirate" } })).unwrap();
        assert_eq!(head.meta.base_instructions.as_deref(), Some("Speak like a pirate"));
        assert_eq!(head.meta.model_provider, DEFAULT_PROVIDER);
    }

    #[test]
    fn subagents_keep_their_parents() {
        let spawned = json!({ "subagent": { "thread_spawn": {
            "parent_thread_id": ID, "depth": 1, "agent_nickname": "Ada", "agent_role": null } } });
        let head = head(json!({ "id": ID, "source": spawned })).unwrap();
        assert_eq!(head.meta.parent_thread_id.as_deref(), Some(ID));
        assert_eq!(head.meta.agent_nickname.as_deref(), Some("Ada"));
        assert_eq!(
            source(Some(&json!({ "subagent": "review" }))),
            SessionSource::SubAgent(SubAgentSource::Review)
        );
    }

    #[test]
    fn a_first_line_of_something_else_is_an_error() {
        assert!(RolloutHead::parse("").is_err());
        assert!(RolloutHead::parse(r#"{"type":"event_msg","payload":{}}"#).is_err());
        assert!(head(json!({ "id": "../../etc/passwd" })).is_err());
        assert!(head(json!({})).is_err());
    }
}
