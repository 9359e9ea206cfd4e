//! A thread: its turns as they stream, its questions, and the composer.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, Query, State},
};
use codicil_client::{
    IncludeTurns,
    protocol::{ItemId, ThreadId, TurnId},
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    PageError, PageFrame, composer, format, items,
    linked::{self, LinkedPlace},
    older, page, question_cards, queue,
    threads::{ShownStatus, thread_menu},
    turns,
};
use crate::{
    access::Session,
    live::{OlderItems, PageOp, ThreadPage, ThreadView, TurnView, ViewChange},
    render::text::{visible, visible_plain},
    state::Console,
};

/// The element with the turns.
const TURNS_ID: &str = "turns";

/// The element with status, settings and usage.
const STATUS_ID: &str = "thread-status";

/// The element with the messages that wait for the end of the turn.
pub const QUEUE_ID: &str = "queue";

/// HTML of the turns that a page has at first, in bytes. The rest is loaded on demand.
const MAX_TURNS_HTML: usize = 160_000;

/// The element with the name.
const TITLE_ID: &str = "thread-title";

#[derive(Debug, Deserialize)]
pub struct ThreadQuery {
    /// A turn to show, also if it is an old one.
    turn: Option<String>,
    /// An item of the turn to show.
    item: Option<String>,
}

/// `GET /threads/{thread}`
pub async fn thread(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path(thread): Path<String>,
    Query(query): Query<ThreadQuery>,
) -> Result<Markup, PageError> {
    let thread_id = ThreadId::from(thread);
    let (shown, is_live) = match console.hubs.page(&thread_id).await {
        Ok(shown) => (shown, true),
        // An archived thread can be shown, not opened.
        Err(error) => (stored_page(&console, &thread_id).await.map_err(|_| error)?, false),
    };
    let shown_turns = all_turns(&shown.view);
    let place =
        query.turn.map(|turn| LinkedPlace { turn: TurnId::from(turn), item: query.item.map(ItemId::from) });
    let linked = match place.filter(|place| is_live && !place.is_on(&shown_turns)) {
        Some(place) => linked::linked_turn(&console, &thread_id, &place, &shown_turns).await?,
        None => html! {},
    };
    let models = console.models().await;
    let ThreadPage { view, seq } = &shown;
    let events = if is_live { format!("thread={thread_id}&after={seq}") } else { String::new() };
    let frame =
        PageFrame { events, thread: is_live.then_some(&thread_id), ..PageFrame::new(view.title(), "thread") };
    let open = console.questions.open();
    let own: Vec<_> =
        open.iter().filter(|question| question.thread_id == thread_id).map(Arc::clone).collect();
    let main = html! {
        main #main .thread aria-label="Thread" {
            header.thread-head {
                (title(view))
                (thread_menu(&view.thread, !is_live, &session))
                (status(view))
            }
            (linked)
            div #(TURNS_ID) .turns role="log" aria-label="Turns" aria-busy=(view.running_turn().is_some()) { (shown_turns) }
            @if is_live {
                div #questions-here .questions { (question_cards(&own, Some(&session.csrf))) }
                div #(QUEUE_ID) .queue data-address={ "/threads/" (thread_id) "/queue" } {
                    (queue::queued(&console, &thread_id, &session).await)
                }
                (composer::composer(view, &models, &session))
            } @else {
                p.notice { "This thread is archived. Restore it to read and to continue it." }
            }
        }
    };
    Ok(page(&console, &session, &frame, main))
}

/// Reads the end of a thread without opening it.
async fn stored_page(console: &Console, thread_id: &ThreadId) -> Result<ThreadPage, PageError> {
    let mut thread = console.client.read_thread(thread_id, IncludeTurns::No).await?;
    // The protocol does not return the turns of archived threads.
    let (turns, older) =
        older::stored_turns(console, thread_id).await.unwrap_or((Vec::new(), OlderItems::None));
    thread.turns = turns;
    let mut view = ThreadView::new(thread, older, Vec::new());
    view.settings.cwd.clone_from(&view.thread.cwd);
    view.settings.model = view.thread.model.clone().unwrap_or_default();
    Ok(ThreadPage { view, seq: 0 })
}

fn title(view: &ThreadView) -> Markup {
    html! { h1 #(TITLE_ID) title=(visible_plain(view.title())) { (visible(view.title())) } }
}

fn status(view: &ThreadView) -> Markup {
    let (word, class) = match view.running_turn() {
        Some(_) if view.is_waiting() => ShownStatus::Waiting.label(),
        Some(_) => ShownStatus::Running.label(),
        None => ShownStatus::of(&view.thread.status).label(),
    };
    let settings = &view.settings;
    html! {
        div #(STATUS_ID) .thread-status {
            span.chip.(class) { (word) }
            span { (visible(&settings.model)) @if let Some(effort) = &settings.effort { " · " (composer::effort_name(effort)) } }
            span title=(visible_plain(&settings.cwd)) { (visible(format::short_path(&settings.cwd))) }
            @if let Some(parent) = &view.thread.parent_thread_id { a href={ "/threads/" (parent) } { "Parent thread" } }
            @if let Some(origin) = &view.thread.forked_from_id { a href={ "/threads/" (origin) } { "Forked from" } }
            (usage(view))
            a href={ "/threads/" (view.thread.id) "/diff" } { "All changes" }
        }
    }
}

/// Returns what tells open pages that their thread was archived or deleted.
pub fn closed_ops() -> Vec<PageOp> {
    let notice = html! { p #thread-closed .notice role="status" { "This thread was archived or deleted. Reload the page." } };
    vec![PageOp::put("thread-closed", TURNS_ID, notice)]
}

/// Returns the tokens of the thread and how full the model's window is.
fn usage(view: &ThreadView) -> Markup {
    let Some(usage) = &view.usage else { return html! {} };
    let used = usage.last.total_tokens;
    html! {
        span title="Tokens of the whole thread" { (format::tokens(usage.total.total_tokens)) " tokens" }
        @if let Some(window) = usage.model_context_window.filter(|window| *window > 0) {
            @let percent = used.saturating_mul(100) / window;
            span.context {
                meter aria-label="Context window" min="0" max=(window) high=(window * 8 / 10) value=(used) { (percent) " %" }
                " " (percent) " % of " (format::tokens(window))
            }
        }
    }
}

fn all_turns(view: &ThreadView) -> Markup {
    let shown = turns::newest_turns(&view.thread.id, view.turns.iter(), None, MAX_TURNS_HTML);
    html! {
        @if view.turns.is_empty() { p.empty #no-turns { "Nothing has happened here yet." } }
        @if view.older != OlderItems::None || shown.is_cut { (older::link_before(view, &shown)) }
        (shown.html)
    }
}

/// Returns the operations that show everything again.
pub fn reset_ops(view: &ThreadView) -> Vec<PageOp> {
    let mut ops = vec![PageOp::sync(TURNS_ID, all_turns(view))];
    ops.extend(head_ops(view));
    // They have the session's token, so each page loads its own.
    ops.extend([QUEUE_ID, composer::NEXT_TURN_ID].map(|id| PageOp::Load { id: id.to_owned() }));
    ops
}

/// Returns the operations that show a change.
pub fn change_ops(view: &ThreadView, change: &ViewChange) -> Vec<PageOp> {
    let thread = &view.thread.id;
    match change {
        ViewChange::Nothing | ViewChange::Text { .. } => Vec::new(),
        ViewChange::Head => head_ops(view),
        ViewChange::Settings => {
            let mut ops = head_ops(view);
            // The form has the session's token, so each page loads its own.
            ops.push(PageOp::Load { id: composer::NEXT_TURN_ID.to_owned() });
            ops
        }
        ViewChange::Queue => vec![PageOp::Load { id: QUEUE_ID.to_owned() }],
        ViewChange::TurnAdded(id) => {
            let Some(turn) = view.turn(id) else { return Vec::new() };
            let mut ops = vec![
                PageOp::Drop { id: "no-turns".to_owned() },
                PageOp::put(turns::turn_id(turn), TURNS_ID, turns::turn(thread, turn)),
            ];
            ops.extend(head_ops(view));
            ops
        }
        ViewChange::TurnChanged(id) => {
            let Some(turn) = view.turn(id) else { return Vec::new() };
            let mut ops =
                vec![PageOp::put(turns::end_id(turn), turns::turn_id(turn), turns::end(thread, turn))];
            ops.extend(head_ops(view));
            ops
        }
        ViewChange::TurnEnded { turn: id, dropped } => {
            let mut ops: Vec<PageOp> =
                dropped.iter().map(|item| PageOp::Drop { id: items::element_id(id, item) }).collect();
            ops.extend(change_ops(view, &ViewChange::TurnChanged(id.clone())));
            ops
        }
        ViewChange::ItemAdded(turn_id, item_id) => {
            let Some(turn) = view.turn(turn_id) else { return Vec::new() };
            item_op(thread, turn, item_id, &turns::items_id(turn)).into_iter().collect()
        }
        // A page that does not show the item because it is too old does not get it at its end.
        ViewChange::ItemChanged(turn_id, item_id) => {
            let Some(turn) = view.turn(turn_id) else { return Vec::new() };
            item_op(thread, turn, item_id, "").into_iter().collect()
        }
    }
}

/// Returns the operation that shows an item, at the end of `parent` if the page does not have it.
fn item_op(thread: &ThreadId, turn: &TurnView, item_id: &ItemId, parent: &str) -> Option<PageOp> {
    let html = items::item(thread, turn, turn.item(item_id)?);
    Some(PageOp::put(items::element_id(&turn.id, item_id), parent, html))
}

fn head_ops(view: &ThreadView) -> Vec<PageOp> {
    vec![
        PageOp::put(TITLE_ID, "", title(view)),
        PageOp::put(STATUS_ID, "", status(view)),
        PageOp::put(composer::SEND_ID, "", composer::send_buttons(view)),
    ]
}
