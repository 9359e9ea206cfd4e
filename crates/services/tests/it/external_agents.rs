//! Moving in: what is found, what becomes of it, and what stays as it is.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use codicil_config::{ConfigQuery, ConfigSources, ConfigStore, HomeDirectory, SystemFiles};
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigMigrationItem,
    ExternalAgentConfigMigrationItemType as Kind,
};
use codicil_services::external_agents::ExternalAgents;
use serde_json::json;
use tempfile::TempDir;

struct Person {
    root: PathBuf,
    config: ConfigStore,
    agents: ExternalAgents,
    _directory: TempDir,
}

impl Person {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let home = HomeDirectory::new(root.join("home/.codicil")).unwrap();
        let config = ConfigStore::new(ConfigSources { system, ..ConfigSources::of(home) });
        let agents = ExternalAgents::new(config.clone(), Some(root.join("home")));
        Self { root, config, agents, _directory: directory }
    }

    fn file(&self, name: &str, content: impl ToString) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_string()).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    fn detect(&self, include_home: bool, cwds: &[&str]) -> Vec<ExternalAgentConfigMigrationItem> {
        let cwds = cwds.iter().map(|cwd| self.path(cwd)).collect();
        let params = ExternalAgentConfigDetectParams { include_home: Some(include_home), cwds: Some(cwds) };
        self.agents.detect(&params).unwrap()
    }

    fn kinds(&self, include_home: bool, cwds: &[&str]) -> Vec<Kind> {
        self.detect(include_home, cwds).into_iter().map(|item| item.item_type).collect()
    }
}

#[test]
fn everything_of_the_home_moves_and_is_not_found_again() {
    let person = Person::new();
    person.file("home/.claude/CLAUDE.md", "Home rules for Claude Code\n");
    let settings = json!({ "env": { "FOO": "bar", "N": 1, "B": true, "X": null, "O": {} },
        "sandbox": { "enabled": true }, "permissions": {} });
    person.file("home/.claude/settings.json", settings);
    person.file("home/.claude/skills/helper/SKILL.md", "---\nname: helper\n---\nAsk Claude\n");
    person.file("home/.claude/skills/helper/data/a.txt", "Claude");
    person.file("home/.claude/commands/git/Tidy up.md", "Tidy the history\n");
    person.file("home/.claude.json", json!({ "mcpServers": { "docs": { "command": "docs-mcp" } } }));
    assert!(person.detect(false, &[]).is_empty());
    let items = person.detect(true, &[]);
    let kinds: Vec<_> = items.iter().map(|item| item.item_type.clone()).collect();
    assert_eq!(kinds, [Kind::Config, Kind::McpServerConfig, Kind::Skills, Kind::AgentsMd]);
    assert!(items.iter().all(|item| item.cwd.is_none() && item.description.contains("/.claude")));

    person.agents.import(&items).unwrap();

    assert!(person.detect(true, &[]).is_empty());
    assert_eq!(person.read("home/.codicil/AGENTS.md"), "Home rules for Codex\n");
    assert_eq!(person.read("home/.agents/skills/helper/SKILL.md"), "---\nname: helper\n---\nAsk Codex\n");
    assert_eq!(person.read("home/.agents/skills/helper/data/a.txt"), "Claude");
    let command = person.read("home/.agents/skills/git-tidy-up/SKILL.md");
    assert!(
        command.starts_with("---\nname: git-tidy-up\ndescription: \"Tidy the history\"\n---\n"),
        "{command}"
    );
    let config = person.config.load(&ConfigQuery::default()).unwrap();
    let set = &config.settings.shell_environment_policy.set;
    let set: Vec<_> = set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(set, [("B", "true"), ("FOO", "bar"), ("N", "1")]);
    assert_eq!(config.value(&["sandbox_mode"]).unwrap().as_str(), Some("workspace-write"));
    assert_eq!(config.mcp_servers().map(|(name, _)| name).collect::<Vec<_>>(), ["docs"]);
    // A second time changes nothing.
    let before = person.read("home/.codicil/config.toml");
    person.agents.import(&items).unwrap();
    assert_eq!(person.read("home/.codicil/config.toml"), before);
}

#[test]
fn a_project_is_the_repository_around_a_directory_or_the_directory() {
    let person = Person::new();
    fs::create_dir_all(person.root.join("repo/.git")).unwrap();
    person.file("repo/deep/er/file", "");
    person.file("repo/.claude/CLAUDE.md", "Inner");
    person.file("plain/CLAUDE.md", "Plain");
    let items = person.detect(false, &["repo/deep/er", "repo", "plain", "missing", "repo/deep/er/file"]);
    let found: Vec<_> =
        items.iter().map(|item| (item.item_type.clone(), item.cwd.clone().unwrap())).collect();
    assert_eq!(found, [(Kind::AgentsMd, person.path("repo")), (Kind::AgentsMd, person.path("plain"))]);
    person.agents.import(&items).unwrap();
    assert_eq!(
        (person.read("repo/AGENTS.md"), person.read("plain/AGENTS.md")),
        ("Inner".into(), "Plain".into())
    );
    let relative = ExternalAgentConfigDetectParams { include_home: None, cwds: Some(vec!["repo".into()]) };
    assert!(person.agents.detect(&relative).unwrap().is_empty());
}

#[test]
fn what_is_there_is_added_to_and_never_replaced() {
    let person = Person::new();
    let settings = json!({ "env": { "A": "1", "B": "2" }, "sandbox": { "enabled": true } });
    person.file("p/.claude/settings.json", settings);
    let servers = json!({ "mcpServers": { "one": { "command": "theirs" }, "two": { "command": "x" } } });
    person.file("p/.mcp.json", servers);
    let existing = "# mine\nsandbox_mode = \"read-only\"   # careful\n\n[shell_environment_policy]\ninherit = \"all\"\n\
        [shell_environment_policy.set]\nA = \"9\"\n\n[mcp_servers.one]\ncommand = \"mine\"\n";
    person.file("p/.codex/config.toml", existing);
    person.file("p/.claude/skills/a/SKILL.md", "theirs");
    person.file("p/.agents/skills/a/SKILL.md", "mine");
    person.file("p/.claude/commands/a.md", "has the name of a skill");
    person.file("p/CLAUDE.md", "theirs");
    person.file("p/AGENTS.md", "mine");
    let items = person.detect(false, &["p"]);
    let kinds: Vec<_> = items.iter().map(|item| item.item_type.clone()).collect();
    assert_eq!(kinds, [Kind::Config, Kind::McpServerConfig]);

    let mut all = items.clone();
    for item_type in [Kind::Skills, Kind::AgentsMd] {
        all.push(ExternalAgentConfigMigrationItem { item_type, ..items[0].clone() });
    }
    person.agents.import(&all).unwrap();

    assert!(person.detect(false, &["p"]).is_empty());
    assert_eq!(
        (person.read("p/AGENTS.md"), person.read("p/.agents/skills/a/SKILL.md")),
        ("mine".into(), "mine".into())
    );
    let text = person.read("p/.codex/config.toml");
    assert!(text.contains("# mine") && text.contains("\"read-only\"   # careful"), "{text}");
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["shell_environment_policy"]["inherit"].as_str(), Some("all"));
    assert_eq!(
        table["shell_environment_policy"]["set"],
        "A = '9'\nB = '2'".parse::<toml::Table>().unwrap().into()
    );
    assert_eq!(table["mcp_servers"]["one"]["command"].as_str(), Some("mine"));
    assert_eq!(table["mcp_servers"]["two"]["command"].as_str(), Some("x"));
    let left: Vec<_> =
        fs::read_dir(person.root.join("p/.codex")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["config.toml"], "no litter");
    let mode = fs::metadata(person.root.join("p/.codex/config.toml")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644);
}

#[test]
fn nothing_to_take_over_is_not_an_item() {
    let person = Person::new();
    person.file("p/CLAUDE.md", "  \n");
    person.file(
        "p/.claude/settings.json",
        json!({ "permissions": {}, "sandbox": { "enabled": false }, "env": {} }),
    );
    person.file("p/.claude/skills/no_folder.md", "");
    person.file("p/.mcp.json", json!({ "mcpServers": { "old": { "type": "sse", "url": "https://x" } } }));
    assert!(person.kinds(true, &["p"]).is_empty());
    // Blank instructions make room for others.
    person.file("p/.claude/CLAUDE.md", "text");
    person.file("p/AGENTS.md", "\n");
    assert_eq!(person.kinds(false, &["p"]), [Kind::AgentsMd]);
}

#[test]
fn links_in_skills_stay_behind() {
    let person = Person::new();
    person.file("p/.claude/skills/a/SKILL.md", "a");
    symlink("/etc/passwd", person.root.join("p/.claude/skills/a/link")).unwrap();
    symlink("a", person.root.join("p/.claude/skills/b")).unwrap();
    person.agents.import(&person.detect(false, &["p"])).unwrap();
    let copied: Vec<_> =
        fs::read_dir(person.root.join("p/.agents/skills")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(copied, ["a"]);
    assert!(fs::symlink_metadata(person.root.join("p/.agents/skills/a/link")).is_err());
}

#[test]
fn files_that_cannot_be_understood_are_reported() {
    let person = Person::new();
    let failure = || {
        let cwds = Some(vec![person.path("p")]);
        person
            .agents
            .detect(&ExternalAgentConfigDetectParams { include_home: None, cwds })
            .unwrap_err()
            .to_string()
    };
    person.file("p/.claude/settings.json", "[]");
    assert_eq!(failure(), "external agent settings root must be an object");
    person.file("p/.claude/settings.json", "{broken");
    assert_eq!(failure(), "key must be a string at line 1 column 2");
    person.file("p/.claude/settings.json", json!({ "env": { "A": "1" } }));
    person.file("p/.codex/config.toml", "broken = [\n");
    assert!(
        failure().starts_with("invalid existing config.toml: TOML parse error at line 1"),
        "{}",
        failure()
    );
}
