//! Accounts of cloud providers: `account/bedrock/*`, `account/gcp/setup` and `account/gatewayOAuth/*`.

use crate::wire;

/// Finds credentials for Amazon Bedrock on this machine. Has no parameters.
#[wire]
#[derive(Default)]
pub struct BedrockDiscoverParams {}

/// The credentials that were found.
#[wire]
pub struct BedrockDiscoverResponse {
    pub environment_credentials: Vec<BedrockEnvironmentCredential>,
    pub profiles: Vec<BedrockAwsProfile>,
}

/// A profile of the AWS configuration.
#[wire]
pub struct BedrockAwsProfile {
    pub name: String,
    pub region: Option<String>,
}

/// Credentials in environment variables.
#[wire]
pub struct BedrockEnvironmentCredential {
    #[serde(rename = "type")]
    pub kind: AwsCredentialType,
    pub region: Option<String>,
}

/// The kind of AWS credentials.
#[wire(open)]
#[derive(Eq)]
pub enum AwsCredentialType {
    AccessKeys,
    BedrockApiKey,
}

/// Selects the credentials for Amazon Bedrock.
#[wire(sparse, open, tag = "type")]
pub enum BedrockSetupParams {
    Profile { profile: String, region: String },
    Environment { region: String },
}

/// The provider is set up.
#[wire]
#[derive(Default)]
pub struct BedrockSetupResponse {}

/// Returns whether GovCloud requirements apply to Bedrock.
#[wire(sparse)]
pub struct BedrockCheckGovCloudRequirementsParams {}

/// Requested once by newer terminal clients. Both values are false, because this server has no Bedrock provider.
#[wire]
pub struct BedrockCheckGovCloudRequirementsResponse {
    pub is_gov_cloud: bool,
    pub should_warn: bool,
}

/// Sets up models on Google Cloud.
#[wire(sparse)]
pub struct GcpSetupParams {
    pub project_id: String,
    pub credential_file: Option<String>,
    pub location: Option<String>,
}

/// The provider is set up.
#[wire]
#[derive(Default)]
pub struct GcpSetupResponse {}

/// The sign-in to the gateway of the current provider.
#[wire]
pub struct GatewayOAuthReadResponse {
    pub provider_id: String,
    pub provider_name: String,
    pub required: bool,
    pub status: Option<GatewayOAuthStatus>,
    pub error: Option<String>,
}

/// The sign-in is started; `account/gatewayOAuth/changed` follows.
#[wire]
#[derive(Default)]
pub struct GatewayOAuthLoginResponse {}

/// The sign-in is cancelled.
#[wire]
#[derive(Default)]
pub struct GatewayOAuthCancelResponse {}

/// The state of a sign-in to a gateway.
#[wire(open)]
#[derive(Eq)]
pub enum GatewayOAuthStatus {
    NotReady,
    Started,
    Succeeded,
    Failed,
}

/// The state of a sign-in to a gateway changed.
#[wire]
pub struct GatewayOAuthChangedNotification {
    pub provider_id: String,
    pub status: GatewayOAuthStatus,
    /// The URL to open in a browser.
    pub auth_url: Option<String>,
    pub error: Option<String>,
}
