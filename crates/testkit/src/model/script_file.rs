//! Plays a script file of the scripted provider over HTTP.
//!
//! The format and its interpretation are those of `codicil_model::Script`, which `wire_api = "scripted"`
//! plays inside a server. This module only translates between its types and those of the model server.

use codicil_model::{ModelError, ModelEvent, ProviderConfig, ScriptAct};
use codicil_protocol::{ReasoningItemReasoningSummary, ResponseItem, TokenUsageBreakdown};
use serde_json::json;

use super::{recorded::RecordedRequest, reply::Reply, script::Script, script_request};

impl From<codicil_model::Script> for Script {
    /// Returns a script that answers each request as the script file says.
    fn from(script: codicil_model::Script) -> Self {
        Self::new().respond_with(script_file_replies(script))
    }
}

/// Returns a function that answers requests as a script file says, for [`Script::respond_with`].
pub fn script_file_replies(
    script: codicil_model::Script,
) -> impl Fn(&RecordedRequest) -> Reply + Send + 'static {
    let limits = ProviderConfig::default().limits();
    move |recorded| reply(script.acts(&script_request::from_recorded(recorded), &limits))
}

fn reply(acts: Vec<ScriptAct>) -> Reply {
    // An HTTP error replaces the whole stream, including the steps before it.
    if let Some(http_error) = acts.iter().find_map(http_error) {
        return http_error;
    }
    let mut builder = ReplyBuilder { reply: Reply::new(), in_item: false };
    let mut acts = acts.into_iter().peekable();
    while let Some(act) = acts.next() {
        match act {
            // A stalled stream hangs here, so the wait before the error is left out.
            ScriptAct::Wait(_) if matches!(acts.peek(), Some(ScriptAct::Fail(ModelError::Stalled(_)))) => {}
            ScriptAct::Wait(time) => builder.edit(|reply| reply.pause(time)),
            ScriptAct::Emit(events) => events.into_iter().for_each(|event| builder.event(event)),
            ScriptAct::Fail(error) => return fail(builder.reply, &error),
        }
    }
    builder.reply
}

struct ReplyBuilder {
    reply: Reply,
    /// Whether deltas of the open item have been written.
    in_item: bool,
}

impl ReplyBuilder {
    fn edit(&mut self, edit: impl FnOnce(Reply) -> Reply) {
        self.reply = edit(std::mem::take(&mut self.reply));
    }

    fn event(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::TextDelta { delta, .. } => {
                self.edit(|reply| reply.say_deltas([delta]).unfinished());
                self.in_item = true;
            }
            ModelEvent::ItemDone { item, .. } => self.done(*item),
            ModelEvent::Completed { usage: Some(usage), .. } => self.edit(|reply| with_usage(reply, &usage)),
            // The reply opens items by itself, and reasoning is written when it is complete.
            _ => {}
        }
    }

    fn done(&mut self, item: ResponseItem) {
        let was_in_item = std::mem::take(&mut self.in_item);
        match item {
            ResponseItem::Message { .. } if was_in_item => self.edit(Reply::finished),
            ResponseItem::Reasoning { summary, .. } => {
                let parts = summary.into_iter().filter_map(|part| match part {
                    ReasoningItemReasoningSummary::SummaryText { text } => Some(text),
                    _ => None,
                });
                self.edit(|reply| reply.think_parts(parts));
            }
            ResponseItem::FunctionCall { name, arguments, call_id, .. } => {
                self.edit(|reply| reply.call_text(name, arguments).call_id(call_id));
            }
            ResponseItem::CustomToolCall { name, input, call_id, .. } => {
                self.edit(|reply| reply.custom_call(name, input).call_id(call_id));
            }
            _ => {}
        }
    }
}

fn with_usage(reply: Reply, usage: &TokenUsageBreakdown) -> Reply {
    let count = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
    reply.usage(
        count(usage.input_tokens),
        count(usage.cached_input_tokens),
        count(usage.output_tokens),
        count(usage.reasoning_output_tokens),
    )
}

/// Returns the HTTP answer of an error that is sent instead of a stream.
fn http_error(act: &ScriptAct) -> Option<Reply> {
    let ScriptAct::Fail(error) = act else { return None };
    let reply = match error {
        ModelError::Status(failure) => Reply::status(failure.status.as_u16())
            .body(json!({ "error": { "message": failure.message.as_deref().unwrap_or_default() } })),
        ModelError::RateLimited { message, .. } => {
            Reply::status(429).body(json!({ "error": { "message": message.as_deref().unwrap_or_default() } }))
        }
        _ => return None,
    };
    Some(match error.retry_after() {
        Some(wait) => reply.header("retry-after", &wait.as_secs().to_string()),
        None => reply,
    })
}

fn fail(reply: Reply, error: &ModelError) -> Reply {
    match error {
        ModelError::Disconnected(_) => reply.cut(),
        ModelError::Stalled(_) => reply.hang(),
        ModelError::Failed { code, message, .. } => reply.fail(code, message),
        ModelError::ContextWindowExceeded { details: message }
        | ModelError::QuotaExceeded(message)
        | ModelError::Overloaded { message, .. } => {
            reply.fail(code(error), message.clone().unwrap_or_else(|| error.to_string()))
        }
        error => reply.fail(code(error), error.to_string()),
    }
}

/// Returns the provider's code of an error that has its own variant.
fn code(error: &ModelError) -> &'static str {
    match error {
        ModelError::ContextWindowExceeded { .. } => "context_length_exceeded",
        ModelError::QuotaExceeded(_) => "insufficient_quota",
        ModelError::UsageNotIncluded => "usage_not_included",
        ModelError::InvalidPrompt(_) => "invalid_prompt",
        ModelError::Overloaded { .. } => "server_is_overloaded",
        _ => "server_error",
    }
}
