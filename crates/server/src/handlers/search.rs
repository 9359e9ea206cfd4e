//! `fuzzyFileSearch` and its sessions.

use std::sync::Arc;

use codicil_fs::{SearchRoots, SessionNews, check_query};
use codicil_protocol::{
    Frame, FuzzyFileSearchParams, FuzzyFileSearchResponse, FuzzyFileSearchSessionCompleted,
    FuzzyFileSearchSessionCompletedNotification, FuzzyFileSearchSessionStartParams,
    FuzzyFileSearchSessionStartResponse, FuzzyFileSearchSessionStopParams,
    FuzzyFileSearchSessionStopResponse, FuzzyFileSearchSessionUpdateParams,
    FuzzyFileSearchSessionUpdateResponse, FuzzyFileSearchSessionUpdated,
    FuzzyFileSearchSessionUpdatedNotification,
};

use crate::{cx::Cx, error::RpcError, files::LimitReached, limits::MAX_SEARCH_SESSIONS};

/// A search that is cancelled by another with its token answers that it found nothing.
pub async fn fuzzy_file_search(
    cx: Cx,
    params: FuzzyFileSearchParams,
) -> Result<FuzzyFileSearchResponse, RpcError> {
    check_query(&params.query).map_err(RpcError::invalid_request)?;
    let cancelled = cx.client.files.begin_search(params.cancellation_token);
    let roots = SearchRoots::new(&params.roots, cx.cwd());
    let files = cx.files().searches.find(roots, params.query, cancelled).await;
    Ok(FuzzyFileSearchResponse { files })
}

/// Opened once it has been answered, so that what the session says comes after.
pub async fn session_start(
    cx: Cx,
    params: FuzzyFileSearchSessionStartParams,
) -> Result<FuzzyFileSearchSessionStartResponse, RpcError> {
    let FuzzyFileSearchSessionStartParams { session_id, roots } = params;
    if session_id.is_empty() {
        return Err(RpcError::invalid_request("sessionId must not be empty"));
    }
    let roots = SearchRoots::new(&roots, cx.cwd());
    if roots.is_empty() {
        let reason = "at least one search directory is required";
        return Err(RpcError::internal(format_args!("failed to start fuzzy file search session: {reason}")));
    }
    let full = |LimitReached| {
        RpcError::invalid_request(format_args!("too many search sessions: limit is {MAX_SEARCH_SESSIONS}"))
    };
    cx.client.files.check_session_room(&session_id).map_err(full)?;
    let later = cx.clone();
    cx.after_answer(move || open(&later, session_id, roots));
    Ok(FuzzyFileSearchSessionStartResponse {})
}

fn open(cx: &Cx, session_id: String, roots: SearchRoots) {
    // The client owns the session, so the session must not own the client.
    let (client, id) = (Arc::downgrade(&cx.client), session_id.clone());
    let tell = move |news| {
        if let Some(client) = client.upgrade() {
            client.notify(&notification(id.clone(), news));
        }
    };
    cx.client.files.add_session(session_id, cx.files().searches.open(roots, tell));
}

fn notification(session_id: String, news: SessionNews) -> Frame {
    match news {
        SessionNews::Updated { query, files } => {
            Frame::notification::<FuzzyFileSearchSessionUpdated>(&FuzzyFileSearchSessionUpdatedNotification {
                session_id,
                query,
                files,
            })
        }
        SessionNews::Completed => Frame::notification::<FuzzyFileSearchSessionCompleted>(
            &FuzzyFileSearchSessionCompletedNotification { session_id },
        ),
    }
}

pub async fn session_update(
    cx: Cx,
    params: FuzzyFileSearchSessionUpdateParams,
) -> Result<FuzzyFileSearchSessionUpdateResponse, RpcError> {
    let FuzzyFileSearchSessionUpdateParams { session_id, query } = params;
    if !cx.client.files.has_session(&session_id) {
        let message = format_args!("fuzzy file search session not found: {session_id}");
        return Err(RpcError::invalid_request(message));
    }
    check_query(&query).map_err(RpcError::invalid_request)?;
    let client = cx.client.clone();
    cx.after_answer(move || client.files.update_session(&session_id, query));
    Ok(FuzzyFileSearchSessionUpdateResponse {})
}

pub async fn session_stop(
    cx: Cx,
    params: FuzzyFileSearchSessionStopParams,
) -> Result<FuzzyFileSearchSessionStopResponse, RpcError> {
    cx.client.files.remove_session(&params.session_id);
    Ok(FuzzyFileSearchSessionStopResponse {})
}
