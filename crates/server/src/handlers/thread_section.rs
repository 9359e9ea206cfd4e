//! `threadSection/*`.

use codicil_protocol::{
    ThreadSectionCreateParams, ThreadSectionCreateResponse, ThreadSectionDeleteParams,
    ThreadSectionDeleteResponse, ThreadSectionListParams, ThreadSectionListResponse,
    ThreadSectionUpdateParams, ThreadSectionUpdateResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: ThreadSectionListParams) -> Result<ThreadSectionListResponse, RpcError> {
    Ok(cx.threads().sections(&params).await?)
}

pub async fn create(
    cx: Cx,
    params: ThreadSectionCreateParams,
) -> Result<ThreadSectionCreateResponse, RpcError> {
    let section = cx.threads().create_section(&params.name, params.appearance).await?;
    Ok(ThreadSectionCreateResponse { section })
}

pub async fn update(
    cx: Cx,
    params: ThreadSectionUpdateParams,
) -> Result<ThreadSectionUpdateResponse, RpcError> {
    let ThreadSectionUpdateParams { section_id, name, appearance } = params;
    let section = cx.threads().update_section(section_id, &name, appearance).await?;
    Ok(ThreadSectionUpdateResponse { section })
}

pub async fn delete(
    cx: Cx,
    params: ThreadSectionDeleteParams,
) -> Result<ThreadSectionDeleteResponse, RpcError> {
    cx.threads().delete_section(params.section_id).await?;
    Ok(ThreadSectionDeleteResponse {})
}
