//! The tools that a model may call, and what stands between a call and its effect.
//!
//! | part | where |
//! |---|---|
//! | which tools there are, as the model is told | `offer.rs`, `specs.rs` |
//! | a call and its answer | `call.rs` |
//! | questions to people | `ask.rs` |
//! | commands: decided, confined, run, followed | `command/` |
//! | hosts that commands reach | `network/` |
//! | patches and the diff of a turn | `patch.rs`, `diff.rs` |
//! | other agents: started, addressed, waited for, ended | `agents/` |
//! | everything else | a file each |

mod agents;
mod ask;
mod call;
mod command;
mod diff;
mod dynamic;
mod dynamic_check;
mod guardian;
mod hooks;
mod image;
mod kit;
mod mcp;
mod network;
mod offer;
mod patch;
mod permissions;
mod plan;
mod search;
mod specs;
mod user_input;

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use codicil_config::EffectiveConfig;
use codicil_mcp::{Elicitor, ToolSet};
use codicil_model::{ModelProvider, ToolList};
use codicil_policy::AccessGrant;
use codicil_protocol::{ModeKind, ResponseItem, ThreadItem, TurnId};
use tokio::sync::{OnceCell, RwLock};
use tokio_util::sync::CancellationToken;

use crate::{
    file_access::AccessSources,
    hooks::TurnHooks,
    settings::{TurnSettings, join},
    thread::TurnOrigin,
    turn_channel::{TurnEvent, TurnReporter},
};

pub use command::environment_policy;
pub(crate) use {
    call::{ToolCall, ToolInput, ToolOutput, TurnCancelled},
    command::{CommandEnd, CommandItem, CommandScreen, login},
    dynamic_check::check_dynamic_tools,
    kit::ThreadTools,
    offer::{OfferCache, ThreadRole, ToolOffer},
};

use call::say;
use diff::DiffTracker;
use dynamic::{DynamicMatch, meant};

/// How long tools that were told to stop may take for it.
const STOP_TIME: Duration = Duration::from_secs(2);

/// The tools of one turn, under the settings it was started with.
pub(crate) struct TurnTools {
    pub kit: Arc<ThreadTools>,
    pub turn: TurnId,
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    /// The model of the turn, for those who have to ask it something aside.
    provider: Arc<dyn ModelProvider>,
    offer: Option<ToolOffer>,
    offered: OnceLock<OfferedTools>,
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
    /// Cancelled when the turn has come to its end, by itself or not.
    pub over: CancellationToken,
    /// This, for what outlives a call and must not keep the turn from ending.
    pub me: Weak<Self>,
    /// Who asked for the turn, and so for those of its agents.
    pub origin: TurnOrigin,
    diff: DiffTracker,
    /// Held shared by tools that do not mind others beside them, and alone by the rest.
    alone: RwLock<()>,
    /// The thread's file, for hooks.
    transcript: Option<String>,
    hooks: OnceCell<TurnHooks>,
    elicitor: OnceLock<Arc<dyn Elicitor>>,
    /// Whether a hook has asked for the turn to end once its tools are done.
    stopped: AtomicBool,
}

/// What holds for the tools of a turn, as it was when the turn began.
pub(crate) struct TurnConfig {
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    pub provider: Arc<dyn ModelProvider>,
    /// What is offered besides the tools of MCP servers; `None` for turns without tools.
    pub offer: Option<ToolOffer>,
    /// The thread's file.
    pub transcript: Option<String>,
    /// Who asked for the turn.
    pub origin: TurnOrigin,
}

/// What the model is offered, and whose tools they are.
#[derive(Debug, Default)]
struct OfferedTools {
    tools: ToolList,
    mcp: Option<Arc<ToolSet>>,
    /// What the list was made from, to make another when more has been found.
    offer: Option<ToolOffer>,
}

impl TurnTools {
    pub fn new(
        kit: Arc<ThreadTools>,
        turn: TurnId,
        terms: TurnConfig,
        reporter: TurnReporter,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let TurnConfig { settings, config, provider, offer, transcript, origin } = terms;
        let diff = DiffTracker::new(settings.cwd.clone());
        Arc::new_cyclic(|me| Self {
            kit,
            turn,
            settings,
            config,
            provider,
            offer,
            offered: OnceLock::new(),
            reporter,
            cancel,
            over: CancellationToken::new(),
            me: me.clone(),
            origin,
            diff,
            alone: RwLock::default(),
            transcript,
            hooks: OnceCell::new(),
            elicitor: OnceLock::new(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Waits for MCP servers that are still starting, and settles what the model is offered.
    pub async fn gather(&self) -> ToolList {
        let Some(offer) = self.offer.clone() else { return ToolList::default() };
        let mcp = match self.kit.servers.is_empty() {
            true => None,
            false => Some(self.kit.servers.tools().await),
        };
        let offer = match &mcp {
            Some(mcp) => offer.with_mcp(mcp.clone()),
            None => offer,
        };
        let offer = ToolOffer { found: self.kit.found(), ..offer };
        // Tools that are not on the list are not called either.
        let mcp = mcp.filter(|_| offer.mcp.is_some());
        let tools = self.kit.tools(offer.clone());
        self.offered.get_or_init(|| OfferedTools { tools, mcp, offer: Some(offer) }).tools.clone()
    }

    fn offered(&self) -> &OfferedTools {
        self.offered.get_or_init(OfferedTools::default)
    }

    /// Runs the calls of one response, beside each other where they allow it, and reports their outputs.
    pub async fn run(&self, calls: Vec<ToolCall>) {
        if calls.is_empty() {
            return;
        }
        let all = futures_util::future::join_all(calls.into_iter().map(|call| self.run_one(call)));
        let stopped = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(STOP_TIME).await;
        };
        tokio::select! {
            biased;
            _ = all => {}
            // What is left is dropped, and what it owned goes with it.
            () = stopped => tracing::warn!(turn = %self.turn, "a tool did not stop when it was told to"),
        }
    }

    async fn run_one(&self, call: ToolCall) {
        let done = if runs_beside_others(&call.name) {
            let _shared = self.alone.read().await;
            self.dispatch_with_hooks(&call).await
        } else {
            let _alone = self.alone.write().await;
            self.dispatch_with_hooks(&call).await
        };
        let output = done.unwrap_or_else(|TurnCancelled| say("aborted by user"));
        self.reporter.report_one(TurnEvent::Context(vec![call.answer(output)])).await;
    }

    async fn dispatch(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        if self.cancel.is_cancelled() {
            return Err(TurnCancelled);
        }
        let name = call.name.as_str();
        // First: a client that brings a tool of a built-in's name means its own.
        match meant(&self.kit.dynamic, call) {
            DynamicMatch::Tool(tool) => return self.call_dynamic(call, tool).await,
            DynamicMatch::Nothing => return Ok(say(format!("unsupported call: {name}"))),
            DynamicMatch::Others => {}
        }
        if let Some(tool) = self.offered().mcp.as_ref().and_then(|mcp| mcp.get(name)) {
            return self.call_mcp(call, &tool.clone()).await;
        }
        if !self.is_offered(name) {
            // The model usually finds another way.
            return Ok(say(format!("unsupported call: {name}")));
        }
        match name {
            "exec_command" => self.exec_command(call).await,
            "write_stdin" => self.write_stdin(call).await,
            "shell_command" => self.shell_command(call).await,
            "apply_patch" => self.apply_patch_call(call).await,
            "update_plan" => self.update_plan(call).await,
            "view_image" => self.view_image(call).await,
            "request_user_input" => self.request_user_input(call).await,
            "request_permissions" => self.request_permissions(call).await,
            "list_mcp_resources" | "list_mcp_resource_templates" => self.list_mcp_resources(call).await,
            "read_mcp_resource" => self.read_mcp_resource(call).await,
            "tool_search" => self.tool_search(call).await,
            _ => self.agent_tool(call).await,
        }
    }

    /// Models that know the patch tool call it even where it is not on the list.
    fn is_offered(&self, name: &str) -> bool {
        name == "apply_patch" || self.offered().tools.specs().iter().any(|spec| spec.name() == name)
    }

    fn stop_after_tools(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the turn goes on after its tools.
    pub fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Items of tools that end within their call.
    async fn started(&self, item: ThreadItem) {
        self.reporter.report_one(TurnEvent::Started(item)).await;
    }

    async fn completed(&self, item: ThreadItem) {
        self.reporter.report_one(TurnEvent::Completed { item, context: Vec::new() }).await;
    }

    /// Ends the turn as interrupted, because a person said so.
    fn interrupt(&self) -> TurnCancelled {
        self.cancel.cancel();
        TurnCancelled
    }

    fn is_plan_mode(&self) -> bool {
        self.settings.collaboration_mode.as_ref().is_some_and(|mode| mode.mode == ModeKind::Plan)
    }

    /// What the tools of this turn may read and write, with what was granted on top.
    fn access_sources(&self, granted: AccessGrant) -> AccessSources {
        AccessSources::new(&self.settings, &self.kit, granted)
    }

    /// A path as a model writes it: relative to where the turn works.
    fn path(&self, given: &str) -> PathBuf {
        join(&self.settings.cwd, given)
    }
}

/// What a response leaves to do: its calls, as they entered the history.
pub(crate) fn call_of(item: &ResponseItem) -> Option<ToolCall> {
    let (id, namespace, name, input) = match item {
        ResponseItem::FunctionCall { call_id, namespace, name, arguments, .. } => {
            (call_id, namespace.clone(), name, ToolInput::Arguments(arguments.clone()))
        }
        ResponseItem::CustomToolCall { call_id, name, input, .. } => {
            (call_id, None, name, ToolInput::Text(input.clone()))
        }
        _ => return None,
    };
    Some(ToolCall { id: id.clone(), namespace, name: name.clone(), input })
}

fn runs_beside_others(tool: &str) -> bool {
    matches!(tool, "exec_command" | "write_stdin" | "view_image")
}
