//! Messages that wait for the end of the turn.

use axum::{
    Extension,
    extract::{Path, State},
};
use codicil_client::protocol::{ThreadId, ThreadQueueList, ThreadQueueListParams, UserInput};
use maud::{Markup, html};

use crate::{access::Session, render::text::visible, state::Console};

/// `GET /threads/{thread}/queue`: the queued messages, as a part of the page.
pub async fn queue(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path(thread): Path<String>,
) -> Markup {
    queued(&console, &ThreadId::from(thread), &session).await
}

/// Returns the queued messages of a thread; nothing for servers without a queue.
pub async fn queued(console: &Console, thread: &ThreadId, session: &Session) -> Markup {
    let params = ThreadQueueListParams { thread_id: thread.clone(), cursor: None, limit: None };
    let found = console.client.call::<ThreadQueueList>(params).await;
    let messages = found.map(|found| found.data).unwrap_or_default();
    html! {
        @for message in &messages {
            article.item.user-message aria-label="Queued message" tabindex="-1" {
                header { h3 { "Queued" } }
                @for part in &message.input {
                    @if let UserInput::Text { text, .. } = part { p.text { (visible(text)) } }
                }
                form method="post" action={ "/threads/" (thread) "/queue" } data-live="" {
                    input type="hidden" name="csrf" value=(session.csrf);
                    input type="hidden" name="message" value=(message.id);
                    button.link { "Remove" }
                }
            }
        }
    }
}
