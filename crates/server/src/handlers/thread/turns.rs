//! `thread/turns/*`.

use codicil_engine::{ThreadError, ThreadRead};
use codicil_protocol::{
    Method, ProtocolGeneration, SortDirection, ThreadId, ThreadItem, ThreadTurnsList, ThreadTurnsListParams,
    ThreadTurnsListResponse, Turn, TurnItemsView,
};

use crate::{cx::Cx, error::RpcError, generation::show_turns, paging::HistoryPage};

pub async fn list(cx: Cx, params: ThreadTurnsListParams) -> Result<ThreadTurnsListResponse, RpcError> {
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let read = read_turns(&cx, &params.thread_id, ThreadTurnsList::NAME).await?;
    let page = HistoryPage::new(read.turns.len(), params.cursor.as_deref(), params.limit, direction)?;
    let default_view = match cx.generation() {
        ProtocolGeneration::V118 => TurnItemsView::Full,
        ProtocolGeneration::V166 => TurnItemsView::Summary,
    };
    let mut response = page.turns(&read.turns, params.items_view.unwrap_or(default_view));
    response.data.iter_mut().for_each(leave_out_preliminary);
    Ok(response)
}

/// Leaves the agent's messages out of the summary of a turn without an end: none of them is known to be the last.
fn leave_out_preliminary(turn: &mut Turn) {
    if turn.items_view == TurnItemsView::Summary && turn.completed_at.is_none() {
        turn.items.retain(|item| !matches!(item, ThreadItem::AgentMessage { .. }));
    }
}

/// Reads a thread with its turns, archived or not, for a method that ephemeral threads do not support.
pub(in crate::handlers) async fn read_turns(
    cx: &Cx,
    thread_id: &ThreadId,
    method: &'static str,
) -> Result<ThreadRead, ThreadError> {
    let read = cx.threads().read_history(thread_id).await;
    let mut read = read.map_err(|error| match error {
        ThreadError::EphemeralTurns(_) => ThreadError::EphemeralTurns(method),
        other => other,
    })?;
    show_turns(cx.history_form(), &mut read.turns);
    Ok(read)
}
