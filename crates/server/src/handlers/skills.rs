//! `skills/*`.

use codicil_extensions::{Skills, SkillsError};
use codicil_protocol::{
    SkillsConfigWriteParams, SkillsConfigWriteResponse, SkillsListParams, SkillsListResponse,
};

use super::config::blocking;
use crate::{cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: SkillsListParams) -> Result<SkillsListResponse, RpcError> {
    let (skills, cwd) = (skills(&cx), cx.cwd().to_owned());
    blocking(move || skills.list(&params, &cwd).map_err(RpcError::from)).await
}

pub async fn config_write(
    cx: Cx,
    params: SkillsConfigWriteParams,
) -> Result<SkillsConfigWriteResponse, RpcError> {
    let skills = skills(&cx);
    blocking(move || skills.set_enabled(&params).map_err(RpcError::from)).await
}

fn skills(cx: &Cx) -> Skills {
    cx.threads().engine().extensions.skills.clone()
}

impl From<SkillsError> for RpcError {
    fn from(error: SkillsError) -> Self {
        match error {
            SkillsError::RelativeRoot(_) | SkillsError::TooMany => Self::invalid_request(error),
            SkillsError::Selector => Self::invalid_params(error),
            SkillsError::Write(error) => error.into(),
        }
    }
}
