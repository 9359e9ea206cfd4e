//! `codicil exec`: its output, input and exit codes.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use codicil_testkit::{ModelServer, Reply, Script, ServerProcess, skipped};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{soon, text};

/// A home, a repository to work in, and a model.
struct ExecTest {
    folder: tempfile::TempDir,
    model: ModelServer,
}

impl ExecTest {
    async fn new(script: Script) -> Self {
        let model = ModelServer::start(script).await;
        let folder = tempfile::tempdir().unwrap();
        let test = Self { folder, model };
        std::fs::create_dir_all(test.work().join(".git")).unwrap();
        std::fs::create_dir(test.home()).unwrap();
        let config = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
             base_url = \"{}\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
            test.model.base_url()
        );
        std::fs::write(test.home().join("config.toml"), config).unwrap();
        test
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

    /// Returns the events of a run that succeeds.
    async fn events(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(&[&["--json"], arguments].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        lines(&output.stdout)
    }

    /// Returns the texts of the last message to the model.
    async fn last_prompt(&self) -> Vec<String> {
        let request = self.model.next_request().await;
        let last = request.body()["input"].as_array().unwrap().last().unwrap().clone();
        let parts = last["content"].as_array().unwrap().clone();
        parts.iter().map(|part| part["text"].as_str().unwrap_or("-").to_owned()).collect()
    }
}

/// Runs a command with this input and waits for its end.
async fn finish(mut command: Command, input: &str) -> Output {
    use std::io::Write;
    let input = input.to_owned();
    let running = tokio::task::spawn_blocking(move || {
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            // A program that rejects its flags does not read.
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
    let test =
        ExecTest::new(Script::new().think("**Thinking**").say("Let me look.").phase("commentary").say("42"))
            .await;
    let output = test.run(&["What is it?"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "42\n");
    let output = text(&output.stderr);
    for part in [
        "codicil ",
        "model      mock-model (mock",
        "sandbox    read-only",
        "approvals  never",
        "**Thinking**",
        "Let me look.",
    ] {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }
    assert!(output.contains("tokens     100 in, 10 out"), "{output}");
    assert!(!output.contains('\x1b'), "no colours, no moving lines: {output:?}");
    assert_eq!(test.last_prompt().await, ["What is it?"]);
}

#[tokio::test]
async fn colours_can_be_asked_for() {
    let test = ExecTest::new(Script::new().say("42")).await;
    let output = test.run(&["--color", "always", "What is it?"]).await;
    assert!(text(&output.stderr).contains("\x1b["));
    assert_eq!(text(&output.stdout), "42\n");
}

#[tokio::test]
async fn events_are_one_json_object_a_line() {
    let test = ExecTest::new(Script::new().think("Hm").say("Hello").usage(70, 20, 7, 3)).await;
    let events = test.events(&["Hi"]).await;
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
async fn the_source_of_its_threads_is_exec() {
    let test = ExecTest::new(Script::new().say("Hello")).await;
    test.events(&["Hi"]).await;
    let mut folder = test.home().join("sessions");
    while folder.is_dir() {
        folder = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    }
    let first = std::fs::read_to_string(folder).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["source"], "exec", "{first}");
}

#[tokio::test]
async fn a_thread_is_resumed_by_id_by_name_or_as_the_last_one() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let first = test.events(&["one"]).await[0]["thread_id"].clone();
    let id = first.as_str().unwrap();
    for arguments in [
        &["resume", id, "two"][..],
        &["--resume", id, "three"],
        &["resume", "--last", "four"],
        &["--last", "five"],
        &["resume", "--last", "--all", "six"],
    ] {
        let events = test.events(arguments).await;
        assert_eq!(events[0]["thread_id"], first, "{arguments:?}");
        assert_eq!(events.last().unwrap()["usage"]["input_tokens"], 100, "{arguments:?}: this turn only");
    }
    let requests = test.model.requests();
    let counts: Vec<_> =
        requests.iter().map(|request| request.body()["input"].as_array().unwrap().len()).collect();
    assert!(counts.is_sorted_by(|before, after| before < after), "the history grows: {counts:?}");

    let unknown = test.run(&["--json", "resume", "nobody", "x"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there is no thread with the id or name nobody"));
    assert_eq!(types(&lines(&unknown.stdout)), ["error"]);
}

#[tokio::test]
async fn the_last_thread_of_another_directory_is_not_resumed() {
    let test = ExecTest::new(Script::new().say("Hello")).await;
    test.events(&["one"]).await;
    let other = test.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let output = test.run(&["-C", "other", "--last", "two"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no thread of this directory"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn the_prompt_comes_from_the_command_line_standard_input_or_both() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let check = async |arguments: &[&str], input: &str, last_prompt: &str| {
        let output = finish(test.command(arguments), input).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(test.last_prompt().await, [last_prompt], "{arguments:?} {input:?}");
    };
    check(&["from an argument"], "", "from an argument").await;
    check(&["-"], "from input\n", "from input\n").await;
    check(&[], "from input", "from input").await;
    check(&["Explain"], "a log", "Explain\n\n<stdin>\na log\n</stdin>").await;
    let output = test.run(&[]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no prompt"));
}

#[tokio::test]
async fn images_a_schema_and_a_file_for_the_answer() {
    let test = ExecTest::new(Script::new().say(r#"{"answer":42}"#)).await;
    let png = [137, 80, 78, 71, 13, 10, 26, 10];
    std::fs::write(test.work().join("a.png"), png).unwrap();
    std::fs::write(test.work().join("schema.json"), r#"{"type":"object"}"#).unwrap();
    let output = test
        .run(&["-i", "a.png", "--output-schema", "schema.json", "-o", "answer.json", "What is it?"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(test.work().join("answer.json")).unwrap(), r#"{"answer":42}"#);
    let request = test.model.next_request().await;
    assert_eq!(request.body()["text"]["format"]["schema"], json!({ "type": "object" }));
    assert!(request.body()["input"].to_string().contains("What is it?"));

    for (arguments, reason) in [
        (&["-i", "none.png", "x"][..], "no such image"),
        (&["--output-schema", "none.json", "x"], "cannot read the output schema none.json"),
        (&["--output-schema", "a.png", "x"], "the output schema a.png"),
        (&["-C", "nowhere", "x"], "no such directory"),
    ] {
        let output = test.run(arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn settings_come_from_flags_profiles_and_overrides() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let config = test.home().join("config.toml");
    let more = std::fs::read_to_string(&config).unwrap() + "\n[profiles.small]\nmodel = \"small-model\"\n";
    std::fs::write(&config, more).unwrap();
    let header = async |arguments: &[&str]| {
        let output = test.run(&[arguments, &["Hi"]].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let check = |output: String, part: &str| assert!(output.contains(part), "{part} is missing:\n{output}");
    check(header(&["-m", "other"]).await, "model      other (mock");
    check(header(&["-p", "small"]).await, "model      small-model (mock");
    check(header(&["-c", "model=third"]).await, "model      third (mock");
    check(header(&["-s", "workspace-write"]).await, "sandbox    workspace-write");
    check(header(&["--full-auto"]).await, "sandbox    workspace-write");
    check(header(&["--yolo"]).await, "sandbox    danger-full-access");
    check(header(&["-c", "approval_policy=\"on-request\""]).await, "approvals  on-request");
    check(header(&["--provider", "scripted"]).await, "(scripted");
    let output = test.run(&["-s", "nonsense", "Hi"]).await;
    assert_eq!(output.status.code(), Some(2), "a wrong command line");
}

#[tokio::test]
async fn an_ephemeral_thread_is_not_stored() {
    let test = ExecTest::new(Script::new().say("Hello")).await;
    let id = test.events(&["--ephemeral", "Hi"]).await[0]["thread_id"].clone();
    let output = test.run(&["resume", id.as_str().unwrap(), "More"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn a_turn_that_fails_is_exit_code_1() {
    let test = ExecTest::new(
        Script::new().repeat(Reply::status(500).body(json!({ "error": { "message": "broken" } }))),
    )
    .await;
    let output = test.run(&["Hi"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: the turn failed: "), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    let output = test.run(&["--json", "Hi"]).await;
    assert_eq!(output.status.code(), Some(1));
    let events = lines(&output.stdout);
    assert_eq!(types(&events), ["thread.started", "turn.started", "error", "turn.failed"]);
    assert_eq!(events[2]["message"], events[3]["error"]["message"]);
}

/// Returns a temporary directory that is not inside a git repository.
fn outside_repositories() -> Option<tempfile::TempDir> {
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/dev/shm")];
    let is_outside = |folder: &PathBuf| !folder.ancestors().any(|above| above.join(".git").exists());
    tempfile::tempdir_in(candidates.iter().find(|folder| is_outside(folder))?).ok()
}

#[tokio::test]
async fn it_runs_outside_a_repository_only_if_allowed() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().say("Hello"))).await;
    let Some(outside) = outside_repositories() else {
        return skipped("every temporary directory is inside a git repository");
    };
    let at = |arguments: &[&str]| {
        let outside = outside.path().to_str().unwrap();
        let mut command = test.command(&[&["-C", outside], arguments, &["Hi"]].concat());
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
async fn hidden_reasoning_is_not_reported() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().think("A secret thought").say("Hello"))).await;
    let hidden = ["-c", "hide_agent_reasoning=true", "Hi"];
    let output = test.run(&hidden).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("secret"), "{}", text(&output.stderr));
    let events = test.events(&hidden).await;
    assert!(!events.iter().any(|event| event["item"]["type"] == "reasoning"), "{events:?}");
    let shown = test.run(&["Hi"]).await;
    assert!(text(&shown.stderr).contains("A secret thought"), "{}", text(&shown.stderr));
}

#[tokio::test]
async fn the_notify_program_of_the_configuration_runs_before_exec_ends() {
    let test = ExecTest::new(Script::new().say("Hello")).await;
    let notice = test.folder.path().join("notice");
    let write = format!("printf %s \"$1\" > '{}'", notice.display());
    let notify = format!("notify=[\"sh\", \"-c\", {write:?}, \"notify\"]");
    let output = test.run(&["-c", &notify, "Hi"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let notice: Value = serde_json::from_str(&std::fs::read_to_string(notice).unwrap()).unwrap();
    assert_eq!(notice["last-assistant-message"], "Hello");
}

#[tokio::test]
async fn the_environment_of_the_typescript_sdk_is_supported() {
    let test = ExecTest::new(Script::new().say("Hello")).await;
    std::fs::write(test.home().join("config.toml"), "").unwrap();
    let base_url = format!("openai_base_url={:?}", test.model.base_url());
    let arguments = ["--experimental-json", "--config", &base_url, "--model", "m", "--skip-git-repo-check"];
    let mut command = test.command(&arguments);
    command.env("CODEX_API_KEY", "sk-of-the-sdk").env("CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "codex_sdk_ts");
    let output = finish(command, "Hi").await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(types(&lines(&output.stdout)).last(), Some(&"turn.completed"));
    let request = test.model.next_request().await;
    assert_eq!(request.header("authorization"), Some("Bearer sk-of-the-sdk"));
    assert_eq!(request.header("originator"), Some("codex_sdk_ts"));
}

/// Starts a run that hangs in the middle of its answer.
async fn start_hanging(
    test: &ExecTest,
    arguments: &[&str],
) -> (ServerProcess, tokio::io::Lines<BufReader<tokio::process::ChildStdout>>) {
    let all: Vec<&OsStr> = ["exec"].iter().chain(arguments).map(OsStr::new).collect();
    let work = test.work();
    let mut process = ServerProcess::spawn_with(&test.home(), all, |command| {
        command.current_dir(work).stdin(Stdio::null());
    });
    let lines = BufReader::new(process.take_stdout()).lines();
    test.model.reached("middle").await;
    (process, lines)
}

#[tokio::test]
async fn ctrl_c_interrupts_the_turn_and_stores_it() {
    let test = ExecTest::new(Script::new().say("Half").gate("middle").hang()).await;
    let (mut process, mut stdout) = start_hanging(&test, &["--json", "Hi"]).await;
    let first = soon(stdout.next_line()).await.unwrap().unwrap();
    // The turn has started.
    soon(stdout.next_line()).await.unwrap().unwrap();
    process.interrupt();
    assert_eq!(soon(process.wait()).await.code(), Some(130));
    let mut rest = Vec::new();
    while let Some(line) = soon(stdout.next_line()).await.unwrap() {
        rest.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert_eq!(types(&rest).last(), Some(&"turn.failed"), "{rest:?}");

    test.model.push(Script::new().say("Whole"));
    let thread: Value = serde_json::from_str(&first).unwrap();
    let events = test.events(&["resume", thread["thread_id"].as_str().unwrap(), "Go on"]).await;
    assert_eq!(types(&events).last(), Some(&"turn.completed"));
}

#[tokio::test]
async fn sigterm_ends_the_run_without_a_report() {
    let test = ExecTest::new(Script::new().say("Half").gate("middle").hang()).await;
    let (mut process, mut stdout) = start_hanging(&test, &["--json", "Hi"]).await;
    soon(stdout.next_line()).await.unwrap().unwrap();
    process.terminate();
    assert_eq!(soon(process.wait()).await.code(), Some(130));
    while let Some(line) = soon(stdout.next_line()).await.unwrap() {
        assert!(!line.contains("turn.failed"), "{line}");
    }
}

#[tokio::test]
async fn a_closed_output_ends_the_run() {
    let test = ExecTest::new(Script::new().say("Half").gate("middle").say("More")).await;
    let (mut process, stdout) = start_hanging(&test, &["--json", "Hi"]).await;
    drop(stdout);
    test.model.release("middle");
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

#[tokio::test]
async fn retries_are_shown_with_their_reason() {
    let script =
        || Script::new().reply(Reply::new().say("Half").unfinished().cut()).reply(Reply::new().say("Whole"));
    let retries = ["-c", "model_providers.mock.stream_max_retries=1", "go"];
    let test = ExecTest::new(script()).await;
    let output = test.run(&retries).await;
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stderr);
    let line = shown.lines().find(|line| line.starts_with("! Reconnecting... 1/1")).unwrap();
    assert!(line.contains("stream disconnected before completion"), "{line}");

    let test = ExecTest::new(script()).await;
    let events = test.events(&retries).await;
    let warning = events.iter().find(|event| event["item"]["type"] == "error").unwrap();
    let message = warning["item"]["message"].as_str().unwrap();
    assert!(message.contains("Reconnecting... 1/1: stream disconnected before completion"), "{message}");
    let messages = events.iter().filter(|event| event["item"]["type"] == "agent_message");
    let messages: Vec<_> = messages.map(|event| &event["item"]["text"]).collect();
    assert_eq!(messages, ["Whole"], "the discarded message is not shown");
}

#[tokio::test]
async fn exit_codes_belong_to_commands() {
    let run = |command: &str| json!({ "cmd": command, "yield_time_ms": 30_000 });
    let both = Reply::new().call("exec_command", run("exit 3")).call("exec_command", run("true"));
    let test = ExecTest::new(Script::new().reply(both).reply(Reply::new().say("Done"))).await;
    let events = test.events(&["--yolo", "go"]).await;
    let ended = events.iter().filter(|event| event["type"] == "item.completed");
    let mut codes: Vec<_> = (ended.map(|event| &event["item"]))
        .filter(|item| item["type"] == "command_execution")
        .map(|item| (item["command"].as_str().unwrap().contains("exit 3"), item["exit_code"].clone()))
        .collect();
    codes.sort_by_key(|(is_first, _)| *is_first);
    assert_eq!(codes, [(false, json!(0)), (true, json!(3))]);
}

#[tokio::test]
async fn an_mcp_server_that_does_not_start_is_reported_with_its_stderr() {
    let test = ExecTest::new(Script::new().repeat(Reply::new().say("Done"))).await;
    let server = [
        "-c",
        "mcp_servers.broken.command=\"sh\"",
        "-c",
        "mcp_servers.broken.args=[\"-c\", \"echo no module named x >&2; exit 7\"]",
        "go",
    ];
    let output = test.run(&server).await;
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stderr);
    assert!(
        shown.contains("! MCP client for `broken` failed to start: the server exited with code 7"),
        "{shown}"
    );
    assert!(shown.contains("  no module named x"), "{shown}");
    let events = test.events(&server).await;
    let warning = events.iter().find(|event| event["item"]["type"] == "error").unwrap();
    let message = warning["item"]["message"].as_str().unwrap();
    assert!(
        message.contains("`broken` failed to start") && message.contains("no module named x"),
        "{message}"
    );
}
