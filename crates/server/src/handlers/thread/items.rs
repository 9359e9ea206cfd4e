//! `thread/items/*`.

use codicil_protocol::{
    Method, ThreadItemEntry, ThreadItemsList, ThreadItemsListParams, ThreadItemsListResponse,
    ThreadItemsRead, ThreadItemsReadParams, ThreadItemsReadResponse,
};
use codicil_store::StoredTurn;

use crate::{
    cx::Cx,
    error::RpcError,
    handlers::thread::turns::read_turns,
    paging::{self, HistoryPage},
};

pub async fn list(cx: Cx, params: ThreadItemsListParams) -> Result<ThreadItemsListResponse, RpcError> {
    let read = read_turns(&cx, &params.thread_id, ThreadItemsList::NAME).await?;
    let items: Vec<_> =
        read.turns.iter().flat_map(|turn| (0..turn.items.len()).map(move |index| (turn, index))).collect();
    let page = HistoryPage::of_items(&items, &params)?;
    Ok(page.items(&items))
}

/// Returns items of one turn, in the order of the turn.
pub async fn read(cx: Cx, params: ThreadItemsReadParams) -> Result<ThreadItemsReadResponse, RpcError> {
    if !(1..=MAX_READ_ITEMS).contains(&params.item_ids.len()) {
        return Err(ItemsReadError::Count.into());
    }
    let read = read_turns(&cx, &params.thread_id, ThreadItemsRead::NAME).await?;
    let turn = read.turns.iter().find(|turn| turn.id == params.turn_id);
    let entry = |turn: &StoredTurn, index: usize| paging::item_entry(turn, index);
    let entries =
        turn.into_iter().flat_map(|turn| (0..turn.items.len()).filter_map(move |at| entry(turn, at)));
    let is_wanted = |entry: &ThreadItemEntry| entry.item.id().is_some_and(|id| params.item_ids.contains(id));
    Ok(ThreadItemsReadResponse { data: entries.filter(is_wanted).collect() })
}

/// Why items of a turn cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ItemsReadError {
    #[error("itemIds must contain 1 to {MAX_READ_ITEMS} IDs")]
    Count,
}

/// The items that one request reads at most.
const MAX_READ_ITEMS: usize = 100;
