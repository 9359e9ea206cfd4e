//! `turn/*` and `review/*`.

use codicil_engine::ThreadClients;
use codicil_protocol::{
    ReviewDelivery, ReviewStartParams, ReviewStartResponse, ThreadStarted, ThreadStartedNotification,
    TurnInterruptParams, TurnInterruptResponse, TurnStartParams, TurnStartResponse, TurnSteerParams,
    TurnSteerResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Answers as soon as the turn is accepted; the work itself arrives as notifications.
pub async fn start(cx: Cx, params: TurnStartParams) -> Result<TurnStartResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let announced = thread.start_turn(params, cx.origin()).await?;
    Ok(TurnStartResponse { turn: cx.announce(announced) })
}

pub async fn steer(cx: Cx, params: TurnSteerParams) -> Result<TurnSteerResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    Ok(TurnSteerResponse { turn_id: thread.steer(params.input, params.expected_turn_id).await? })
}

/// Any turn id stops the turn that is running: that is what clients of the reference rely on.
pub async fn interrupt(cx: Cx, params: TurnInterruptParams) -> Result<TurnInterruptResponse, RpcError> {
    let announced = cx.threads().get(&params.thread_id)?.interrupt().await?;
    cx.announce(announced);
    Ok(TurnInterruptResponse {})
}

/// A detached review runs in a fork, which is announced before the answer names it.
pub async fn review_start(cx: Cx, params: ReviewStartParams) -> Result<ReviewStartResponse, RpcError> {
    let thread_id = match params.delivery {
        Some(ReviewDelivery::Detached) => {
            codicil_engine::check_review_target(&params.target)?;
            let opened = cx.threads().fork_for_review(&params.thread_id).await?;
            let id = opened.thread.id.clone();
            cx.clients().subscribe(&cx.client, &id);
            let audience: &dyn ThreadClients = cx.clients();
            audience.broadcast::<ThreadStarted>(&ThreadStartedNotification { thread: opened.thread });
            id
        }
        Some(ReviewDelivery::Inline) | None => params.thread_id,
    };
    let announced = cx.threads().get(&thread_id)?.review(params.target, cx.origin()).await?;
    Ok(ReviewStartResponse { turn: cx.announce(announced), review_thread_id: thread_id })
}
