//! Turns: their items, plans and ends.

use codicil_client::protocol::{
    ItemId, ThreadId, TurnId, TurnPlanStepStatus, TurnPlanUpdatedNotification, TurnStatus,
};
use maud::{Markup, html};

use super::{format, items};
use crate::{
    live::TurnView,
    render::{diff, text::visible},
};

/// Returns the id of a turn's element.
pub fn element_id(turn: &TurnId) -> String {
    format!("turn-{turn}")
}

pub fn turn_id(turn: &TurnView) -> String {
    element_id(&turn.id)
}

pub fn items_id(turn: &TurnView) -> String {
    format!("turn-{}-items", turn.id)
}

pub fn end_id(turn: &TurnView) -> String {
    format!("turn-{}-end", turn.id)
}

/// The end of a sequence of turns.
pub struct NewestTurns<'a> {
    pub html: Markup,
    /// The first item that is shown.
    pub first: Option<(&'a TurnId, &'a ItemId)>,
    /// The number of items that are shown.
    pub items: usize,
    /// Whether turns or items were left out.
    pub is_cut: bool,
}

/// Returns turns from the newest item backwards, as many as fit into a number of bytes of HTML, and at least one item. Of the
/// turn `continued`, pages show the end already.
pub fn newest_turns<'a>(
    thread: &ThreadId,
    turns: impl DoubleEndedIterator<Item = &'a TurnView>,
    continued: Option<&TurnId>,
    max_bytes: usize,
) -> NewestTurns<'a> {
    let mut shown = NewestTurns { html: html! {}, first: None, items: 0, is_cut: false };
    let mut sections: Vec<Markup> = Vec::new();
    let mut bytes = 0;
    for turn in turns.rev() {
        let is_full = |bytes: usize, items: usize| bytes > max_bytes && items > 0;
        let items_before = shown.items;
        let is_continued = continued == Some(&turn.id);
        let end = if is_continued {
            html! {}
        } else {
            end(thread, turn)
        };
        bytes += end.0.len();
        // A turn is shown with at least one of its items, or not at all.
        if is_full(bytes, shown.items) {
            shown.is_cut = true;
            break;
        }
        let mut rendered: Vec<Markup> = Vec::new();
        for item in turn.items.iter().rev() {
            let html = items::item(thread, turn, item);
            bytes += html.0.len();
            if is_full(bytes, shown.items) {
                shown.is_cut = true;
                break;
            }
            rendered.push(html);
            shown.items += 1;
            shown.first = item.id().map(|id| (&turn.id, id)).or(shown.first);
        }
        if shown.is_cut && shown.items == items_before {
            break;
        }
        sections.push(html! {
            section.turn id=(turn_id(turn)) aria-label="Turn" data-continued=[is_continued.then_some("")] {
                (items_element(turn, rendered.iter().rev())) (end)
            }
        });
        if shown.is_cut {
            break;
        }
    }
    shown.html = html! { @for section in sections.iter().rev() { (section) } };
    shown
}

/// Returns a turn with all items of the view.
pub fn turn(thread: &ThreadId, turn: &TurnView) -> Markup {
    let items: Vec<Markup> = turn.items.iter().map(|item| items::item(thread, turn, item)).collect();
    let content = html! { (items_element(turn, items.iter())) (end(thread, turn)) };
    html! { section.turn id=(turn_id(turn)) aria-label="Turn" { (content) } }
}

fn items_element<'m>(turn: &TurnView, items: impl Iterator<Item = &'m Markup>) -> Markup {
    html! { div.items id=(items_id(turn)) { @for item in items { (item) } } }
}

/// Returns the end of a turn: its plan, its errors and how it ended.
pub fn end(thread: &ThreadId, turn: &TurnView) -> Markup {
    let files = diff::file_count(&turn.diff);
    html! {
        footer.turn-end id=(end_id(turn)) {
            @if let Some(plan) = &turn.plan { (checklist(plan)) }
            @if let Some(notice) = &turn.notice { p.notice role="status" { (visible(notice)) } }
            @if let Some(error) = &turn.error {
                p.error role="alert" { (visible(&error.message)) }
            }
            div.meta {
                @match turn.status {
                    TurnStatus::InProgress => { span.chip.running { "Working" } }
                    TurnStatus::Interrupted => { span.chip.interrupted { "Interrupted" } }
                    TurnStatus::Failed => { span.chip.failed { "Failed" } }
                    _ => { span.done { "Done" } }
                }
                @if let Some(milliseconds) = turn.duration_ms { " in " (format::duration(milliseconds)) }
                @if let Some(started) = turn.started_at {
                    " · " time datetime=(format::timestamp(started)) { (format::age(started)) }
                }
                " · " a href={ "/threads/" (thread) "?turn=" (turn.id) "#" (turn_id(turn)) } { "Link" }
                @if turn.status != TurnStatus::InProgress || files > 0 {
                    " · " a href={ "/threads/" (thread) "/turns/" (turn.id) "/diff" } {
                        "Changes" @if files > 0 { " (" (files) @if files == 1 { " file" } @else { " files" } ")" }
                    }
                }
                @if turn.status != TurnStatus::InProgress {
                    " · " (turn_action(thread, turn, "fork", "Fork from here"))
                    " · " (turn_action(thread, turn, "revert", "Revert to before"))
                }
            }
        }
    }
}

/// Returns a button of a turn. The script adds the session's token, because all pages get the same bytes.
fn turn_action(thread: &ThreadId, turn: &TurnView, action: &str, label: &str) -> Markup {
    let confirm = (action == "revert").then_some("Remove this turn and all turns after it?");
    html! {
        form.inline method="post" action={ "/threads/" (thread) "/turns/" (turn.id) "/" (action) } data-token="" data-confirm=[confirm] {
            button.link { (label) }
        }
    }
}

/// Returns the agent's plan as a checklist.
fn checklist(plan: &TurnPlanUpdatedNotification) -> Markup {
    html! {
        article.item.plan aria-label="Plan" tabindex="-1" {
            header { h3 { "Plan" } }
            @if let Some(explanation) = &plan.explanation { p { (visible(explanation)) } }
            ul.checklist {
                @for step in &plan.plan {
                    @let (class, state, sign) = match step.status {
                        TurnPlanStepStatus::Completed => ("done", "done", "✓"),
                        TurnPlanStepStatus::InProgress => ("doing", "in progress", "▸"),
                        _ => ("open", "open", "○"),
                    };
                    li.(class) { span.sign aria-hidden="true" { (sign) } " " (visible(&step.step)) span.visually-hidden { " (" (state) ")" } }
                }
            }
        }
    }
}
