//! Approvals, answered as configured.

use codicil_agents::evaluate::{AskForApproval, ClientConfig, OnApproval, Prompt};
use serde_json::{Value, json};

use super::{fake::evaluator, soon};

/// Returns the policy that the server receives, and the answer to each kind of request.
async fn answers(approval_policy: AskForApproval, on_approval: OnApproval) -> (String, Vec<Value>) {
    let config = ClientConfig { approval_policy, on_approval, ..ClientConfig::default() };
    let (evaluator, mut servers) = evaluator(config);
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        let sent = fake.start_thread().await["approvalPolicy"].as_str().unwrap().to_owned();
        fake.start_turn().await;
        let ids = json!({ "threadId": "t", "turnId": "u", "itemId": "i" });
        let with = |more: Value| {
            let mut params = ids.clone();
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            params
        };
        let permissions = json!({ "network": { "enabled": true }, "fileSystem": null });
        let question = json!({ "id": "q", "header": "", "question": "?",
            "options": [{ "label": "Approve Once", "description": "" }, { "label": "Deny", "description": "" }] });
        let requests = [
            ("item/commandExecution/requestApproval", with(json!({ "command": "rm -rf /" })), "/decision"),
            ("item/fileChange/requestApproval", with(json!({})), "/decision"),
            (
                "item/permissions/requestApproval",
                with(json!({ "permissions": permissions })),
                "/permissions/network",
            ),
            ("item/tool/requestUserInput", with(json!({ "questions": [question] })), "/answers/q/answers/0"),
        ];
        let mut answered = Vec::new();
        for (method, params, pointer) in requests {
            let answer = fake.ask(method, params).await;
            answered.push(answer["result"].pointer(pointer).cloned().unwrap_or_default());
        }
        fake.complete().await;
        (sent, answered)
    };
    let (answer, seen) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    answer.unwrap();
    seen
}

/// Unit test: approval auto-response per policy. The pairs are those of WINK's four policies.
#[tokio::test]
async fn approvals_are_answered_as_configured() {
    let accepted = [json!("accept"), json!("accept"), json!({ "enabled": true }), json!("Approve Once")];
    let declined = [json!("decline"), json!("decline"), Value::Null, json!("Deny")];
    for (policy, on_approval, sent, expected) in [
        (AskForApproval::Never, OnApproval::Accept, "never", &accepted),
        (AskForApproval::Untrusted, OnApproval::Accept, "untrusted", &accepted),
        (AskForApproval::OnFailure, OnApproval::Accept, "on-failure", &accepted),
        (AskForApproval::OnRequest, OnApproval::Decline, "on-request", &declined),
    ] {
        let (received, answered) = answers(policy, on_approval).await;
        assert_eq!((received.as_str(), answered.as_slice()), (sent, expected.as_slice()));
    }
}
