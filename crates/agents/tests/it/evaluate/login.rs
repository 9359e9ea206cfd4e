//! Signing in: API keys, tokens, and their renewal.

use codicil_agents::evaluate::{
    AccountTokens, ClientConfig, EvaluationPhase, ExternalTokens, LoginMethod, Prompt,
};
use serde_json::{Value, json};

use super::{fake::evaluator, soon};

/// Returns the params of the login, and the answers to requests for fresh tokens.
async fn sign_in(auth: LoginMethod, refreshes: usize) -> (Value, Vec<Value>) {
    let (evaluator, mut servers) = evaluator(ClientConfig { login: Some(auth), ..ClientConfig::default() });
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        let login = fake.expect("account/login/start").await;
        fake.reply(&login, json!({ "type": login["params"]["type"] })).await;
        fake.start_thread().await;
        fake.start_turn().await;
        let mut answers = Vec::new();
        for _ in 0..refreshes {
            let params = json!({ "reason": "unauthorized", "previousAccountId": "acc-1" });
            answers.push(fake.ask("account/chatgptAuthTokens/refresh", params).await);
        }
        fake.complete().await;
        (login["params"].clone(), answers)
    };
    let (answer, seen) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    answer.unwrap();
    seen
}

/// Unit test: authentication with an API key.
#[tokio::test]
async fn authentication_with_an_api_key() {
    let (login, answers) = sign_in(LoginMethod::api_key("sk-1"), 1).await;
    assert_eq!(login, json!({ "type": "apiKey", "apiKey": "sk-1" }));
    assert_eq!(answers[0]["error"]["message"], "this client has no fresh tokens");
}

/// Unit test: authentication with external tokens, which are renewed on request.
#[tokio::test]
async fn authentication_with_external_tokens_and_their_refresh() {
    let tokens = ExternalTokens::new(AccountTokens {
        account_id: Some("acc-1".into()),
        plan_type: Some("pro".into()),
        ..AccountTokens::new("id-1", "access-1")
    });
    let tokens = tokens.refresh_with(|account| async move {
        assert_eq!(account.as_deref(), Some("acc-1"));
        Ok(AccountTokens::new("id-2", "access-2"))
    });
    let (login, answers) = sign_in(LoginMethod::external_tokens(tokens), 1).await;
    let expected = json!({
        "type": "chatgptAuthTokens", "idToken": "id-1", "accessToken": "access-1",
        "chatgptAccountId": "acc-1", "chatgptPlanType": "pro",
    });
    assert_eq!(login, expected);
    assert_eq!(answers[0]["result"], json!({ "accessToken": "access-2", "chatgptAccountId": "acc-1" }));
}

#[tokio::test]
async fn a_failed_renewal_is_answered_with_the_reason() {
    let tokens = AccountTokens::new("id", "access");
    let fixed = ExternalTokens::new(tokens.clone());
    let (_, answers) = sign_in(LoginMethod::external_tokens(fixed), 1).await;
    assert_eq!(answers[0]["error"]["message"], "this client has no fresh tokens");
    let failing =
        ExternalTokens::new(tokens).refresh_with(|_| async { Err("the vault is closed".to_owned()) });
    let (_, answers) = sign_in(LoginMethod::external_tokens(failing), 1).await;
    assert_eq!(answers[0]["error"]["message"], "the vault is closed");
}

#[tokio::test]
async fn a_refused_login_is_an_error_of_the_request_phase_without_secrets() {
    let login = Some(LoginMethod::api_key("sk-secret"));
    let (evaluator, mut servers) = evaluator(ClientConfig { login, ..ClientConfig::default() });
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        let login = fake.expect("account/login/start").await;
        fake.refuse(&login, "no such key").await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    let error = answer.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Request));
    assert_eq!(error.to_string(), "request: account/login/start failed: no such key (code -32600)");
    assert!(!format!("{error:?} {evaluator:?}").contains("sk-secret"));
}
