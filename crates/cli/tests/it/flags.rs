//! The flags of `codicil app-server`, `--version` and completions.

use std::{
    fs,
    process::{Command, Stdio},
};

use codicil_testkit::ServerProcess;

use crate::{codicil, text};

#[test]
fn the_version_has_the_form_that_clients_parse() {
    let output = codicil(&["--version"]);
    assert!(output.status.success());
    let version = text(&output.stdout);
    assert!(version.contains("codex-cli 0.166.0"), "{version}");
    assert!(version.contains(&format!("codicil {}", env!("CARGO_PKG_VERSION"))), "{version}");
    assert_eq!(version.lines().count(), 1);
}

#[test]
fn completions_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = codicil(&["completion", shell]);
        assert!(output.status.success(), "{shell}");
        let script = text(&output.stdout);
        assert!(script.contains("app-server") && script.contains("codicil"), "{shell}: {script:.200}");
    }
}

#[test]
fn a_reader_that_stops_early_gets_no_panic() {
    for arguments in [["completion", "bash"], ["man", ""]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(arguments.iter().filter(|argument| !argument.is_empty()));
        let (reader, writer) = std::io::pipe().unwrap();
        // A pipe without a reader.
        drop(reader);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let errors = text(&output.stderr);
        assert!(!errors.contains("panicked"), "{errors}");
    }
}

#[test]
fn overrides_are_refused_where_they_have_no_effect() {
    for command in ["demo", "import", "mock-model", "reindex", "completion", "man"] {
        let output = codicil(&[command, "-c", "model=x"]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let errors = text(&output.stderr);
        assert!(errors.contains("does not read the configuration, so --config has no effect"), "{errors}");
    }
}

#[test]
fn manual_pages_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = codicil(&["man", "--out", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (page, expected) in [("codicil.1", "app\\-server"), ("codicil-app-server.1", "metrics")] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(expected), "{page}: {text:.200}");
    }
    assert!(text(&codicil(&["man"]).stdout).contains("codicil"));
}

#[test]
fn help_names_the_flags() {
    let help = text(&codicil(&["app-server", "--help"]).stdout);
    for flag in [
        "--config <KEY=VALUE>",
        "--enable <FEATURE>",
        "--disable <FEATURE>",
        "--strict-config",
        "--listen <URL>",
        "--stdio",
        "--ws-auth <MODE>",
        "--ws-token-file <PATH>",
        "--ws-shared-secret-file <PATH>",
        "--ws-issuer <ISSUER>",
        "--ws-audience <AUDIENCE>",
        "--ws-max-clock-skew-seconds <SECONDS>",
        "--ws-allow-unauthenticated",
        "generate-ts",
        "generate-json-schema",
    ] {
        assert!(help.contains(flag), "{flag} is missing:\n{help}");
    }
}

#[test]
fn invalid_flags_are_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = file("token", "s3cret\n");
    let short = file("short", "too short");
    let empty = file("empty", "\n");
    let long = file("long", &"x".repeat(32));
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    let capability = ["--ws-auth", "capability-token"];
    let signed = ["--ws-auth", "signed-bearer-token"];
    let ws = ["--listen", "ws://127.0.0.1:0"];
    let check = |flags: &[&[&str]], reason: &str| {
        let arguments = [&["app-server"], flags.concat().as_slice()].concat();
        let output = codicil(&arguments);
        let message = text(&output.stderr);
        assert!(
            !output.status.success() && output.status.code().is_some(),
            "{arguments:?}: {:?}",
            output.status
        );
        assert!(message.contains(reason), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "standard output is for the protocol");
    };
    let address = "is not a listen address: use `stdio://`, `ws://IP:PORT`, `unix://` or `unix://PATH`";
    check(&[&["--listen", "ws://localhost:80"]], address);
    check(&[&["--listen", "http://127.0.0.1:80"]], address);
    check(&[&["--listen", "ws://127.0.0.1"]], address);
    check(&[&["--stdio", "--listen", "stdio://"]], "cannot be used with");
    check(
        &[&["--listen", "ws://0.0.0.0:0"]],
        "refusing to listen on 0.0.0.0:0 without authentication: anyone who reaches this address could run \
         commands as you. Use --ws-auth, listen on 127.0.0.1, or pass --ws-allow-unauthenticated",
    );
    check(&[&["--listen", "ws://[::]:0"]], "refusing to listen on [::]:0 without authentication");
    check(&[&ws, &["--ws-auth", "magic"]], "invalid value 'magic' for '--ws-auth <MODE>'");
    check(&[&ws, &["--ws-token-file", &token]], "--ws-token-file needs --ws-auth");
    check(&[&ws, &["--ws-issuer", "i"]], "--ws-issuer needs --ws-auth");
    check(&[&ws, &capability], "--ws-auth capability-token needs --ws-token-file");
    check(&[&ws, &capability, &["--ws-token-file", missing]], "cannot read the token file");
    check(&[&ws, &capability, &["--ws-token-file", &empty]], "is empty");
    check(
        &[&ws, &capability, &["--ws-token-file", &token, "--ws-audience", "a"]],
        "--ws-audience is for --ws-auth signed-bearer-token",
    );
    check(&[&ws, &signed], "--ws-auth signed-bearer-token needs --ws-shared-secret-file");
    check(
        &[&ws, &signed, &["--ws-shared-secret-file", &long, "--ws-token-file", &token]],
        "--ws-token-file is for --ws-auth capability-token",
    );
    check(&[&ws, &signed, &["--ws-shared-secret-file", &short]], "is too short: it needs at least 32 bytes");
    check(
        &[&ws, &signed, &["--ws-shared-secret-file", &long, "--ws-max-clock-skew-seconds", "soon"]],
        "invalid value 'soon' for '--ws-max-clock-skew-seconds <SECONDS>'",
    );
    check(
        &[&capability, &["--ws-token-file", &token]],
        "--ws-auth is for websocket listeners, not for stdio://",
    );
    check(&[&["--no-such-flag"]], "unexpected argument '--no-such-flag'");
}

#[tokio::test]
async fn a_listener_without_authentication_warns() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["app-server", "--listen", "ws://0.0.0.0:0", "--ws-allow-unauthenticated"];
    let mut process = ServerProcess::spawn(home.path(), arguments);
    process.announced_address().await;
    let warning = process.stderr_line("there is no authentication").await;
    assert!(warning.contains("WARN"), "{warning}");
    process.terminate();
    process.expect_success().await;
}
