//! `thread/realtime/*`.

use codicil_engine::{InputAccepted, RealtimeForm, SettingsError, ThreadError, realtime_voices};
use codicil_protocol::{
    ProtocolGeneration, RealtimeConversationVersion, ThreadRealtimeAppendAudioParams,
    ThreadRealtimeAppendAudioResponse, ThreadRealtimeAppendSpeechParams, ThreadRealtimeAppendSpeechResponse,
    ThreadRealtimeAppendTextParams, ThreadRealtimeAppendTextResponse, ThreadRealtimeListVoicesParams,
    ThreadRealtimeListVoicesResponse, ThreadRealtimeStartParams, ThreadRealtimeStartResponse,
    ThreadRealtimeStartTransport, ThreadRealtimeStopParams, ThreadRealtimeStopResponse,
};

use crate::{cx::Cx, error::RpcError};

/// The messages with which a session can start. They wait in the queue of its inputs.
const MAX_INITIAL_ITEMS: usize = 100;

/// Opens a realtime session after the response. Its outcome, failure included, arrives as notifications.
pub async fn start(
    cx: Cx,
    params: ThreadRealtimeStartParams,
) -> Result<ThreadRealtimeStartResponse, RpcError> {
    let form = match cx.generation() {
        ProtocolGeneration::V166 => RealtimeForm::Timeline,
        ProtocolGeneration::V118 => RealtimeForm::Updates,
    };
    let missing = match form {
        RealtimeForm::Timeline => params.output_modality.is_none().then_some("outputModality"),
        RealtimeForm::Updates => params.prompt.is_none().then_some("prompt"),
    };
    if let Some(missing) = missing {
        return Err(RpcError::malformed(format_args!("missing field `{missing}`")));
    }
    check_supported(&params)?;
    let voice = cx.threads().voice(&params.thread_id, cx.generation()).await?;
    let origin = cx.origin();
    cx.after_response(move || voice.start(params, origin, form));
    Ok(ThreadRealtimeStartResponse {})
}

/// Refuses what this server cannot do in a session.
fn check_supported(params: &ThreadRealtimeStartParams) -> Result<(), ThreadError> {
    let is_socket = matches!(params.transport, None | Some(ThreadRealtimeStartTransport::Websocket));
    let unsupported = if !is_socket {
        "transport"
    } else if params.version == Some(RealtimeConversationVersion::V3) {
        "version: v3"
    } else if params.initial_items.as_ref().is_some_and(|items| items.len() > MAX_INITIAL_ITEMS) {
        "more than 100 initialItems"
    } else {
        return Ok(());
    };
    Err(SettingsError::Unsupported(unsupported).into())
}

pub async fn append_audio(
    cx: Cx,
    params: ThreadRealtimeAppendAudioParams,
) -> Result<ThreadRealtimeAppendAudioResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id, cx.generation()).await?;
    if voice.append_audio(params.audio)? == InputAccepted::NotRunning {
        cx.after_response(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendAudioResponse {})
}

pub async fn append_text(
    cx: Cx,
    params: ThreadRealtimeAppendTextParams,
) -> Result<ThreadRealtimeAppendTextResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id, cx.generation()).await?;
    if voice.append_text(params.text, params.role.unwrap_or_default())? == InputAccepted::NotRunning {
        cx.after_response(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendTextResponse {})
}

/// Has the voice model say something. Without a session the request fails; nothing else happens to the thread.
pub async fn append_speech(
    cx: Cx,
    params: ThreadRealtimeAppendSpeechParams,
) -> Result<ThreadRealtimeAppendSpeechResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id, cx.generation()).await?;
    match voice.append_speech(params.text)? {
        InputAccepted::Yes => Ok(ThreadRealtimeAppendSpeechResponse {}),
        InputAccepted::NotRunning => Err(ThreadError::NoRealtimeSession.into()),
    }
}

pub async fn stop(cx: Cx, params: ThreadRealtimeStopParams) -> Result<ThreadRealtimeStopResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id, cx.generation()).await?;
    cx.after_response(move || voice.stop());
    Ok(ThreadRealtimeStopResponse {})
}

/// Returns the voices of the provider's voice models.
pub async fn list_voices(
    _cx: Cx,
    _params: ThreadRealtimeListVoicesParams,
) -> Result<ThreadRealtimeListVoicesResponse, RpcError> {
    Ok(ThreadRealtimeListVoicesResponse { voices: realtime_voices() })
}
