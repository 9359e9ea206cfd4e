//! The composer: messages that start, steer or wait for a turn, and the settings of the next one.

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};
use codicil_client::{
    ClientError,
    protocol::{
        AskForApproval, CollaborationMode, ModeKind, ReasoningEffort, SandboxPolicy, Settings, SkillsList,
        SkillsListParams, ThreadId, ThreadQueueAdd, ThreadQueueAddParams, ThreadQueueDelete,
        ThreadQueueDeleteParams, ThreadSettingsUpdate, ThreadSettingsUpdateParams, TurnStart,
        TurnStartParams, TurnSteer, TurnSteerParams, UserInput,
    },
};
use serde_json::{Value, json};

use super::done;
use crate::{
    access::{FormFields, new_id},
    live::ThreadView,
    pages::{PageError, sandbox_name},
    state::Console,
};

/// Images of one message.
const MAX_IMAGES: usize = 10;

/// `POST /threads/{thread}/input`: sends, queues or stops.
pub async fn send_input(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let thread = ThreadId::from(thread);
    let view = console.hubs.page(&thread).await?.view;
    match fields.get("do") {
        Some("stop") => stop(&console, &view).await?,
        Some("queue") => queue(&console, &thread, message_of(&console, &view, &fields).await?).await?,
        _ => send(&console, &view, message_of(&console, &view, &fields).await?).await?,
    }
    Ok(done(&headers, &format!("/threads/{thread}#composer")))
}

/// Steers the running turn, or starts one.
async fn send(console: &Console, view: &ThreadView, message: ComposedMessage) -> Result<(), PageError> {
    let thread = view.thread.id.clone();
    let ComposedMessage { id, input } = message;
    if let Some(turn) = view.running_turn() {
        let params = TurnSteerParams {
            client_user_message_id: Some(id.clone()),
            ..TurnSteerParams::new(thread.clone(), input.clone(), turn.id.clone())
        };
        match console.threads_client.call::<TurnSteer>(params).await {
            Ok(_) => return Ok(()),
            // The turn may have ended in this moment. A review cannot be steered, and says so.
            Err(ClientError::ResponseError { error, .. }) if error.message.contains("no active turn") => {}
            Err(error) => return Err(error.into()),
        }
    }
    let params = TurnStartParams { client_user_message_id: Some(id), ..TurnStartParams::new(thread, input) };
    console.threads_client.call::<TurnStart>(params).await?;
    Ok(())
}

/// Has a message sent after the running turn.
async fn queue(console: &Console, thread: &ThreadId, message: ComposedMessage) -> Result<(), PageError> {
    let ComposedMessage { id, input } = message;
    let params = ThreadQueueAddParams { thread_id: thread.clone(), client_user_message_id: id, input };
    console.threads_client.call::<ThreadQueueAdd>(params).await?;
    Ok(())
}

/// `POST /threads/{thread}/queue`: removes a queued message.
pub async fn remove_queued(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let params = ThreadQueueDeleteParams {
        thread_id: ThreadId::from(thread.as_str()),
        queued_submission_id: fields.get("message").unwrap_or_default().to_owned(),
    };
    console.threads_client.call::<ThreadQueueDelete>(params).await?;
    Ok(done(&headers, &format!("/threads/{thread}#composer")))
}

async fn stop(console: &Console, view: &ThreadView) -> Result<(), PageError> {
    match view.running_turn() {
        Some(turn) => Ok(console.threads_client.interrupt_turn(&view.thread.id, &turn.id).await?),
        None => Ok(()),
    }
}

/// A message as a person has written it.
struct ComposedMessage {
    /// The message's id, by which the server recognises a repeated request.
    id: String,
    input: Vec<UserInput>,
}

async fn message_of(
    console: &Console,
    view: &ThreadView,
    fields: &FormFields,
) -> Result<ComposedMessage, PageError> {
    let input = input_of(console, view, fields).await?;
    let id = match fields.get("id") {
        Some(id) => id.to_owned(),
        // A browser without the script.
        None => new_id().map_err(|error| PageError::BadRequest(error.to_string()))?,
    };
    Ok(ComposedMessage { id, input })
}

/// Returns the parts of a message: text, images, and the skills and files that the text names.
async fn input_of(
    console: &Console,
    view: &ThreadView,
    fields: &FormFields,
) -> Result<Vec<UserInput>, PageError> {
    let mut input = Vec::new();
    if let Some(text) = fields.get("text").filter(|text| !text.trim().is_empty()) {
        input.push(UserInput::Text { text: text.replace("\r\n", "\n"), text_elements: Vec::new() });
        input.extend(named_skills(console, &view.settings.cwd, text).await);
    }
    if fields.all("image").count() > MAX_IMAGES {
        return Err(PageError::BadRequest(format!("a message has at most {MAX_IMAGES} images")));
    }
    for url in fields.all("image") {
        if !url.starts_with("data:image/") {
            return Err(PageError::BadRequest("an attached file is not an image".to_owned()));
        }
        input.push(UserInput::image(url));
    }
    if input.is_empty() {
        return Err(PageError::BadRequest("write a message first".to_owned()));
    }
    Ok(input)
}

/// Returns the skills whose `$name` is in the text.
async fn named_skills(console: &Console, cwd: &str, text: &str) -> Vec<UserInput> {
    if !text.contains('$') {
        return Vec::new();
    }
    let params = SkillsListParams { cwds: Some(vec![cwd.to_owned()]), ..Default::default() };
    let Ok(found) = console.client.call::<SkillsList>(params).await else { return Vec::new() };
    let skills = found.data.into_iter().flat_map(|entry| entry.skills).filter(|skill| skill.enabled);
    let is_named = |name: &str| {
        text.split('$').skip(1).any(|rest| {
            rest.strip_prefix(name).is_some_and(|after| {
                !after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'))
            })
        })
    };
    skills
        .filter(|skill| is_named(&skill.name))
        .map(|skill| UserInput::Skill { name: skill.name, path: skill.path })
        .collect()
}

/// `POST /threads/{thread}/settings`: changes the settings of the next turn.
pub async fn change_settings(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let thread = ThreadId::from(thread);
    let view = console.hubs.page(&thread).await?.view;
    console.threads_client.call::<ThreadSettingsUpdate>(settings_update(&view, &fields)).await?;
    Ok(done(&headers, &format!("/threads/{thread}#composer")))
}

/// Returns what a person has changed; what was left as it is stays out.
fn settings_update(view: &ThreadView, fields: &FormFields) -> ThreadSettingsUpdateParams {
    let current = &view.settings;
    let model = fields.get("model").map(|model| model.trim().to_owned()).filter(|model| !model.is_empty());
    let effort = fields.get("effort").and_then(parse::<ReasoningEffort>);
    let policy = fields.get("policy").and_then(parse::<AskForApproval>);
    let is_other_sandbox =
        |name: &&str| current.sandbox.as_ref().is_none_or(|policy| sandbox_name(policy) != *name);
    let sandbox = fields.get("sandbox").filter(is_other_sandbox).and_then(sandbox_policy);
    let mode = fields.get("mode").and_then(parse::<ModeKind>);
    let mode_model = model.clone().unwrap_or_else(|| current.model.clone());
    let is_other_mode =
        |mode: &ModeKind| current.mode.as_ref().map_or(*mode != ModeKind::Default, |known| known != mode);
    let collaboration_mode = mode.filter(is_other_mode).map(|mode| CollaborationMode {
        mode,
        settings: Settings {
            model: mode_model,
            reasoning_effort: effort.clone().or(current.effort.clone()),
            developer_instructions: None,
        },
    });
    ThreadSettingsUpdateParams {
        thread_id: view.thread.id.clone(),
        cwd: None,
        approval_policy: policy.filter(|policy| current.approval_policy.as_ref() != Some(policy)),
        approvals_reviewer: None,
        sandbox_policy: sandbox,
        permissions: None,
        model: model.filter(|model| *model != current.model),
        service_tier: Default::default(),
        effort: effort.filter(|effort| current.effort.as_ref() != Some(effort)),
        summary: None,
        collaboration_mode,
        personality: None,
        multi_agent_mode: None,
        disabled_plugin_ids: None,
    }
}

/// Reads a value as on the wire.
pub(super) fn parse<T: serde::de::DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::from(name)).ok()
}

fn sandbox_policy(name: &str) -> Option<SandboxPolicy> {
    let kind = match name {
        "read-only" => "readOnly",
        "workspace-write" => "workspaceWrite",
        "danger-full-access" => "dangerFullAccess",
        _ => return None,
    };
    serde_json::from_value(json!({ "type": kind })).ok()
}
