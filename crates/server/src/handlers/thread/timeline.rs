//! `thread/timeline/*`.

use codicil_engine::IncludeTurns;
use codicil_protocol::{SortDirection, ThreadTimelineListParams, ThreadTimelineListResponse};

use crate::{
    cx::Cx,
    error::RpcError,
    paging::{HistoryPage, timeline_entries},
};

/// Lists what happened in a thread. A page has the newest entries before the cursor, in their order.
pub async fn list(cx: Cx, params: ThreadTimelineListParams) -> Result<ThreadTimelineListResponse, RpcError> {
    let read = cx.threads().read(&params.thread_id, IncludeTurns::Included).await?;
    let entries = timeline_entries(&read.turns);
    let page = HistoryPage::new(entries.len(), params.cursor.as_deref(), params.limit, SortDirection::Desc)?;
    Ok(page.timeline(entries))
}
