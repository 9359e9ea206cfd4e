//! Reading a thread page by page: `thread/turns/list` and `thread/items/list`. Newer clients use these methods; they are
//! not part of the published schema.

use crate::{ItemId, ThreadId, ThreadItem, Turn, TurnId, wire};

/// The order of a page.
#[wire]
#[derive(Copy, Eq)]
pub enum SortDirection {
    Asc,
    Desc,
}

/// The items that a turn contains.
#[wire]
#[derive(Copy, Default, Eq)]
pub enum TurnItemsView {
    /// No items.
    NotLoaded,
    /// The user input and the last agent message.
    Summary,
    #[default]
    Full,
}

/// Lists the turns of a thread.
#[wire(sparse)]
pub struct ThreadTurnsListParams {
    pub thread_id: ThreadId,
    /// The `nextCursor` of the previous page, or a `backwardsCursor` to change the direction.
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Defaults to newest first.
    pub sort_direction: Option<SortDirection>,
    /// Defaults to `summary` for connections of the 0.166 generation, and to `full` for older ones.
    pub items_view: Option<TurnItemsView>,
}

/// The page of turns that the response to `thread/resume` contains.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadResumeInitialTurnsPageParams {
    pub limit: Option<u32>,
    /// Defaults to newest first.
    pub sort_direction: Option<SortDirection>,
    /// Defaults to `summary`.
    pub items_view: Option<TurnItemsView>,
}

/// One page of a thread's turns.
#[wire]
pub struct ThreadTurnsListResponse {
    pub data: Vec<Turn>,
    pub next_cursor: Option<String>,
    /// The cursor that starts at the first turn of this page in the opposite direction.
    pub backwards_cursor: Option<String>,
}

/// One page of a thread's turns, in the response to `thread/resume`.
#[wire]
pub struct TurnsPage {
    pub data: Vec<Turn>,
    pub next_cursor: Option<String>,
    pub backwards_cursor: Option<String>,
}

/// Lists the items of a thread.
#[wire(sparse)]
pub struct ThreadItemsListParams {
    pub thread_id: ThreadId,
    /// Only items of this turn.
    pub turn_id: Option<TurnId>,
    /// A cursor of an earlier page, or an item of the turn `turnId`.
    pub cursor: Option<ThreadItemsListCursor>,
    pub limit: Option<u32>,
    /// Defaults to oldest first.
    pub sort_direction: Option<SortDirection>,
}

/// One page of a thread's items.
#[wire]
pub struct ThreadItemsListResponse {
    pub data: Vec<ThreadItemEntry>,
    pub next_cursor: Option<String>,
    pub backwards_cursor: Option<String>,
}

/// An item and its turn.
#[wire]
pub struct ThreadItemEntry {
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Unix milliseconds. The same as `completedAtMs` for items without a duration.
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: Option<i64>,
}

/// The start of a page: the cursor of another page, or an item.
#[wire(untagged)]
pub enum ThreadItemsListCursor {
    Page(String),
    Anchor(ThreadItemsListAnchor),
}

/// An item at which a page starts.
#[wire(sparse, tag = "type")]
pub enum ThreadItemsListAnchor {
    Item { item_id: ItemId },
}

/// Reads items of a turn.
#[wire]
pub struct ThreadItemsReadParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_ids: Vec<ItemId>,
}

/// The items that exist, in the order of the turn.
#[wire]
pub struct ThreadItemsReadResponse {
    pub data: Vec<ThreadItemEntry>,
}
