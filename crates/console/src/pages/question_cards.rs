//! Open questions as cards: what is asked, what it is about, and a button for each answer.

use std::{borrow::Cow, sync::Arc};

use codicil_client::protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions,
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeRequestApprovalParams,
    FileSystemAccessMode, FileSystemPath, NetworkPolicyRuleAction, PermissionsRequestApprovalParams,
    SandboxPolicy, ServerRequest,
};
use maud::{Markup, html};

use super::{
    format::{age, timestamp, unix_now},
    items::{action_summary, diffs, item_address, shell_text},
    question_forms,
};
use crate::{
    live::TurnSettings,
    questions::{Question, offered_decisions},
    render::text::{visible, visible_plain},
};

/// A button of a card.
pub struct AnswerButton {
    pub decision: Cow<'static, str>,
    pub label: String,
    pub class: &'static str,
}

impl AnswerButton {
    pub fn new(decision: &'static str, label: impl Into<String>, class: &'static str) -> Self {
        Self { decision: decision.into(), label: label.into(), class }
    }
}

/// Returns the cards of questions. Without the session's token the script adds it, because all pages get the same bytes.
pub fn question_cards(questions: &[Arc<Question>], csrf: Option<&str>) -> Markup {
    html! { @for question in questions { (card(question, csrf)) } }
}

fn card(question: &Question, csrf: Option<&str>) -> Markup {
    let title = title(&question.request);
    html! {
        article.question id={ "question-" (question.key) } aria-label=(visible_plain(&title)) data-question-thread=(question.thread_id) data-key=(question.key) tabindex="-1" {
            header {
                h3 { (visible(&title)) }
                p.meta {
                    a.from href={ "/threads/" (question.thread_id) } { (visible(&question.thread_title)) }
                    @if let Some(asked) = question.asked_at { " " time datetime=(timestamp(asked)) { (age(asked)) } }
                    @if let Some(deadline) = question.deadline {
                        " · answered by default " time datetime=(timestamp(deadline)) { "in " (deadline.saturating_sub(unix_now()).max(0)) " s" }
                    }
                }
            }
            form method="post" action={ "/questions/" (question.key) } data-live="" data-token="" {
                @if let Some(csrf) = csrf { input type="hidden" name="csrf" value=(csrf); }
                (body(question))
            }
        }
    }
}

/// Returns what a question asks, in one line.
fn title(request: &ServerRequest) -> String {
    match request {
        ServerRequest::CommandExecutionApproval(params) => match &params.network_approval_context {
            Some(network) => format!("Connect to {}?", network.host),
            None => {
                let command = shell_text(params.command.as_deref().unwrap_or("a command"));
                let line = command.lines().next().unwrap_or_default();
                format!("Run {}?", crate::render::text::prefix(line, 80))
            }
        },
        ServerRequest::FileChangeApproval(_) => "Apply these changes?".to_owned(),
        ServerRequest::PermissionsApproval(_) => "Grant more permissions?".to_owned(),
        ServerRequest::ToolUserInput(params) => {
            let first = params.questions.first().map(|question| question.question.as_str());
            first.unwrap_or("The agent has a question").to_owned()
        }
        ServerRequest::McpServerElicitation(params) => format!("{} asks", params.server_name),
        _ => "The server has a question".to_owned(),
    }
}

fn body(question: &Question) -> Markup {
    match &question.request {
        ServerRequest::CommandExecutionApproval(params) => command(question, params),
        ServerRequest::FileChangeApproval(params) => file_change(question, params),
        ServerRequest::PermissionsApproval(params) => permissions(params),
        ServerRequest::ToolUserInput(params) => question_forms::user_input(params),
        ServerRequest::McpServerElicitation(params) => question_forms::elicitation(params),
        _ => html! { p { "This version of the console cannot answer it." } },
    }
}

fn command(question: &Question, params: &CommandExecutionRequestApprovalParams) -> Markup {
    html! {
        @if let Some(reason) = &params.reason { p.reason { (visible(reason)) } }
        @if let Some(network) = &params.network_approval_context {
            p { "The command wants to reach " strong { (visible(&network.host)) } "." }
        }
        @if let Some(command) = &params.command {
            pre.command-line { code { (visible(&shell_text(command))) } }
        }
        (action_summary(params.command_actions.as_deref().unwrap_or_default()))
        @if let Some(cwd) = &params.cwd { p.meta { "in " (visible(cwd)) } }
        @if let Some(permissions) = &params.additional_permissions {
            (wanted_access(permissions.network.as_ref(), permissions.file_system.as_ref()))
        }
        @if params.network_approval_context.is_none() && let Some(settings) = &question.settings { (sandbox_limits(settings)) }
        (buttons(&command_buttons(params)))
    }
}

/// Returns what the sandbox of a thread refuses.
fn sandbox_limits(settings: &TurnSettings) -> Markup {
    let (writing, has_network) = match &settings.sandbox {
        Some(SandboxPolicy::ReadOnly { network_access, .. }) => ("writing files".to_owned(), *network_access),
        Some(SandboxPolicy::WorkspaceWrite { writable_roots, network_access, .. }) => {
            let roots = writable_roots.iter().filter_map(|root| root.to_str());
            let writable: Vec<_> = std::iter::once(settings.cwd.as_str()).chain(roots).collect();
            (format!("writing outside of {}", writable.join(", ")), *network_access)
        }
        Some(SandboxPolicy::DangerFullAccess) => return html! { p.meta { "This thread has no sandbox." } },
        _ => return html! {},
    };
    html! {
        p.meta { "The sandbox refuses " (visible(&writing)) @if !has_network { " and using the network" } "." }
    }
}

/// Returns a button for every decision that the server offers.
fn command_buttons(params: &CommandExecutionRequestApprovalParams) -> Vec<AnswerButton> {
    let offered = offered_decisions(params);
    // A decision that continues without the command is always possible.
    let needs_decline = !offered.contains(&CommandExecutionApprovalDecision::Decline);
    let mut found: Vec<_> = offered
        .iter()
        .enumerate()
        .filter_map(|(number, decision)| decision_button(number, decision))
        .collect();
    if needs_decline {
        found.push(AnswerButton::new("decline", "Decline", "danger"));
    }
    // The rules, which are long, come last.
    found.sort_by_key(|button| match button.decision.as_ref() {
        "accept" => 0,
        "acceptForSession" => 1,
        "decline" => 2,
        "cancel" => 3,
        _ => 4,
    });
    found
}

/// Returns the button of an offered decision; `None` for decisions of newer servers.
fn decision_button(number: usize, decision: &CommandExecutionApprovalDecision) -> Option<AnswerButton> {
    use CommandExecutionApprovalDecision as D;
    // The answer is the decision with this number, so that it cannot differ from the label.
    let rule = |label: String, class: &'static str| AnswerButton {
        decision: format!("offered-{number}").into(),
        label,
        class,
    };
    Some(match decision {
        D::Accept => AnswerButton::new("accept", "Approve", "primary"),
        D::AcceptForSession => AnswerButton::new("acceptForSession", "Approve for session", ""),
        D::Decline => AnswerButton::new("decline", "Decline", "danger"),
        D::Cancel => AnswerButton::new("cancel", "Cancel turn", ""),
        D::AcceptWithExecpolicyAmendment { execpolicy_amendment: words } => {
            rule(format!("Always allow {}", shell_text(&words.join(" "))), "")
        }
        D::ApplyNetworkPolicyAmendment { network_policy_amendment: amendment } => match &amendment.action {
            NetworkPolicyRuleAction::Allow => rule(format!("Always allow {}", amendment.host), ""),
            NetworkPolicyRuleAction::Deny => rule(format!("Always refuse {}", amendment.host), "danger"),
            NetworkPolicyRuleAction::Unrecognized(_) => return None,
        },
        D::Unrecognized(_) => return None,
    })
}

fn standard_buttons() -> Vec<AnswerButton> {
    vec![
        AnswerButton::new("accept", "Approve", "primary"),
        AnswerButton::new("acceptForSession", "Approve for session", ""),
        AnswerButton::new("decline", "Decline", "danger"),
        AnswerButton::new("cancel", "Cancel turn", ""),
    ]
}

fn file_change(question: &Question, params: &FileChangeRequestApprovalParams) -> Markup {
    let address = format!("{}/diff", item_address(&params.thread_id, &params.turn_id, &params.item_id));
    html! {
        @if let Some(reason) = &params.reason { p.reason { (visible(reason)) } }
        @if let Some(root) = &params.grant_root { p { "Approving for the session allows writing below " code { (visible(root)) } "." } }
        @match &question.changes {
            Some(changes) => (diffs(changes, &address)),
            None => p.meta { "The changes are not known yet. " a href=(address) { "Show the changes" } },
        }
        (buttons(&standard_buttons()))
    }
}

fn permissions(params: &PermissionsRequestApprovalParams) -> Markup {
    html! {
        @if let Some(reason) = &params.reason { p.reason { (visible(reason)) } }
        (wanted_access(params.permissions.network.as_ref(), params.permissions.file_system.as_ref()))
        (buttons(&[
            AnswerButton::new("accept", "Approve", "primary"),
            AnswerButton::new("acceptForSession", "Approve for session", ""),
            AnswerButton::new("decline", "Decline", "danger"),
        ]))
    }
}

/// Returns what the sandbox would refuse without the permissions.
fn wanted_access(
    network: Option<&AdditionalNetworkPermissions>,
    files: Option<&AdditionalFileSystemPermissions>,
) -> Markup {
    let has_network = network.and_then(|network| network.enabled).unwrap_or(false);
    let paths = files.map(wanted_paths).unwrap_or_default();
    html! {
        @if has_network || !paths.is_empty() {
            p { "The sandbox refuses this so far:" }
            ul.access {
                @if has_network { li { "using the network" } }
                @for (verb, path) in &paths { li { (verb) " " code { (visible(path)) } } }
            }
        }
    }
}

/// Returns the files of a request with what is wanted to be done with them. Rules that repeat the lists are left out.
fn wanted_paths(files: &AdditionalFileSystemPermissions) -> Vec<(&'static str, String)> {
    let text = |path: &AbsolutePathBuf| path.to_str().unwrap_or_default().to_owned();
    let read = files.read.iter().flatten().map(|path| ("reading", text(path)));
    let write = files.write.iter().flatten().map(|path| ("writing", text(path)));
    let mut found: Vec<_> = read.chain(write).collect();
    for entry in files.entries.iter().flatten() {
        let verb = match entry.access {
            FileSystemAccessMode::Read => "reading",
            FileSystemAccessMode::Write => "writing",
            FileSystemAccessMode::Deny => "not using",
            FileSystemAccessMode::Unrecognized(_) => "using",
        };
        let wanted = (verb, rule_path(&entry.path));
        if !found.contains(&wanted) {
            found.push(wanted);
        }
    }
    found
}

/// Returns the files of a rule as text.
fn rule_path(path: &FileSystemPath) -> String {
    let value = serde_json::to_value(path).unwrap_or_default();
    let named = ["path", "pattern"].iter().find_map(|name| value.get(name)?.as_str().map(str::to_owned));
    named.unwrap_or_else(|| value.get("value").unwrap_or(&value).to_string())
}

pub fn buttons(buttons: &[AnswerButton]) -> Markup {
    html! {
        div.answers {
            @for button in buttons {
                button.(button.class) name="decision" value=(button.decision) { (visible_plain(&button.label)) }
            }
        }
    }
}
