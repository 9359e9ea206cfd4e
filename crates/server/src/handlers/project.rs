//! `project/*`. Changes are announced to all clients before the response.

use codicil_protocol::{
    ProjectCreateParams, ProjectCreateResponse, ProjectDeleteParams, ProjectDeleteResponse,
    ProjectImportParams, ProjectImportResponse, ProjectListParams, ProjectListResponse, ProjectMoveParams,
    ProjectMoveResponse, ProjectReadParams, ProjectReadResponse, ProjectUpdateParams, ProjectUpdateResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn list(cx: Cx, params: ProjectListParams) -> Result<ProjectListResponse, RpcError> {
    Ok(cx.threads().projects(&params).await?)
}

pub async fn read(cx: Cx, params: ProjectReadParams) -> Result<ProjectReadResponse, RpcError> {
    Ok(ProjectReadResponse { project: cx.threads().project(&params.project_id).await? })
}

pub async fn create(cx: Cx, params: ProjectCreateParams) -> Result<ProjectCreateResponse, RpcError> {
    let ProjectCreateParams { idempotency_key, name, roots, metadata } = params;
    let params = ProjectImportParams { idempotency_key, name, roots, metadata, threads: None };
    Ok(ProjectCreateResponse { project: cx.threads().import_project(params).await? })
}

pub async fn import(cx: Cx, params: ProjectImportParams) -> Result<ProjectImportResponse, RpcError> {
    Ok(ProjectImportResponse { project: cx.threads().import_project(params).await? })
}

pub async fn update(cx: Cx, params: ProjectUpdateParams) -> Result<ProjectUpdateResponse, RpcError> {
    Ok(ProjectUpdateResponse { project: cx.threads().update_project(params).await? })
}

pub async fn r#move(cx: Cx, params: ProjectMoveParams) -> Result<ProjectMoveResponse, RpcError> {
    cx.threads().move_project(params.project_id, params.before_project_id).await?;
    Ok(ProjectMoveResponse {})
}

pub async fn delete(cx: Cx, params: ProjectDeleteParams) -> Result<ProjectDeleteResponse, RpcError> {
    cx.threads().delete_project(params.project_id).await?;
    Ok(ProjectDeleteResponse {})
}
