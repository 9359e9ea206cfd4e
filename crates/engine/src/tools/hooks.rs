//! Where hooks meet a turn: at its beginning, around its tools, at its end.

use codicil_config::Feature;
use codicil_protocol::{AskForApproval, FunctionCallOutputBody};
use serde_json::{Value, json};

use super::{
    TurnTools,
    call::{ToolCall, ToolInput, ToolOutput, TurnCancelled, say},
};
use crate::hooks::{HookContext, HookEffect, HookEvent, TurnHooks};

impl TurnTools {
    pub fn has_hooks(&self) -> bool {
        self.config.features.enabled(Feature::Hooks)
    }

    /// Runs the hooks for an event.
    pub async fn run_hooks(&self, event: &HookEvent) -> Result<HookEffect, TurnCancelled> {
        if !self.has_hooks() {
            return Ok(HookEffect::default());
        }
        let hooks = self.hooks.get_or_init(async || self.load_hooks().await).await;
        let occasion = self.occasion();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(TurnCancelled),
            effect = hooks.run(event, &occasion, &self.reporter) => Ok(effect),
        }
    }

    async fn load_hooks(&self) -> TurnHooks {
        let (engine, config) = (self.kit.engine.clone(), self.config.clone());
        let load = move || TurnHooks::load(engine.config.home(), &config);
        // Only a panic ends up in the error; then there are no hooks.
        tokio::task::spawn_blocking(load).await.unwrap_or_default()
    }

    fn occasion(&self) -> HookContext {
        let permission_mode = match &self.settings.approval_policy {
            _ if self.is_plan_mode() => "plan",
            AskForApproval::Never => "bypassPermissions",
            _ => "default",
        };
        HookContext {
            session: self.kit.thread.to_string(),
            turn: self.turn.to_string(),
            transcript: self.transcript.clone(),
            cwd: self.settings.cwd.to_string_lossy().into_owned(),
            model: self.settings.model.clone(),
            permission_mode,
        }
    }

    /// Runs a tool between its hooks.
    pub(super) async fn dispatch_with_hooks(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let Some((tool, input)) = self.has_hooks().then(|| as_hooks_see(call)).flatten() else {
            return self.dispatch(call).await;
        };
        let id = call.id.clone();
        let before = HookEvent::PreToolUse { id: id.clone(), tool: tool.clone(), input: input.clone() };
        if let Some(why) = self.run_hooks(&before).await?.block {
            return Ok(say(format!("{} was blocked by a PreToolUse hook: {why}", call.name)));
        }
        let output = self.dispatch(call).await?;
        let response = match &output {
            FunctionCallOutputBody::Text(text) => Value::String(text.clone()),
            FunctionCallOutputBody::Content(parts) => json!(parts),
        };
        let effect = self.run_hooks(&HookEvent::PostToolUse { id, tool, input, response }).await?;
        if effect.stop.is_some() {
            self.stop_after_tools();
        }
        let notes = effect.block.into_iter().chain(effect.stop).chain(effect.context);
        Ok(notes.fold(output, |output, note| match output {
            FunctionCallOutputBody::Text(text) => say(format!("{text}\n\nA PostToolUse hook says: {note}")),
            with_images => with_images,
        }))
    }
}

/// The name and input by which hooks know a call; `None` for tools that touch nothing but the conversation.
fn as_hooks_see(call: &ToolCall) -> Option<(String, Value)> {
    let arguments = || match &call.input {
        ToolInput::Arguments(text) => serde_json::from_str(text).unwrap_or(Value::String(text.clone())),
        ToolInput::Text(text) => Value::String(text.clone()),
    };
    let text = |value: &Value, member: &str| value.get(member).and_then(Value::as_str).map(str::to_owned);
    match call.name.as_str() {
        "exec_command" => Some(("Bash".to_owned(), json!({ "command": text(&arguments(), "cmd") }))),
        "shell_command" => Some(("Bash".to_owned(), json!({ "command": text(&arguments(), "command") }))),
        "apply_patch" => {
            let arguments = arguments();
            let patch = text(&arguments, "input").map_or(arguments, Value::String);
            Some(("apply_patch".to_owned(), json!({ "command": patch })))
        }
        name if name.starts_with("mcp__") => Some((name.to_owned(), arguments())),
        _ => None,
    }
}
