//! Approvals: answered by policy.

use codicil_agents::evaluate::{ApprovalPolicy, ClientConfig, Prompt};
use serde_json::{Value, json};

use super::{fake::evaluator, soon};

/// What each kind of question is answered under a policy.
async fn answers(approval_policy: ApprovalPolicy) -> (String, Vec<Value>) {
    let (evaluator, mut servers) = evaluator(ClientConfig { approval_policy, ..ClientConfig::default() });
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.greeted().await;
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
        let asked = [
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
        for (method, params, pointer) in asked {
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

/// Unit test: approval auto-response per policy.
#[tokio::test]
async fn approvals_are_answered_by_policy() {
    let accepted = [json!("accept"), json!("accept"), json!({ "enabled": true }), json!("Approve Once")];
    let declined = [json!("decline"), json!("decline"), Value::Null, json!("Deny")];
    for (policy, on_the_wire, expected) in [
        (ApprovalPolicy::Never, "never", &accepted),
        (ApprovalPolicy::Untrusted, "untrusted", &accepted),
        (ApprovalPolicy::OnFailure, "on-failure", &accepted),
        (ApprovalPolicy::OnRequest, "on-request", &declined),
    ] {
        let (sent, answered) = answers(policy).await;
        assert_eq!((sent.as_str(), answered.as_slice()), (on_the_wire, expected.as_slice()), "{policy:?}");
    }
}
