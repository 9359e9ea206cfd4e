//! Signing in and out: with an API key, a browser or a device code.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_protocol::{
    Account, AccountLoginCancel, AccountLoginCompleted, AccountLoginStart, AccountLogout,
    AccountRateLimitsRead, AccountRead, AccountUpdated, AuthMode, CancelLoginAccountParams,
    CancelLoginAccountStatus, GetAccountParams, GetAccountRateLimitsParams, LoginAccountParams,
    LoginAccountResponse, NoParams, PlanType, rpc::ErrorObject,
};
use codicil_testkit::{App, Reply, Script, TestClient, TestIssuer, test_token, visit_page};
use serde_json::{Value, json};

/// Starts a server whose provider needs an account of the issuer.
async fn start(issuer: &TestIssuer, keys: &str, script: Script) -> App {
    let config = format!("{keys}\n{}", issuer.config());
    let builder = App::builder().script(script).config(&config).experimental();
    builder.provider("requires_openai_auth = true").start().await
}

async fn begin(client: &mut TestClient) -> (String, String) {
    match client.call::<AccountLoginStart>(LoginAccountParams::chatgpt()).await {
        LoginAccountResponse::Chatgpt { login_id, auth_url } => (login_id, auth_url),
        other => panic!("{other:?}"),
    }
}

async fn begin_device(client: &mut TestClient) -> (String, String) {
    match client.call::<AccountLoginStart>(LoginAccountParams::ChatgptDeviceCode).await {
        LoginAccountResponse::ChatgptDeviceCode { login_id, user_code, verification_url } => {
            assert!(verification_url.ends_with("/codex/device"), "{verification_url}");
            (login_id, user_code)
        }
        other => panic!("{other:?}"),
    }
}

fn key(key: &str) -> LoginAccountParams {
    LoginAccountParams::ApiKey { api_key: key.to_owned().into() }
}

async fn account(client: &mut TestClient) -> Option<Account> {
    client.call::<AccountRead>(GetAccountParams { refresh_token: false }).await.account
}

/// Waits for the end of the login with this id.
async fn ended(client: &mut TestClient, login: &str) -> Result<(), String> {
    let ended = client.until::<AccountLoginCompleted>().await;
    assert_eq!(ended.login_id.as_deref(), Some(login));
    assert_eq!(ended.success, ended.error.is_none());
    ended.error.map_or(Ok(()), Err)
}

fn auth_json(app: &App) -> Value {
    serde_json::from_slice(&fs::read(app.home().join("auth.json")).unwrap()).unwrap()
}

fn is_signed_in(account: Option<Account>) -> bool {
    let plan_type = PlanType::Pro;
    account
        == Some(Account::Chatgpt { email: "user@example.com".to_owned(), plan_type, workspace_name: None })
}

#[tokio::test]
async fn a_browser_login_signs_in_and_turns_use_the_account() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new().say("Hello")).await;
    let mut other = app.another_client().await;
    let (login, auth_url) = begin(&mut app).await;

    let (status, page) = visit_page(&issuer.sign_in(&auth_url)).await;

    assert_eq!(status, 200);
    assert!(page.contains("You are signed in"), "{page}");
    for client in [&mut *app, &mut other] {
        assert_eq!(ended(client, &login).await, Ok(()));
        let updated = client.until::<AccountUpdated>().await;
        assert_eq!((updated.auth_mode, updated.plan_type), (Some(AuthMode::Chatgpt), Some(PlanType::Pro)));
    }
    assert!(is_signed_in(account(&mut app).await));
    let file = auth_json(&app);
    assert_eq!((&file["auth_mode"], &file["OPENAI_API_KEY"]), (&json!("chatgpt"), &Value::Null));
    assert_eq!(file["tokens"]["account_id"], "acc-1");
    assert_eq!(file["tokens"]["refresh_token"], "refresh-1");
    let mode = fs::metadata(app.home().join("auth.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    let request = &app.model().requests()[0];
    let bearer = format!("Bearer {}", issuer.access_token().unwrap());
    assert_eq!(request.header("authorization"), Some(bearer.as_str()));
    assert_eq!(request.header("chatgpt-account-id"), Some("acc-1"));
    other.ignore_rest();
    app.restart().await;
    assert!(is_signed_in(account(&mut app).await));
}

#[tokio::test]
async fn unrelated_requests_to_the_callback_do_not_end_a_login() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let (login, auth_url) = begin(&mut app).await;
    let good = issuer.sign_in(&auth_url);
    let (callback, _) = good.split_once('?').unwrap();
    for (url, expected) in [
        (callback.to_owned(), 400),
        (format!("{callback}?code=stolen&state=guessed"), 400),
        (format!("{callback}?error=access_denied"), 400),
        (callback.replace("/auth/callback", "/favicon.ico"), 404),
        (callback.replace("/auth/callback", "/"), 404),
    ] {
        assert_eq!(visit_page(&url).await.0, expected, "{url}");
    }
    visit_page(&good).await;
    assert_eq!(ended(&mut app, &login).await, Ok(()));
    app.until::<AccountUpdated>().await;
}

#[tokio::test]
async fn a_failed_login_shows_its_reason_to_the_user_and_the_clients() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;

    let (login, auth_url) = begin(&mut app).await;
    let good = issuer.sign_in(&auth_url);
    let refused = good.replace("code=", "error_description=not+%3Cyou%3E&error=");
    let (status, page) = visit_page(&refused).await;
    assert_eq!(status, 400);
    assert!(page.contains("Signing in failed") && page.contains("not &lt;you&gt;"), "{page}");
    let error = ended(&mut app, &login).await;
    assert_eq!(error, Err("Login server error: the issuer refused: not <you>".to_owned()));

    let (login, auth_url) = begin(&mut app).await;
    let good = issuer.sign_in(&auth_url);
    issuer.refuse(Some((500, json!({ "error": { "message": "out of order" } }))));
    let (_, page) = visit_page(&good).await;
    assert!(page.contains("out of order"), "{page}");
    let error = ended(&mut app, &login).await.unwrap_err();
    let expected =
        "Login server error: the exchange of the sign-in code failed with status 500: out of order";
    assert_eq!(error, expected);
    assert_eq!(account(&mut app).await, None);
}

#[tokio::test]
async fn a_new_login_replaces_the_one_in_progress() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let (first, _) = begin(&mut app).await;
    let (second, _) = begin(&mut app).await;
    assert_eq!(ended(&mut app, &first).await, Err("Login server error: Login cancelled".to_owned()));
    app.call::<AccountLoginStart>(key("sk-1")).await;
    let error = ended(&mut app, &second).await;
    assert_eq!(error, Err("Login server error: Login was not completed".to_owned()));
    assert_eq!(app.until::<AccountUpdated>().await.auth_mode, Some(AuthMode::Apikey));

    let (third, _) = begin_device(&mut app).await;
    app.call::<AccountLogout>(NoParams).await;
    assert_eq!(ended(&mut app, &third).await, Err("Login was not completed".to_owned()));
    assert_eq!(app.until::<AccountUpdated>().await.auth_mode, None);
}

#[tokio::test]
async fn a_login_is_cancelled_by_its_id_only() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let (login, auth_url) = begin(&mut app).await;
    let cancel = async |app: &mut App, id: &str| {
        let params = CancelLoginAccountParams { login_id: id.to_owned() };
        app.try_call::<AccountLoginCancel>(params).await.map(|answer| answer.status)
    };
    let error = cancel(&mut app, "not-a-uuid").await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "invalid login id: not-a-uuid"));
    assert_eq!(cancel(&mut app, crate::NO_THREAD).await, Ok(CancelLoginAccountStatus::NotFound));
    assert_eq!(cancel(&mut app, &login).await, Ok(CancelLoginAccountStatus::Canceled));
    let error = ended(&mut app, &login).await;
    assert_eq!(error, Err("Login server error: Login was not completed".to_owned()));
    assert_eq!(cancel(&mut app, &login).await, Ok(CancelLoginAccountStatus::NotFound));
    // The callback is closed.
    let port = auth_url.split("localhost%3A").nth(1).unwrap().split('%').next().unwrap().to_owned();
    assert!(tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.is_err());
}

#[tokio::test]
async fn a_device_code_login_signs_in() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let (login, user_code) = begin_device(&mut app).await;
    assert_eq!(account(&mut app).await, None);

    issuer.type_code(&user_code);

    assert_eq!(ended(&mut app, &login).await, Ok(()));
    assert_eq!(app.until::<AccountUpdated>().await.auth_mode, Some(AuthMode::Chatgpt));
    assert!(is_signed_in(account(&mut app).await));
}

#[tokio::test]
async fn a_login_in_progress_ends_with_the_server() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let (_, auth_url) = begin(&mut app).await;
    let good = issuer.sign_in(&auth_url);
    app.restart().await;
    let port = good.split("localhost:").nth(1).unwrap().split('/').next().unwrap().to_owned();
    assert!(tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.is_err());
    assert_eq!(account(&mut app).await, None);
}

#[tokio::test]
async fn account_requests_sent_in_one_write_run_in_order() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    for round in 0..20 {
        let login = app.send::<AccountLoginStart>(key(&format!("sk-{round}"))).await;
        let read = app.send::<AccountRead>(GetAccountParams::default()).await;
        let logout = app.send::<AccountLogout>(NoParams).await;
        let again = app.send::<AccountRead>(GetAccountParams::default()).await;
        app.answer(login).await.unwrap();
        assert_eq!(app.answer(read).await.unwrap().account, Some(Account::ApiKey));
        app.answer(logout).await.unwrap();
        assert_eq!(app.answer(again).await.unwrap().account, None);
    }
    app.rest().await;
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_and_the_request_repeated() {
    let issuer = TestIssuer::start().await;
    let script = Script::new().reply(Reply::status(401)).then().say("Hello");
    let mut app = start(&issuer, "", script).await;
    fs::write(app.home().join("auth.json"), issuer.auth_json().to_string()).unwrap();
    let old = issuer.access_token().unwrap();

    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "Hi").await;

    assert_eq!(turn.error, None);
    let sent: Vec<_> = (app.model().requests().iter())
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    let new = issuer.access_token().unwrap();
    assert_ne!(old, new);
    assert_eq!(sent, [format!("Bearer {old}"), format!("Bearer {new}")]);
    assert_eq!(auth_json(&app)["tokens"]["access_token"], json!(new));
    assert_eq!(issuer.refreshes(), 1);
    app.rest().await;
}

#[tokio::test]
async fn an_expired_login_fails_the_turn_with_a_reason() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new().reply(Reply::status(401))).await;
    fs::write(app.home().join("auth.json"), issuer.auth_json().to_string()).unwrap();
    issuer.refuse(Some((400, json!({ "error": "invalid_grant" }))));

    let thread = app.start_thread().await;
    let error = app.run_turn(&thread, "Hi").await.error.unwrap();

    assert_eq!(error.message, "the sign-in is no longer valid: invalid_grant; sign in again");
    assert_eq!(json!(error.codex_error_info), json!("unauthorized"));
    app.rest().await;
}

#[tokio::test]
async fn rate_limits_are_read_with_a_fresh_token() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "", Script::new()).await;
    let refused = async |app: &mut App| -> ErrorObject {
        app.try_call::<AccountRateLimitsRead>(GetAccountRateLimitsParams::default()).await.unwrap_err()
    };
    let error = refused(&mut app).await;
    let expected = "codex account authentication required to read rate limits";
    assert_eq!((error.code, error.message.as_str()), (-32600, expected));

    fs::write(app.home().join("auth.json"), issuer.auth_json().to_string()).unwrap();
    issuer.expire();
    let limits = app.call::<AccountRateLimitsRead>(GetAccountRateLimitsParams::default()).await;
    assert_eq!(limits.rate_limits.primary.unwrap().used_percent, 25);
    assert_eq!(issuer.refreshes(), 1);
    assert!(limits.rate_limits_by_limit_id.unwrap().contains_key("codex"));

    issuer.expire();
    issuer.refuse(Some((503, json!({}))));
    let error = refused(&mut app).await;
    assert_eq!(error.code, -32603);
    assert!(error.message.starts_with("failed to fetch codex rate limits: "), "{}", error.message);
}

#[tokio::test]
async fn the_configuration_restricts_the_login_methods() {
    let issuer = TestIssuer::start().await;
    let given = |account: &str| LoginAccountParams::ChatgptAuthTokens {
        access_token: test_token(1, account).into(),
        chatgpt_account_id: account.to_owned(),
        chatgpt_plan_type: None,
    };
    let refused = async |keys: &str, login: LoginAccountParams| {
        let mut app = start(&issuer, keys, Script::new()).await;
        let error = app.try_call::<AccountLoginStart>(login).await.unwrap_err();
        assert_eq!(error.code, -32600);
        error.message
    };
    let only_api = "forced_login_method = \"api\"";
    let chatgpt = "ChatGPT login is disabled. Use API key login instead.";
    assert_eq!(refused(only_api, LoginAccountParams::chatgpt()).await, chatgpt);
    assert_eq!(refused(only_api, LoginAccountParams::ChatgptDeviceCode).await, chatgpt);
    assert_eq!(
        refused(only_api, given("acc-1")).await,
        "External ChatGPT auth is disabled. Use API key login instead."
    );
    assert_eq!(
        refused("forced_login_method = \"chatgpt\"", key("sk-1")).await,
        "API key login is disabled. Use ChatGPT login instead."
    );
    assert_eq!(
        refused("forced_chatgpt_workspace_id = \"acc-2\"", given("acc-1")).await,
        "External auth must use workspace acc-2, but received \"acc-1\"."
    );
}

#[tokio::test]
async fn a_browser_login_needs_the_configured_workspace() {
    let issuer = TestIssuer::start().await;
    let mut app = start(&issuer, "forced_chatgpt_workspace_id = \"acc-2\"", Script::new()).await;
    let (login, auth_url) = begin(&mut app).await;
    assert!(auth_url.contains("allowed_workspace_id=acc-2"), "{auth_url}");
    visit_page(&issuer.sign_in(&auth_url)).await;
    let error = ended(&mut app, &login).await;
    assert_eq!(error, Err("Login server error: Login is restricted to workspace id acc-2.".to_owned()));
    assert_eq!(account(&mut app).await, None);
}
