//! Hosts that sandboxed commands reach through the proxy, and the questions about them.

use codicil_protocol::{
    AutoApprovalReviewCompleted, CommandExecutionApproval, CommandExecutionApprovalDecision as Decision,
    CommandExecutionRequestApprovalResponse, CommandExecutionStatus, NetworkApprovalProtocol,
    NetworkPolicyAmendment, NetworkPolicyRuleAction as Action, ServerRequestResolved, Thread, TurnCompleted,
    TurnStatus,
};
use codicil_sandbox::{ConfinementKind, MachineProbe};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::{call_output, command_end, thread};

/// Treats local hosts like public ones, so that the tests have a host to reach.
const LOCAL: &str = "allow_local_binding = true";

fn config(more: &str) -> String {
    format!("default_permissions = \"p\"\n[permissions.p.network]\nenabled = true\n{more}\n")
}

/// An HTTP server on this machine. Ends when dropped.
struct Target {
    port: u16,
    task: JoinHandle<()>,
}

impl Target {
    /// Starts the server. Returns `None` if this machine cannot run commands behind a proxy.
    async fn start() -> Option<Self> {
        if !has_namespaces() {
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut heard = Vec::new();
                while !heard.ends_with(b"\r\n\r\n") {
                    if !matches!(stream.read_buf(&mut heard).await, Ok(1..)) {
                        break;
                    }
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nreached").await;
            }
        });
        Some(Self { port, task })
    }

    /// Returns a shell line that requests a page of a host through the proxy.
    fn get(&self, host: &str) -> String {
        let port = self.port;
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\\r\\n\\r\\n");
        through_proxy(&format!("printf '{request}' >&3; cat <&3"))
    }

    /// Returns a shell line that requests a page through a tunnel.
    fn tunnel(&self, host: &str) -> String {
        let port = self.port;
        let request = format!("CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n");
        through_proxy(&format!("printf '{request}' >&3; cat <&3"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a shell line that has the proxy of the environment at descriptor 3.
fn through_proxy(rest: &str) -> String {
    let connect = "a=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${a%:*}/${a#*:}";
    format!("bash -c \"{}\"", format!("{connect}; {rest}").replace('\\', "\\\\").replace('$', "\\$"))
}

fn exec(line: &str) -> Value {
    json!({ "cmd": line, "yield_time_ms": 30_000 })
}

fn runs(line: &str) -> Script {
    Script::new().call("exec_command", exec(line)).call_id("c").then().say("Done")
}

/// Returns whether this machine can run commands behind a proxy.
fn has_namespaces() -> bool {
    let kind = MachineProbe::cached().kind();
    let has = matches!(kind, Ok(ConfinementKind::Bubblewrap | ConfinementKind::LandlockView));
    if !has {
        eprintln!("skipped: this machine has no network namespaces for commands: {kind:?}");
    }
    has
}

async fn app(config: &str, script: Script) -> App {
    App::builder().experimental().config(config).script(script).start().await
}

async fn started(app: &mut App) -> Thread {
    let thread = thread(app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "go").await;
    thread
}

fn response(decision: Decision) -> CommandExecutionRequestApprovalResponse {
    CommandExecutionRequestApprovalResponse { decision }
}

fn amendment(action: Action) -> Decision {
    let host = "localhost".to_owned();
    Decision::ApplyNetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment { host, action },
    }
}

/// Answers the next question about a host.
async fn decide(app: &mut App, decision: Decision) {
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, response(decision)).await;
}

/// Returns the output of the next command.
async fn output(app: &mut App) -> String {
    command_end(app).await.2.unwrap_or_default()
}

#[tokio::test]
async fn a_host_is_asked_about_and_reached_once_accepted() {
    let Some(target) = Target::start().await else { return };
    let line = format!("{}; {}", target.get("localhost"), target.get("localhost"));
    let mut app = app(&config(LOCAL), runs(&line)).await;
    let thread = started(&mut app).await;

    let question = app.expect_request::<CommandExecutionApproval>().await;
    let params = &question.params;
    let context = params.network_approval_context.as_ref().unwrap();
    assert_eq!((context.host.as_str(), &context.protocol), ("localhost", &NetworkApprovalProtocol::Http));
    assert_eq!(
        (params.command.clone(), params.cwd.clone(), params.command_actions.clone()),
        (None, None, None)
    );
    assert_eq!(params.item_id.to_string(), "c");
    assert_eq!(params.approval_id, Some(format!("network#http#localhost#{}", target.port)));
    assert_eq!(params.reason.as_deref(), Some("localhost is not in the allowed_domains"));
    let proposed = params.proposed_network_policy_amendments.as_ref().unwrap();
    assert_eq!(proposed.iter().map(|rule| &rule.action).collect::<Vec<_>>(), [&Action::Allow, &Action::Deny]);
    let offered = [Decision::Accept, Decision::AcceptForSession, amendment(Action::Allow), Decision::Cancel];
    assert_eq!(params.available_decisions.as_deref(), Some(&offered[..]));
    app.reply(&question, response(Decision::Accept)).await;
    assert_eq!(app.until::<ServerRequestResolved>().await.request_id, question.id);

    let asked = app.model().requests()[0].body().to_string();
    assert!(asked.contains("commands reach hosts through a proxy"), "{asked}");

    // The second connection of the same command needs no question; the one of another command does.
    assert_eq!(output(&mut app).await.matches("reached").count(), 2);
    app.rest().await;
    app.model().push(runs(&target.get("localhost")));
    app.start_turn(&thread, "again").await;
    decide(&mut app, Decision::Accept).await;
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;
}

#[tokio::test]
async fn a_host_accepted_for_the_session_is_asked_about_once() {
    let Some(target) = Target::start().await else { return };
    let mut app = app(&config(LOCAL), runs(&target.tunnel("localhost"))).await;
    let thread = started(&mut app).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let context = question.params.network_approval_context.clone().unwrap();
    assert_eq!(context.protocol, NetworkApprovalProtocol::Https);
    app.reply(&question, response(Decision::AcceptForSession)).await;
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;

    app.model().push(runs(&target.tunnel("localhost")));
    app.run_turn(&thread, "again").await;
    app.rest().await;
    assert!(call_output(&app, "c").ends_with("reached"), "{}", call_output(&app, "c"));
}

#[tokio::test]
async fn a_rule_that_allows_a_host_holds_for_every_thread() {
    let Some(target) = Target::start().await else { return };
    let mut app = app(&config(LOCAL), runs(&target.get("localhost"))).await;
    started(&mut app).await;
    decide(&mut app, amendment(Action::Allow)).await;
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;
    let rules = std::fs::read_to_string(app.home().join("rules/default.rules")).unwrap();
    assert_eq!(
        rules,
        "network_rule(host=\"localhost\", protocol=\"http\", decision=\"allow\", \
         justification=\"Allow http access to localhost\")\n"
    );

    app.model().push(runs(&target.get("localhost")));
    started(&mut app).await;
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;
}

#[tokio::test]
async fn a_rule_that_denies_a_host_holds_for_every_thread() {
    let Some(target) = Target::start().await else { return };
    let mut app = app(&config(LOCAL), runs(&target.get("localhost"))).await;
    started(&mut app).await;
    decide(&mut app, amendment(Action::Deny)).await;
    assert!(output(&mut app).await.contains("403 Forbidden"));
    app.rest().await;
    let rules = std::fs::read_to_string(app.home().join("rules/default.rules")).unwrap();
    assert!(rules.contains("host=\"localhost\", protocol=\"http\", decision=\"deny\""), "{rules}");

    app.model().push(runs(&target.tunnel("localhost")));
    started(&mut app).await;
    assert!(output(&mut app).await.contains("denied by a rule of the user"));
    app.rest().await;
}

#[tokio::test]
async fn a_declined_host_is_not_reached_and_the_model_gets_the_reason() {
    let Some(target) = Target::start().await else { return };
    let mut app = app(&config(LOCAL), runs(&target.get("localhost"))).await;
    started(&mut app).await;
    decide(&mut app, Decision::Decline).await;
    let (status, code, output) = command_end(&mut app).await;
    assert_eq!((status, code), (CommandExecutionStatus::Completed, Some(0)));
    assert!(output.unwrap().ends_with("rejected by user\n"));
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    let note = format!("[network access to localhost:{} was refused: rejected by user]", target.port);
    assert!(call_output(&app, "c").ends_with(&note), "{}", call_output(&app, "c"));
}

#[tokio::test]
async fn a_cancelled_question_ends_the_turn() {
    let Some(target) = Target::start().await else { return };
    let script = Script::new().call("exec_command", exec(&target.get("localhost")));
    let mut app = app(&config(LOCAL), script).await;
    started(&mut app).await;
    decide(&mut app, Decision::Cancel).await;
    assert!(app.rest().await.ends_with("← turn/completed interrupted"));
}

#[tokio::test]
async fn requests_for_one_host_join_one_question() {
    let Some(target) = Target::start().await else { return };
    let get = target.get("localhost");
    let mut app = app(&config(LOCAL), runs(&format!("{get} & {get} & {get} & wait"))).await;
    started(&mut app).await;
    decide(&mut app, Decision::Accept).await;
    assert_eq!(output(&mut app).await.matches("reached").count(), 3);
    // Another question would be left unread and fail the test.
    app.rest().await;
}

#[tokio::test]
async fn without_approvals_only_listed_hosts_are_reached() {
    let Some(target) = Target::start().await else { return };
    let domains = "[permissions.p.network.domains]\n\"localhost\" = \"allow\"\n\"127.0.0.2\" = \"deny\"";
    let lines = format!("{}; {}", target.get("localhost"), target.get("example.com"));
    let mut app = app(&config(domains), runs(&format!("{lines}; {}", target.get("127.0.0.2")))).await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never" })).await;
    app.start_turn(&thread, "go").await;
    let output = output(&mut app).await;
    assert_eq!(output.matches("reached").count(), 1, "{output}");
    assert!(output.contains("the approval policy is `never`, and example.com is not among"), "{output}");
    assert!(output.contains("127.0.0.2 is denied by the configuration"), "{output}");
    app.rest().await;
}

#[tokio::test]
async fn local_hosts_are_refused_by_default() {
    let Some(target) = Target::start().await else { return };
    let lines = format!("{}; {}", target.get("localhost"), target.get("127.0.0.1"));
    let mut app = app(&config(""), runs(&lines)).await;
    started(&mut app).await;
    let output = output(&mut app).await;
    assert_eq!(output.matches("is not a public host").count(), 2, "{output}");
    app.rest().await;
}

#[tokio::test]
async fn the_proxy_cannot_be_bypassed() {
    let Some(target) = Target::start().await else { return };
    let direct = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' || echo stopped", target.port);
    let mut app = app(&config(LOCAL), runs(&direct)).await;
    // Not even with a policy that allows the whole network.
    let policy = json!({ "type": "workspaceWrite", "networkAccess": true });
    let thread = thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    let params = json!({
        "threadId": thread.id, "sandboxPolicy": policy, "input": [{ "type": "text", "text": "go" }],
    });
    app.call::<codicil_protocol::TurnStart>(serde_json::from_value(params).unwrap()).await;
    let output = output(&mut app).await;
    assert!(output.contains("stopped\n"), "{output}");
    app.rest().await;
}

#[tokio::test]
async fn an_interrupt_resolves_the_question_about_a_host() {
    let Some(target) = Target::start().await else { return };
    let script = Script::new().call("exec_command", exec(&target.get("localhost")));
    let mut app = app(&config(LOCAL), script).await;
    let thread = started(&mut app).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let params = json!({ "threadId": thread.id, "turnId": question.params.turn_id });
    app.call::<codicil_protocol::TurnInterrupt>(serde_json::from_value(params).unwrap()).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);
    assert_eq!(app.until::<ServerRequestResolved>().await.request_id, question.id);
    app.reply(&question, response(Decision::Accept)).await;
    app.rest().await;
}

#[tokio::test]
async fn after_the_turn_its_commands_ask_no_questions() {
    let Some(target) = Target::start().await else { return };
    let line = format!("while ! test -e go; do sleep 0.01; done; {}", target.get("localhost"));
    let arguments = json!({ "cmd": line, "yield_time_ms": 250 });
    let script = Script::new().call("exec_command", arguments).call_id("c").then().say("Done");
    let mut app = app(&config(LOCAL), script).await;
    started(&mut app).await;
    app.until::<TurnCompleted>().await;
    std::fs::write(app.workspace().join("go"), "").unwrap();
    let output = output(&mut app).await;
    assert!(output.contains("the turn that started the command is over"), "{output}");
    app.rest().await;
}

#[tokio::test]
async fn waiting_for_an_approval_pauses_the_timeout_of_a_command() {
    let Some(target) = Target::start().await else { return };
    let arguments = json!({ "command": target.get("localhost"), "timeout_ms": 2500 });
    let script = Script::new().call("shell_command", arguments).call_id("c").then().say("Done");
    let config = format!("features.unified_exec = false\n{}", config(LOCAL));
    let mut app = app(&config, script).await;
    started(&mut app).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    // Longer than the timeout of the command.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    tokio::time::resume();
    app.reply(&question, response(Decision::Accept)).await;
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;
}

#[tokio::test]
async fn the_guardian_decides_about_hosts() {
    let Some(target) = Target::start().await else { return };
    let said = json!({ "risk_level": "low", "risk_score": 9, "rationale": "fine", "evidence": [] });
    let is_guardian = |request: &RecordedRequest| request.header("x-openai-subagent") == Some("guardian");
    let script = Script::new()
        .call("exec_command", exec(&target.get("localhost")))
        .then()
        .reply(Reply::new().say(said.to_string()).when(is_guardian))
        .say("Done");
    let config = format!("features.guardian_approval = true\n{}", config(LOCAL));
    let mut app = app(&config, script).await;
    let reviewed = json!({ "approvalPolicy": "on-request", "approvalsReviewer": "guardian_subagent" });
    let thread = thread(&mut app, reviewed).await;
    app.start_turn(&thread, "go").await;
    let judged = app.until::<AutoApprovalReviewCompleted>().await;
    let action = judged.action.unwrap();
    assert_eq!((&action["tool"], &action["host"]), (&json!("network_access"), &json!("localhost")));
    assert!(output(&mut app).await.ends_with("reached"));
    app.rest().await;
}

#[tokio::test]
async fn a_command_of_the_client_reaches_only_listed_hosts() {
    let Some(target) = Target::start().await else { return };
    let domains = "allow_local_binding = true\n[permissions.p.network.domains]\n\"localhost\" = \"allow\"";
    let mut app = App::builder().config(&config(domains)).start().await;
    let lines = format!("{}; {}", target.get("localhost"), target.get("127.0.0.1"));
    let params = json!({ "command": ["bash", "-c", lines], "sandboxPolicy": { "type": "readOnly" } });
    let ran = app.call::<codicil_protocol::CommandExec>(serde_json::from_value(params).unwrap()).await;
    assert_eq!(ran.stdout.matches("reached").count(), 1, "{ran:?}");
    assert!(ran.stdout.contains("127.0.0.1 is not among the allowed hosts"), "{ran:?}");
}

#[tokio::test]
async fn a_command_of_the_client_uses_the_hosts_of_its_permission_profile() {
    let Some(target) = Target::start().await else { return };
    let profiles = "[permissions.p.network.domains]\n\"localhost\" = \"allow\"\n\
                    [permissions.other.network]\nenabled = true\nallow_local_binding = true\n\
                    [permissions.other.network.domains]\n\"127.0.0.1\" = \"allow\"";
    let mut app =
        App::builder().experimental().config(&config(&format!("{LOCAL}\n{profiles}"))).start().await;
    let lines = format!("{}; {}", target.get("localhost"), target.get("127.0.0.1"));
    let params = json!({ "command": ["bash", "-c", lines], "permissionProfile": "other" });
    let ran = app.call::<codicil_protocol::CommandExec>(serde_json::from_value(params).unwrap()).await;
    assert_eq!(ran.stdout.matches("reached").count(), 1, "{ran:?}");
    assert!(ran.stdout.contains("localhost is not among the allowed hosts"), "{ran:?}");
}

#[tokio::test]
async fn an_invalid_list_of_hosts_stops_commands() {
    let domains = "[permissions.p.network.domains]\n\"http://example.com\" = \"deny\"";
    let mut app = app(&config(domains), runs("true")).await;
    started(&mut app).await;
    let (status, _, output) = command_end(&mut app).await;
    assert_eq!(status, CommandExecutionStatus::Failed);
    assert!(output.unwrap().contains("`http://example.com` is not a pattern of hosts"));
    app.rest().await;
}

#[tokio::test]
async fn the_proxy_listens_on_the_ports_of_the_configuration_and_of_the_requirements() {
    let Some(target) = Target::start().await else { return };
    let ports = "proxy_url = \"http://127.0.0.1:8181\"\nsocks_url = \"socks5h://127.0.0.1:1081\"";
    let settings =
        config(&format!("{LOCAL}\n{ports}\n[permissions.p.network.domains]\n\"localhost\" = \"allow\""));
    let closed = "(exec 4<>/dev/tcp/127.0.0.1/3128) 2>/dev/null || echo closed";
    let open = "(exec 4<>/dev/tcp/127.0.0.1/1081) && echo open";
    let line =
        format!("echo $HTTPS_PROXY $ALL_PROXY; bash -c '{closed}; {open}'; {}", target.get("localhost"));

    let mut client = app(&settings, runs(&line)).await;
    started(&mut client).await;
    client.until::<TurnCompleted>().await;
    let output = call_output(&client, "c");
    assert!(output.contains("http://127.0.0.1:8181 socks5h://127.0.0.1:1081\nclosed\nopen\n"), "{output}");
    assert!(output.contains("reached"), "{output}");
    client.ignore_rest();

    let mut client = app(&settings, runs("echo $HTTPS_PROXY $ALL_PROXY")).await;
    let required = "[experimental_network]\nhttp_port = 81\n";
    std::fs::write(client.home().join("requirements.toml"), required).unwrap();
    started(&mut client).await;
    client.until::<TurnCompleted>().await;
    let output = call_output(&client, "c");
    assert!(output.contains("http://127.0.0.1:81 socks5h://127.0.0.1:1081"), "{output}");
    client.ignore_rest();
}

#[tokio::test]
async fn disabled_socks_is_neither_announced_nor_served() {
    if !has_namespaces() {
        return;
    }
    let settings = config(&format!("{LOCAL}\nenable_socks5 = false"));
    let greeting = through_proxy("printf '\\x05\\x01\\x00' >&3; cat <&3 | wc -c");
    let mut client = app(&settings, runs(&format!("echo $ALL_PROXY; {greeting}"))).await;
    started(&mut client).await;
    client.until::<TurnCompleted>().await;
    let output = call_output(&client, "c");
    assert!(output.contains("http://127.0.0.1:3128\n0\n"), "{output}");
    client.ignore_rest();
}
