//! `fuzzyFileSearch` and its sessions.

use std::sync::Arc;

use codicil_fs::{SearchEvent, SearchRoots, check_query};
use codicil_protocol::{
    Frame, FuzzyFileSearchParams, FuzzyFileSearchResponse, FuzzyFileSearchSessionCompleted,
    FuzzyFileSearchSessionCompletedNotification, FuzzyFileSearchSessionStartParams,
    FuzzyFileSearchSessionStartResponse, FuzzyFileSearchSessionStopParams,
    FuzzyFileSearchSessionStopResponse, FuzzyFileSearchSessionUpdateParams,
    FuzzyFileSearchSessionUpdateResponse, FuzzyFileSearchSessionUpdated,
    FuzzyFileSearchSessionUpdatedNotification,
};

use crate::{cx::Cx, error::RpcError, files::SearchSessionError};

/// Searches once. A later search with the same cancellation token ends this one, which then finds nothing.
pub async fn fuzzy_file_search(
    cx: Cx,
    params: FuzzyFileSearchParams,
) -> Result<FuzzyFileSearchResponse, RpcError> {
    check_query(&params.query)?;
    let cancelled = cx.client.files.begin_search(params.cancellation_token);
    let roots = SearchRoots::new(&params.roots, cx.cwd());
    let files = cx.files().searches.find(roots, params.query, cancelled).await;
    Ok(FuzzyFileSearchResponse { files })
}

/// Opens a session after the response, so that its notifications follow the response.
pub async fn session_start(
    cx: Cx,
    params: FuzzyFileSearchSessionStartParams,
) -> Result<FuzzyFileSearchSessionStartResponse, RpcError> {
    let FuzzyFileSearchSessionStartParams { session_id, roots } = params;
    if session_id.is_empty() {
        return Err(SearchSessionError::EmptyId.into());
    }
    let roots = SearchRoots::new(&roots, cx.cwd());
    if roots.is_empty() {
        return Err(SearchSessionError::NoRoots.into());
    }
    cx.client.files.check_session_room(&session_id)?;
    let session_cx = cx.clone();
    cx.after_response(move || open_session(&session_cx, session_id, roots));
    Ok(FuzzyFileSearchSessionStartResponse {})
}

fn open_session(cx: &Cx, session_id: String, roots: SearchRoots) {
    let notify = {
        // The client owns the session, so the session must not own the client.
        let client = Arc::downgrade(&cx.client);
        let session_id = session_id.clone();
        move |event| {
            if let Some(client) = client.upgrade() {
                client.notify(&notification(session_id.clone(), event));
            }
        }
    };
    cx.client.files.add_session(session_id, cx.files().searches.open(roots, notify));
}

fn notification(session_id: String, event: SearchEvent) -> Frame {
    match event {
        SearchEvent::Updated { query, files } => {
            Frame::notification::<FuzzyFileSearchSessionUpdated>(&FuzzyFileSearchSessionUpdatedNotification {
                session_id,
                query,
                files,
            })
        }
        SearchEvent::Completed { query } => Frame::notification::<FuzzyFileSearchSessionCompleted>(
            &FuzzyFileSearchSessionCompletedNotification { session_id, query },
        ),
    }
}

pub async fn session_update(
    cx: Cx,
    params: FuzzyFileSearchSessionUpdateParams,
) -> Result<FuzzyFileSearchSessionUpdateResponse, RpcError> {
    let FuzzyFileSearchSessionUpdateParams { session_id, query } = params;
    if !cx.client.files.has_session(&session_id) {
        return Err(SearchSessionError::NotFound(session_id).into());
    }
    check_query(&query)?;
    let client = cx.client.clone();
    cx.after_response(move || client.files.update_session(&session_id, query));
    Ok(FuzzyFileSearchSessionUpdateResponse {})
}

pub async fn session_stop(
    cx: Cx,
    params: FuzzyFileSearchSessionStopParams,
) -> Result<FuzzyFileSearchSessionStopResponse, RpcError> {
    cx.client.files.remove_session(&params.session_id);
    Ok(FuzzyFileSearchSessionStopResponse {})
}
