//! Importing the configuration of another agent: what is detected, what it becomes, and what does not change.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use codicil_config::{ConfigQuery, ConfigSources, ConfigStore, HomeDirectory, SystemFiles};
use codicil_migrate::external_agents::ExternalAgents;
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigMigrationItem,
    ExternalAgentConfigMigrationItemType as Kind,
};
use serde_json::json;
use tempfile::TempDir;

/// Returns a temporary directory that is not inside a git repository, which would be the project of everything
/// below it.
fn directory_outside_repositories() -> TempDir {
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/dev/shm")];
    let is_outside = |folder: &&PathBuf| !folder.ancestors().any(|above| above.join(".git").exists());
    let folder = candidates.iter().find(is_outside).expect("a directory outside of git repositories");
    tempfile::tempdir_in(folder).unwrap()
}

/// A user's home and projects in a temporary directory.
struct Machine {
    root: PathBuf,
    config: ConfigStore,
    agents: ExternalAgents,
    _directory: TempDir,
}

impl Machine {
    fn new() -> Self {
        let directory = directory_outside_repositories();
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

    fn detect_in_home(&self) -> Vec<ExternalAgentConfigMigrationItem> {
        let params = ExternalAgentConfigDetectParams { include_home: Some(true), ..Default::default() };
        self.agents.detect(&params).unwrap()
    }

    fn detect_in(&self, cwds: &[&str]) -> Vec<ExternalAgentConfigMigrationItem> {
        let cwds = Some(cwds.iter().map(|cwd| self.path(cwd)).collect());
        self.agents.detect(&ExternalAgentConfigDetectParams { cwds, ..Default::default() }).unwrap()
    }
}

fn kinds(items: &[ExternalAgentConfigMigrationItem]) -> Vec<Kind> {
    items.iter().map(|item| item.item_type.clone()).collect()
}

#[test]
fn everything_in_the_home_is_imported_once() {
    let machine = Machine::new();
    machine.file("home/.claude/CLAUDE.md", "Home rules for Claude Code\n");
    let settings = json!({ "env": { "FOO": "bar", "N": 1, "B": true, "X": null, "O": {} },
        "sandbox": { "enabled": true }, "permissions": {} });
    machine.file("home/.claude/settings.json", settings);
    machine.file("home/.claude/skills/helper/SKILL.md", "---\nname: helper\n---\nAsk Claude\n");
    machine.file("home/.claude/skills/helper/data/a.txt", "Claude");
    machine.file("home/.claude/commands/git/Tidy up.md", "Tidy the history\n");
    machine.file("home/.claude.json", json!({ "mcpServers": { "docs": { "command": "docs-mcp" } } }));
    assert!(machine.detect_in(&[]).is_empty());
    let items = machine.detect_in_home();
    assert_eq!(kinds(&items), [Kind::Config, Kind::McpServerConfig, Kind::Skills, Kind::AgentsMd]);
    assert!(items.iter().all(|item| item.cwd.is_none() && item.description.contains("/.claude")));

    machine.agents.import(&items).unwrap();

    assert!(machine.detect_in_home().is_empty());
    assert_eq!(machine.read("home/.codicil/AGENTS.md"), "Home rules for Codex\n");
    assert_eq!(machine.read("home/.agents/skills/helper/SKILL.md"), "---\nname: helper\n---\nAsk Codex\n");
    assert_eq!(machine.read("home/.agents/skills/helper/data/a.txt"), "Claude");
    let command = machine.read("home/.agents/skills/git-tidy-up/SKILL.md");
    assert!(
        command.starts_with("---\nname: git-tidy-up\ndescription: \"Tidy the history\"\n---\n"),
        "{command}"
    );
    let config = machine.config.load(&ConfigQuery::default()).unwrap();
    let set = &config.settings.shell_environment_policy.set;
    let set: Vec<_> = set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(set, [("B", "true"), ("FOO", "bar"), ("N", "1")]);
    assert_eq!(config.value(&["sandbox_mode"]).unwrap().as_str(), Some("workspace-write"));
    assert_eq!(config.mcp_servers().map(|(name, _)| name).collect::<Vec<_>>(), ["docs"]);
    // Importing again changes nothing.
    let before = machine.read("home/.codicil/config.toml");
    machine.agents.import(&items).unwrap();
    assert_eq!(machine.read("home/.codicil/config.toml"), before);
}

#[test]
fn a_project_is_the_repository_around_a_directory_or_the_directory() {
    let machine = Machine::new();
    fs::create_dir_all(machine.root.join("repo/.git")).unwrap();
    machine.file("repo/deep/er/file", "");
    machine.file("repo/.claude/CLAUDE.md", "Inner");
    machine.file("plain/CLAUDE.md", "Plain");
    let items = machine.detect_in(&["repo/deep/er", "repo", "plain", "missing", "repo/deep/er/file"]);
    let found: Vec<_> =
        items.iter().map(|item| (item.item_type.clone(), item.cwd.clone().unwrap())).collect();
    assert_eq!(found, [(Kind::AgentsMd, machine.path("repo")), (Kind::AgentsMd, machine.path("plain"))]);
    machine.agents.import(&items).unwrap();
    assert_eq!(
        (machine.read("repo/AGENTS.md"), machine.read("plain/AGENTS.md")),
        ("Inner".into(), "Plain".into())
    );
    let relative = ExternalAgentConfigDetectParams { cwds: Some(vec!["repo".into()]), ..Default::default() };
    assert!(machine.agents.detect(&relative).unwrap().is_empty());
}

#[test]
fn existing_files_and_settings_are_never_replaced() {
    let machine = Machine::new();
    let settings = json!({ "env": { "A": "1", "B": "2" }, "sandbox": { "enabled": true } });
    machine.file("p/.claude/settings.json", settings);
    let servers = json!({ "mcpServers": { "one": { "command": "theirs" }, "two": { "command": "x" } } });
    machine.file("p/.mcp.json", servers);
    let existing = "# mine\nsandbox_mode = \"read-only\"   # careful\n\n[shell_environment_policy]\ninherit = \"all\"\n\
        [shell_environment_policy.set]\nA = \"9\"\n\n[mcp_servers.one]\ncommand = \"mine\"\n";
    machine.file("p/.codex/config.toml", existing);
    machine.file("p/.claude/skills/a/SKILL.md", "theirs");
    machine.file("p/.agents/skills/a/SKILL.md", "mine");
    machine.file("p/.claude/commands/a.md", "has the name of a skill");
    machine.file("p/CLAUDE.md", "theirs");
    machine.file("p/AGENTS.md", "mine");
    let items = machine.detect_in(&["p"]);
    assert_eq!(kinds(&items), [Kind::Config, Kind::McpServerConfig]);

    let mut all = items.clone();
    for item_type in [Kind::Skills, Kind::AgentsMd] {
        all.push(ExternalAgentConfigMigrationItem { item_type, ..items[0].clone() });
    }
    machine.agents.import(&all).unwrap();

    assert!(machine.detect_in(&["p"]).is_empty());
    assert_eq!(
        (machine.read("p/AGENTS.md"), machine.read("p/.agents/skills/a/SKILL.md")),
        ("mine".into(), "mine".into())
    );
    let text = machine.read("p/.codex/config.toml");
    assert!(text.contains("# mine") && text.contains("\"read-only\"   # careful"), "{text}");
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["shell_environment_policy"]["inherit"].as_str(), Some("all"));
    assert_eq!(
        table["shell_environment_policy"]["set"],
        "A = '9'\nB = '2'".parse::<toml::Table>().unwrap().into()
    );
    assert_eq!(table["mcp_servers"]["one"]["command"].as_str(), Some("mine"));
    assert_eq!(table["mcp_servers"]["two"]["command"].as_str(), Some("x"));
    let files: Vec<_> =
        fs::read_dir(machine.root.join("p/.codex")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(files, ["config.toml"], "temporary files remain");
    let mode = fs::metadata(machine.root.join("p/.codex/config.toml")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644);
}

#[test]
fn nothing_to_import_is_not_an_item() {
    let machine = Machine::new();
    machine.file("p/CLAUDE.md", "  \n");
    machine.file(
        "p/.claude/settings.json",
        json!({ "permissions": {}, "sandbox": { "enabled": false }, "env": {} }),
    );
    machine.file("p/.claude/skills/no_folder.md", "");
    machine.file("p/.mcp.json", json!({ "mcpServers": { "old": { "type": "sse", "url": "https://x" } } }));
    assert!(machine.detect_in_home().is_empty());
    assert!(machine.detect_in(&["p"]).is_empty());
    // Blank instructions are replaced.
    machine.file("p/.claude/CLAUDE.md", "text");
    machine.file("p/AGENTS.md", "\n");
    assert_eq!(kinds(&machine.detect_in(&["p"])), [Kind::AgentsMd]);
}

#[test]
fn links_in_skills_are_not_copied() {
    let machine = Machine::new();
    machine.file("p/.claude/skills/a/SKILL.md", "a");
    symlink("/etc/passwd", machine.root.join("p/.claude/skills/a/link")).unwrap();
    symlink("a", machine.root.join("p/.claude/skills/b")).unwrap();
    machine.agents.import(&machine.detect_in(&["p"])).unwrap();
    let copied: Vec<_> = fs::read_dir(machine.root.join("p/.agents/skills"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(copied, ["a"]);
    assert!(fs::symlink_metadata(machine.root.join("p/.agents/skills/a/link")).is_err());
}

#[test]
fn a_copy_of_a_skill_that_was_interrupted_is_replaced() {
    let machine = Machine::new();
    machine.file("p/.claude/skills/a/SKILL.md", "a");
    machine.file("p/.agents/skills/.importing/SKILL.md", "half");
    machine.file("p/.agents/skills/.importing/other", "");
    assert_eq!(kinds(&machine.detect_in(&["p"])), [Kind::Skills]);
    machine.agents.import(&machine.detect_in(&["p"])).unwrap();
    assert_eq!(machine.read("p/.agents/skills/a/SKILL.md"), "a");
    assert!(!machine.root.join("p/.agents/skills/a/other").exists());
    assert!(!machine.root.join("p/.agents/skills/.importing").exists());
}

#[test]
fn invalid_files_are_reported() {
    let machine = Machine::new();
    let failure = || {
        let cwds = Some(vec![machine.path("p")]);
        machine
            .agents
            .detect(&ExternalAgentConfigDetectParams { cwds, ..Default::default() })
            .unwrap_err()
            .to_string()
    };
    machine.file("p/.claude/settings.json", "[]");
    assert_eq!(failure(), "external agent settings root must be an object");
    machine.file("p/.claude/settings.json", "{broken");
    assert_eq!(failure(), "key must be a string at line 1 column 2");
    machine.file("p/.claude/settings.json", json!({ "env": { "A": "1" } }));
    machine.file("p/.codex/config.toml", "broken = [\n");
    assert!(
        failure().starts_with("invalid existing config.toml: TOML parse error at line 1"),
        "{}",
        failure()
    );
}
