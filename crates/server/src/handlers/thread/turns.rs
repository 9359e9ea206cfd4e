//! `thread/turns/*`.

use codicil_engine::{ThreadError, ThreadRead};
use codicil_protocol::{
    Method, ProtocolGeneration, SortDirection, ThreadId, ThreadTurnsList, ThreadTurnsListParams,
    ThreadTurnsListResponse, TurnItemsView,
};

use crate::{cx::Cx, error::RpcError, paging::HistoryPage};

pub async fn list(cx: Cx, params: ThreadTurnsListParams) -> Result<ThreadTurnsListResponse, RpcError> {
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let read = read_turns(&cx, &params.thread_id, ThreadTurnsList::NAME).await?;
    let page = HistoryPage::new(read.turns.len(), params.cursor.as_deref(), params.limit, direction)?;
    let default_view = match cx.generation() {
        ProtocolGeneration::V118 => TurnItemsView::Full,
        ProtocolGeneration::V166 => TurnItemsView::Summary,
    };
    Ok(page.turns(&read.turns, params.items_view.unwrap_or(default_view)))
}

/// Reads a thread with its turns, archived or not, for a method that ephemeral threads do not support.
pub(in crate::handlers) async fn read_turns(
    cx: &Cx,
    thread_id: &ThreadId,
    method: &'static str,
) -> Result<ThreadRead, ThreadError> {
    let read = cx.threads().read_history(thread_id).await;
    read.map_err(|error| match error {
        ThreadError::EphemeralTurns(_) => ThreadError::EphemeralTurns(method),
        other => other,
    })
}
