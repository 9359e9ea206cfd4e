//! `review/*`.

use codicil_engine::ThreadClients;
use codicil_protocol::{
    ReviewDelivery, ReviewStartParams, ReviewStartResponse, ThreadStarted, ThreadStartedNotification,
};

use crate::{cx::Cx, error::RpcError};

/// Starts a review. A detached review runs in a fork of the thread; `thread/started` announces the fork before
/// the response names it.
pub async fn start(cx: Cx, params: ReviewStartParams) -> Result<ReviewStartResponse, RpcError> {
    let thread_id = match params.delivery {
        Some(ReviewDelivery::Detached) => {
            codicil_engine::check_review_target(&params.target)?;
            let opened = cx.threads().fork_for_review(&params.thread_id).await?;
            let id = opened.thread.id.clone();
            cx.clients().subscribe(&cx.client, &id);
            let clients: &dyn ThreadClients = cx.clients();
            clients.broadcast::<ThreadStarted>(&ThreadStartedNotification { thread: opened.thread });
            id
        }
        Some(ReviewDelivery::Inline) | None => params.thread_id,
    };
    let announced = cx.threads().get(&thread_id)?.review(params.target, cx.origin()).await?;
    Ok(ReviewStartResponse { turn: cx.announce(announced), review_thread_id: thread_id })
}
