//! OAuth logins against a test issuer.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use codicil_mcp::{CallError, LoginError, LoginOptions, OauthError, ServerPool};
use codicil_protocol::{
    McpAuthStatus,
    McpServerStartupState::{Failed, Ready, Starting},
};
use serde_json::{Value, json};

use crate::{
    site::{Habits, Site},
    support::{World, call, server, soon, table, text},
    web::browse,
};

const OLD: Habits = Habits {
    guarded: true,
    modern: false,
    confidential: false,
    unpublished: false,
    redirects: false,
    quiet: false,
};
const MODERN: Habits = Habits { modern: true, ..OLD };

async fn auth_status(pool: &ServerPool, site: &Site, more: &str) -> McpAuthStatus {
    let table = table(&site.table(more));
    soon(pool.auth_status("test", table.get("test").unwrap())).await
}

/// Acts as the browser: follows the authorization URL and the redirect.
async fn sign_in(
    world: &World,
    site: &Site,
    more: &str,
    options: LoginOptions,
) -> (Result<(), OauthError>, u16, String) {
    let login = soon(world.pool.login(&table(&site.table(more)), "test", options)).await.unwrap();
    let browser = async {
        let (status, back, _) = browse(&login.authorization_url).await;
        assert_eq!(status, 302);
        browse(&back.unwrap()).await
    };
    let (completed, (status, _, page)) = soon(async { tokio::join!(login.completion, browser) }).await;
    (completed, status, page)
}

fn stored(world: &World) -> Value {
    let path = world.home.path().join(".credentials.json");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file.as_object().unwrap().values().next().cloned().unwrap_or_default()
}

fn store(world: &World, site: &Site, entry: Value) {
    let mut whole = json!({ "server_name": "test", "server_url": site.url(), "client_id": "client-1" });
    whole.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
    std::fs::write(world.home.path().join(".credentials.json"), json!({ "test|x": whole }).to_string())
        .unwrap();
}

async fn token_in_use(world: &World, site: &Site) -> Value {
    let (servers, mut reports) = world.join(&site.table(""));
    reports.until("test", Ready).await;
    let outcome = soon(servers.call(call("headers", json!({})))).await.unwrap();
    let headers: Value = serde_json::from_str(&text(&outcome)).unwrap();
    headers["authorization"].clone()
}

#[tokio::test]
async fn a_login_lets_a_failed_server_start() {
    for habits in [OLD, MODERN, Habits { confidential: true, ..OLD }] {
        let site = Site::start(habits).await;
        let world = World::new();
        let (servers, mut reports) = world.join(&site.table(""));
        reports.until("test", Failed).await;
        assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::NotLoggedIn);

        let (completed, status, page) = sign_in(&world, &site, "", LoginOptions::default()).await;
        assert_eq!((completed, status), (Ok(()), 200));
        assert!(page.contains("You are signed in to test"), "{page}");
        assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::OAuth);
        let entry = stored(&world);
        assert_eq!(
            (&entry["access_token"], &entry["refresh_token"]),
            (&json!("token-1"), &json!("refresh-1"))
        );
        assert_eq!((&entry["client_id"], &entry["scopes"]), (&json!("client-1"), &json!(["a"])));

        servers.retry();
        assert!(soon(servers.tools()).await.get("mcp__test__headers").is_some());
        assert_eq!(reports.next().await.status, Starting);
        assert_eq!(reports.next().await.status, Ready);
    }
}

#[tokio::test]
async fn requested_scopes_and_resource_are_sent() {
    let scope = async |habits: Habits, more: &str, options: LoginOptions| {
        let site = Site::start(habits).await;
        let world = World::new();
        let login = soon(world.pool.login(&table(&site.table(more)), "test", options)).await.unwrap();
        let url: url::Url = login.authorization_url.parse().unwrap();
        let query: std::collections::HashMap<String, String> = url.query_pairs().into_owned().collect();
        assert_eq!(query["client_id"], "client-1");
        let registered = site.web.seen().into_iter().find(|seen| seen.path == "/register").unwrap().json();
        assert_eq!(registered["redirect_uris"], json!([query["redirect_uri"]]));
        (query.get("scope").cloned().unwrap_or_default(), query["resource"].replace(&site.web.base, ""))
    };
    let wish = LoginOptions { scopes: Some(vec!["x".to_owned()]), timeout: None };
    let pair = |scope: &str, resource: &str| (scope.to_owned(), resource.to_owned());
    assert_eq!(scope(OLD, "scopes = ['s', 't']", wish).await, pair("x", "/mcp"));
    assert_eq!(scope(OLD, "scopes = ['s', 't']", LoginOptions::default()).await, pair("s t", "/mcp"));
    assert_eq!(scope(OLD, "", LoginOptions::default()).await, pair("a b", "/mcp"));
    assert_eq!(scope(MODERN, "", LoginOptions::default()).await, pair("wanted", "/mcp"));
    let configured = scope(MODERN, "oauth_resource = 'https://r'", LoginOptions::default()).await;
    assert_eq!(configured, pair("wanted", "https://r"));
}

#[tokio::test]
async fn a_challenge_to_a_message_is_enough() {
    let site = Site::start(Habits { quiet: true, ..MODERN }).await;
    let world = World::new();
    let login =
        soon(world.pool.login(&table(&site.table("")), "test", LoginOptions::default())).await.unwrap();
    assert!(login.authorization_url.contains("scope=wanted"), "{}", login.authorization_url);
    assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::NotLoggedIn);
}

#[tokio::test]
async fn a_configured_client_is_not_registered() {
    let site = Site::start(MODERN).await;
    let world = World::with_environment(&[("CLIENT_SECRET", "s3cret")]);
    let client = "[mcp_servers.test.oauth]\nclient_id = 'mine'\nclient_secret_env_var = 'CLIENT_SECRET'";
    let (completed, ..) = sign_in(&world, &site, client, LoginOptions::default()).await;
    assert_eq!(completed, Ok(()));
    let seen = site.web.seen();
    assert!(!seen.iter().any(|seen| seen.path == "/register"));
    let token = seen.iter().find(|seen| seen.path == "/token").unwrap();
    assert_eq!(token.header("authorization"), Some("Basic bWluZTpzM2NyZXQ="));
    assert_eq!(stored(&world)["client_id"], "mine");

    let missing = client.replace("CLIENT_SECRET", "OTHER");
    let login = soon(world.pool.login(&table(&site.table(&missing)), "test", LoginOptions::default())).await;
    let error = login.err().unwrap().to_string();
    assert!(error.contains("environment variable OTHER"), "{error}");
}

#[tokio::test]
async fn a_server_that_publishes_nothing_has_the_endpoints_of_earlier_versions() {
    let site = Site::start(Habits { unpublished: true, ..OLD }).await;
    let world = World::new();
    let (completed, ..) = sign_in(&world, &site, "", LoginOptions::default()).await;
    assert_eq!(completed, Ok(()));
    assert_eq!(token_in_use(&world, &site).await, "Bearer token-1");
}

#[tokio::test]
async fn a_login_adds_the_scopes_that_a_call_lacks() {
    let site = Site::start(MODERN).await;
    let world = World::new();
    sign_in(&world, &site, "", LoginOptions::default()).await.0.unwrap();
    let (servers, mut reports) = world.join(&site.table(""));
    reports.until("test", Ready).await;
    let error = soon(servers.call(call("write", json!({})))).await.unwrap_err();
    assert_eq!(error, CallError::MissingScopes(vec!["write".to_owned()]));

    let login = soon(servers.login("test")).await.unwrap();
    assert!(login.authorization_url.contains("scope=write+a"), "{}", login.authorization_url);
    let browser = async {
        let (_, back, _) = browse(&login.authorization_url).await;
        browse(&back.unwrap()).await
    };
    let (completed, _) = soon(async { tokio::join!(login.completion, browser) }).await;
    completed.unwrap();
    let outcome = soon(servers.call(call("write", json!({})))).await.unwrap();
    assert_eq!(text(&outcome), "written");
}

#[tokio::test]
async fn a_call_with_a_revoked_token_requires_a_login() {
    let site = Site::start(MODERN).await;
    site.allow("mine");
    let world = World::with_environment(&[("TOKEN", "mine")]);
    store(&world, &site, json!({ "access_token": "mine" }));
    for (more, can_sign_in) in [("", true), ("bearer_token_env_var = 'TOKEN'", false)] {
        site.allow("mine");
        let (servers, mut reports) = world.join(&site.table(more));
        reports.until("test", Ready).await;
        site.revoke_all();
        let error = soon(servers.call(call("headers", json!({})))).await.unwrap_err();
        assert_eq!(error, CallError::NotSignedIn, "{more}");
        assert_eq!(soon(servers.login("test")).await.is_ok(), can_sign_in, "{more}");
    }
}

#[tokio::test]
async fn a_login_times_out_without_the_browser() {
    let site = Site::start(OLD).await;
    let world = World::new();
    let options = LoginOptions { scopes: None, timeout: Some(Duration::from_millis(50)) };
    let login = soon(world.pool.login(&table(&site.table("")), "test", options)).await.unwrap();
    let error = soon(login.completion).await.unwrap_err();
    assert_eq!(error.to_string(), "timed out waiting for OAuth callback");
}

#[tokio::test]
async fn a_denied_login_fails_and_unrelated_requests_are_ignored() {
    let site = Site::start(OLD).await;
    let world = World::new();
    let login =
        soon(world.pool.login(&table(&site.table("")), "test", LoginOptions::default())).await.unwrap();
    let url: url::Url = login.authorization_url.parse().unwrap();
    let back = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
    let visits = async {
        let other_path = browse(&back.replace("/callback", "/favicon.ico")).await.0;
        let wrong_state = browse(&format!("{back}?code=c&state=wrong")).await.0;
        let denial = browse(&format!("{back}?error=access_denied&error_description=<b>no</b>")).await;
        (other_path, wrong_state, denial)
    };
    let (completed, (other_path, wrong_state, denial)) =
        soon(async { tokio::join!(login.completion, visits) }).await;
    assert_eq!((other_path, wrong_state, denial.0), (404, 400, 400));
    assert!(denial.2.contains("&lt;b&gt;no&lt;/b&gt;"), "{}", denial.2);
    assert_eq!(completed.unwrap_err().to_string(), "OAuth provider returned `access_denied`: <b>no</b>");
}

#[tokio::test]
async fn a_login_without_oauth_support_is_an_error() {
    let world = World::new();
    let login = async |config: &str, name: &str| {
        let result = soon(world.pool.login(&table(config), name, LoginOptions::default())).await;
        result.err().unwrap()
    };
    assert_eq!(login("", "none").await.to_string(), "No MCP server named 'none' found.");
    let error = login(&server("test", "plain", ""), "test").await;
    assert_eq!(error, LoginError::NotHttp);
    assert_eq!(error.to_string(), "OAuth login is only supported for streamable HTTP servers.");

    let site = Site::start(Habits { unpublished: true, guarded: false, ..OLD }).await;
    let error = login(&site.table(""), "test").await;
    assert_eq!(
        error.to_string(),
        "failed to login to MCP server 'test': the server publishes no OAuth metadata"
    );
    assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::Unsupported);
    assert_eq!(
        auth_status(&world.pool, &site, "bearer_token_env_var = 'T'").await,
        McpAuthStatus::BearerToken
    );
    assert_eq!(auth_status(&world.pool, &site, "enabled = false").await, McpAuthStatus::Unsupported);
}

#[tokio::test]
async fn an_expired_token_is_renewed_before_use() {
    let site = Site::start(OLD).await;
    site.allow_refresh("mine");
    let world = World::new();
    store(
        &world,
        &site,
        json!({ "access_token": "stale", "expires_at": 1, "refresh_token": "mine", "scopes": ["s"] }),
    );
    assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::OAuth);
    assert_eq!(token_in_use(&world, &site).await, "Bearer token-1");
    let entry = stored(&world);
    assert_eq!((&entry["access_token"], &entry["refresh_token"]), (&json!("token-1"), &json!("refresh-1")));
    assert!(entry["expires_at"].as_u64().unwrap() > 1);
}

#[tokio::test]
async fn a_rejected_token_is_renewed_and_the_call_succeeds() {
    let site = Site::start(OLD).await;
    site.allow("first");
    site.allow_refresh("mine");
    let world = World::new();
    store(&world, &site, json!({ "access_token": "first", "refresh_token": "mine" }));
    let (servers, mut reports) = world.join(&site.table(""));
    reports.until("test", Ready).await;
    site.revoke_all();
    let outcome = soon(servers.call(call("headers", json!({})))).await.unwrap();
    assert!(text(&outcome).contains("Bearer token-1"));
}

#[tokio::test]
async fn two_programs_with_one_home_renew_once() {
    let site = Site::start(OLD).await;
    site.allow_refresh("mine");
    let one = World::new();
    let two = World::in_home_of(&one);
    store(&one, &site, json!({ "access_token": "stale", "expires_at": 1, "refresh_token": "mine" }));
    let tokens = soon(async { tokio::join!(token_in_use(&one, &site), token_in_use(&two, &site)) }).await;
    assert_eq!(tokens, (json!("Bearer token-1"), json!("Bearer token-1")));
    assert_eq!(site.web.count("POST", "/token"), 1);
}

#[tokio::test]
async fn a_login_with_a_rejected_refresh_token_is_removed() {
    let site = Site::start(OLD).await;
    let world = World::new();
    store(&world, &site, json!({ "access_token": "stale", "expires_at": 1, "refresh_token": "unknown" }));
    let (_servers, mut reports) = world.join(&site.table(""));
    let error = reports.until("test", Failed).await.error.unwrap();
    assert!(error.ends_with("not signed in"), "{error}");
    assert_eq!(auth_status(&world.pool, &site, "").await, McpAuthStatus::NotLoggedIn);
}

#[tokio::test]
async fn a_keyring_store_is_an_error() {
    let site = Site::start(OLD).await;
    let world = World::new();
    let mut table = table(&site.table(""));
    table.oauth.store = Some(codicil_config::CredentialsStore::Keyring);
    let result = soon(world.pool.login(&table, "test", LoginOptions::default())).await;
    assert!(result.err().unwrap().to_string().contains("\"keyring\" is not supported"));
}
