//! Usage of an account: `account/usage/read`, `account/workspaceMessages/read`, and credits that reset rate limits.

use crate::{ThreadId, wire};

/// Returns the token usage of the account.
#[wire(sparse)]
#[derive(Default)]
pub struct GetAccountTokenUsageParams {
    /// Adds the usage of this thread.
    pub thread_id: Option<ThreadId>,
}

/// The token usage of the account.
#[wire]
pub struct GetAccountTokenUsageResponse {
    pub summary: AccountTokenUsageSummary,
    pub daily_usage_buckets: Option<Vec<AccountTokenUsageDailyBucket>>,
    pub thread_usage: Option<ThreadUsage>,
}

/// The usage of all time.
#[wire]
pub struct AccountTokenUsageSummary {
    pub current_streak_days: Option<i64>,
    pub lifetime_tokens: Option<i64>,
    pub longest_running_turn_sec: Option<i64>,
    pub longest_streak_days: Option<i64>,
    pub peak_daily_tokens: Option<i64>,
}

/// The usage of one day.
#[wire]
pub struct AccountTokenUsageDailyBucket {
    /// Such as `2026-10-29`.
    pub start_date: String,
    pub tokens: i64,
}

/// The usage of a thread.
#[wire]
pub struct ThreadUsage {
    pub thread_id: ThreadId,
    pub estimated_usage_credits_micros: i64,
    pub groups: Vec<ThreadUsageBreakdownGroup>,
    pub estimated_usage_usd_micros: Option<i64>,
    pub native_usage_usd_micros: Option<i64>,
}

/// The usage of a thread with one model.
#[wire]
pub struct ThreadUsageBreakdownGroup {
    pub estimated_usage_credits_micros: i64,
    pub cached_input_tokens: Option<i64>,
    pub input_tokens: Option<i64>,
    pub model: Option<String>,
    pub net_new_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_effort: Option<String>,
    pub speed: Option<String>,
    pub total_tokens: Option<i64>,
}

/// Selects what is returned besides the rate limits.
#[wire]
#[derive(Default)]
pub struct GetAccountRateLimitsParams {
    #[serde(default)]
    pub exclude_reset_credit_details: bool,
    #[serde(default)]
    pub supports_luna_reserve: bool,
}

/// Messages of the administrators of a workspace.
#[wire]
pub struct GetWorkspaceMessagesResponse {
    pub feature_enabled: bool,
    pub messages: Vec<WorkspaceMessage>,
}

/// A message to the members of a workspace.
#[wire]
pub struct WorkspaceMessage {
    pub message_id: String,
    pub message_body: String,
    pub message_type: WorkspaceMessageType,
    /// Unix seconds.
    pub archived_at: Option<i64>,
    /// Unix seconds.
    pub created_at: Option<i64>,
}

/// Where a client shows a message.
#[wire(open)]
#[derive(Eq)]
pub enum WorkspaceMessageType {
    Headline,
    Announcement,
    Unknown,
}

/// Uses a credit to reset the rate limits.
#[wire(sparse)]
pub struct ConsumeAccountRateLimitResetCreditParams {
    /// A repetition with the same key uses no second credit.
    pub idempotency_key: String,
    pub credit_id: Option<String>,
}

/// What became of the credit.
#[wire]
pub struct ConsumeAccountRateLimitResetCreditResponse {
    pub outcome: ConsumeAccountRateLimitResetCreditOutcome,
}

/// What became of a credit.
#[wire(open)]
#[derive(Eq)]
pub enum ConsumeAccountRateLimitResetCreditOutcome {
    Reset,
    NothingToReset,
    NoCredit,
    AlreadyRedeemed,
}

/// The credits with which rate limits can be reset.
#[wire]
pub struct RateLimitResetCreditsSummary {
    pub available_count: i64,
    pub credits: Option<Vec<RateLimitResetCredit>>,
}

/// A credit.
#[wire]
pub struct RateLimitResetCredit {
    pub id: String,
    /// Unix seconds.
    pub granted_at: i64,
    pub reset_type: RateLimitResetType,
    pub status: RateLimitResetCreditStatus,
    pub description: Option<String>,
    /// Unix seconds.
    pub expires_at: Option<i64>,
    pub title: Option<String>,
}

/// What a credit resets.
#[wire(open)]
#[derive(Eq)]
pub enum RateLimitResetType {
    CodexRateLimits,
    Unknown,
}

/// The state of a credit.
#[wire(open)]
#[derive(Eq)]
pub enum RateLimitResetCreditStatus {
    Available,
    Redeeming,
    Redeemed,
    Unknown,
}

/// The limit that is reached.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum RateLimitReachedType {
    RateLimitReached,
    WorkspaceOwnerCreditsDepleted,
    WorkspaceMemberCreditsDepleted,
    WorkspaceOwnerUsageLimitReached,
    WorkspaceMemberUsageLimitReached,
}

/// The state of a spending limit. Amounts are decimal numbers.
#[wire]
pub struct SpendControlLimitSnapshot {
    pub remaining_percent: i32,
    /// Unix seconds.
    pub resets_at: i64,
    pub used: String,
    pub limit: String,
}

/// Asks the owner of a workspace for credits, by e-mail.
#[wire]
pub struct SendAddCreditsNudgeEmailParams {
    pub credit_type: AddCreditsNudgeCreditType,
}

/// What is asked for.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum AddCreditsNudgeCreditType {
    Credits,
    UsageLimit,
}

/// What became of the e-mail.
#[wire]
pub struct SendAddCreditsNudgeEmailResponse {
    pub status: AddCreditsNudgeEmailStatus,
}

/// What became of an e-mail.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum AddCreditsNudgeEmailStatus {
    Sent,
    CooldownActive,
}
