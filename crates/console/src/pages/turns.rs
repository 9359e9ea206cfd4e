//! Turns: their items, plans and ends.

use codicil_client::protocol::{ThreadId, TurnPlanStepStatus, TurnPlanUpdatedNotification, TurnStatus};
use maud::{Markup, html};

use super::{format, items};
use crate::{
    live::TurnView,
    render::{
        diff,
        text::{url_part, visible},
    },
};

pub fn turn_id(turn: &TurnView) -> String {
    format!("turn-{}", turn.id)
}

pub fn items_id(turn: &TurnView) -> String {
    format!("turn-{}-items", turn.id)
}

pub fn end_id(turn: &TurnView) -> String {
    format!("turn-{}-end", turn.id)
}

/// Returns a turn with its items.
pub fn turn(thread: &ThreadId, turn: &TurnView) -> Markup {
    html! {
        section.turn id=(turn_id(turn)) aria-label="Turn" {
            @if turn.hidden_items > 0 {
                @let first = turn.items.front().and_then(|item| item.id());
                p.more {
                    a.button data-more="" href={ "/threads/" (thread) "/turns/" (turn.id) "/items?before=" (url_part(first.map_or("", |id| id))) } {
                        "Show " (turn.hidden_items) " earlier items"
                    }
                }
            }
            div.items id=(items_id(turn)) {
                @for item in &turn.items { (items::item(thread, turn, item)) }
            }
            (end(thread, turn))
        }
    }
}

/// Returns the end of a turn: its plan, its errors and how it ended.
pub fn end(thread: &ThreadId, turn: &TurnView) -> Markup {
    let files = diff::parse(&turn.diff).len();
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
