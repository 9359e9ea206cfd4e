//! Precedence of layers, and origins of values.

use codicil_config::ConfigQuery;
use codicil_protocol::ConfigLayerSource;
use serde_json::json;

use crate::support::{Machine, query, read};

/// A machine on which the layers up to `strongest` set `model`.
fn machine(strongest: usize) -> (Machine, Vec<&'static str>) {
    let machine = Machine::new();
    let ws = machine.path("ws");
    let trust = format!("projects.{ws:?}.trust_level = \"trusted\"\n");
    machine.write("ws/.git/HEAD", "");
    let files = [
        ("etc/config.toml", "model = \"system\"\n".to_owned()),
        ("home/config.toml", format!("{trust}model = \"user\"\n")),
        ("ws/.codex/config.toml", "model = \"project\"\n".to_owned()),
        ("ws/.codicil/config.toml", "model = \"own folder\"\n".to_owned()),
        ("ws/sub/.codex/config.toml", "model = \"nearer\"\n".to_owned()),
    ];
    machine.write("home/config.toml", &trust);
    for (path, text) in files.iter().take(strongest + 1) {
        machine.write(path, text);
    }
    let flags = if strongest >= 5 { vec!["model=flag"] } else { vec![] };
    (machine, flags)
}

#[test]
fn the_layer_with_the_highest_precedence_is_the_origin() {
    let expected = [
        ("system", "system"),
        ("user", "user"),
        ("project", "project"),
        ("own folder", "project"),
        ("nearer", "project"),
        ("flag", "sessionFlags"),
    ];
    for (strongest, (model, origin)) in expected.into_iter().enumerate() {
        let (machine, flags) = machine(strongest);
        let store = machine.store_with_flags(&flags);
        let response = read(&store, Some(&machine.path("ws/sub")));
        assert_eq!(response.config.model.as_deref(), Some(model));
        let name = serde_json::to_value(&response.origins["model"].name).unwrap();
        assert_eq!(name["type"], origin);
    }
    let (machine, flags) = machine(5);
    let store = machine.store_with_flags(&flags);
    let of_thread = store.load(&query(Some(&machine.path("ws")), json!({"model": "thread"}))).unwrap();
    assert_eq!(of_thread.settings.model.as_deref(), Some("thread"));
}

#[test]
fn layers_are_listed_by_precedence_and_include_the_system() {
    let (machine, flags) = machine(5);
    let store = machine.store_with_flags(&flags);
    let layers = read(&store, Some(&machine.path("ws/sub"))).layers.unwrap();
    let names: Vec<_> = layers.iter().map(|layer| serde_json::to_string(&layer.name).unwrap()).collect();
    insta::assert_snapshot!(machine.clean(&names.join("\n")), @r#"
    {"type":"sessionFlags"}
    {"type":"project","dotCodexFolder":"/machine/ws/sub/.codex"}
    {"type":"project","dotCodexFolder":"/machine/ws/.codicil"}
    {"type":"project","dotCodexFolder":"/machine/ws/.codex"}
    {"type":"user","file":"/machine/home/config.toml"}
    {"type":"system","file":"/machine/etc/config.toml"}
    "#);

    let bare = read(&Machine::new().store(), None).layers.unwrap();
    assert!(matches!(bare[0].name, ConfigLayerSource::User { .. }));
    assert!(matches!(bare[1].name, ConfigLayerSource::System { .. }));
    assert!(bare.iter().all(|layer| layer.config == json!({}) && layer.version.starts_with("sha256:")));
}

#[test]
fn tables_are_merged_and_other_values_replaced() {
    let machine = Machine::with_config(
        "notify = ['a', 'b', 'c']\n[sandbox_workspace_write]\nnetwork_access = true\nexclude_slash_tmp = true\n",
    );
    let store =
        machine.store_with_flags(&["notify=['x']", "sandbox_workspace_write.exclude_slash_tmp=false"]);
    let config = store.load(&ConfigQuery::default()).unwrap().settings;
    let sandbox = config.sandbox_workspace_write.unwrap();
    assert!(sandbox.network_access && !sandbox.exclude_slash_tmp);
    assert_eq!(config.notify, Some(vec!["x".to_owned()]));
    let origins = read(&store, None).origins;
    assert_eq!(origins["notify.0"].name, ConfigLayerSource::SessionFlags);
    assert!(!origins.contains_key("notify.1"), "elements of a list that was replaced have no origin");
    assert!(matches!(origins["sandbox_workspace_write.network_access"].name, ConfigLayerSource::User { .. }));
}

#[test]
fn relative_paths_are_resolved_against_the_directory_of_their_file() {
    let machine = Machine::with_config("model_instructions_file = 'mine.md'\n")
        .with_project("[sandbox_workspace_write]\nwritable_roots = ['../out']\n")
        .trusting("ws");
    machine.write("home/mine.md", "mine\n");
    machine.write("ws/here.md", "here");
    let config = machine.store().load(&ConfigQuery::at(machine.path("ws"))).unwrap();
    assert_eq!(config.settings.instructions.as_deref(), Some("mine"));
    let sandbox = config.settings.sandbox_workspace_write.unwrap();
    assert_eq!(sandbox.writable_roots, [machine.path("ws/out").to_str().unwrap()]);
    let overridden = machine
        .store()
        .load(&query(Some(&machine.path("ws")), json!({"model_instructions_file": "here.md"})));
    assert_eq!(overridden.unwrap().settings.instructions.as_deref(), Some("here"));
}

#[test]
fn a_home_inside_a_project_is_not_a_project_layer() {
    let machine = Machine::new();
    machine.write("ws/.git/HEAD", "");
    machine.write("ws/.codex/config.toml", "model = 'home'\n");
    let sources = codicil_config::ConfigSources {
        home: codicil_config::HomeDirectory::new(machine.path("ws/.codex")).unwrap(),
        ..machine.sources()
    };
    let store = codicil_config::ConfigStore::new(sources);
    let layers = read(&store, Some(&machine.path("ws"))).layers.unwrap();
    assert_eq!(layers.len(), 2, "user and system only");
    assert!(store.warnings(&machine.path("ws")).is_empty());
}

#[test]
fn an_additional_file_takes_precedence_over_all_layers() {
    let machine =
        Machine::with_config("model = \"user\"\nreview_model = \"kept\"\n[agents]\nmax_depth = 2\n");
    machine.write("home/requirements.toml", "allowed_approval_policies = [\"on-request\"]\n");
    let text = "model = \"role\"\napproval_policy = \"never\"\n[features]\nmulti_agent = false\n";
    let file = machine.write("home/role.toml", text);
    let store = machine.store_with_flags(&["model=flag"]);
    let base = store.load(&ConfigQuery::default()).unwrap();

    let (config, own) = store.with_file(&base, &file).unwrap();

    assert_eq!(base.settings.model.as_deref(), Some("flag"));
    assert_eq!(config.settings.model.as_deref(), Some("role"));
    assert_eq!(config.settings.review_model.as_deref(), Some("kept"));
    assert_eq!(config.settings.approval_policy, Some(codicil_protocol::AskForApproval::OnRequest));
    assert!(base.features.enabled(codicil_config::Feature::MultiAgent));
    assert!(!config.features.enabled(codicil_config::Feature::MultiAgent));
    assert_eq!(config.value(&["agents", "max_depth"]).and_then(|value| value.as_integer()), Some(2));
    assert_eq!((own.model.as_deref(), own.review_model), (Some("role"), None));
    assert!(store.with_file(&base, &machine.path("home/none.toml")).is_err(), "a missing file is a mistake");
}
