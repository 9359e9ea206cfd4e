//! `review/*`.

use codicil_engine::ThreadClients;
use codicil_protocol::{
    ReviewDelivery, ReviewStartParams, ReviewStartResponse, ReviewTarget, ThreadId, ThreadStarted,
    ThreadStartedNotification,
};

use crate::{
    cx::Cx,
    error::RpcError,
    request_keys::{Attempt, Creates, OnceResponse, carry_out_once},
};

/// Starts a review. A detached review runs in a fork of the thread; `thread/started` announces the fork before
/// the response names it.
pub async fn start(cx: Cx, params: ReviewStartParams) -> Result<OnceResponse<ReviewStartResponse>, RpcError> {
    match params.delivery {
        Some(ReviewDelivery::Detached) => {
            carry_out_once(&cx, Creates::StoredThread, |attempt| start_detached(&cx, params, attempt)).await
        }
        Some(ReviewDelivery::Inline) | None => {
            Ok(OnceResponse::Made(start_in(&cx, params.thread_id, params.target).await?))
        }
    }
}

async fn start_detached(
    cx: &Cx,
    params: ReviewStartParams,
    attempt: Attempt,
) -> Result<ReviewStartResponse, RpcError> {
    codicil_engine::check_review_target(&params.target)?;
    let mut opened = cx.threads().fork_for_review(&params.thread_id, attempt.thread_id).await?;
    // Set if an earlier attempt has opened the fork.
    drop(opened.announce.take());
    let id = opened.thread.id.clone();
    cx.clients().subscribe(&cx.client, &id);
    let clients: &dyn ThreadClients = cx.clients();
    clients.announce::<ThreadStarted>(&id, &ThreadStartedNotification { thread: opened.thread });
    start_in(cx, id, params.target).await
}

async fn start_in(
    cx: &Cx,
    thread_id: ThreadId,
    target: ReviewTarget,
) -> Result<ReviewStartResponse, RpcError> {
    let announced = cx.thread(&thread_id)?.review(target, cx.origin()).await?;
    Ok(ReviewStartResponse { turn: cx.announce(announced), review_thread_id: thread_id })
}
