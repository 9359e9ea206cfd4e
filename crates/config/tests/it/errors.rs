//! Errors contain file, line, column and key, but no secrets.

use codicil_config::{ConfigQuery, ConfigStore};
use serde_json::json;

use crate::support::{Machine, query};

fn error_of(store: &ConfigStore) -> String {
    store.load(&ConfigQuery::default()).unwrap_err().to_string()
}

fn check(config: &str, expected: &str) {
    let machine = Machine::with_config(config);
    let error = machine.clean(&error_of(&machine.store()));
    assert_eq!(error.replace("/machine/home/config.toml", "FILE"), expected, "{config}");
}

#[test]
fn a_problem_in_a_file_has_a_location_and_a_key() {
    check("model = 'x'\nmodel = 'y'\n", "FILE:2:1: duplicate key");
    check("# ä\nmodel = 5\n", "FILE:2:9: invalid type: integer `5`, expected a string\nin `model`\n");
    check(
        "approval_policy = 'bogus'\n",
        "FILE:1:19: unknown variant `bogus`, expected one of `untrusted`, `on-failure`, `on-request`, `granular`, `never`\nin `approval_policy`\n",
    );
    check(
        "[sandbox_workspace_write]\nnetwork_access = 'yes'\n",
        "FILE:2:18: invalid type: string \"yes\", expected a boolean\nin `sandbox_workspace_write.network_access`\n",
    );
    check(
        "[features]\napps = 'on'\n",
        "FILE:2:8: invalid type: string \"on\", expected a boolean\nin `features.apps`\n",
    );
    check(
        "[shell_environment_policy]\ninherit = 'some'\n",
        "FILE:2:11: unknown variant `some`, expected one of `all`, `core`, `none`\nin `shell_environment_policy.inherit`\n",
    );
    check(
        "[sandbox_limits]\ncpu_seconds = 0\n",
        "FILE:2:15: invalid value: integer `0`, expected a nonzero u64\nin `sandbox_limits.cpu_seconds`\n",
    );
    check(
        "[tools.web_search]\ncontext_size = 'huge'\n",
        "FILE:1:1: unknown variant `huge`, expected one of `low`, `medium`, `high`\nin `tools.web_search`\n",
    );
    check("[mcp_servers.a]\nenabled = true\n", "FILE:1:1: invalid transport\nin `mcp_servers.a`\n");
}

#[test]
fn a_problem_in_a_request_has_a_key() {
    let machine = Machine::with_config("model = 'x'\n");
    let store = machine.store();
    let fails = |overrides| store.load(&query(None, overrides)).unwrap_err().to_string();
    assert_eq!(fails(json!({"model": 5})), "invalid type: integer `5`, expected a string\nin `model`\n");
    let bogus = fails(json!({"approval_policy": "bogus"}));
    assert!(bogus.starts_with("unknown variant `bogus`, expected one of "), "{bogus}");
    assert_eq!(fails(json!({"a.\"b": 1})), "keyPath has a quote that is not closed: a.\"b");
}

#[test]
fn a_conflict_of_layers_is_reported_for_the_one_with_precedence() {
    let machine = Machine::with_config("[features]\napps = true\n");
    machine.write("etc/config.toml", "[mcp_servers.a]\ncommand = 'x'\n");
    machine.write("home/config.toml", "model = 'm'\n[mcp_servers.a]\nurl = 'http://x'\n");
    let error = machine.clean(&error_of(&machine.store()));
    assert!(error.starts_with("/machine/home/config.toml:2:1: invalid transport"), "{error}");
}

#[test]
fn possible_secrets_are_not_in_messages() {
    let rows = [
        "[mcp_servers.a]\ncommand = 'x'\nenv = 'TOKEN=sk-canary'\n",
        "[mcp_servers.a]\nurl = 'x'\nhttp_headers = 'sk-canary'\n",
        "[shell_environment_policy]\nset = 'sk-canary'\n",
        "[model_providers.a]\nhttp_headers = 'sk-canary'\n",
        "[mcp_servers.a.env]\nTOKEN = ['sk-canary']\n",
    ];
    for config in rows {
        let machine = Machine::with_config(config);
        let error = machine.load().unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.to_warning());
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("invalid type"), "{shown}");
    }
}

#[test]
fn debug_output_has_no_values_of_tables_that_hold_secrets() {
    let machine = Machine::with_config(
        "[mcp_servers.a]\ncommand = 'x'\nenv = { T = 'sk-canary' }\n[shell_environment_policy]\nset = { K = 'sk-canary' }\n[model_providers.p]\nexperimental_bearer_token = 'sk-canary'\nhttp_headers = { A = 'sk-canary' }\n",
    );
    let store = machine.store_with_flags(&["mcp_servers.b.command=sk-canary-flag"]);
    let config = store.load(&ConfigQuery::default()).unwrap();
    let shown = format!("{config:?} {:?} {:?}", config.layers(), machine.sources());
    assert!(!shown.contains("sk-canary\""), "{shown}");
}

#[test]
fn a_broken_file_is_a_warning_with_its_location() {
    let machine = Machine::with_config("model = 'x'\nthis is = = not toml\n");
    let warnings = machine.store().warnings(&machine.path("ws"));
    let wire = serde_json::to_string_pretty(&warnings).unwrap();
    insta::assert_snapshot!(machine.clean(&wire), @r#"
    [
      {
        "summary": "The configuration is not usable; defaults apply until it is corrected.",
        "details": "/machine/home/config.toml:2:6: key with no value, expected `=`",
        "path": "/machine/home/config.toml",
        "range": {
          "start": {
            "line": 2,
            "column": 6
          },
          "end": {
            "line": 2,
            "column": 6
          }
        }
      }
    ]
    "#);
}

#[test]
fn directories_and_large_files_are_rejected() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path("home/config.toml")).unwrap();
    let error = machine.clean(&error_of(&machine.store()));
    assert_eq!(error, "failed to read /machine/home/config.toml: not a regular file");
    let machine = Machine::with_config(&"# padding\n".repeat(500_000));
    assert!(error_of(&machine.store()).contains("larger than 4194304 bytes"));
    let machine = Machine::new();
    std::fs::write(machine.path("home/config.toml"), [b'a', 0xff]).unwrap();
    assert!(error_of(&machine.store()).ends_with("not valid UTF-8"));
}

#[test]
fn an_unknown_key_is_an_error_in_strict_mode_only() {
    let machine = Machine::with_config("model = 'x'\n\n[sandbox_workspace_write]\nnetwrok_access = true\n");
    assert!(machine.load().is_ok());
    let error = machine.clean(&error_of(&machine.strict()));
    assert_eq!(
        error,
        "/machine/home/config.toml:4:1: unknown configuration key\nin `sandbox_workspace_write.netwrok_access`\n"
    );
    let machine = Machine::new();
    let strict = machine.strict();
    let error = strict.load(&query(None, json!({"modle": "x"}))).unwrap_err().to_string();
    assert_eq!(error, "unknown configuration key\nin `modle`\n");
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let machine = Machine::with_config("\u{feff}model = 'x'\n");
    assert_eq!(machine.load().unwrap().settings.model.as_deref(), Some("x"));
}
