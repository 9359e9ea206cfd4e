//! A script file of the embedded scripted model, played over HTTP.
//!
//! One format for both: what `wire_api = "scripted"` does inside a server, this does for any program that
//! speaks to a model provider.

use codicil_model::{ModelError, ModelEvent, ProviderConfig, ScriptAct};
use codicil_protocol::{ReasoningItemReasoningSummary, ResponseItem, TokenUsageBreakdown};
use serde_json::json;

use super::{asked, recorded::RecordedRequest, reply::Reply, script::Script};

impl From<codicil_model::Script> for Script {
    /// Answers each request as the script file says.
    fn from(script: codicil_model::Script) -> Self {
        Self::new().respond_with(follow(script))
    }
}

/// What a script file answers to a request, for [`Script::respond_with`].
pub fn follow(script: codicil_model::Script) -> impl Fn(&RecordedRequest) -> Reply + Send + 'static {
    let limits = ProviderConfig::default().limits();
    move |recorded| reply(script.acts(&asked::request(recorded), &limits))
}

fn reply(acts: Vec<ScriptAct>) -> Reply {
    // A refusal stands for itself: what comes before it was never said.
    if let Some(refusal) = acts.iter().find_map(refusal) {
        return refusal;
    }
    let mut writer = BodyWriter { reply: Reply::new(), in_item: false };
    let mut acts = acts.into_iter().peekable();
    while let Some(act) = acts.next() {
        match act {
            // The silence before a stall has no end here.
            ScriptAct::Wait(_) if matches!(acts.peek(), Some(ScriptAct::Fail(ModelError::Stalled(_)))) => {}
            ScriptAct::Wait(time) => writer.edit(|reply| reply.pause(time)),
            ScriptAct::Tell(events) => events.into_iter().for_each(|event| writer.event(event)),
            ScriptAct::Fail(error) => return fail(writer.reply, &error),
        }
    }
    writer.reply
}

struct BodyWriter {
    reply: Reply,
    /// Whether deltas of the item have been written already.
    in_item: bool,
}

impl BodyWriter {
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
            // The reply opens items by itself, and a thought is written when it is complete.
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

/// The errors that are an HTTP answer instead of a stream.
fn refusal(act: &ScriptAct) -> Option<Reply> {
    let ScriptAct::Fail(error) = act else { return None };
    let reply = match error {
        ModelError::Status(failure) => Reply::status(failure.status.as_u16())
            .body(json!({ "error": { "message": failure.message.as_deref().unwrap_or_default() } })),
        ModelError::RateLimited { .. } => Reply::status(429),
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
        error => reply.fail(code(error), error.to_string()),
    }
}

/// The provider's word for an error that has a meaning of its own.
fn code(error: &ModelError) -> &'static str {
    match error {
        ModelError::ContextWindowExceeded => "context_length_exceeded",
        ModelError::QuotaExceeded => "insufficient_quota",
        ModelError::UsageNotIncluded => "usage_not_included",
        ModelError::InvalidPrompt(_) => "invalid_prompt",
        ModelError::Overloaded { .. } => "server_is_overloaded",
        _ => "server_error",
    }
}
