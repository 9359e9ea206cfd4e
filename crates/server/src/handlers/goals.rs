//! `thread/goal/*`.

use codicil_engine::ThreadClients;
use codicil_protocol::{
    NotificationMethod, ThreadGoalClearResponse, ThreadGoalCleared, ThreadGoalClearedNotification,
    ThreadGoalGetResponse, ThreadGoalParams, ThreadGoalSetParams, ThreadGoalSetResponse, ThreadGoalUpdated,
    ThreadGoalUpdatedNotification,
};

use crate::{cx::Cx, error::RpcError};

pub async fn get(cx: Cx, params: ThreadGoalParams) -> Result<ThreadGoalGetResponse, RpcError> {
    Ok(ThreadGoalGetResponse { goal: cx.threads().goal(&params.thread_id).await? })
}

/// Like a name, a goal may be shown where nobody follows the thread: every connection is told.
pub async fn set(cx: Cx, params: ThreadGoalSetParams) -> Result<ThreadGoalSetResponse, RpcError> {
    let goal = cx.threads().set_goal(params).await?;
    let (thread_id, told) = (goal.thread_id.clone(), goal.clone());
    tell::<ThreadGoalUpdated>(&cx, ThreadGoalUpdatedNotification { thread_id, turn_id: None, goal: told });
    Ok(ThreadGoalSetResponse { goal })
}

pub async fn clear(cx: Cx, params: ThreadGoalParams) -> Result<ThreadGoalClearResponse, RpcError> {
    let cleared = cx.threads().clear_goal(&params.thread_id).await?;
    if cleared {
        let thread_id = params.thread_id;
        tell::<ThreadGoalCleared>(&cx, ThreadGoalClearedNotification { thread_id });
    }
    Ok(ThreadGoalClearResponse { cleared })
}

fn tell<N: NotificationMethod>(cx: &Cx, params: N::Params) {
    let clients = cx.clients().clone();
    cx.after_answer(move || {
        let audience: &dyn ThreadClients = &clients;
        audience.broadcast::<N>(&params);
    });
}
