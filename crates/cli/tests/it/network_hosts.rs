//! Network access of sandboxed commands through the proxy, with an approval.

use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionApprovalDecision as Decision,
    CommandExecutionRequestApprovalResponse, ItemCompleted, ThreadItem, ThreadStartParams,
};
use codicil_sandbox::MachineProbe;
use codicil_testkit::{App, Script, TestTransport, skipped};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const CONFIG: &str = "default_permissions = \"p\"\n[permissions.p.network]\nenabled = true\n\
                      allow_local_binding = true\n";

#[tokio::test]
async fn a_host_is_reached_after_an_approval() {
    if let Err(reason) = MachineProbe::cached().proxy() {
        return skipped(reason);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = [0; 4];
        stream.read_exact(&mut received).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
        received
    });
    let tunnel = format!("CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nping");
    let line = format!(
        "bash -c 'a=${{HTTPS_PROXY#http://}}; exec 3<>/dev/tcp/${{a%:*}}/${{a#*:}}; printf \"{tunnel}\" >&3; cat <&3'"
    );
    let arguments = json!({ "cmd": line, "yield_time_ms": 30_000 });
    let script = Script::new().call("exec_command", arguments).then().say("Done");
    let app = App::builder().experimental().config(CONFIG).script(script).over(TestTransport::Stdio);
    let mut app = app.start().await;
    let params = json!({ "approvalPolicy": "on-request", "sandbox": "workspace-write" });
    let params: ThreadStartParams = serde_json::from_value(params).unwrap();
    let thread = app.start_thread_with(params).await;
    app.start_turn(&thread, "go").await;

    let question = app.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(question.params.network_approval_context.as_ref().unwrap().host, "localhost");
    let decision = Decision::Accept;
    app.reply(&question, CommandExecutionRequestApprovalResponse { decision }).await;
    let is_command = |item: &ThreadItem| matches!(item, ThreadItem::CommandExecution { .. });
    let item = app.until_where::<ItemCompleted>(|completed| is_command(&completed.item)).await.item;
    let ThreadItem::CommandExecution { aggregated_output, .. } = item else { unreachable!("looked for") };
    let output = aggregated_output.unwrap();
    assert!(output.ends_with("\r\n\r\npong"), "{output}");
    assert_eq!(&target.await.unwrap(), b"ping");
    app.rest().await;
}
