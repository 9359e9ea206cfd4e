//! `/new`: a new thread, with its directory, model and limits.

use axum::{
    Extension,
    extract::{Query, State},
    http::HeaderMap,
    response::Response,
};
use codicil_client::protocol::{
    AskForApproval, Model, ReasoningEffort, SandboxMode, ThreadStart, ThreadStartParams, TurnStart,
    TurnStartParams, UserInput,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{go_to, input::parse};
use crate::{
    access::{FormFields, Session},
    pages::{
        EFFORTS, POLICIES, PageError, PageFrame, SANDBOXES, choices, directory_input, model_input, page,
    },
    state::Console,
};

#[derive(Debug, Default, Deserialize)]
pub struct NewThreadQuery {
    /// The directory that the form begins with.
    #[serde(default)]
    cwd: String,
}

/// `GET /new`
pub async fn new_thread(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Query(query): Query<NewThreadQuery>,
) -> Markup {
    let models = console.models().await;
    page(&console, &session, &PageFrame::new("New thread", "threads"), form(&models, &query.cwd, &session))
}

fn form(models: &[Model], cwd: &str, session: &Session) -> Markup {
    html! {
        main #main aria-label="New thread" {
            header.page-head { h1 { "New thread" } }
            form.sheet method="post" action="/new" {
                input type="hidden" name="csrf" value=(session.csrf);
                label { "Message" textarea name="text" rows="5" placeholder="What should the agent do?" autofocus {} }
                div { label for="cwd" { "Directory" } (directory_input(cwd, "The server's directory")) }
                div.settings {
                    label { "Model" (model_input(models, "")) }
                    label { "Effort" select name="effort" { (choices(&EFFORTS, "", Some("Model's default"))) } }
                    label { "Sandbox" select name="sandbox" { (choices(&SANDBOXES, "", Some("As configured"))) } }
                    label { "Approvals" select name="policy" { (choices(&POLICIES, "", Some("As configured"))) } }
                }
                div { button.primary { "Start thread" } }
            }
        }
    }
}

/// `POST /new`: starts a thread, and its first turn if there is a message.
pub async fn create_thread(
    State(console): State<Console>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let text =
        |name: &str| fields.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let params = ThreadStartParams {
        cwd: text("cwd"),
        model: text("model"),
        approval_policy: fields.get("policy").and_then(parse::<AskForApproval>),
        sandbox: fields.get("sandbox").and_then(parse::<SandboxMode>).map(Into::into),
        ..Default::default()
    };
    let thread = console.threads_client.call::<ThreadStart>(params).await?.thread;
    if let Some(text) = fields.get("text").filter(|text| !text.trim().is_empty()) {
        let input = vec![UserInput::Text { text: text.replace("\r\n", "\n"), text_elements: Vec::new() }];
        let params = TurnStartParams {
            effort: fields.get("effort").and_then(parse::<ReasoningEffort>),
            ..TurnStartParams::new(thread.id.clone(), input)
        };
        console.threads_client.call::<TurnStart>(params).await?;
    }
    Ok(go_to(&headers, &format!("/threads/{}", thread.id)))
}
