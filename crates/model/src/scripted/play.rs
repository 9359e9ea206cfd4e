//! Plays a reply: converts the steps of the script into events, with placeholders filled in.

use std::time::Duration;

use codicil_protocol::{ItemId, ResponseItem, TokenUsageBreakdown};
use serde_json::{Value, json};

use super::{sample::sample, script::Script, situation::ScriptSituation, step::ScriptStep};
use crate::{
    ModelError, ModelEvent, ModelRequest, ProviderLimits, ToolSpec,
    event::{message, new_item_id, reasoning},
};

/// One step of a played reply.
#[derive(Debug)]
pub enum ScriptAct {
    Emit(Vec<ModelEvent>),
    Wait(Duration),
    Fail(ModelError),
}

/// Returns the whole reply to `request`. It ends with `Completed` or a failure.
pub(super) fn play(script: &Script, request: &ModelRequest, limits: &ProviderLimits) -> Vec<ScriptAct> {
    let situation = ScriptSituation::from_request(request);
    let mut player = ScriptPlayer {
        request,
        situation: &situation,
        pace: Duration::from_millis(script.pace_ms),
        acts: Vec::new(),
        written: 0,
        usage: None,
    };
    let steps = script.choose(&situation).map(|reply| reply.steps.as_slice());
    let fallback = [ScriptStep::Say("The script has nothing to say to this.".to_owned())];
    let steps = steps.unwrap_or(&fallback);
    let is_answer = !steps.iter().any(ScriptStep::is_tool_call);
    let last_say = steps.iter().rposition(|step| matches!(step, ScriptStep::Say(_)));
    for (at, step) in steps.iter().enumerate() {
        let schema = request.output_schema.as_deref().filter(|_| is_answer && Some(at) == last_say);
        if player.step(step, schema, limits) == ReplyEnding::Failed {
            return player.acts;
        }
    }
    player.complete()
}

#[derive(PartialEq, Eq)]
enum ReplyEnding {
    None,
    Failed,
}

struct ScriptPlayer<'a> {
    request: &'a ModelRequest,
    situation: &'a ScriptSituation,
    pace: Duration,
    acts: Vec<ScriptAct>,
    /// Number of characters written so far, for the estimate of tokens.
    written: usize,
    usage: Option<TokenUsageBreakdown>,
}

impl ScriptPlayer<'_> {
    fn step(&mut self, step: &ScriptStep, schema: Option<&Value>, limits: &ProviderLimits) -> ReplyEnding {
        match step {
            ScriptStep::Think(text) => self.think(&self.fill_in(text)),
            ScriptStep::Say(text) => {
                let text = self.fill_in(text);
                match schema {
                    Some(schema) if serde_json::from_str::<Value>(&text).is_err() => {
                        self.say(&sample(schema).to_string());
                    }
                    _ => self.say(&text),
                }
            }
            ScriptStep::Run(command) => self.run(&self.fill_in(command)),
            ScriptStep::Patch(patch) => self.patch(&self.fill_in(patch)),
            ScriptStep::Call { tool, args, input } => match input {
                Some(input) => self.call_custom(tool, self.fill_in(input)),
                None => self.call(tool, &self.fill_in_json(args)),
            },
            ScriptStep::Delay(time) => self.acts.push(ScriptAct::Wait(*time)),
            ScriptStep::Usage(usage) => self.usage = Some(usage.clone()),
            ScriptStep::Fail(error) => {
                self.acts.push(ScriptAct::Fail(error.clone()));
                return ReplyEnding::Failed;
            }
            ScriptStep::Stall => {
                self.acts.push(ScriptAct::Wait(limits.idle));
                self.acts.push(ScriptAct::Fail(ModelError::Stalled(limits.idle)));
                return ReplyEnding::Failed;
            }
        }
        ReplyEnding::None
    }

    fn complete(mut self) -> Vec<ScriptAct> {
        let usage = self.usage.take().unwrap_or_else(|| self.estimate());
        let response_id = new_item_id("resp").to_string();
        self.emit(ModelEvent::Completed { response_id, usage: Some(usage) });
        self.acts
    }

    /// Adds an event to the current batch.
    fn emit(&mut self, event: ModelEvent) {
        match self.acts.last_mut() {
            Some(ScriptAct::Emit(events)) => events.push(event),
            _ => self.acts.push(ScriptAct::Emit(vec![event])),
        }
    }

    fn say(&mut self, text: &str) {
        let id = new_item_id("msg");
        self.emit(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(message(&id, None)) });
        for delta in words(text) {
            self.pause();
            self.emit(ModelEvent::TextDelta { item_id: id.clone(), delta: delta.to_owned() });
        }
        self.done(&id, message(&id, Some(text.to_owned())), text.len());
    }

    fn think(&mut self, text: &str) {
        let id = new_item_id("rs");
        self.emit(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning(None, None)) });
        self.emit(ModelEvent::ReasoningSummaryPartAdded { item_id: id.clone(), index: 0 });
        for delta in words(text) {
            self.pause();
            let delta = delta.to_owned();
            self.emit(ModelEvent::ReasoningSummaryDelta { item_id: id.clone(), index: 0, delta });
        }
        self.done(&id, reasoning(Some(text.to_owned()), None), text.len());
    }

    /// Calls the offered shell tool with a command.
    fn run(&mut self, command: &str) {
        for (tool, args) in [
            ("exec_command", json!({ "cmd": command })),
            ("shell_command", json!({ "command": command })),
            ("shell", json!({ "command": ["bash", "-lc", command] })),
        ] {
            if self.offers(tool) {
                return self.call(tool, &args);
            }
        }
        self.say(&format!("There is no shell here, so I cannot run `{command}`."));
    }

    fn patch(&mut self, patch: &str) {
        if self.offers("apply_patch") {
            self.call_custom("apply_patch", patch.to_owned());
        } else {
            self.run(&format!("apply_patch <<'PATCH'\n{patch}\nPATCH"));
        }
    }

    fn call(&mut self, tool: &str, args: &Value) {
        let id = new_item_id("fc");
        let arguments = args.to_string();
        let len = arguments.len();
        let item = ResponseItem::FunctionCall {
            name: tool.to_owned(),
            namespace: None,
            arguments,
            call_id: new_item_id("call").to_string(),
            id: Some(id.to_string()),
        };
        self.done(&id, item, len);
    }

    /// Calls a tool with free text, or as a function if it is offered as one.
    fn call_custom(&mut self, tool: &str, input: String) {
        let specs = self.request.tools.specs();
        let is_function =
            specs.iter().any(|spec| matches!(spec, ToolSpec::Function { name, .. } if name == tool));
        if is_function {
            return self.call(tool, &json!({ "input": input }));
        }
        let id = new_item_id("ctc");
        let len = input.len();
        let item = ResponseItem::CustomToolCall {
            call_id: new_item_id("call").to_string(),
            name: tool.to_owned(),
            input,
            status: None,
            id: Some(id.to_string()),
        };
        self.done(&id, item, len);
    }

    fn done(&mut self, id: &ItemId, item: ResponseItem, len: usize) {
        self.written += len;
        self.emit(ModelEvent::ItemDone { id: id.clone(), item: Box::new(item) });
    }

    fn pause(&mut self) {
        if !self.pace.is_zero() {
            self.acts.push(ScriptAct::Wait(self.pace));
        }
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.specs().iter().any(|spec| spec.name() == tool)
    }

    fn fill_in(&self, text: &str) -> String {
        let output = self.situation.output.as_deref().unwrap_or_default();
        text.replace("{user}", &self.situation.user).replace("{output}", output)
    }

    fn fill_in_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_in(text).into(),
            Value::Array(parts) => parts.iter().map(|part| self.fill_in_json(part)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), self.fill_in_json(value))).collect()
            }
            other => other.clone(),
        }
    }

    /// Estimates tokens as four characters each.
    fn estimate(&self) -> TokenUsageBreakdown {
        let weight: usize = self.request.input.iter().map(|item| item.weight()).sum();
        let tokens = |characters: usize| i64::try_from(characters / 4).unwrap_or(i64::MAX);
        let input_tokens = tokens(weight + self.request.instructions.text().len());
        let output_tokens = tokens(self.written);
        TokenUsageBreakdown {
            total_tokens: input_tokens + output_tokens,
            input_tokens,
            cached_input_tokens: 0,
            cache_write_input_tokens: 0,
            output_tokens,
            reasoning_output_tokens: 0,
        }
    }
}

/// Splits a text into words, each with the space that follows it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '\n'])
}
