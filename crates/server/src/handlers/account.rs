//! `account/*`.

use std::{sync::Arc, time::Duration};

use codicil_accounts::{
    AccountError, ExternalTokens, LoginAttempt, LoginInvitation, SignedIn, TokenSource, TokenUpdate,
};
use codicil_engine::ThreadClients;
use codicil_protocol::{
    AccountLoginCompleted, AccountLoginCompletedNotification, AccountUpdated,
    BedrockCheckGovCloudRequirementsParams, BedrockCheckGovCloudRequirementsResponse,
    CancelLoginAccountParams, CancelLoginAccountResponse, ChatgptAuthTokensRefresh,
    ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, Frame, GetAccountParams,
    GetAccountRateLimitsResponse, GetAccountResponse, LoginAccountParams, LoginAccountResponse,
    LogoutAccountResponse, NoParams,
};
use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::timeout;

use crate::{
    clients::{ClientId, ClientRegistry},
    cx::Cx,
    error::RpcError,
};

/// How long a client may take to find new tokens. A turn waits for it.
const REFRESH_TIME: Duration = Duration::from_secs(10);

pub async fn read(cx: Cx, params: GetAccountParams) -> Result<GetAccountResponse, RpcError> {
    let update = if params.refresh_token { TokenUpdate::Forced } else { TokenUpdate::WhenNeeded };
    Ok(cx.accounts().read(update).await?)
}

/// A key and tokens are in force with the answer; the other two kinds go on until their person is done.
pub async fn login_start(cx: Cx, params: LoginAccountParams) -> Result<LoginAccountResponse, RpcError> {
    match params {
        LoginAccountParams::ApiKey { api_key } => {
            cx.accounts().sign_in_with_key(api_key).await?;
            tell_signed_in(&cx).await;
            Ok(LoginAccountResponse::ApiKey)
        }
        LoginAccountParams::ChatgptAuthTokens { access_token, chatgpt_account_id, chatgpt_plan_type } => {
            let tokens =
                ExternalTokens { access_token, account_id: chatgpt_account_id, plan: chatgpt_plan_type };
            let source = AskForTokens { giver: cx.client.id, clients: cx.clients().clone() };
            cx.accounts().sign_in_with_tokens(tokens, Arc::new(source)).await?;
            tell_signed_in(&cx).await;
            Ok(LoginAccountResponse::ChatgptAuthTokens)
        }
        LoginAccountParams::Chatgpt => Ok(follow(&cx, cx.accounts().sign_in_with_browser().await?)),
        LoginAccountParams::ChatgptDeviceCode => Ok(follow(&cx, cx.accounts().sign_in_with_code().await?)),
    }
}

pub async fn login_cancel(
    cx: Cx,
    params: CancelLoginAccountParams,
) -> Result<CancelLoginAccountResponse, RpcError> {
    Ok(CancelLoginAccountResponse { status: cx.accounts().cancel_login(&params.login_id)? })
}

/// Everyone is told, also when nobody had been signed in.
pub async fn logout(cx: Cx, _params: NoParams) -> Result<LogoutAccountResponse, RpcError> {
    cx.accounts().sign_out().await?;
    let now = cx.accounts().current().await;
    let clients = cx.clients().clone();
    cx.after_answer(move || tell_updated(&clients, now.as_ref()));
    Ok(LogoutAccountResponse {})
}

pub async fn rate_limits_read(cx: Cx, _params: NoParams) -> Result<GetAccountRateLimitsResponse, RpcError> {
    Ok(cx.accounts().rate_limits().await?)
}

/// Has everyone told, after the answer, that somebody signed in.
async fn tell_signed_in(cx: &Cx) {
    let now = cx.accounts().current().await;
    let clients = cx.clients().clone();
    cx.after_answer(move || {
        tell_completed(&clients, None, Ok(()));
        tell_updated(&clients, now.as_ref());
    });
}

/// What to show to the person. The sign-in is waited for once the answer is on its way.
fn follow(cx: &Cx, login: LoginAttempt) -> LoginAccountResponse {
    let id = login.id().to_string();
    let response = match login.invitation() {
        LoginInvitation::Browser { auth_url } => {
            LoginAccountResponse::Chatgpt { login_id: id.clone(), auth_url }
        }
        LoginInvitation::Device { verification_url, user_code } => {
            LoginAccountResponse::ChatgptDeviceCode { login_id: id.clone(), verification_url, user_code }
        }
    };
    let (accounts, clients) = (cx.accounts().clone(), cx.clients().clone());
    cx.after_answer(move || {
        let current = accounts.clone();
        accounts.follow(login, async move |ended| {
            let succeeded = ended.is_ok();
            tell_completed(&clients, Some(id), ended);
            if succeeded {
                tell_updated(&clients, current.current().await.as_ref());
            }
        });
    });
    response
}

fn tell_completed(clients: &ClientRegistry, login_id: Option<String>, ended: Result<(), String>) {
    let params = AccountLoginCompletedNotification { login_id, success: ended.is_ok(), error: ended.err() };
    clients.tell_all(&Frame::notification::<AccountLoginCompleted>(&params));
}

fn tell_updated(clients: &ClientRegistry, now: Option<&SignedIn>) {
    clients.tell_all(&Frame::notification::<AccountUpdated>(&SignedIn::updated(now)));
}

/// The client that gave tokens, asked for others.
struct AskForTokens {
    giver: ClientId,
    clients: ClientRegistry,
}

impl TokenSource for AskForTokens {
    fn fresh(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> BoxFuture<'_, Result<ChatgptAuthTokensRefreshResponse, String>> {
        async move {
            let encode = |id: &_| Frame::request::<ChatgptAuthTokensRefresh>(id, &params);
            let question = self.clients.ask_client(self.giver, &encode);
            let question = question.ok_or("auth refresh request canceled: no client is connected")?;
            let answer = match timeout(REFRESH_TIME, question.answer).await {
                Err(_) => Err(format!("auth refresh request timed out after {}s", REFRESH_TIME.as_secs())),
                Ok(Err(_)) => Err("auth refresh request canceled: the server is ending".to_owned()),
                Ok(Ok(Err(error))) => {
                    Err(format!("auth refresh request failed: code={} message={}", error.code, error.message))
                }
                Ok(Ok(Ok(answer))) => Ok(answer),
            }?;
            // A parser's own words may quote the token.
            serde_json::from_str(answer.get()).map_err(|_| "invalid auth refresh response".to_owned())
        }
        .boxed()
    }
}

/// Nothing here signs in to Bedrock.
pub async fn bedrock_check_gov_cloud_requirements(
    _cx: Cx,
    _params: BedrockCheckGovCloudRequirementsParams,
) -> Result<BedrockCheckGovCloudRequirementsResponse, RpcError> {
    Ok(BedrockCheckGovCloudRequirementsResponse { is_gov_cloud: false, should_warn: false })
}

impl From<AccountError> for RpcError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::ExternalActive
            | AccountError::KeysDisabled
            | AccountError::ChatgptDisabled
            | AccountError::ExternalDisabled
            | AccountError::OtherWorkspace { .. }
            | AccountError::LoginId(_)
            | AccountError::NoEmail
            | AccountError::NotSignedIn
            | AccountError::NotChatgpt => Self::invalid_request(error),
            AccountError::Token(_)
            | AccountError::Callback(_)
            | AccountError::Issuer(_)
            | AccountError::DeviceCode(_)
            | AccountError::Save(_)
            | AccountError::SignOut(_)
            | AccountError::RateLimits(_)
            | AccountError::Config(_) => Self::internal(error),
        }
    }
}
