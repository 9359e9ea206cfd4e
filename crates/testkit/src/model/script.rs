//! The replies to a sequence of requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::{recorded::RecordedRequest, reply::Reply};

/// A queue of replies, each taken by one request, and what answers when it is empty.
///
/// The methods of [`Reply`] extend the last reply of the script. [`then`](Self::then) begins the next one,
/// and so does any method after an ending (`hang`, `cut`, `fail`, `incomplete`) or a whole
/// [`reply`](Self::reply):
///
/// ```
/// use codicil_testkit::{Reply, Script};
/// use serde_json::json;
///
/// let one_answer = Script::new().say("Let me look").hang();
///
/// let tool_then_answer = Script::new()
///     .call("exec_command", json!({ "cmd": "ls" }))
///     .then()
///     .say("Two files.");
///
/// let retried = Script::new()
///     .reply(Reply::status(429).header("retry-after", "1"))
///     .say("Let me").unfinished().cut()
///     .say("Let me look");
/// ```
#[derive(Default)]
pub struct Script {
    replies: Vec<Reply>,
    /// Whether further steps extend the last reply.
    open: bool,
    rest: Option<ScriptRest>,
}

/// What answers when the queue is empty.
pub(super) enum ScriptRest {
    Repeat(Reply),
    Decide(DecideFn),
}

pub(super) type DecideFn = Box<dyn FnMut(&RecordedRequest) -> Reply + Send>;

impl From<Reply> for Script {
    fn from(reply: Reply) -> Self {
        Self::new().reply(reply)
    }
}

impl Script {
    /// Returns a script without replies: each request is answered with 500 and recorded as a fault.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the current reply; the next step begins another.
    pub fn then(mut self) -> Self {
        self.open = false;
        self
    }

    /// Adds a complete reply.
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self.then()
    }

    /// Repeats this reply once the queue is empty. Replaces `respond_with`.
    pub fn repeat(mut self, reply: Reply) -> Self {
        self.rest = Some(ScriptRest::Repeat(reply));
        self
    }

    /// Calls this function for each reply once the queue is empty. Replaces `repeat`. A panic inside it is
    /// answered with 500 and recorded as a fault.
    pub fn respond_with(mut self, decide: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> Self {
        self.rest = Some(ScriptRest::Decide(Box::new(decide)));
        self
    }

    /// Runs a command for each text of the user once the queue is empty. It appends the text to the file `lines`, outside the
    /// sandbox. The text is the id of the call.
    pub fn append_lines(self) -> Self {
        self.respond_with(|request| {
            let call = request.last_user_text().unwrap_or_default();
            if request.tool_output(&call).is_some() {
                return Reply::new().say("Done");
            }
            let command = format!("echo {call} >> lines");
            let arguments = json!({ "cmd": command, "sandbox_permissions": "require_escalated" });
            Reply::new().call("exec_command", arguments).call_id(call)
        })
    }

    pub(super) fn into_parts(self) -> (Vec<Reply>, Option<ScriptRest>) {
        (self.replies, self.rest)
    }

    fn edit(mut self, edit: impl FnOnce(Reply) -> Reply) -> Self {
        let reply = if self.open { self.replies.pop() } else { None };
        let reply = edit(reply.unwrap_or_default());
        self.open = !reply.has_ended();
        self.replies.push(reply);
        self
    }
}

/// The methods of [`Reply`], for the last reply of the script.
impl Script {
    /// See [`Reply::say`].
    pub fn say(self, text: impl AsRef<str>) -> Self {
        self.edit(|reply| reply.say(text))
    }

    /// See [`Reply::say_deltas`].
    pub fn say_deltas(self, deltas: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.edit(|reply| reply.say_deltas(deltas))
    }

    /// See [`Reply::phase`].
    pub fn phase(self, phase: impl Into<String>) -> Self {
        self.edit(|reply| reply.phase(phase))
    }

    /// See [`Reply::think`].
    pub fn think(self, summary: impl AsRef<str>) -> Self {
        self.edit(|reply| reply.think(summary))
    }

    /// See [`Reply::think_parts`].
    pub fn think_parts(self, parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.edit(|reply| reply.think_parts(parts))
    }

    /// See [`Reply::think_raw`].
    pub fn think_raw(self, text: impl AsRef<str>) -> Self {
        self.edit(|reply| reply.think_raw(text))
    }

    /// See [`Reply::call`].
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.edit(|reply| reply.call(name, arguments))
    }

    /// See [`Reply::call_text`].
    pub fn call_text(self, name: impl Into<String>, arguments: impl AsRef<str>) -> Self {
        self.edit(|reply| reply.call_text(name, arguments))
    }

    /// See [`Reply::custom_call`].
    pub fn custom_call(self, name: impl Into<String>, input: impl AsRef<str>) -> Self {
        self.edit(|reply| reply.custom_call(name, input))
    }

    /// See [`Reply::call_id`].
    pub fn call_id(self, id: impl Into<String>) -> Self {
        self.edit(|reply| reply.call_id(id))
    }

    /// See [`Reply::web_search`].
    pub fn web_search(self, query: impl Into<String>) -> Self {
        self.edit(|reply| reply.web_search(query))
    }

    /// See [`Reply::item`].
    pub fn item(self, item: Value) -> Self {
        self.edit(|reply| reply.item(item))
    }

    /// See [`Reply::raw`].
    pub fn raw(self, event: Value) -> Self {
        self.edit(|reply| reply.raw(event))
    }

    /// See [`Reply::unfinished`].
    pub fn unfinished(self) -> Self {
        self.edit(Reply::unfinished)
    }

    /// See [`Reply::gate`].
    pub fn gate(self, name: impl Into<String>) -> Self {
        self.edit(|reply| reply.gate(name))
    }

    /// See [`Reply::hold`].
    pub fn hold(self, gate: impl Into<String>) -> Self {
        self.edit(|reply| reply.hold(gate))
    }

    /// See [`Reply::pause`].
    pub fn pause(self, time: Duration) -> Self {
        self.edit(|reply| reply.pause(time))
    }

    /// See [`Reply::pace`].
    pub fn pace(self, between: Duration) -> Self {
        self.edit(|reply| reply.pace(between))
    }

    /// See [`Reply::usage`].
    pub fn usage(self, input: u64, cached: u64, output: u64, reasoning: u64) -> Self {
        self.edit(|reply| reply.usage(input, cached, output, reasoning))
    }

    /// See [`Reply::no_usage`].
    pub fn no_usage(self) -> Self {
        self.edit(Reply::no_usage)
    }

    /// See [`Reply::header`].
    pub fn header(self, name: &str, value: &str) -> Self {
        self.edit(|reply| reply.header(name, value))
    }

    /// See [`Reply::when`].
    pub fn when(self, fits: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        self.edit(|reply| reply.when(fits))
    }

    /// See [`Reply::hang`].
    pub fn hang(self) -> Self {
        self.edit(Reply::hang)
    }

    /// See [`Reply::cut`].
    pub fn cut(self) -> Self {
        self.edit(Reply::cut)
    }

    /// See [`Reply::fail`].
    pub fn fail(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.edit(|reply| reply.fail(code, message))
    }

    /// See [`Reply::incomplete`].
    pub fn incomplete(self, reason: impl Into<String>) -> Self {
        self.edit(|reply| reply.incomplete(reason))
    }
}
