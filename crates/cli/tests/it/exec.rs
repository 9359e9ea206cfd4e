//! `codicil exec`: what it prints where, what it takes, and how it ends.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use codicil_testkit::{ModelServer, Reply, Script, ServerProcess};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{soon, text};

/// A home, a repository to work in, and a model.
struct Place {
    folder: tempfile::TempDir,
    model: ModelServer,
}

impl Place {
    async fn new(script: Script) -> Self {
        let model = ModelServer::start(script).await;
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder, model };
        std::fs::create_dir_all(place.work().join(".git")).unwrap();
        std::fs::create_dir(place.home()).unwrap();
        let config = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
             base_url = \"{}\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
            place.model.base_url()
        );
        std::fs::write(place.home().join("config.toml"), config).unwrap();
        place
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.arg("exec").args(arguments).current_dir(self.work()).env("CODICIL_HOME", self.home());
        for name in ["RUST_LOG", "OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("HOME", self.home()).stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments), "").await
    }

    /// The events of a run that completes.
    async fn events(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(&[&["--json"], arguments].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        lines(&output.stdout)
    }

    /// The texts of the last message that the model was sent.
    async fn asked(&self) -> Vec<String> {
        let request = self.model.next_request().await;
        let last = request.body()["input"].as_array().unwrap().last().unwrap().clone();
        let parts = last["content"].as_array().unwrap().clone();
        parts.iter().map(|part| part["text"].as_str().unwrap_or("-").to_owned()).collect()
    }
}

/// Runs a command to its end with this input.
async fn finish(mut command: Command, input: &str) -> Output {
    use std::io::Write;
    let input = input.to_owned();
    let running = tokio::task::spawn_blocking(move || {
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            // A program that refuses its flags does not read.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output().unwrap()
    });
    soon(running).await.unwrap()
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_answer_goes_to_standard_output_and_the_rest_to_standard_error() {
    let place =
        Place::new(Script::new().think("**Thinking**").say("Let me look.").phase("commentary").say("42"))
            .await;
    let output = place.run(&["What is it?"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "42\n");
    let said = text(&output.stderr);
    for part in [
        "codicil ",
        "model      mock-model (mock",
        "sandbox    read-only",
        "approvals  never",
        "**Thinking**",
        "Let me look.",
    ] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
    assert!(said.contains("tokens     100 in, 10 out"), "{said}");
    assert!(!said.contains('\x1b'), "no colours, no moving lines: {said:?}");
    assert_eq!(place.asked().await, ["What is it?"]);
}

#[tokio::test]
async fn colours_can_be_asked_for() {
    let place = Place::new(Script::new().say("42")).await;
    let output = place.run(&["--color", "always", "What is it?"]).await;
    assert!(text(&output.stderr).contains("\x1b["));
    assert_eq!(text(&output.stdout), "42\n");
}

#[tokio::test]
async fn events_are_one_json_object_a_line() {
    let place = Place::new(Script::new().think("Hm").say("Hello").usage(70, 20, 7, 3)).await;
    let events = place.events(&["Hi"]).await;
    assert_eq!(
        types(&events),
        ["thread.started", "turn.started", "item.completed", "item.completed", "turn.completed"]
    );
    assert_eq!(events[2]["item"], json!({ "id": "item_0", "type": "reasoning", "text": "Hm" }));
    assert_eq!(events[3]["item"], json!({ "id": "item_1", "type": "agent_message", "text": "Hello" }));
    let usage = json!({ "input_tokens": 70, "cached_input_tokens": 20, "cache_write_input_tokens": 0,
        "output_tokens": 7, "reasoning_output_tokens": 3 });
    assert_eq!(events[4]["usage"], usage);
}

#[tokio::test]
async fn its_threads_say_where_they_come_from() {
    let place = Place::new(Script::new().say("Hello")).await;
    place.events(&["Hi"]).await;
    let mut folder = place.home().join("sessions");
    while folder.is_dir() {
        folder = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    }
    let first = std::fs::read_to_string(folder).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["source"], "exec", "{first}");
}

#[tokio::test]
async fn a_thread_goes_on_by_id_by_name_or_as_the_last_one() {
    let place = Place::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let first = place.events(&["one"]).await[0]["thread_id"].clone();
    let id = first.as_str().unwrap();
    for arguments in [
        &["resume", id, "two"][..],
        &["--resume", id, "three"],
        &["resume", "--last", "four"],
        &["--last", "five"],
        &["resume", "--last", "--all", "six"],
    ] {
        let events = place.events(arguments).await;
        assert_eq!(events[0]["thread_id"], first, "{arguments:?}");
        assert_eq!(events.last().unwrap()["usage"]["input_tokens"], 100, "{arguments:?}: this turn only");
    }
    let requests = place.model.requests();
    let counts: Vec<_> =
        requests.iter().map(|request| request.body()["input"].as_array().unwrap().len()).collect();
    assert!(counts.is_sorted_by(|before, after| before < after), "the history grows: {counts:?}");

    let unknown = place.run(&["--json", "resume", "nobody", "x"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there is no thread with the id or name nobody"));
    assert_eq!(types(&lines(&unknown.stdout)), ["error"]);
}

#[tokio::test]
async fn another_directorys_last_thread_is_not_taken_by_accident() {
    let place = Place::new(Script::new().say("Hello")).await;
    place.events(&["one"]).await;
    let other = place.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let output = place.run(&["-C", "other", "--last", "two"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no thread of this directory"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn the_prompt_comes_from_the_command_line_standard_input_or_both() {
    let place = Place::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let check = async |arguments: &[&str], input: &str, asked: &str| {
        let output = finish(place.command(arguments), input).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(place.asked().await, [asked], "{arguments:?} {input:?}");
    };
    check(&["from an argument"], "", "from an argument").await;
    check(&["-"], "from input\n", "from input\n").await;
    check(&[], "from input", "from input").await;
    check(&["Explain"], "a log", "Explain\n\n<stdin>\na log\n</stdin>").await;
    let output = place.run(&[]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no prompt"));
}

#[tokio::test]
async fn images_a_schema_and_a_file_for_the_answer() {
    let place = Place::new(Script::new().say(r#"{"answer":42}"#)).await;
    let png = [137, 80, 78, 71, 13, 10, 26, 10];
    std::fs::write(place.work().join("a.png"), png).unwrap();
    std::fs::write(place.work().join("schema.json"), r#"{"type":"object"}"#).unwrap();
    let output = place
        .run(&["-i", "a.png", "--output-schema", "schema.json", "-o", "answer.json", "What is it?"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(place.work().join("answer.json")).unwrap(), r#"{"answer":42}"#);
    let request = place.model.next_request().await;
    assert_eq!(request.body()["text"]["format"]["schema"], json!({ "type": "object" }));
    assert!(request.body()["input"].to_string().contains("What is it?"));

    for (arguments, reason) in [
        (&["-i", "none.png", "x"][..], "no such image"),
        (&["--output-schema", "none.json", "x"], "cannot read the output schema none.json"),
        (&["--output-schema", "a.png", "x"], "the output schema a.png"),
        (&["-C", "nowhere", "x"], "no such directory"),
    ] {
        let output = place.run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn settings_come_from_flags_profiles_and_overrides() {
    let place = Place::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let config = place.home().join("config.toml");
    let more = std::fs::read_to_string(&config).unwrap() + "\n[profiles.small]\nmodel = \"small-model\"\n";
    std::fs::write(&config, more).unwrap();
    let header = async |arguments: &[&str]| {
        let output = place.run(&[arguments, &["Hi"]].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let check = |said: String, part: &str| assert!(said.contains(part), "{part} is missing:\n{said}");
    check(header(&["-m", "other"]).await, "model      other (mock");
    check(header(&["-p", "small"]).await, "model      small-model (mock");
    check(header(&["-c", "model=third"]).await, "model      third (mock");
    check(header(&["-s", "workspace-write"]).await, "sandbox    workspace-write");
    check(header(&["--full-auto"]).await, "sandbox    workspace-write");
    check(header(&["--yolo"]).await, "sandbox    danger-full-access");
    check(header(&["-c", "approval_policy=\"on-request\""]).await, "approvals  on-request");
    check(header(&["--provider", "scripted"]).await, "(scripted");
    let output = place.run(&["-s", "nonsense", "Hi"]).await;
    assert_eq!(output.status.code(), Some(2), "a wrong command line");
}

#[tokio::test]
async fn an_ephemeral_thread_leaves_nothing() {
    let place = Place::new(Script::new().say("Hello")).await;
    let id = place.events(&["--ephemeral", "Hi"]).await[0]["thread_id"].clone();
    let output = place.run(&["resume", id.as_str().unwrap(), "More"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn a_turn_that_fails_is_exit_code_1() {
    let place = Place::new(
        Script::new().repeat(Reply::status(500).body(json!({ "error": { "message": "broken" } }))),
    )
    .await;
    let output = place.run(&["Hi"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: the turn failed: "), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    let output = place.run(&["--json", "Hi"]).await;
    assert_eq!(output.status.code(), Some(1));
    let events = lines(&output.stdout);
    assert_eq!(types(&events), ["thread.started", "turn.started", "error", "turn.failed"]);
    assert_eq!(events[2]["message"], events[3]["error"]["message"]);
}

#[tokio::test]
async fn it_works_in_repositories_and_elsewhere_only_when_told() {
    let place = Place::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let outside = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| {
        let outside = outside.path().to_str().unwrap();
        let mut command = place.command(&[&["-C", outside], arguments, &["Hi"]].concat());
        command.current_dir("/");
        finish(command, "")
    };
    let refused = at(&[]).await;
    assert_eq!(refused.status.code(), Some(1));
    let reason = "Not inside a trusted directory and --skip-git-repo-check was not specified.";
    assert!(text(&refused.stderr).contains(reason), "{}", text(&refused.stderr));
    for arguments in [&["--skip-git-repo-check"][..], &["--yolo"], &["-s", "danger-full-access"]] {
        assert_eq!(at(arguments).await.status.code(), Some(0), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_environment_of_the_typescript_sdk_is_understood() {
    let place = Place::new(Script::new().say("Hello")).await;
    std::fs::write(place.home().join("config.toml"), "").unwrap();
    let base_url = format!("openai_base_url={:?}", place.model.base_url());
    let arguments = ["--experimental-json", "--config", &base_url, "--model", "m", "--skip-git-repo-check"];
    let mut command = place.command(&arguments);
    command.env("CODEX_API_KEY", "sk-of-the-sdk").env("CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "codex_sdk_ts");
    let output = finish(command, "Hi").await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(types(&lines(&output.stdout)).last(), Some(&"turn.completed"));
    let request = place.model.next_request().await;
    assert_eq!(request.header("authorization"), Some("Bearer sk-of-the-sdk"));
    assert_eq!(request.header("originator"), Some("codex_sdk_ts"));
}

/// A run that hangs in the middle of its answer.
async fn hanging(
    place: &Place,
    arguments: &[&str],
) -> (ServerProcess, tokio::io::Lines<BufReader<tokio::process::ChildStdout>>) {
    let all: Vec<&OsStr> = ["exec"].iter().chain(arguments).map(OsStr::new).collect();
    let work = place.work();
    let mut process = ServerProcess::spawn_with(&place.home(), all, |command| {
        command.current_dir(work).stdin(Stdio::null());
    });
    let lines = BufReader::new(process.take_stdout()).lines();
    place.model.reached("middle").await;
    (process, lines)
}

#[tokio::test]
async fn ctrl_c_interrupts_the_turn_and_stores_it() {
    let place = Place::new(Script::new().say("Half").gate("middle").hang()).await;
    let (mut process, mut stdout) = hanging(&place, &["--json", "Hi"]).await;
    let first = soon(stdout.next_line()).await.unwrap().unwrap();
    // The turn has begun.
    soon(stdout.next_line()).await.unwrap().unwrap();
    process.interrupt();
    assert_eq!(soon(process.wait()).await.code(), Some(130));
    let mut rest = Vec::new();
    while let Some(line) = soon(stdout.next_line()).await.unwrap() {
        rest.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert_eq!(types(&rest).last(), Some(&"turn.failed"), "{rest:?}");

    place.model.push(Script::new().say("Whole"));
    let thread: Value = serde_json::from_str(&first).unwrap();
    let events = place.events(&["resume", thread["thread_id"].as_str().unwrap(), "Go on"]).await;
    assert_eq!(types(&events).last(), Some(&"turn.completed"));
}

#[tokio::test]
async fn a_program_that_ends_it_hears_no_more() {
    let place = Place::new(Script::new().say("Half").gate("middle").hang()).await;
    let (mut process, mut stdout) = hanging(&place, &["--json", "Hi"]).await;
    soon(stdout.next_line()).await.unwrap().unwrap();
    process.terminate();
    assert_eq!(soon(process.wait()).await.code(), Some(130));
    while let Some(line) = soon(stdout.next_line()).await.unwrap() {
        assert!(!line.contains("turn.failed"), "{line}");
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_run() {
    let place = Place::new(Script::new().say("Half").gate("middle").say("More").hang()).await;
    let (mut process, stdout) = hanging(&place, &["--json", "Hi"]).await;
    drop(stdout);
    place.model.release("middle");
    let status = soon(process.wait()).await;
    assert_eq!(status.code(), Some(1));
    assert!(process.whole_stderr().await.contains("Broken pipe"), "{}", process.stderr());
}

#[test]
fn help_names_the_flags() {
    let help = text(&crate::codicil(&["exec", "--help"]).stdout);
    for flag in [
        "--json",
        "--experimental-json",
        "--output-schema <FILE>",
        "--output-last-message <FILE>",
        "--resume <THREAD>",
        "--last",
        "--model <MODEL>",
        "--provider <NAME>",
        "--profile <NAME>",
        "--sandbox <MODE>",
        "--full-auto",
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        "--cd <DIR>",
        "--image <FILE>",
        "--ephemeral",
        "--skip-git-repo-check",
        "--color <WHEN>",
        "--config <KEY=VALUE>",
        "resume",
    ] {
        assert!(help.contains(flag), "{flag} is missing:\n{help}");
    }
}
