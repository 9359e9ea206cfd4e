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
        let elicitation = |schema: Value| json!({ "serverName": "s", "mode": "form", "message": "?", "requestedSchema": schema });
        let confirmation = elicitation(json!({ "type": "object", "properties": {} }));
        let name = json!({ "name": { "type": "string" } });
        let form = elicitation(json!({ "type": "object", "properties": name, "required": ["name"] }));
        let page = json!({ "serverName": "s", "mode": "url", "message": "?", "url": "https://a", "elicitationId": "e" });
        let requests = [
            ("item/commandExecution/requestApproval", with(json!({ "command": "rm -rf /" })), "/decision"),
            ("item/fileChange/requestApproval", with(json!({})), "/decision"),
            (
                "item/permissions/requestApproval",
                with(json!({ "permissions": permissions })),
                "/permissions/network",
            ),
            ("mcpServer/elicitation/request", with(confirmation), "/action"),
            ("mcpServer/elicitation/request", with(form), "/action"),
            ("mcpServer/elicitation/request", with(page), "/action"),
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
    // A form with required fields, and a web page, need a person whatever the policy is.
    let elicited = |confirmation: &str| [json!(confirmation), json!("decline"), json!("decline")];
    let answers_of = |decision: &str, network: Value, input: &str| {
        let mut answers = vec![json!(decision), json!(decision), network];
        answers.extend(elicited(decision));
        answers.push(json!(input));
        answers
    };
    let accepted = answers_of("accept", json!({ "enabled": true }), "Approve Once");
    let declined = answers_of("decline", Value::Null, "Deny");
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
