//! `accountSession/*`: sign-ins between which a client can switch. This server has one account at a time.

use codicil_protocol::{
    AccountSessionsListParams, AccountSessionsResponse, AccountSessionsSwitchParams,
    AccountSessionsSwitchResponse,
};

use crate::{cx::Cx, error::RpcError, refusals::ServiceRefusal};

pub async fn list(_cx: Cx, _params: AccountSessionsListParams) -> Result<AccountSessionsResponse, RpcError> {
    Ok(AccountSessionsResponse { active_session_id: None, sessions: Vec::new() })
}

pub async fn switch(
    _cx: Cx,
    _params: AccountSessionsSwitchParams,
) -> Result<AccountSessionsSwitchResponse, RpcError> {
    Err(ServiceRefusal::NoManagedLogin.into())
}
