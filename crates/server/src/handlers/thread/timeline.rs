//! `thread/timeline/*`.

use codicil_protocol::{
    Method, SortDirection, ThreadId, ThreadTimelineList, ThreadTimelineListParams, ThreadTimelineListResponse,
};

use crate::{
    cx::Cx,
    error::RpcError,
    handlers::thread::turns::read_turns,
    paging::{HistoryPage, PageError},
    timeline::timeline_entries,
};

/// Why a timeline cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    #[error("thread {0} is archived")]
    Archived(ThreadId),
}

/// Lists what happened in a thread. A page has the newest entries before the cursor, in their order.
pub async fn list(cx: Cx, params: ThreadTimelineListParams) -> Result<ThreadTimelineListResponse, RpcError> {
    if cx.is_plain_later() && cx.threads().is_archived(&params.thread_id).await {
        return Err(TimelineError::Archived(params.thread_id).into());
    }
    let read = read_turns(&cx, &params.thread_id, ThreadTimelineList::NAME).await?;
    let entries = timeline_entries(&read.turns, cx.threads().realtime_entries(&params.thread_id).await?);
    let page = HistoryPage::new(entries.len(), params.cursor.as_deref(), params.limit, SortDirection::Desc)
        .map_err(|_| PageError::InvalidTimelineCursor)?;
    Ok(page.timeline(entries))
}
