//! The composer: message, images, and the settings of the next turn.

use axum::{
    Extension,
    extract::{Path, State},
};
use codicil_client::protocol::{AskForApproval, ModeKind, Model, ReasoningEffort, SandboxPolicy, ThreadId};
use maud::{Markup, html};

use super::PageError;
use crate::{access::Session, live::ThreadView, render::text::visible, state::Console};

/// The element with the buttons that depend on whether a turn runs.
pub const SEND_ID: &str = "composer-send";

/// The element with the settings of the next turn.
pub const NEXT_TURN_ID: &str = "next-turn";

/// The efforts that can be chosen, as on the wire.
pub const EFFORTS: [(&str, &str); 6] = [
    ("none", "None"),
    ("minimal", "Minimal"),
    ("low", "Low"),
    ("medium", "Medium"),
    ("high", "High"),
    ("xhigh", "Extra high"),
];

/// The approval policies that can be chosen.
pub const POLICIES: [(&str, &str); 3] = [
    ("untrusted", "Ask unless trusted"),
    ("on-request", "Ask when the agent wants to"),
    ("never", "Never ask"),
];

/// The sandboxes that can be chosen.
pub const SANDBOXES: [(&str, &str); 3] = [
    ("read-only", "Read only"),
    ("workspace-write", "Write in the workspace"),
    ("danger-full-access", "Full access"),
];

/// Returns the composer of a thread.
pub fn composer(view: &ThreadView, models: &[Model], session: &Session) -> Markup {
    let thread = &view.thread.id;
    html! {
        section.composer aria-label="Composer" {
            form #composer method="post" action={ "/threads/" (thread) "/input" } data-live="" data-reset="" {
                input type="hidden" name="csrf" value=(session.csrf);
                label.visually-hidden for="message" { "Message" }
                textarea #message name="text" rows="2" placeholder="Message the agent. @ completes files, $ completes skills." autocomplete="off" aria-autocomplete="list" aria-controls="completions" data-complete=(thread) {}
                ul #completions .completions role="listbox" aria-label="Completions" hidden {}
                div #attachments .attachments {}
                div.composer-bar {
                    label.button.attach { "Add images" input.visually-hidden type="file" accept="image/*" multiple data-images=""; }
                    (send_buttons(view))
                }
            }
            details #(NEXT_TURN_ID) .next-turn data-address={ "/threads/" (thread) "/settings" } {
                (settings_form(view, models, session))
            }
            (more_actions(view, session))
        }
    }
}

/// Returns the buttons that depend on whether a turn runs.
pub fn send_buttons(view: &ThreadView) -> Markup {
    html! {
        div #(SEND_ID) .send {
            @if let Some(turn) = view.running_turn() {
                button.danger type="submit" name="do" value="stop" formnovalidate data-stop=(turn.id) { "Stop" }
                button type="submit" name="do" value="queue" { "Queue" }
            }
            button.primary type="submit" name="do" value="send" title="While a turn runs, the message steers it" { "Send" }
        }
    }
}

/// `GET /threads/{thread}/settings`: the settings of the next turn, as a part of the page.
pub async fn next_turn(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path(thread): Path<String>,
) -> Result<Markup, PageError> {
    let view = console.hubs.page(&ThreadId::from(thread)).await?.view;
    let models = console.models().await;
    Ok(settings_form(&view, &models, &session))
}

/// Returns the settings of the next turn: what they are, and the form that changes them.
fn settings_form(view: &ThreadView, models: &[Model], session: &Session) -> Markup {
    let settings = &view.settings;
    let policy = settings.approval_policy.as_ref().map(policy_name).unwrap_or_default();
    let sandbox = settings.sandbox.as_ref().map(sandbox_name).unwrap_or_default();
    let effort = settings.effort.as_ref().map(effort_name).unwrap_or_default();
    let is_plan = settings.mode == Some(ModeKind::Plan);
    html! {
        summary { "Next turn: " (visible(&settings.model)) }
        form.settings method="post" aria-label="Settings of the next turn" action={ "/threads/" (view.thread.id) "/settings" } data-live="" {
            input type="hidden" name="csrf" value=(session.csrf);
            label { "Model" (model_input(models, &settings.model)) }
            label { "Effort" select name="effort" { (choices(&EFFORTS, &effort, Some("Model's default"))) } }
            label { "Mode" select name="mode" {
                option value="default" selected[!is_plan] { "Default" }
                option value="plan" selected[is_plan] { "Plan first" }
            } }
            label { "Approvals" select name="policy" { (choices(&POLICIES, &policy, None)) } }
            label { "Sandbox" select name="sandbox" { (choices(&SANDBOXES, sandbox, None)) } }
            button { "Apply" }
        }
    }
}

/// Returns a field for a directory of the server, with its name. Its suggestions come from the script.
pub fn directory_input(cwd: &str, placeholder: &str) -> Markup {
    html! {
        div.picker {
            input #cwd name="cwd" value=(cwd) placeholder=(placeholder) autocomplete="off" spellcheck="false" role="combobox"
                aria-expanded="false" aria-controls="directories" aria-autocomplete="list" data-directories="";
            ul #directories .completions.below role="listbox" aria-label="Directories" hidden {}
        }
    }
}

/// Returns a field for a model, with the models of the server as suggestions.
pub fn model_input(models: &[Model], current: &str) -> Markup {
    html! {
        input name="model" list="models" value=(current) autocomplete="off";
        datalist #models {
            @for model in models.iter().filter(|model| !model.hidden) {
                option value=(model.model) { (visible(&model.display_name)) }
            }
        }
    }
}

/// Returns the options of a choice. A current value that is not among them is added.
pub fn choices(options: &[(&str, &str)], current: &str, without: Option<&str>) -> Markup {
    let is_known = options.iter().any(|(value, _)| *value == current);
    html! {
        @if let Some(without) = without { option value="" selected[current.is_empty()] { (without) } }
        @for (value, label) in options { option value=(value) selected[*value == current] { (label) } }
        @if !is_known && !current.is_empty() { option value="" selected { (visible(current)) } }
    }
}

fn more_actions(view: &ThreadView, session: &Session) -> Markup {
    let thread = &view.thread.id;
    let csrf = html! { input type="hidden" name="csrf" value=(session.csrf); };
    html! {
        details.more-actions {
            summary { "More" }
            form.inline method="post" action={ "/threads/" (thread) "/compact" } data-live="" { (csrf) button { "Compact the history" } }
            form.inline method="post" action={ "/threads/" (thread) "/undo" } data-confirm="Remove the last turn?" { (csrf) button { "Undo the last turn" } }
            form.review method="post" action={ "/threads/" (thread) "/review" } data-live="" {
                (csrf)
                label { "Review" select name="target" {
                    option value="uncommitted" { "Uncommitted changes" }
                    option value="branch" { "Against a branch" }
                    option value="commit" { "A commit" }
                    option value="custom" { "As I say" }
                } }
                label { "Branch, commit or instructions" input name="what" autocomplete="off"; }
                button { "Start review" }
            }
            p { a href={ "/threads/" (thread) "/terminals" } { "Background terminals" } " · " a href={ "/threads/" (thread) "/export" } { "Export as Markdown" } }
        }
    }
}

pub fn effort_name(effort: &ReasoningEffort) -> String {
    wire_name(effort)
}

pub fn policy_name(policy: &AskForApproval) -> String {
    match policy {
        AskForApproval::Granular { .. } => "granular".to_owned(),
        other => wire_name(other),
    }
}

/// Returns the sandbox mode of a policy.
pub fn sandbox_name(policy: &SandboxPolicy) -> &'static str {
    match policy {
        SandboxPolicy::DangerFullAccess => "danger-full-access",
        SandboxPolicy::ReadOnly { .. } => "read-only",
        SandboxPolicy::WorkspaceWrite { .. } => "workspace-write",
        _ => "external-sandbox",
    }
}

fn wire_name(value: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_default()
}
