//! `account/*`.

use std::{sync::Arc, time::Duration};

use codicil_accounts::{ExternalTokens, LoginAttempt, LoginInvitation, SignedIn, TokenSource, TokenUpdate};
use codicil_config::ConfigQuery;
use codicil_engine::{ThreadClients, provider_config};
use codicil_protocol::{
    AccountLoginCompleted, AccountLoginCompletedNotification, AccountUpdated,
    BedrockCheckGovCloudRequirementsParams, BedrockCheckGovCloudRequirementsResponse, BedrockDiscoverParams,
    BedrockDiscoverResponse, BedrockSetupParams, BedrockSetupResponse, CancelLoginAccountParams,
    CancelLoginAccountResponse, ChatgptAuthTokensRefresh, ChatgptAuthTokensRefreshParams,
    ChatgptAuthTokensRefreshResponse, ConsumeAccountRateLimitResetCreditParams,
    ConsumeAccountRateLimitResetCreditResponse, Frame, GatewayOAuthCancelResponse, GatewayOAuthLoginResponse,
    GatewayOAuthReadResponse, GcpSetupParams, GcpSetupResponse, GetAccountParams, GetAccountRateLimitsParams,
    GetAccountRateLimitsResponse, GetAccountResponse, GetAccountTokenUsageParams,
    GetAccountTokenUsageResponse, GetWorkspaceMessagesResponse, LoginAccountParams, LoginAccountResponse,
    LogoutAccountResponse, NoParams, SendAddCreditsNudgeEmailParams, SendAddCreditsNudgeEmailResponse,
};
use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::timeout;

use crate::{
    background::blocking,
    clients::{ClientId, ClientRegistry},
    cx::Cx,
    error::RpcError,
    refusals::ServiceRefusal,
};

/// How long a client may take to refresh its tokens. A turn waits for them.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn read(cx: Cx, params: GetAccountParams) -> Result<GetAccountResponse, RpcError> {
    let update = if params.refresh_token { TokenUpdate::Forced } else { TokenUpdate::WhenNeeded };
    Ok(cx.accounts().read(update).await?)
}

/// Starts a sign-in. An API key or tokens are active with the response; the other two kinds wait for the user.
pub async fn login_start(cx: Cx, params: LoginAccountParams) -> Result<LoginAccountResponse, RpcError> {
    match params {
        LoginAccountParams::ApiKey { api_key } => {
            cx.accounts().sign_in_with_key(api_key).await?;
            notify_signed_in(&cx).await;
            Ok(LoginAccountResponse::ApiKey)
        }
        LoginAccountParams::ChatgptAuthTokens { access_token, chatgpt_account_id, chatgpt_plan_type } => {
            let tokens =
                ExternalTokens { access_token, account_id: chatgpt_account_id, plan: chatgpt_plan_type };
            let source = ClientTokens { client_id: cx.client.id, clients: cx.clients().clone() };
            cx.accounts().sign_in_with_tokens(tokens, Arc::new(source)).await?;
            notify_signed_in(&cx).await;
            Ok(LoginAccountResponse::ChatgptAuthTokens)
        }
        LoginAccountParams::Chatgpt { .. } => {
            let login = cx.accounts().sign_in_with_browser().await?;
            Ok(follow_login(&cx, login))
        }
        LoginAccountParams::AmazonBedrock { .. } | LoginAccountParams::AmazonBedrockAccessKeys { .. } => {
            Err(ServiceRefusal::NoBedrock.into())
        }
        LoginAccountParams::ChatgptDeviceCode => {
            let login = cx.accounts().sign_in_with_code().await?;
            Ok(follow_login(&cx, login))
        }
    }
}

pub async fn login_cancel(
    cx: Cx,
    params: CancelLoginAccountParams,
) -> Result<CancelLoginAccountResponse, RpcError> {
    Ok(CancelLoginAccountResponse { status: cx.accounts().cancel_login(&params.login_id)? })
}

/// Signs out and notifies every client, even if there was no account.
pub async fn logout(cx: Cx, _params: NoParams) -> Result<LogoutAccountResponse, RpcError> {
    cx.accounts().sign_out().await?;
    let account = cx.accounts().current().await;
    let clients = cx.clients().clone();
    cx.after_response(move || notify_updated(&clients, account.as_ref()));
    Ok(LogoutAccountResponse {})
}

pub async fn rate_limits_read(
    cx: Cx,
    _params: GetAccountRateLimitsParams,
) -> Result<GetAccountRateLimitsResponse, RpcError> {
    Ok(cx.accounts().rate_limits().await?)
}

pub async fn usage_read(
    cx: Cx,
    _params: GetAccountTokenUsageParams,
) -> Result<GetAccountTokenUsageResponse, RpcError> {
    Err(ServiceRefusal::account(&cx, "to read token usage", "account/usage/read").await.into())
}

pub async fn workspace_messages_read(
    cx: Cx,
    _params: NoParams,
) -> Result<GetWorkspaceMessagesResponse, RpcError> {
    let method = "account/workspaceMessages/read";
    Err(ServiceRefusal::account(&cx, "to read workspace messages", method).await.into())
}

pub async fn rate_limit_reset_credit_consume(
    cx: Cx,
    params: ConsumeAccountRateLimitResetCreditParams,
) -> Result<ConsumeAccountRateLimitResetCreditResponse, RpcError> {
    if params.idempotency_key.is_empty() {
        return Err(ServiceRefusal::EmptyIdempotencyKey.into());
    }
    let method = "account/rateLimitResetCredit/consume";
    Err(ServiceRefusal::account(&cx, "for rate limit reset credits", method).await.into())
}

pub async fn send_add_credits_nudge_email(
    cx: Cx,
    _params: SendAddCreditsNudgeEmailParams,
) -> Result<SendAddCreditsNudgeEmailResponse, RpcError> {
    let method = "account/sendAddCreditsNudgeEmail";
    Err(ServiceRefusal::account(&cx, "to notify workspace owner", method).await.into())
}

/// Returns the configured provider. None of this server's providers signs in through a gateway.
pub async fn gateway_o_auth_read(cx: Cx, _params: NoParams) -> Result<GatewayOAuthReadResponse, RpcError> {
    let engine = cx.threads().engine().clone();
    let (provider_id, name) = blocking(move || {
        let config = engine.config.load(&ConfigQuery::at(&engine.cwd))?;
        let id = engine.provider_id(&config);
        let name = provider_config(&id, &config).ok().and_then(|provider| provider.name);
        Ok::<_, RpcError>((id, name))
    })
    .await?;
    Ok(GatewayOAuthReadResponse {
        provider_name: name.unwrap_or_else(|| provider_id.clone()),
        provider_id,
        required: false,
        status: None,
        error: None,
    })
}

pub async fn gateway_o_auth_login(_cx: Cx, _params: NoParams) -> Result<GatewayOAuthLoginResponse, RpcError> {
    Err(ServiceRefusal::NoGatewaySignIn.into())
}

/// Cancels a sign-in through a gateway. There is never one under way, so there is nothing to do.
pub async fn gateway_o_auth_cancel(
    _cx: Cx,
    _params: NoParams,
) -> Result<GatewayOAuthCancelResponse, RpcError> {
    Ok(GatewayOAuthCancelResponse {})
}

/// Finds no credentials: this server has no provider that would use them.
pub async fn bedrock_discover(
    _cx: Cx,
    _params: BedrockDiscoverParams,
) -> Result<BedrockDiscoverResponse, RpcError> {
    Ok(BedrockDiscoverResponse { environment_credentials: Vec::new(), profiles: Vec::new() })
}

pub async fn bedrock_setup(_cx: Cx, _params: BedrockSetupParams) -> Result<BedrockSetupResponse, RpcError> {
    Err(ServiceRefusal::NoBedrock.into())
}

pub async fn gcp_setup(_cx: Cx, _params: GcpSetupParams) -> Result<GcpSetupResponse, RpcError> {
    Err(ServiceRefusal::GoogleCloud.into())
}

/// Responds that there are no such requirements: this server has no sign-in for Bedrock.
pub async fn bedrock_check_gov_cloud_requirements(
    _cx: Cx,
    _params: BedrockCheckGovCloudRequirementsParams,
) -> Result<BedrockCheckGovCloudRequirementsResponse, RpcError> {
    Ok(BedrockCheckGovCloudRequirementsResponse { is_gov_cloud: false, should_warn: false })
}

/// Notifies every client of a completed sign-in, after the response.
async fn notify_signed_in(cx: &Cx) {
    let account = cx.accounts().current().await;
    let clients = cx.clients().clone();
    cx.after_response(move || {
        notify_completed(&clients, None, Ok(()));
        notify_updated(&clients, account.as_ref());
    });
}

/// Returns what the client shows to the user, and waits for the user after the response.
fn follow_login(cx: &Cx, login: LoginAttempt) -> LoginAccountResponse {
    let login_id = login.id().to_string();
    let response = match login.invitation() {
        LoginInvitation::Browser { auth_url } => {
            LoginAccountResponse::Chatgpt { login_id: login_id.clone(), auth_url }
        }
        LoginInvitation::Device { verification_url, user_code } => LoginAccountResponse::ChatgptDeviceCode {
            login_id: login_id.clone(),
            verification_url,
            user_code,
        },
    };
    let accounts = cx.accounts().clone();
    let clients = cx.clients().clone();
    cx.after_response(move || {
        let signed_in = accounts.clone();
        accounts.follow(login, async move |outcome| {
            let is_signed_in = outcome.is_ok();
            notify_completed(&clients, Some(login_id), outcome);
            if is_signed_in {
                notify_updated(&clients, signed_in.current().await.as_ref());
            }
        });
    });
    response
}

fn notify_completed(clients: &ClientRegistry, login_id: Option<String>, outcome: Result<(), String>) {
    let params = AccountLoginCompletedNotification {
        login_id,
        success: outcome.is_ok(),
        error: outcome.err(),
        onboarding_entrypoint: None,
    };
    clients.notify_all(&Frame::notification::<AccountLoginCompleted>(&params));
}

fn notify_updated(clients: &ClientRegistry, account: Option<&SignedIn>) {
    clients.notify_all(&Frame::notification::<AccountUpdated>(&SignedIn::updated(account)));
}

/// Asks the client that supplied the tokens for fresh ones, or every client if that one has disconnected.
struct ClientTokens {
    client_id: ClientId,
    clients: ClientRegistry,
}

impl TokenSource for ClientTokens {
    fn fresh(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> BoxFuture<'_, Result<ChatgptAuthTokensRefreshResponse, String>> {
        async move {
            let encode = |id: &_| Frame::request::<ChatgptAuthTokensRefresh>(id, &params);
            let question = self.clients.ask_client(self.client_id, &encode);
            let question = question.ok_or("auth refresh request canceled: no client is connected")?;
            let reply = timeout(REFRESH_TIMEOUT, question.answer).await.map_err(|_| {
                format!("auth refresh request timed out after {}s", REFRESH_TIMEOUT.as_secs())
            })?;
            let reply = reply.map_err(|_| "auth refresh request canceled: the server is ending")?;
            let tokens = reply.reply.map_err(|error| {
                format!("auth refresh request failed: code={} message={}", error.code, error.message)
            })?;
            // The message of the parser may quote a token.
            serde_json::from_str(tokens.get()).map_err(|_| "invalid auth refresh response".to_owned())
        }
        .boxed()
    }
}
