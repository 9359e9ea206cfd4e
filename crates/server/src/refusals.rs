//! Refusals of methods for services that this server does not have: those of an account, of a remote catalogue and of other
//! devices. The texts and codes are those of the reference server, which refuses them too without a ChatGPT account.

use codicil_protocol::AuthMode;

use crate::cx::Cx;

/// Why a method is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRefusal {
    /// Holds the purpose of the request.
    #[error("codex account authentication required {0}")]
    SignedOut(&'static str),
    #[error("chatgpt authentication required {0}")]
    ApiKey(&'static str),
    /// There is an account, but Codicil does not use its service. Holds the method.
    #[error("{0} is not supported by this server")]
    NotServed(&'static str),
    #[error("idempotencyKey must not be empty")]
    EmptyIdempotencyKey,
    #[error("Workspace switching requires a managed ChatGPT login")]
    NoManagedLogin,
    #[error("The current provider does not use gateway OAuth")]
    NoGatewaySignIn,
    #[error("remote control requires ChatGPT authentication")]
    RemoteControlSignedOut,
    #[error("remote control requires ChatGPT authentication; API key auth is not supported")]
    RemoteControlApiKey,
    #[error("remote control pairing requires remote control to be enabled")]
    RemoteControlDisabled,
    #[error("remoteControl/pairing/status requires pairingCode or manualPairingCode")]
    NoPairingCode,
    /// Holds what was to be done.
    #[error("{0}: chatgpt authentication required for remote plugin catalog")]
    CatalogueSignedOut(&'static str),
    #[error("{0}: chatgpt authentication required for remote plugin catalog; api key auth is not supported")]
    CatalogueApiKey(&'static str),
    #[error("MCP event subscriptions are only supported for hosted apps")]
    McpEvents,
    /// Holds the method.
    #[error("{0} requires exactly one of marketplacePath or remoteMarketplaceName")]
    OneMarketplace(&'static str),
    #[error("{USER_VERIFICATION_UNAVAILABLE}")]
    UserVerification,
    #[error("Invalid verification challenge or display text.")]
    VerificationParams,
    #[error("the current provider is not Amazon Bedrock")]
    NoBedrock,
    #[error("The Google Cloud auth command could not obtain an access token.")]
    GoogleCloud,
    #[error("thread/prediction/request is not implemented yet")]
    Prediction,
}

pub const USER_VERIFICATION_UNAVAILABLE: &str =
    "User verification is not available in this build or account.";

/// The account that a refusal depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountKind {
    None,
    ApiKey,
    Chatgpt,
}

impl AccountKind {
    pub async fn of(cx: &Cx) -> Self {
        match cx.accounts().current().await {
            None => Self::None,
            Some(account) if account.mode == AuthMode::Apikey => Self::ApiKey,
            Some(_) => Self::Chatgpt,
        }
    }
}

impl ServiceRefusal {
    /// Refuses a service of the account. `purpose` completes "authentication required".
    pub async fn account(cx: &Cx, purpose: &'static str, method: &'static str) -> Self {
        match AccountKind::of(cx).await {
            AccountKind::None => Self::SignedOut(purpose),
            AccountKind::ApiKey => Self::ApiKey(purpose),
            AccountKind::Chatgpt => Self::NotServed(method),
        }
    }

    /// Refuses a request to the remote catalogue of plugins.
    pub async fn catalogue(cx: &Cx, action: &'static str, method: &'static str) -> Self {
        match AccountKind::of(cx).await {
            AccountKind::None => Self::CatalogueSignedOut(action),
            AccountKind::ApiKey => Self::CatalogueApiKey(action),
            AccountKind::Chatgpt => Self::NotServed(method),
        }
    }

    /// Refuses to be controlled by other devices.
    pub async fn remote_control(cx: &Cx, method: &'static str) -> Self {
        match AccountKind::of(cx).await {
            AccountKind::None => Self::RemoteControlSignedOut,
            AccountKind::ApiKey => Self::RemoteControlApiKey,
            AccountKind::Chatgpt => Self::NotServed(method),
        }
    }
}
