//! Tokens that a client supplies, and the requests for fresh ones.

use codicil_protocol::{
    AccountLoginStart, AccountLogout, AccountRead, AccountUpdated, AuthMode, ChatgptAuthTokensRefresh,
    ChatgptAuthTokensRefreshReason, ChatgptAuthTokensRefreshResponse, GetAccountParams, LoginAccountParams,
    NoParams, TurnCompleted,
};
use codicil_testkit::{App, Reply, Script, TestClient, test_token};
use serde_json::json;

async fn start(script: Script) -> App {
    // Without apps the tokens are used for the model only.
    let builder = App::builder().script(script).experimental().config("features.apps = false\n");
    builder.provider("requires_openai_auth = true").start().await
}

async fn give(client: &mut TestClient, number: u64) {
    let login = LoginAccountParams::ChatgptAuthTokens {
        access_token: test_token(number, "acc-1").into(),
        chatgpt_account_id: "acc-1".to_owned(),
        chatgpt_plan_type: None,
    };
    client.call::<AccountLoginStart>(login).await;
    let updated = client.until::<AccountUpdated>().await;
    assert_eq!(updated.auth_mode, Some(AuthMode::ChatgptAuthTokens));
}

fn fresh(number: u64) -> ChatgptAuthTokensRefreshResponse {
    ChatgptAuthTokensRefreshResponse {
        access_token: test_token(number, "acc-1").into(),
        chatgpt_account_id: "acc-1".to_owned(),
        chatgpt_plan_type: None,
    }
}

fn bearers(app: &App) -> Vec<String> {
    let requests = app.model().requests();
    requests.iter().map(|request| request.header("authorization").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_client_that_supplied_tokens_is_asked_for_new_ones() {
    let script = Script::new().reply(Reply::status(401)).then().say("Hello").then().say("Again");
    let mut app = start(script).await;
    let mut giver = app.another_client().await;
    give(&mut giver, 1).await;
    app.rest().await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Hi").await;

    let asked = giver.expect_request::<ChatgptAuthTokensRefresh>().await;
    assert_eq!(asked.params.reason, ChatgptAuthTokensRefreshReason::Unauthorized);
    assert_eq!(asked.params.previous_account_id.as_deref(), Some("acc-1"));
    // A client may send other requests before it answers.
    giver.call::<AccountRead>(GetAccountParams::default()).await;
    giver.reply(&asked, fresh(2)).await;

    app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    let old = format!("Bearer {}", test_token(1, "acc-1"));
    let new = format!("Bearer {}", test_token(2, "acc-1"));
    assert_eq!(bearers(&app), [old, new.clone()]);
    app.run_turn(&thread, "Again").await;
    assert_eq!(bearers(&app).last(), Some(&new));
    assert!(!app.home().join("auth.json").exists());
    giver.ignore_rest();
    app.rest().await;
}

#[tokio::test]
async fn other_clients_are_asked_when_the_supplier_has_disconnected() {
    let mut app = start(Script::new().reply(Reply::status(401)).then().say("Hello")).await;
    let mut giver = app.another_client().await;
    give(&mut giver, 1).await;
    giver.disconnect();
    giver.ended().await;
    app.rest().await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Hi").await;

    let asked = app.expect_request::<ChatgptAuthTokensRefresh>().await;
    app.reply(&asked, fresh(2)).await;

    let completed = app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    assert_eq!(completed.turn.error, None);
}

#[tokio::test]
async fn a_refused_refresh_fails_the_turn_without_leaking_secrets() {
    let mut app = start(Script::new().reply(Reply::status(401)).then().reply(Reply::status(401))).await;
    give(&mut app, 1).await;
    let thread = app.start_thread().await;

    let turn = app.start_turn(&thread, "Hi").await;
    let asked = app.expect_request::<ChatgptAuthTokensRefresh>().await;
    app.refuse(&asked, -32000, &format!("{} has expired", test_token(1, "acc-1"))).await;
    let completed = app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    let error = completed.turn.error.unwrap();
    assert_eq!(error.message, "auth refresh request failed: code=-32000 message=*** has expired");
    assert_eq!(json!(error.codex_error_info), json!("unauthorized"));

    let turn = app.start_turn(&thread, "Hi").await;
    let asked = app.expect_request::<ChatgptAuthTokensRefresh>().await;
    let garbage = ChatgptAuthTokensRefreshResponse { access_token: "canary".to_owned().into(), ..fresh(2) };
    app.reply(&asked, garbage).await;
    let completed = app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    let error = completed.turn.error.unwrap();
    assert_eq!(error.message, "failed to set external auth: invalid ID token format");
    app.rest().await;
}

#[tokio::test]
async fn concurrent_rejections_ask_once() {
    let script = Script::new().respond_with(|request| {
        let is_old = request.header("authorization") == Some(&format!("Bearer {}", test_token(1, "acc-1")));
        if is_old { Reply::status(401) } else { Reply::new().say("Hello") }
    });
    let mut app = start(script).await;
    give(&mut app, 1).await;
    for _ in 0..5 {
        let thread = app.start_thread().await;
        app.start_turn(&thread, "Hi").await;
    }

    let asked = app.expect_request::<ChatgptAuthTokensRefresh>().await;
    app.reply(&asked, fresh(2)).await;

    let rest = app.rest().await;
    assert!(!rest.contains("chatgptAuthTokens/refresh"), "{rest}");
    let completed: Vec<_> = rest.lines().filter(|line| line.contains("turn/completed")).collect();
    assert!(completed.iter().all(|line| line.ends_with("completed")), "{rest}");
}

#[tokio::test]
async fn earlier_clients_may_leave_out_the_account_id() {
    let mut app = start(Script::new().say("Hello")).await;
    let params =
        json!({ "type": "chatgptAuthTokens", "idToken": "x", "accessToken": test_token(1, "acc-7") });
    let answer = app.exchange(json!({ "id": "a", "method": "account/login/start", "params": params })).await;
    assert_eq!(answer["result"], json!({ "type": "chatgptAuthTokens" }));
    app.until::<AccountUpdated>().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    assert_eq!(app.model().requests()[0].header("chatgpt-account-id"), Some("acc-7"));
    app.rest().await;
}

#[tokio::test]
async fn other_logins_are_refused_while_external_tokens_are_active() {
    let mut app = start(Script::new()).await;
    give(&mut app, 1).await;
    let key = || LoginAccountParams::ApiKey { api_key: "sk-1".to_owned().into() };
    for login in [key(), LoginAccountParams::chatgpt(), LoginAccountParams::ChatgptDeviceCode] {
        let error = app.try_call::<AccountLoginStart>(login).await.unwrap_err();
        assert_eq!(error.code, -32600);
        assert!(error.message.starts_with("External auth is active. "), "{}", error.message);
    }
    app.call::<AccountLogout>(NoParams).await;
    app.until::<AccountUpdated>().await;
    app.call::<AccountLoginStart>(key()).await;
    assert_eq!(app.until::<AccountUpdated>().await.auth_mode, Some(AuthMode::Apikey));
}
