//! `feedback/*`.

use codicil_config::ConfigQuery;
use codicil_engine::{IncludeTurns, ThreadError};
use codicil_protocol::{FeedbackUploadParams, FeedbackUploadResponse};

use super::config::blocking;
use crate::{
    cx::Cx,
    encoded::ReadJson,
    error::RpcError,
    feedback::{FeedbackError, FeedbackSender},
};

/// Answers once the report is on disk. It is sent in its own time, if the configuration says where to.
pub async fn upload(cx: Cx, params: FeedbackUploadParams) -> Result<FeedbackUploadResponse, RpcError> {
    let config = cx.config().clone();
    // A broken configuration is reported elsewhere, and may be what the report is about.
    let settings =
        blocking(move || Ok(config.load(&ConfigQuery::default()).map(|config| config.settings))).await?;
    let settings = settings.unwrap_or_default();
    if !settings.feedback_enabled() {
        return Err(FeedbackError::Disabled.into());
    }
    let thread = read_thread(&cx, &params).await?;
    let writer = cx.clone();
    let report = blocking(move || Ok(writer.feedback().write(params, &sender(&writer), thread)?)).await?;
    let thread_id = report.thread_id.clone();
    if let Some(endpoint) = settings.feedback.endpoint {
        cx.feedback().send(endpoint, report);
    }
    Ok(FeedbackUploadResponse { thread_id })
}

/// The thread as JSON, if it is wanted. An unknown one has nothing to add; a malformed id is a mistake.
async fn read_thread(cx: &Cx, params: &FeedbackUploadParams) -> Result<Option<String>, RpcError> {
    let Some(id) = &params.thread_id else { return Ok(None) };
    if let Err(error @ ThreadError::MalformedId(_)) = cx.threads().get(id) {
        return Err(error.into());
    }
    if !params.include_logs {
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

impl From<FeedbackError> for RpcError {
    fn from(error: FeedbackError) -> Self {
        match error {
            FeedbackError::Disabled => Self::invalid_request(error),
            FeedbackError::Io(_) => Self::internal(error),
        }
    }
}
