//! MCP servers that mentioned skills need and the thread lacks. If the user agrees, they are added to the configuration
//! and started, so that the turn can use them.

use std::collections::BTreeMap;

use codicil_config::{ConfigQuery, Feature};
use codicil_extensions::{MessageMentions, Skill};
use codicil_mcp::{ServerTable, StartError};
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    ConfigBatchWriteParams, ConfigEdit, ConfigWarning, ConfigWarningNotification, ItemId, MergeStrategy,
    SkillToolDependency, ToolRequestUserInputOption, ToolRequestUserInputParams,
    ToolRequestUserInputQuestion, ToolUserInput,
};
use serde_json::{Value, json};

use super::{approval::has_full_access, questions};
use crate::tools::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::TurnCancelled,
};

const QUESTION_ID: &str = "skill_mcp_dependency_install";
const INSTALL: &str = "Install";
const CONTINUE: &str = "Continue anyway";

/// The skills that the input of a turn mentions.
pub(crate) struct MentionedSkills {
    pub mentions: MessageMentions,
    /// How the thread's configuration is read.
    pub query: ConfigQuery,
}

/// The settings of missing servers, by name.
type MissingServers = BTreeMap<String, Value>;

impl TurnTools {
    /// Offers to install the MCP servers that mentioned skills need. Each server is offered once per thread.
    pub async fn install_skill_servers(&self) -> Result<(), TurnCancelled> {
        let Some(skills) = self.skills.as_ref().filter(|skills| !skills.mentions.is_empty()) else {
            return Ok(());
        };
        if !self.config.features.enabled(Feature::SkillMcpDependencyInstall) {
            return Ok(());
        }
        let mut missing = self.missing_servers(skills).await;
        missing.retain(|name, _| self.thread.offer_server(name));
        if missing.is_empty() || !self.may_install(&missing).await? {
            return Ok(());
        }
        match self.install(skills, &missing).await {
            Ok(()) => self.sign_in_to(&missing).await,
            Err(error) => {
                self.warn(&missing, &format!("they could not be added: {error}")).await;
                Ok(())
            }
        }
    }

    async fn missing_servers(&self, skills: &MentionedSkills) -> MissingServers {
        let extensions = self.thread.engine.extensions.clone();
        let config = self.config.clone();
        let cwd = self.settings.cwd.clone();
        let mentions = skills.mentions.clone();
        let find = move || {
            let found = extensions.skills.at(&cwd, &config).skills;
            let mentioned = mentions.choose(&found).into_iter();
            let declared = mentioned.flat_map(dependencies).filter_map(server_settings);
            let is_configured = |name: &str, settings: &Value| {
                config.mcp_servers().any(|(known, table)| {
                    let text = |key: &str| table.get(key).and_then(|value| value.as_str());
                    known == name || is_same_server(settings, text("url"), text("command"))
                })
            };
            declared.filter(|(name, settings)| !is_configured(name, settings)).collect()
        };
        tokio::task::spawn_blocking(find).await.unwrap_or_default()
    }

    /// Decides by the policies, or asks.
    async fn may_install(&self, missing: &MissingServers) -> Result<bool, TurnCancelled> {
        let policy = &self.settings.approval_policy;
        if has_full_access(policy, &self.settings.sandbox) {
            return Ok(true);
        }
        if let Some(why) = why_not_ask(policy, QuestionTopic::McpElicitations) {
            self.warn(missing, &format!("they were not added because {why}")).await;
            return Ok(false);
        }
        let params = ToolRequestUserInputParams {
            thread_id: self.thread_id(),
            turn_id: self.turn_id.clone(),
            // The question belongs to no item.
            item_id: ItemId::from(QUESTION_ID),
            questions: vec![question(missing)],
            is_blocking: true,
            auto_resolution_ms: None,
        };
        let reply = self.ask::<ToolUserInput>(params, QuestionKind::UserInput).await?;
        let QuestionReply::Answer(mut response) = reply else { return Ok(false) };
        let answers = response.answers.remove(QUESTION_ID).map(|answer| answer.answers).unwrap_or_default();
        Ok(answers.iter().any(|answer| answer == INSTALL))
    }

    /// Writes the servers to the user's configuration and starts them. Other threads find them with their next turn.
    async fn install(&self, skills: &MentionedSkills, missing: &MissingServers) -> Result<(), String> {
        let engine = self.thread.engine.clone();
        let query = skills.query.clone();
        let edit = |(name, settings): (&String, &Value)| ConfigEdit {
            key_path: format!("mcp_servers.{name:?}"),
            value: settings.clone(),
            merge_strategy: MergeStrategy::Replace,
        };
        let params = ConfigBatchWriteParams {
            edits: missing.iter().map(edit).collect(),
            file_path: None,
            expected_version: None,
            reload_user_config: None,
        };
        let write = move || -> Result<ServerTable, String> {
            engine.config.batch_write(&params).map_err(|error| error.to_string())?;
            engine.mcp.reload();
            let config = engine.load_config(&query).map_err(|error| error.to_string())?;
            engine.server_table(&config).map_err(|error| error.to_string())
        };
        let table = tokio::task::spawn_blocking(write).await.map_err(|error| error.to_string())??;
        self.thread.servers.update(&table);
        Ok(())
    }

    /// Asks the user to sign in to the new servers that require it.
    async fn sign_in_to(&self, servers: &MissingServers) -> Result<(), TurnCancelled> {
        for name in servers.keys() {
            let started = self.cancel.run_until_cancelled(self.thread.servers.started(name)).await;
            if started.ok_or(TurnCancelled)? == Err(StartError::NotSignedIn) {
                let message = format!("The {name} MCP server requires signing in.");
                questions::sign_in(self, name, message).await?;
                self.thread.servers.retry();
            }
        }
        Ok(())
    }

    async fn warn(&self, missing: &MissingServers, what: &str) {
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        let warning = ConfigWarningNotification {
            summary: format!(
                "skills of this turn need MCP servers that are not configured: {}",
                names.join(", ")
            ),
            details: Some(what.to_owned()),
            path: None,
            range: None,
        };
        self.notify::<ConfigWarning>(&warning).await;
    }
}

fn dependencies(skill: &Skill) -> &[SkillToolDependency] {
    skill.metadata.dependencies.as_ref().map(|dependencies| dependencies.tools.as_slice()).unwrap_or_default()
}

/// Returns the name and settings of a server that a skill declares; `None` for other dependencies.
fn server_settings(dependency: &SkillToolDependency) -> Option<(String, Value)> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !dependency.kind.eq_ignore_ascii_case("mcp") || !dependency.value.chars().all(is_name) {
        return None;
    }
    let transport = dependency.transport.as_deref().unwrap_or("streamable_http");
    let settings = if transport.eq_ignore_ascii_case("streamable_http") {
        json!({ "url": dependency.url.as_ref()? })
    } else if transport.eq_ignore_ascii_case("stdio") {
        json!({ "command": dependency.command.as_ref()? })
    } else {
        return None;
    };
    Some((dependency.value.clone(), settings))
}

/// Returns whether settings are those of a server at this URL or with this command.
fn is_same_server(settings: &Value, url: Option<&str>, command: Option<&str>) -> bool {
    let is_same = |key: &str, known: Option<&str>| {
        known.is_some() && settings.get(key).and_then(Value::as_str) == known
    };
    is_same("url", url) || is_same("command", command)
}

fn question(missing: &MissingServers) -> ToolRequestUserInputQuestion {
    let list = missing.iter().map(|(name, settings)| {
        let target = settings.get("url").or_else(|| settings.get("command")).and_then(Value::as_str);
        format!("{name} ({})", target.unwrap_or_default())
    });
    let option = |label: &str, description: &str| ToolRequestUserInputOption {
        label: label.to_owned(),
        description: description.to_owned(),
    };
    ToolRequestUserInputQuestion {
        id: QUESTION_ID.to_owned(),
        header: "Install MCP servers?".to_owned(),
        question: format!(
            "The skills of this message need MCP servers that are not configured: {}. Add them?",
            list.collect::<Vec<_>>().join(", ")
        ),
        is_other: false,
        is_secret: false,
        options: Some(vec![
            option(INSTALL, "Adds the servers to the configuration and starts them."),
            option(CONTINUE, "Continues without them."),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_dependencies() {
        let check = |dependency: Value, expected: Option<Value>| {
            let shown = dependency.to_string();
            let dependency: SkillToolDependency = serde_json::from_value(dependency).unwrap();
            let settings = server_settings(&dependency).map(|(name, settings)| json!([name, settings]));
            assert_eq!(settings, expected, "{shown}");
        };
        check(
            json!({ "type": "mcp", "value": "docs", "url": "https://x/mcp" }),
            Some(json!(["docs", { "url": "https://x/mcp" }])),
        );
        check(
            json!({ "type": "mcp", "value": "local", "transport": "stdio", "command": "serve" }),
            Some(json!(["local", { "command": "serve" }])),
        );
        check(json!({ "type": "mcp", "value": "local", "transport": "stdio" }), None);
        check(json!({ "type": "mcp", "value": "a.b", "url": "https://x" }), None);
        check(json!({ "type": "env_var", "value": "TOKEN" }), None);
    }

    #[test]
    fn a_server_under_another_name_is_not_missing() {
        let settings = json!({ "url": "https://x/mcp" });
        assert!(is_same_server(&settings, Some("https://x/mcp"), None));
        assert!(!is_same_server(&settings, Some("https://y/mcp"), None));
        assert!(!is_same_server(&settings, None, Some("x")));
    }
}
