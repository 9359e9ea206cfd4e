//! Verification of the user and of the client: `userVerification/*`, `attestation/generate`, and `currentTime/read`, which
//! asks for the client's clock.

use crate::{Secret, ThreadId, rpc::RequestId, wire};

/// Returns whether the user can be verified on this machine. Has no parameters.
#[wire(deny_unknown_fields)]
#[derive(Default)]
pub struct UserVerificationStatusParams {}

/// The enrolled credential, or why there is none.
#[wire]
pub struct UserVerificationStatusResponse {
    pub credential_id: Option<String>,
    pub unavailable_message: Option<String>,
    pub unavailable_reason: Option<UserVerificationUnavailableReason>,
}

/// Why users cannot be verified.
#[wire(open)]
#[derive(Eq)]
pub enum UserVerificationUnavailableReason {
    CredentialMissing,
    BiometricsUnavailable,
    ProviderUnavailable,
}

/// Creates a credential with which the user is verified. Has no parameters.
#[wire(deny_unknown_fields)]
#[derive(Default)]
pub struct UserVerificationEnrollParams {}

/// The new credential.
#[wire]
pub struct UserVerificationEnrollResponse {
    pub credential_id: String,
    pub algorithm: Option<String>,
    pub public_key: Option<String>,
}

/// Deletes the credential. Has no parameters.
#[wire(deny_unknown_fields)]
#[derive(Default)]
pub struct UserVerificationDeleteParams {}

/// The credential is deleted.
#[wire]
#[derive(Default)]
pub struct UserVerificationDeleteResponse {}

/// Verifies the user and signs a challenge.
#[wire(deny_unknown_fields)]
pub struct UserVerificationVerifyParams {
    pub challenge: String,
    /// Shown to the user, like the description.
    pub title: String,
    pub description: String,
}

/// The signed challenge.
#[wire]
pub struct UserVerificationVerifyResponse {
    pub proof: UserVerificationProof,
}

/// A signature that proves the verification.
#[wire]
pub struct UserVerificationProof {
    pub credential_id: String,
    pub signature: String,
}

/// Cancels a verification.
#[wire(deny_unknown_fields)]
pub struct UserVerificationCancelParams {
    /// The id of that request.
    pub request_id: RequestId,
}

/// The verification is cancelled.
#[wire]
#[derive(Default)]
pub struct UserVerificationCancelResponse {}

/// The error of a verification.
#[wire]
pub struct UserVerificationRpcError {
    pub data: UserVerificationErrorDetails,
    pub code: i64,
    pub message: String,
}

/// Why a verification failed.
#[wire(open, tag = "type")]
pub enum UserVerificationErrorDetails {
    InvalidRequest { reason: UserVerificationInvalidRequestReason },
    Unavailable { reason: UserVerificationUnavailableReason },
    Cancelled { reason: UserVerificationCancellationReason },
    Failed { reason: UserVerificationFailureReason },
}

/// Why a verification is not possible as requested.
#[wire(open)]
#[derive(Eq)]
pub enum UserVerificationInvalidRequestReason {
    InvalidParams,
}

/// Why a verification was cancelled.
#[wire(open)]
#[derive(Eq)]
pub enum UserVerificationCancellationReason {
    UserCancelled,
    Interrupted,
}

/// Why the user was not verified.
#[wire(open)]
#[derive(Eq)]
pub enum UserVerificationFailureReason {
    AuthenticationFailed,
    Timeout,
    ProviderError,
    ServiceError,
}

/// Asks the client to attest itself to the provider.
#[wire]
#[derive(Default)]
pub struct AttestationGenerateParams {}

/// The attestation.
#[wire]
pub struct AttestationGenerateResponse {
    pub token: Secret,
}

/// Asks for the time of the client's clock.
#[wire]
pub struct CurrentTimeReadParams {
    pub thread_id: ThreadId,
}

/// The time.
#[wire]
pub struct CurrentTimeReadResponse {
    /// Unix seconds.
    pub current_time_at: i64,
}
