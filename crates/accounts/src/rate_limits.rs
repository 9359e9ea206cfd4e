//! `account/rateLimits/read`: an account's quotas, as the backend reports them.

use std::collections::BTreeMap;

use codicil_model::{AccountAuth, ProviderCredentials};
use codicil_protocol::{
    CreditsSnapshot, GetAccountRateLimitsResponse, PlanType, RateLimitSnapshot, RateLimitWindow,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::{
    accounts::Accounts,
    claims::plan_type,
    error::{AccountError, RateLimitsError},
    http::{self, HttpReply},
};

/// Id of the main quota.
const MAIN_LIMIT: &str = "codex";

impl Accounts {
    pub async fn rate_limits(&self) -> Result<GetAccountRateLimitsResponse, AccountError> {
        let refused = |error: String| AccountError::RateLimits(RateLimitsError::Refresh(error));
        let usable = self.usable().await.map_err(|error| refused(error.to_string()))?;
        let signed_in = usable.ok_or(AccountError::NotSignedIn)?;
        if !signed_in.is_chatgpt() {
            return Err(AccountError::NotChatgpt);
        }
        let url = usage_url(&self.backend_url().await);
        let credentials = signed_in.credentials();
        let mut reply = fetch(&url, &credentials).await.map_err(AccountError::RateLimits)?;
        if reply.status == 401 {
            let fresh = self.refresh(&credentials).await.map_err(|error| refused(error.to_string()))?;
            if let Some(fresh) = fresh {
                reply = fetch(&url, &fresh).await.map_err(AccountError::RateLimits)?;
            }
        }
        read(&reply).map_err(AccountError::RateLimits)
    }
}

/// Returns the address of the usage report. Two kinds of backend serve it under different paths.
fn usage_url(backend: &str) -> String {
    let path = if backend.contains("/backend-api") { "/wham/usage" } else { "/api/codex/usage" };
    format!("{backend}{path}")
}

async fn fetch(url: &str, credentials: &ProviderCredentials) -> Result<HttpReply, RateLimitsError> {
    let mut headers = HeaderMap::new();
    if let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {}", credentials.token.reveal())) {
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    if let Some(Ok(account)) = credentials.account_id.as_deref().map(HeaderValue::try_from) {
        headers.insert(HeaderName::from_static("chatgpt-account-id"), account);
    }
    Ok(http::get(url, headers).await?)
}

fn read(reply: &HttpReply) -> Result<GetAccountRateLimitsResponse, RateLimitsError> {
    if !reply.is_success() {
        return Err(RateLimitsError::Status(reply.status));
    }
    let usage: UsageResponse = serde_json::from_slice(&reply.body).map_err(|_| RateLimitsError::Malformed)?;
    Ok(usage.into_response())
}

/// The backend's usage report. Omitted members are null for clients.
#[derive(Deserialize)]
struct UsageResponse {
    plan_type: Option<String>,
    rate_limit: Option<QuotaResponse>,
    credits: Option<CreditsResponse>,
    additional_rate_limits: Option<Vec<AdditionalQuota>>,
}

#[derive(Deserialize)]
struct QuotaResponse {
    primary_window: Option<WindowResponse>,
    secondary_window: Option<WindowResponse>,
}

#[derive(Deserialize)]
struct WindowResponse {
    used_percent: f64,
    limit_window_seconds: Option<i64>,
    reset_at: Option<i64>,
}

#[derive(Deserialize)]
struct CreditsResponse {
    has_credits: bool,
    unlimited: bool,
    balance: Option<String>,
}

#[derive(Deserialize)]
struct AdditionalQuota {
    limit_name: Option<String>,
    metered_feature: String,
    rate_limit: Option<QuotaResponse>,
}

impl UsageResponse {
    fn into_response(self) -> GetAccountRateLimitsResponse {
        let plan = self.plan_type.as_deref().map(plan_type);
        let credits = self.credits.map(|credits| CreditsSnapshot {
            has_credits: credits.has_credits,
            unlimited: credits.unlimited,
            balance: credits.balance,
        });
        let main = RateLimitSnapshot { credits, ..snapshot(MAIN_LIMIT, None, self.rate_limit, plan.clone()) };
        let additional =
            self.additional_rate_limits.into_iter().flatten().map(|quota| {
                snapshot(&quota.metered_feature, quota.limit_name, quota.rate_limit, plan.clone())
            });
        let mut by_id: BTreeMap<String, RateLimitSnapshot> =
            additional.filter_map(|quota| Some((quota.limit_id.clone()?, quota))).collect();
        by_id.insert(MAIN_LIMIT.to_owned(), main.clone());
        GetAccountRateLimitsResponse {
            rate_limits: main,
            rate_limits_by_limit_id: Some(by_id),
            account_id: None,
            ordinary_usage_allowed: None,
            rate_limit_reset_credits: None,
            rate_limit_upsell: None,
        }
    }
}

fn snapshot(
    id: &str,
    name: Option<String>,
    quota: Option<QuotaResponse>,
    plan: Option<PlanType>,
) -> RateLimitSnapshot {
    let (primary, secondary) = quota.map(|quota| (quota.primary_window, quota.secondary_window)).unzip();
    RateLimitSnapshot {
        limit_id: Some(id.to_owned()),
        limit_name: name,
        primary: primary.flatten().map(window),
        secondary: secondary.flatten().map(window),
        plan_type: plan,
        ..RateLimitSnapshot::default()
    }
}

fn window(window: WindowResponse) -> RateLimitWindow {
    let minutes = |seconds: i64| (seconds > 0).then(|| seconds.saturating_add(59) / 60);
    RateLimitWindow {
        // The conversion saturates.
        used_percent: window.used_percent.round() as i32,
        window_duration_mins: window.limit_window_seconds.and_then(minutes),
        resets_at: window.reset_at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn response(usage: Value) -> Value {
        let reply = HttpReply { status: 200, body: usage.to_string().into() };
        serde_json::to_value(read(&reply).unwrap()).unwrap()
    }

    #[test]
    fn quotas_are_listed_by_their_ids() {
        let window = |used: f64| json!({ "used_percent": used, "limit_window_seconds": 901, "reset_at": 19 });
        let response = response(json!({
            "plan_type": "team",
            "rate_limit": { "primary_window": window(24.6), "secondary_window": null },
            "credits": { "has_credits": true, "unlimited": false, "balance": "1.5" },
            "additional_rate_limits": [
                { "limit_name": "Voice", "metered_feature": "codex_voice", "rate_limit": { "primary_window": window(1.0) } },
            ],
        }));
        let windowed = |used: i32| json!({ "usedPercent": used, "windowDurationMins": 16, "resetsAt": 19 });
        let main = json!({
            "limitId": "codex", "limitName": null, "primary": windowed(25), "secondary": null,
            "credits": { "hasCredits": true, "unlimited": false, "balance": "1.5" }, "planType": "team",
        });
        let voice = json!({
            "limitId": "codex_voice", "limitName": "Voice", "primary": windowed(1), "secondary": null,
            "credits": null, "planType": "team",
        });
        assert_eq!(response["rateLimits"], main);
        assert_eq!(response["rateLimitsByLimitId"], json!({ "codex": main, "codex_voice": voice }));
    }

    #[test]
    fn omitted_members_are_null() {
        let response = response(json!({ "rate_limit": null }));
        assert_eq!(response["rateLimits"]["primary"], Value::Null);
        assert_eq!(response["rateLimits"]["planType"], Value::Null);
        let failed =
            |status, body: &str| read(&HttpReply { status, body: body.into() }).unwrap_err().to_string();
        assert_eq!(failed(500, "oops"), "the backend answered with status 500");
        assert_eq!(failed(200, "<html>"), "the backend answered something else than rate limits");
    }

    #[test]
    fn the_path_depends_on_the_kind_of_backend() {
        assert_eq!(usage_url("http://x/backend-api"), "http://x/backend-api/wham/usage");
        assert_eq!(usage_url("http://x"), "http://x/api/codex/usage");
    }
}
