//! `thread/goal/*`.

use codicil_protocol::{
    ThreadGoalClearParams, ThreadGoalClearResponse, ThreadGoalCleared, ThreadGoalClearedNotification,
    ThreadGoalGetParams, ThreadGoalGetResponse, ThreadGoalSetParams, ThreadGoalSetResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Sets the goal. The thread notifies every client after the response: a goal, like a name, is shown in lists of threads.
pub async fn set(cx: Cx, params: ThreadGoalSetParams) -> Result<ThreadGoalSetResponse, RpcError> {
    let announced = cx.threads().set_goal(params, cx.origin(), cx.key()).await?;
    Ok(ThreadGoalSetResponse { goal: cx.announce(announced) })
}

pub async fn get(cx: Cx, params: ThreadGoalGetParams) -> Result<ThreadGoalGetResponse, RpcError> {
    Ok(ThreadGoalGetResponse { goal: cx.threads().goal(&params.thread_id).await? })
}

pub async fn clear(cx: Cx, params: ThreadGoalClearParams) -> Result<ThreadGoalClearResponse, RpcError> {
    let cleared = cx.threads().clear_goal(&params.thread_id, cx.key()).await?;
    if cleared {
        let cleared = ThreadGoalClearedNotification { thread_id: params.thread_id };
        let threads = cx.threads().clone();
        cx.after_response(move || {
            threads.broadcast::<ThreadGoalCleared>(&cleared.thread_id, &cleared);
        });
    }
    Ok(ThreadGoalClearResponse { cleared })
}
