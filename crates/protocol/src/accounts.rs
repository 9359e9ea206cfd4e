//! Who pays for the model: `account/read`, `account/login/*`, `account/logout`, `account/rateLimits/*`,
//! and the server's request for fresh tokens. An API key is `apiKey` as a kind of login or account, but
//! `apikey` as an [`AuthMode`].

use std::collections::BTreeMap;

use crate::{Secret, wire};

/// Asks who is signed in.
#[wire]
#[derive(Default)]
pub struct GetAccountParams {
    /// Exchanges the tokens for new ones first, even if they are still good.
    #[serde(default)]
    pub refresh_token: bool,
}

/// Who is signed in, and whether that matters to the provider in use.
#[wire]
pub struct GetAccountResponse {
    /// Null when nobody is, and always null when the provider needs no such account.
    pub account: Option<Account>,
    /// Whether the provider in use wants credentials of OpenAI. False for local models, for example.
    pub requires_openai_auth: bool,
}

/// The ways to sign in. A key or tokens are in force at once, the other two when their person is done;
/// `account/login/completed` tells in all cases.
#[wire(tag = "type", sparse)]
pub enum LoginAccountParams {
    /// Kept on disk. It is not tried out: any string is taken.
    ApiKey { api_key: Secret },
    /// In a browser on this machine, which comes back to a port that the server listens on.
    Chatgpt,
    /// In any browser, by typing a code.
    ChatgptDeviceCode,
    /// With tokens that the client obtained and will renew when asked; the server keeps them in memory
    /// only.
    #[experimental("account/login/start.chatgptAuthTokens")]
    ChatgptAuthTokens {
        access_token: Secret,
        /// Clients of an earlier generation leave it out; it is in the token.
        #[serde(default)]
        #[schemars(!default)]
        chatgpt_account_id: String,
        /// Counts before the plan named in the token.
        chatgpt_plan_type: Option<String>,
    },
}

/// What to show to the person who signs in; nothing for the kinds that are done already.
#[wire(open, tag = "type")]
pub enum LoginAccountResponse {
    ApiKey,
    Chatgpt {
        login_id: String,
        /// For the client to open in a browser.
        auth_url: String,
    },
    ChatgptDeviceCode {
        login_id: String,
        verification_url: String,
        /// What the person types at that address.
        user_code: String,
    },
    ChatgptAuthTokens,
}

/// Names the sign-in to give up, one that still waits for its person.
#[wire]
pub struct CancelLoginAccountParams {
    pub login_id: String,
}

/// Whether there was anything to give up; the end itself is told by `account/login/completed`.
#[wire]
pub struct CancelLoginAccountResponse {
    pub status: CancelLoginAccountStatus,
}

/// Nobody is signed in any more, whoever was before.
#[wire]
#[derive(Default)]
pub struct LogoutAccountResponse {}

/// The quotas of a ChatGPT account. An API key has none, and asking with one is an error.
#[wire]
pub struct GetAccountRateLimitsResponse {
    /// The main quota.
    pub rate_limits: RateLimitSnapshot,
    /// Every quota under its id, that one included.
    pub rate_limits_by_limit_id: Option<BTreeMap<String, RateLimitSnapshot>>,
}

/// Sent by the server when the tokens of a [`LoginAccountParams::ChatgptAuthTokens`] sign-in were refused.
/// A client that answers with an error fails the turn.
#[wire]
pub struct ChatgptAuthTokensRefreshParams {
    pub reason: ChatgptAuthTokensRefreshReason,
    /// The account of the refused tokens, for clients that hold several.
    #[omit]
    pub previous_account_id: Option<String>,
}

/// The new tokens. The refused request is sent again with them.
#[wire(sparse)]
pub struct ChatgptAuthTokensRefreshResponse {
    pub access_token: Secret,
    pub chatgpt_account_id: String,
    /// Counts before the plan named in the token.
    pub chatgpt_plan_type: Option<String>,
}

/// The account in use. Signing in with one's own tokens also makes a `Chatgpt` account.
#[wire(open, tag = "type")]
pub enum Account {
    ApiKey,
    Chatgpt { email: String, plan_type: PlanType },
}

/// What an account subscribes to at ChatGPT.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum PlanType {
    Free,
    Go,
    Plus,
    Pro,
    Team,
    SelfServeBusinessUsageBased,
    Business,
    EnterpriseCbpUsageBased,
    Enterprise,
    Edu,
    /// One that the server could not make out.
    Unknown,
}

/// How an attempt to give up a sign-in went.
#[wire(open)]
#[derive(Eq)]
pub enum CancelLoginAccountStatus {
    Canceled,
    /// It had ended already, or never was.
    NotFound,
}

/// The state of one quota. Whatever the provider did not tell is null.
#[wire]
pub struct RateLimitSnapshot {
    pub limit_id: Option<String>,
    pub limit_name: Option<String>,
    /// Two windows may count at the same time; this one is usually the shorter.
    pub primary: Option<RateLimitWindow>,
    pub secondary: Option<RateLimitWindow>,
    pub credits: Option<CreditsSnapshot>,
    pub plan_type: Option<PlanType>,
}

/// How much of the allowance of one stretch of time is gone.
#[wire]
pub struct RateLimitWindow {
    /// Rounded to whole percent.
    pub used_percent: i32,
    pub window_duration_mins: Option<i64>,
    /// Unix seconds.
    pub resets_at: Option<i64>,
}

/// What was paid for beyond the plan.
#[wire]
pub struct CreditsSnapshot {
    pub has_credits: bool,
    pub unlimited: bool,
    /// A decimal number as the provider writes it.
    pub balance: Option<String>,
}

/// Why the server wants other tokens.
#[wire(open)]
#[derive(Eq)]
pub enum ChatgptAuthTokensRefreshReason {
    /// The provider answered 401.
    Unauthorized,
}

/// Which kind of credentials requests carry.
#[wire(open)]
#[derive(Eq)]
pub enum AuthMode {
    Apikey,
    /// Tokens that the server obtained and renews.
    Chatgpt,
    /// Tokens that the client supplies.
    ChatgptAuthTokens,
}

/// The only way of signing in that the configuration permits.
#[wire(open)]
#[derive(Eq)]
pub enum ForcedLoginMethod {
    Chatgpt,
    Api,
}

/// Tells every connection that another way of signing in is in force, or none.
#[wire]
pub struct AccountUpdatedNotification {
    /// Null after signing out.
    pub auth_mode: Option<AuthMode>,
    pub plan_type: Option<PlanType>,
}

/// Carries what the provider says about the quota beside its answers.
#[wire]
pub struct AccountRateLimitsUpdatedNotification {
    pub rate_limits: RateLimitSnapshot,
}

/// Tells every connection how a sign-in ended; when it succeeded, `account/updated` follows.
#[wire]
pub struct AccountLoginCompletedNotification {
    /// Null for the kinds of sign-in that have no id: a key, the client's own tokens.
    pub login_id: Option<String>,
    pub success: bool,
    pub error: Option<String>,
}
