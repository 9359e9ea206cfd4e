//! `thread/timeline/*`.

use codicil_protocol::{
    Method, SortDirection, ThreadTimelineList, ThreadTimelineListParams, ThreadTimelineListResponse,
};

use crate::{
    cx::Cx,
    error::RpcError,
    handlers::thread::turns::read_turns,
    paging::{HistoryPage, PageError},
    timeline::timeline_entries,
};

/// Lists what happened in a thread. A page has the newest entries before the cursor, in their order.
pub async fn list(cx: Cx, params: ThreadTimelineListParams) -> Result<ThreadTimelineListResponse, RpcError> {
    let read = read_turns(&cx, &params.thread_id, ThreadTimelineList::NAME).await?;
    let entries = timeline_entries(&read.turns, cx.threads().realtime_entries(&params.thread_id).await?);
    let page = HistoryPage::new(entries.len(), params.cursor.as_deref(), params.limit, SortDirection::Desc)
        .map_err(|_| PageError::InvalidTimelineCursor)?;
    Ok(page.timeline(entries))
}
