//! Accounts: `account/read`, `account/login/*`, `account/logout`, `account/rateLimits/*`, and the server's request for new
//! tokens.
//!
//! An API key is `apiKey` as a kind of login or account, but `apikey` as an [`AuthMode`].

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{RateLimitReachedType, RateLimitResetCreditsSummary, Secret, SpendControlLimitSnapshot, wire};

/// Returns the account that is signed in.
#[wire]
#[derive(Default)]
pub struct GetAccountParams {
    /// Refreshes the tokens first, even if they are still valid.
    #[serde(default)]
    pub refresh_token: bool,
}

/// The account, and whether the current provider needs one.
#[wire]
pub struct GetAccountResponse {
    /// Null when signed out, and always null if the provider needs no account.
    pub account: Option<Account>,
    /// Whether the current provider needs OpenAI credentials. False for local models, for example.
    pub requires_openai_auth: bool,
    /// Always null: requests of a workspace are not routed to another backend.
    #[since("0.166")]
    pub workspace_routing: Option<WorkspaceRouting>,
}

/// Starts a sign-in. API keys and tokens take effect immediately, the other two when the user has completed them.
/// `account/login/completed` reports the result in all cases.
#[wire(tag = "type", sparse)]
pub enum LoginAccountParams {
    /// With an API key, which is stored on disk. Any string is accepted; the key is not verified.
    ApiKey { api_key: Secret },
    /// In a browser on this machine, which is redirected to a local port of the server.
    Chatgpt {
        /// The product that the sign-in page shows. Has no effect: the page is that of the provider.
        #[since("0.166")]
        app_brand: Option<LoginAppBrand>,
        /// Has no effect, like the next: there is one page at the end of a sign-in.
        #[since("0.166")]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        codex_streamlined_login: bool,
        #[since("0.166")]
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        use_hosted_login_success_page: bool,
    },
    /// In any browser, by entering a code.
    ChatgptDeviceCode,
    /// With tokens that the client manages and refreshes on request. The server keeps them in memory only.
    #[experimental("account/login/start.chatgptAuthTokens")]
    ChatgptAuthTokens {
        access_token: Secret,
        /// Absent from older clients; it is also in the token.
        #[serde(default)]
        #[schemars(!default)]
        chatgpt_account_id: String,
        /// Takes precedence over the plan in the token.
        chatgpt_plan_type: Option<String>,
    },
    /// With a key of Amazon Bedrock. Refused: no provider here is Bedrock.
    #[since("0.166")]
    AmazonBedrock { api_key: Secret, region: String },
    /// With access keys of Amazon Bedrock. Refused too.
    #[since("0.166")]
    AmazonBedrockAccessKeys {
        access_key_id: String,
        secret_access_key: Secret,
        region: String,
        session_token: Option<Secret>,
    },
}

impl LoginAccountParams {
    /// Returns a sign-in in a browser on this machine.
    pub fn chatgpt() -> Self {
        Self::Chatgpt {
            app_brand: None,
            codex_streamlined_login: false,
            use_hosted_login_success_page: false,
        }
    }
}

/// The information that the user needs to complete the sign-in; none for kinds that are already complete.
#[wire(open, tag = "type")]
pub enum LoginAccountResponse {
    ApiKey,
    Chatgpt {
        login_id: String,
        /// The URL to open in a browser.
        auth_url: String,
    },
    ChatgptDeviceCode {
        login_id: String,
        verification_url: String,
        /// The code that the user enters there.
        user_code: String,
    },
    ChatgptAuthTokens,
    #[since("0.166")]
    AmazonBedrock,
}

/// Cancels a pending sign-in.
#[wire]
pub struct CancelLoginAccountParams {
    pub login_id: String,
}

/// Whether a sign-in was cancelled. Its end is reported by `account/login/completed`.
#[wire]
pub struct CancelLoginAccountResponse {
    pub status: CancelLoginAccountStatus,
}

/// The account is signed out. Succeeds also if none was signed in.
#[wire]
#[derive(Default)]
pub struct LogoutAccountResponse {}

/// The rate limits of a ChatGPT account. The request fails for API keys, which have none.
#[wire]
pub struct GetAccountRateLimitsResponse {
    /// The main limit.
    pub rate_limits: RateLimitSnapshot,
    /// All limits by id, including the main one.
    pub rate_limits_by_limit_id: Option<BTreeMap<String, RateLimitSnapshot>>,
    /// Not reported by the provider's interface that this server uses, like the members below.
    #[omit]
    #[since("0.166")]
    pub account_id: Option<String>,
    #[omit]
    #[since("0.166")]
    pub ordinary_usage_allowed: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub rate_limit_reset_credits: Option<RateLimitResetCreditsSummary>,
    #[omit]
    #[since("0.166")]
    pub rate_limit_upsell: Option<Value>,
}

/// Asks for new tokens, because those of a [`LoginAccountParams::ChatgptAuthTokens`] sign-in were rejected. An error
/// response fails the turn.
#[wire]
pub struct ChatgptAuthTokensRefreshParams {
    pub reason: ChatgptAuthTokensRefreshReason,
    /// The account of the rejected tokens, for clients with several accounts.
    #[omit]
    pub previous_account_id: Option<String>,
}

/// The new tokens, with which the rejected request is repeated.
#[wire(sparse)]
pub struct ChatgptAuthTokensRefreshResponse {
    pub access_token: Secret,
    pub chatgpt_account_id: String,
    /// Takes precedence over the plan in the token.
    pub chatgpt_plan_type: Option<String>,
}

/// The account in use. A sign-in with tokens of the client is also a `Chatgpt` account.
#[wire(open, tag = "type")]
pub enum Account {
    ApiKey,
    Chatgpt {
        #[in_166(Option<String>, required)]
        email: String,
        plan_type: PlanType,
        /// Never set: the tokens do not name the workspace.
        #[omit]
        #[since("0.166")]
        workspace_name: Option<String>,
    },
    #[since("0.166")]
    AmazonBedrock {
        #[serde(default)]
        uses_codex_managed_credentials: bool,
    },
    #[since("0.166")]
    Gcp,
}

/// The ChatGPT plan of an account.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum PlanType {
    Free,
    Go,
    Plus,
    #[since("0.166")]
    Prolite,
    Pro,
    #[since("0.166")]
    Promax,
    Team,
    SelfServeBusinessUsageBased,
    #[since("0.166")]
    SelfServeBusinessProlite,
    Business,
    EnterpriseCbpUsageBased,
    #[since("0.166")]
    EnterpriseCbpAutomation,
    Enterprise,
    #[since("0.166")]
    Ent26,
    Edu,
    #[since("0.166")]
    EduPlus,
    #[since("0.166")]
    EduPro,
    #[since("0.166")]
    Sci,
    #[since("0.166")]
    SciPlus,
    /// A plan that the server does not know.
    Unknown,
}

/// The result of cancelling a sign-in.
#[wire(open)]
#[derive(Eq)]
pub enum CancelLoginAccountStatus {
    Canceled,
    /// The sign-in had already ended or does not exist.
    NotFound,
}

/// The state of one rate limit. Values that the provider did not report are null or absent.
#[wire]
#[derive(Default)]
pub struct RateLimitSnapshot {
    pub limit_id: Option<String>,
    pub limit_name: Option<String>,
    /// The first of up to two simultaneous windows, usually the shorter one.
    pub primary: Option<RateLimitWindow>,
    pub secondary: Option<RateLimitWindow>,
    pub credits: Option<CreditsSnapshot>,
    pub plan_type: Option<PlanType>,
    /// Not reported by the provider's interface that this server uses, like the members below.
    #[omit]
    #[since("0.166")]
    pub individual_limit: Option<SpendControlLimitSnapshot>,
    #[omit]
    #[since("0.166")]
    pub normal_model_slug: Option<String>,
    #[omit]
    #[since("0.166")]
    pub rate_limit_reached_type: Option<RateLimitReachedType>,
    #[omit]
    #[since("0.166")]
    pub spend_control_reached: Option<bool>,
}

/// The usage of one window of a rate limit.
#[wire]
pub struct RateLimitWindow {
    /// The used share, rounded to whole percent.
    pub used_percent: i32,
    pub window_duration_mins: Option<i64>,
    /// Unix seconds.
    pub resets_at: Option<i64>,
}

/// Credits that were bought in addition to the plan.
#[wire]
pub struct CreditsSnapshot {
    pub has_credits: bool,
    pub unlimited: bool,
    /// A decimal number, as formatted by the provider.
    pub balance: Option<String>,
}

/// The reason for a token refresh.
#[wire(open)]
#[derive(Eq)]
pub enum ChatgptAuthTokensRefreshReason {
    /// The provider responded with status 401.
    Unauthorized,
}

/// The kind of credentials in use.
#[wire(open)]
#[derive(Eq)]
pub enum AuthMode {
    Apikey,
    /// Tokens that the server obtained and refreshes.
    Chatgpt,
    /// Tokens that the client supplies.
    ChatgptAuthTokens,
    #[since("0.166")]
    Headers,
    #[since("0.166")]
    AgentIdentity,
    #[since("0.166")]
    PersonalAccessToken,
    #[since("0.166")]
    BedrockApiKey,
    #[since("0.166")]
    BedrockAccessKeys,
}

/// The only sign-in method that the configuration permits.
#[wire(open)]
#[derive(Eq)]
pub enum ForcedLoginMethod {
    Chatgpt,
    Api,
}

/// The active account changed. Sent to all connections.
#[wire]
pub struct AccountUpdatedNotification {
    /// Null after a sign-out.
    pub auth_mode: Option<AuthMode>,
    pub plan_type: Option<PlanType>,
}

/// The rate limits changed. Reported by the provider with its responses.
#[wire]
pub struct AccountRateLimitsUpdatedNotification {
    pub rate_limits: RateLimitSnapshot,
}

/// A sign-in ended. Sent to all connections; `account/updated` follows on success.
#[wire]
pub struct AccountLoginCompletedNotification {
    /// Null for sign-ins without an id: API keys and tokens of the client.
    pub login_id: Option<String>,
    pub success: bool,
    pub error: Option<String>,
    /// Always null: only the desktop app of OpenAI has entry points.
    #[since("0.166")]
    pub onboarding_entrypoint: Option<DesktopOnboardingEntrypoint>,
}

/// The product that a sign-in page shows.
#[wire(open)]
#[derive(Eq)]
pub enum LoginAppBrand {
    Codex,
    Chatgpt,
}

/// The page from which a user came to the sign-in.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum DesktopOnboardingEntrypoint {
    LifeSciences,
}

/// The backend of a workspace.
#[wire]
pub struct WorkspaceRouting {
    pub chatgpt_account_id: String,
    pub account_routing_override: AccountRoutingOverride,
    pub backend_origin: String,
}

/// The region of a backend.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum AccountRoutingOverride {
    #[serde(rename = "NO_CONSTRAINT")]
    NoConstraint,
    Us,
    UsCr,
}
