//! `userVerification/*`: verification of the user by the device, for which this server has no provider.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use codicil_protocol::{
    UserVerificationCancelParams, UserVerificationCancelResponse, UserVerificationDeleteParams,
    UserVerificationDeleteResponse, UserVerificationEnrollParams, UserVerificationEnrollResponse,
    UserVerificationStatusParams, UserVerificationStatusResponse, UserVerificationUnavailableReason,
    UserVerificationVerifyParams, UserVerificationVerifyResponse,
};

use crate::{
    cx::Cx,
    error::RpcError,
    refusals::{ServiceRefusal, USER_VERIFICATION_UNAVAILABLE},
};

const MAX_CHALLENGE_BYTES: usize = 2048;
const MAX_TITLE_BYTES: usize = 256;
const MAX_DESCRIPTION_BYTES: usize = 4096;

pub async fn status(
    _cx: Cx,
    _params: UserVerificationStatusParams,
) -> Result<UserVerificationStatusResponse, RpcError> {
    Ok(UserVerificationStatusResponse {
        credential_id: None,
        unavailable_reason: Some(UserVerificationUnavailableReason::ProviderUnavailable),
        unavailable_message: Some(USER_VERIFICATION_UNAVAILABLE.to_owned()),
    })
}

pub async fn enroll(
    _cx: Cx,
    _params: UserVerificationEnrollParams,
) -> Result<UserVerificationEnrollResponse, RpcError> {
    Err(ServiceRefusal::UserVerification.into())
}

pub async fn delete(
    _cx: Cx,
    _params: UserVerificationDeleteParams,
) -> Result<UserVerificationDeleteResponse, RpcError> {
    Err(ServiceRefusal::UserVerification.into())
}

pub async fn verify(
    _cx: Cx,
    params: UserVerificationVerifyParams,
) -> Result<UserVerificationVerifyResponse, RpcError> {
    if !is_valid(&params) {
        return Err(ServiceRefusal::VerificationParams.into());
    }
    Err(ServiceRefusal::UserVerification.into())
}

/// Returns whether the challenge is base64 as in URLs, without padding, and the texts can be shown.
fn is_valid(params: &UserVerificationVerifyParams) -> bool {
    let UserVerificationVerifyParams { challenge, title, description } = params;
    let challenge = BASE64_URL_SAFE_NO_PAD.decode(challenge).unwrap_or_default();
    (1..=MAX_CHALLENGE_BYTES).contains(&challenge.len())
        && (1..=MAX_TITLE_BYTES).contains(&title.len())
        && description.len() <= MAX_DESCRIPTION_BYTES
}

/// Cancels a request of this connection. There is never one under way, so there is nothing to do.
pub async fn cancel(
    _cx: Cx,
    _params: UserVerificationCancelParams,
) -> Result<UserVerificationCancelResponse, RpcError> {
    Ok(UserVerificationCancelResponse {})
}
