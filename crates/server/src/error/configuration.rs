//! Codes of errors about the configuration, accounts and services of the account.

use codicil_accounts::AccountError;
use codicil_config::{ConfigError, FeatureError, WriteError};
use codicil_migrate::external_agents::ImportError;
use codicil_protocol::rpc::codes;
use serde_json::json;

use crate::{error::RpcError, feedback::FeedbackError, refusals::ServiceRefusal};

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

impl From<ConfigError> for RpcError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::NoHome
            | ConfigError::Unreadable { .. }
            | ConfigError::InFile(_)
            | ConfigError::Value(_)
            | ConfigError::Override { .. }
            | ConfigError::UnknownProfile(_)
            | ConfigError::UnknownFeature(_) => {
                Self::internal(format_args!("failed to read configuration layers: {error}"))
            }
        }
    }
}

impl From<WriteError> for RpcError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Readonly
            | WriteError::VersionConflict
            | WriteError::Invalid(_)
            | WriteError::Edit(_)
            | WriteError::CannotEdit(_) => Self::invalid_request(&error).with_data(error.data()),
            WriteError::Unusable(error) => {
                Self::internal(format_args!("failed to load configuration: {error}"))
            }
            WriteError::Busy { .. } | WriteError::Io { .. } => Self::internal(error),
        }
    }
}

impl From<FeatureError> for RpcError {
    fn from(error: FeatureError) -> Self {
        match error {
            FeatureError::BadCursor(_)
            | FeatureError::CursorTooLarge(_)
            | FeatureError::Unknown(_)
            | FeatureError::Alias { .. }
            | FeatureError::NotSwitchable(_) => Self::invalid_request(error),
        }
    }
}

impl From<ImportError> for RpcError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Config(error) => error.into(),
            ImportError::Io { .. } | ImportError::Json(_) | ImportError::NoObject | ImportError::Toml(_) => {
                Self::internal(error)
            }
        }
    }
}

impl From<FeedbackError> for RpcError {
    fn from(error: FeedbackError) -> Self {
        match error {
            FeedbackError::Disabled | FeedbackError::RelativePath => Self::invalid_request(error),
            FeedbackError::Io(_) | FeedbackError::PathExists | FeedbackError::Save(_) => {
                Self::internal(error)
            }
        }
    }
}

impl From<ServiceRefusal> for RpcError {
    fn from(error: ServiceRefusal) -> Self {
        match error {
            ServiceRefusal::SignedOut(_)
            | ServiceRefusal::ApiKey(_)
            | ServiceRefusal::NotServed(_)
            | ServiceRefusal::EmptyIdempotencyKey
            | ServiceRefusal::NoManagedLogin
            | ServiceRefusal::NoGatewaySignIn
            | ServiceRefusal::RemoteControlSignedOut
            | ServiceRefusal::RemoteControlApiKey
            | ServiceRefusal::RemoteControlDisabled
            | ServiceRefusal::NoPairingCode
            | ServiceRefusal::CatalogueSignedOut(_)
            | ServiceRefusal::CatalogueApiKey(_)
            | ServiceRefusal::NoBedrock
            | ServiceRefusal::OneMarketplace(_)
            | ServiceRefusal::McpEvents => Self::invalid_request(error),
            ServiceRefusal::GoogleCloud => {
                Self::invalid_request(error).with_data(json!({ "reason": "authCommandFailed" }))
            }
            ServiceRefusal::UserVerification => {
                let data = json!({ "type": "unavailable", "reason": "providerUnavailable" });
                Self::internal(error).with_data(data)
            }
            ServiceRefusal::VerificationParams => {
                let data = json!({ "type": "invalidRequest", "reason": "invalidParams" });
                Self::invalid_params(error).with_data(data)
            }
            ServiceRefusal::Prediction => Self::new(codes::METHOD_NOT_FOUND, error),
        }
    }
}
