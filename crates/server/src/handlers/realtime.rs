//! `thread/realtime/*`. Answered at once; what comes of it, failure included, arrives as notifications.

use codicil_engine::InputAccepted;
use codicil_protocol::{
    ThreadRealtimeAppendAudioParams, ThreadRealtimeAppendAudioResponse, ThreadRealtimeAppendTextParams,
    ThreadRealtimeAppendTextResponse, ThreadRealtimeStartParams, ThreadRealtimeStartResponse,
    ThreadRealtimeStopParams, ThreadRealtimeStopResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn start(
    cx: Cx,
    params: ThreadRealtimeStartParams,
) -> Result<ThreadRealtimeStartResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    let origin = cx.origin();
    cx.after_answer(move || voice.start(params, origin));
    Ok(ThreadRealtimeStartResponse {})
}

pub async fn append_audio(
    cx: Cx,
    params: ThreadRealtimeAppendAudioParams,
) -> Result<ThreadRealtimeAppendAudioResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    if voice.append_audio(params.audio)? == InputAccepted::NotRunning {
        cx.after_answer(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendAudioResponse {})
}

pub async fn append_text(
    cx: Cx,
    params: ThreadRealtimeAppendTextParams,
) -> Result<ThreadRealtimeAppendTextResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    if voice.append_text(params.text)? == InputAccepted::NotRunning {
        cx.after_answer(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendTextResponse {})
}

pub async fn stop(cx: Cx, params: ThreadRealtimeStopParams) -> Result<ThreadRealtimeStopResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    cx.after_answer(move || voice.stop());
    Ok(ThreadRealtimeStopResponse {})
}
