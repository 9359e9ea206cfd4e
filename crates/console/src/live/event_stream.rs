//! `GET /events`: the server-sent events of one page.
//!
//! A page has one stream, because browsers open few connections to a host: events of its thread, which have ids, and
//! of the overview, which have none.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use codicil_client::protocol::ThreadId;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::sleep;

use super::{overview::OverviewReader, page_events::PageReceiver};
use crate::{access::Session, pages::PageError, state::Console};

/// A line is sent after this time of silence, so that both ends notice a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long a browser waits before it connects again.
const RETRY: &str = "retry: 1000\n\n";

/// What a page wants to hear.
#[derive(Debug, Deserialize)]
pub struct EventsQuery {
    /// The thread that the page shows.
    thread: Option<String>,
    /// The position of the page as it was rendered. A browser that connects again sends `Last-Event-ID`.
    after: Option<u64>,
}

struct PageFeed {
    thread: Option<PageReceiver>,
    overview: OverviewReader,
    session: Session,
    console: Console,
}

pub async fn events(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let last_event = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let thread = match query.thread {
        Some(thread) => Some(console.hubs.attach(&ThreadId::from(thread), last_event.or(query.after)).await?),
        None => None,
    };
    let overview = console.overview.reader();
    let feed = PageFeed { thread, overview, session, console };
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(RETRY.as_bytes()))]);
    let rest = stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((Ok(bytes), feed))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

impl PageFeed {
    /// Returns the next event. `None` ends the stream, and the browser connects again.
    async fn next(&mut self) -> Option<Bytes> {
        let thread = async {
            match &mut self.thread {
                Some(events) => events.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = thread => event,
            event = self.overview.next() => event,
            () = sleep(KEEP_ALIVE) => Some(Bytes::from_static(b": still here\n\n")),
            () = self.console.access.ended.wait_for(&self.session.id) => None,
            () = self.console.stopping.cancelled() => None,
        }
    }
}
