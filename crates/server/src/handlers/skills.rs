//! `skills/*`.

use codicil_extensions::Skills;
use codicil_protocol::{
    SkillsConfigWriteParams, SkillsConfigWriteResponse, SkillsExtraRootsSetParams,
    SkillsExtraRootsSetResponse, SkillsListParams, SkillsListResponse,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: SkillsListParams) -> Result<SkillsListResponse, RpcError> {
    let skills = skills(&cx);
    let cwd = cx.cwd().to_owned();
    blocking(move || skills.list(&params, &cwd)).await
}

pub async fn config_write(
    cx: Cx,
    params: SkillsConfigWriteParams,
) -> Result<SkillsConfigWriteResponse, RpcError> {
    let skills = skills(&cx);
    blocking(move || skills.set_enabled(&params)).await
}

pub async fn extra_roots_set(
    cx: Cx,
    params: SkillsExtraRootsSetParams,
) -> Result<SkillsExtraRootsSetResponse, RpcError> {
    let skills = skills(&cx);
    skills.set_extra_roots(params.extra_roots.iter().map(|root| root.to_path_buf()).collect());
    Ok(SkillsExtraRootsSetResponse {})
}

fn skills(cx: &Cx) -> Skills {
    cx.threads().engine().extensions.skills.clone()
}
