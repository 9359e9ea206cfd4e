//! What people do to a thread as a whole, and to its history.

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};
use codicil_client::{
    fork,
    protocol::{
        ReviewStart, ReviewStartParams, ReviewTarget, ThreadArchive, ThreadArchiveParams, ThreadCompactStart,
        ThreadCompactStartParams, ThreadDelete, ThreadDeleteParams, ThreadFork, ThreadForkParams, ThreadId,
        ThreadNameSet, ThreadRevert, ThreadRevertParams, ThreadSetNameParams, ThreadUnarchive,
        ThreadUnarchiveParams, TurnId,
    },
};

use super::{done, go_to};
use crate::{access::FormFields, pages::PageError, state::Console};

/// The answer of an action.
type ActionResult = Result<Response, PageError>;

pub async fn rename_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> ActionResult {
    let name = fields.get("name").unwrap_or_default().trim().to_owned();
    let thread_id = ThreadId::from(thread);
    console
        .threads_client
        .call::<ThreadNameSet>(ThreadSetNameParams { thread_id: thread_id.clone(), name })
        .await?;
    Ok(done(&headers, &format!("/threads/{thread_id}")))
}

pub async fn archive_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> ActionResult {
    let params = ThreadArchiveParams { thread_id: thread.into() };
    console.threads_client.call::<ThreadArchive>(params).await?;
    Ok(go_to(&headers, "/"))
}

pub async fn unarchive_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> ActionResult {
    let params = ThreadUnarchiveParams { thread_id: thread.into() };
    let thread = console.threads_client.call::<ThreadUnarchive>(params).await?.thread;
    Ok(go_to(&headers, &format!("/threads/{}", thread.id)))
}

pub async fn delete_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> ActionResult {
    if !fields.has("sure") {
        return Err(PageError::BadRequest("confirm that the thread is to be deleted for ever".to_owned()));
    }
    let params = ThreadDeleteParams { thread_id: thread.into() };
    console.threads_client.call::<ThreadDelete>(params).await?;
    Ok(go_to(&headers, "/"))
}

pub async fn fork_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> ActionResult {
    copy(&console, &headers, fork(&thread.into())).await
}

/// Copies a thread up to and including a turn.
pub async fn fork_turn(
    State(console): State<Console>,
    Path((thread, turn)): Path<(String, String)>,
    headers: HeaderMap,
) -> ActionResult {
    let params = ThreadForkParams { last_turn_id: Some(turn.into()), ..fork(&thread.into()) };
    copy(&console, &headers, params).await
}

async fn copy(console: &Console, headers: &HeaderMap, params: ThreadForkParams) -> ActionResult {
    let forked = console.threads_client.call::<ThreadFork>(params).await?;
    Ok(go_to(headers, &format!("/threads/{}", forked.thread.id)))
}

/// Removes a turn and all turns after it.
pub async fn revert_turn(
    State(console): State<Console>,
    Path((thread, turn)): Path<(String, String)>,
    headers: HeaderMap,
) -> ActionResult {
    revert_to_before(&console, &headers, ThreadId::from(thread), TurnId::from(turn)).await
}

/// Removes the last turn.
pub async fn undo_last_turn(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> ActionResult {
    let thread_id = ThreadId::from(thread);
    let view = console.hubs.page(&thread_id).await?.view;
    let last = view.turns.back().map(|turn| turn.id.clone());
    let last = last.ok_or_else(|| PageError::BadRequest("the thread has no turns".to_owned()))?;
    revert_to_before(&console, &headers, thread_id, last).await
}

async fn revert_to_before(
    console: &Console,
    headers: &HeaderMap,
    thread_id: ThreadId,
    turn: TurnId,
) -> ActionResult {
    let params = ThreadRevertParams { thread_id: thread_id.clone(), before_turn_id: turn };
    console.threads_client.call::<ThreadRevert>(params).await?;
    Ok(done(headers, &format!("/threads/{thread_id}")))
}

pub async fn compact_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> ActionResult {
    let thread_id = ThreadId::from(thread);
    let params = ThreadCompactStartParams { thread_id: thread_id.clone() };
    console.threads_client.call::<ThreadCompactStart>(params).await?;
    Ok(done(&headers, &format!("/threads/{thread_id}")))
}

pub async fn review_thread(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> ActionResult {
    let thread_id = ThreadId::from(thread);
    let params =
        ReviewStartParams { thread_id: thread_id.clone(), target: review_target(&fields)?, delivery: None };
    console.threads_client.call::<ReviewStart>(params).await?;
    Ok(done(&headers, &format!("/threads/{thread_id}")))
}

fn review_target(fields: &FormFields) -> Result<ReviewTarget, PageError> {
    let what = fields.get("what").map(|what| what.trim().to_owned());
    let needed = |kind: &str| PageError::BadRequest(format!("say which {kind} to review"));
    match fields.get("target") {
        Some("branch") => Ok(ReviewTarget::BaseBranch { branch: what.ok_or_else(|| needed("branch"))? }),
        Some("commit") => {
            Ok(ReviewTarget::Commit { sha: what.ok_or_else(|| needed("commit"))?, title: None })
        }
        Some("custom") => Ok(ReviewTarget::Custom { instructions: what.ok_or_else(|| needed("changes"))? }),
        _ => Ok(ReviewTarget::UncommittedChanges),
    }
}
