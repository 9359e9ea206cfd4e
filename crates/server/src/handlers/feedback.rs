//! `feedback/*`.

use std::path::PathBuf;

use codicil_config::ConfigQuery;
use codicil_engine::{IncludeTurns, ThreadError};
use codicil_protocol::{
    FeedbackSaveParams, FeedbackSaveResponse, FeedbackUploadParams, FeedbackUploadResponse,
    ProtocolGeneration,
};

use crate::{
    background::blocking,
    cx::Cx,
    encoded::ReadJson,
    error::RpcError,
    feedback::{FeedbackError, FeedbackSender},
};

/// Writes a report to disk. If an endpoint is configured, the report is sent there after the response.
pub async fn upload(cx: Cx, params: FeedbackUploadParams) -> Result<FeedbackUploadResponse, RpcError> {
    if params.include_logs.is_none() && cx.generation() == ProtocolGeneration::V118 {
        return Err(RpcError::malformed("missing field `includeLogs`"));
    }
    let config = cx.config().clone();
    let config = blocking(move || Ok::<_, RpcError>(config.load(&ConfigQuery::default()))).await?;
    // An unusable configuration is reported elsewhere and may be what the report is about.
    let settings = config.map(|config| config.settings).unwrap_or_default();
    if !settings.feedback_enabled() {
        return Err(FeedbackError::Disabled.into());
    }
    let thread = read_thread(&cx, &params).await?;
    let writer_cx = cx.clone();
    let report = blocking(move || writer_cx.feedback().write(params, &sender(&writer_cx), thread)).await?;
    let thread_id = report.thread_id.clone();
    if let Some(endpoint) = settings.feedback.endpoint {
        cx.feedback().send(endpoint, report);
    }
    Ok(FeedbackUploadResponse { thread_id, prompt_hash: None })
}

/// Writes a report to a new file that the client names. Nothing is sent.
pub async fn save(cx: Cx, params: FeedbackSaveParams) -> Result<FeedbackSaveResponse, RpcError> {
    let FeedbackSaveParams {
        thread_id,
        classification,
        save_path,
        extra_log_files,
        include_logs,
        reason,
        tags,
    } = params;
    let path = PathBuf::from(&save_path.0);
    if !path.is_absolute() {
        return Err(FeedbackError::RelativePath.into());
    }
    let include_logs = Some(include_logs);
    let report =
        FeedbackUploadParams { classification, reason, thread_id, include_logs, extra_log_files, tags };
    let thread = read_thread(&cx, &report).await?;
    let writer_cx = cx.clone();
    let saved = move || writer_cx.feedback().save(report, &sender(&writer_cx), thread, &path);
    let thread_id = blocking(saved).await?;
    Ok(FeedbackSaveResponse { thread_id, saved_path: save_path, prompt_hash: None })
}

/// Returns the thread as JSON if the client wants it in the report. An unknown thread is left out; a malformed id
/// is an error.
async fn read_thread(cx: &Cx, params: &FeedbackUploadParams) -> Result<Option<String>, RpcError> {
    let Some(id) = &params.thread_id else { return Ok(None) };
    if let Err(error @ ThreadError::MalformedId(_)) = cx.threads().get(id) {
        return Err(error.into());
    }
    if !params.include_logs.unwrap_or_default() {
        return Ok(None);
    }
    let thread = cx.threads().read(id, IncludeTurns::Included).await.ok();
    Ok(thread.and_then(|thread| serde_json::to_string(&ReadJson(thread)).ok()))
}

fn sender(cx: &Cx) -> FeedbackSender {
    FeedbackSender {
        user_agent: cx.origin().user_agent,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
