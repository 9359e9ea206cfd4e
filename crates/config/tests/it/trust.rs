//! The configuration of a project is used if the project is trusted.

use std::fs;

use codicil_config::{ConfigQuery, KeyEdit, KeyPath, TrustLevel};
use codicil_protocol::ReasoningEffort;

use crate::support::{Machine, read};

const PROJECT: &str = "model_reasoning_effort = \"low\"\n";

fn effort(machine: &Machine, cwd: &str) -> Option<ReasoningEffort> {
    machine.store().load(&ConfigQuery::at(machine.path(cwd))).unwrap().settings.model_reasoning_effort
}

#[test]
fn an_untrusted_project_is_shown_disabled_and_warned_about_once() {
    let machine = Machine::new().with_project(PROJECT);
    machine.write("ws/.codicil/config.toml", PROJECT);
    assert_eq!(effort(&machine, "ws"), None);
    let warnings = machine.store().warnings(&machine.path("ws"));
    let wire = serde_json::to_value(&warnings).unwrap();
    insta::assert_snapshot!(machine.clean(&serde_json::to_string_pretty(&wire).unwrap()), @r#"
    [
      {
        "details": "The project /machine/ws has not been marked as trusted. To use its configuration, set `trust_level = \"trusted\"` under `[projects.\"/machine/ws\"]` in /machine/home/config.toml.\nNot used: /machine/ws/.codex/config.toml, /machine/ws/.codicil/config.toml",
        "summary": "The project's configuration is not used because the project is not trusted."
      }
    ]
    "#);
    let layers = read(&machine.store(), Some(&machine.path("ws"))).layers.unwrap();
    assert!(layers[0].disabled_reason.is_some() && layers[1].disabled_reason.is_some());
    assert!(layers[2].disabled_reason.is_none());
}

#[test]
fn trust_of_the_root_covers_its_subdirectories() {
    let machine = Machine::new().with_project(PROJECT).trusting("ws");
    fs::create_dir_all(machine.path("ws/deep/er")).unwrap();
    for cwd in ["ws", "ws/deep/er"] {
        assert_eq!(effort(&machine, cwd), Some(ReasoningEffort::Low));
        assert!(machine.store().warnings(&machine.path(cwd)).is_empty());
    }
    assert_eq!(machine.store().load(&ConfigQuery::default()).unwrap().settings.model_reasoning_effort, None);
    assert_eq!(effort(&machine, "etc"), None, "another directory has nothing to do with it");
}

#[test]
fn the_nearest_entry_decides() {
    let machine = Machine::new().with_project(PROJECT).trusting("ws");
    machine.write("ws/vendor/.codex/config.toml", "model = 'vendor'\n");
    let entry = format!("projects.{:?}.trust_level = 'untrusted'\n", machine.path("ws/vendor"));
    let config = machine.config();
    machine.write("home/config.toml", &format!("{entry}{config}"));
    let loaded = machine.store().load(&ConfigQuery::at(machine.path("ws/vendor"))).unwrap();
    assert_eq!(loaded.settings.model, None);
    assert_eq!(loaded.settings.model_reasoning_effort, Some(ReasoningEffort::Low));
    assert_eq!(loaded.trust, Some(TrustLevel::Untrusted));
    let details = loaded.warnings[0].details.clone().unwrap();
    assert!(details.contains("is marked as untrusted"), "{details}");
}

#[test]
fn a_project_cannot_trust_itself() {
    let machine = Machine::new();
    let ws = machine.path("ws");
    let machine = machine.with_project(&format!("projects.{ws:?}.trust_level = 'trusted'\n{PROJECT}"));
    assert_eq!(effort(&machine, "ws"), None);
}

#[test]
fn a_broken_file_is_an_error_only_in_a_trusted_project() {
    let machine = Machine::new().with_project("= broken");
    assert_eq!(effort(&machine, "ws"), None);
    let machine = machine.trusting("ws");
    let error = machine.store().load(&ConfigQuery::at(machine.path("ws"))).unwrap_err().to_string();
    assert!(machine.clean(&error).starts_with("/machine/ws/.codex/config.toml:1:1: "), "{error}");
}

#[test]
fn the_root_markers_are_configurable() {
    let machine = Machine::with_config("project_root_markers = ['Cargo.toml']\n");
    machine.write("ws/Cargo.toml", "");
    machine.write("ws/member/.git/HEAD", "");
    let project = machine.store().load(&ConfigQuery::at(machine.path("ws/member"))).unwrap().project.unwrap();
    assert_eq!(project.root, machine.path("ws"));
}

#[test]
fn a_linked_worktree_has_the_trust_of_its_repository() {
    let machine = Machine::new().trusting("repo");
    let admin = machine.path("repo/.git/worktrees/tree");
    machine.write("ws/.git", &format!("gitdir: {}\n", admin.display()));
    machine.write("ws/.codex/config.toml", PROJECT);
    assert_eq!(effort(&machine, "ws"), None, "a file that points there is not enough");
    let back = machine.path("ws/.git");
    machine.write("repo/.git/worktrees/tree/gitdir", &format!("{}\n", back.display()));
    assert_eq!(effort(&machine, "ws"), Some(ReasoningEffort::Low));
}

#[test]
fn trust_is_stored_with_the_path_as_one_key() {
    let machine = Machine::with_config("# mine\nmodel = 'x' # keep\n").with_project(PROJECT);
    let ws = machine.path("ws").display().to_string();
    let path = KeyPath::from_keys(["projects", &ws, "trust_level"]).unwrap();
    machine.store().edit(&[KeyEdit::replace(path, "trusted")]).unwrap();
    assert_eq!(effort(&machine, "ws"), Some(ReasoningEffort::Low));
    insta::assert_snapshot!(machine.clean(&machine.config()), @r#"
    # mine
    model = 'x' # keep

    [projects."/machine/ws"]
    trust_level = "trusted"
    "#);
}
