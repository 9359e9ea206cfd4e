//! `userVerification/*`: verification of the user by the device, for which this server has no provider.

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
    _params: UserVerificationVerifyParams,
) -> Result<UserVerificationVerifyResponse, RpcError> {
    Err(ServiceRefusal::UserVerification.into())
}

/// Cancels a request of this connection. There is never one under way, so there is nothing to do.
pub async fn cancel(
    _cx: Cx,
    _params: UserVerificationCancelParams,
) -> Result<UserVerificationCancelResponse, RpcError> {
    Ok(UserVerificationCancelResponse {})
}
