//! The tools that a model may call, and the checks between a call and its effect.
//!
//! | part | where |
//! |---|---|
//! | the table of built-in tools, and those that the provider runs | `builtin.rs` |
//! | the list of tools that the model sees | `offer.rs` |
//! | a call and its output | `call.rs` |
//! | running the calls of a response, with the hooks around them | `dispatch.rs` |
//! | questions to the user | `ask.rs` |
//! | a second model that approves in the user's place | `guardian.rs` |
//! | commands: approved, confined, run, followed | `command/` |
//! | hosts that commands reach | `network/` |
//! | patches and the diff of a turn | `apply_patch.rs`, `turn_diff.rs` |
//! | subagents: started, addressed, awaited, closed | `agents/` |
//! | tools of MCP servers and of the client | `mcp/`, `dynamic.rs` |
//! | every other built-in tool | a file of its name |
//!
//! [`TurnTools`] holds what every tool of a turn needs, [`ThreadTools`] what is kept between turns.

mod agents;
mod apply_patch;
mod ask;
mod builtin;
mod call;
mod command;
mod dispatch;
mod dynamic;
mod goals;
mod guardian;
mod mcp;
mod network;
mod offer;
mod request_permissions;
mod request_user_input;
mod schema;
mod thread_tools;
mod tool_search;
mod turn_diff;
mod update_plan;
mod view_image;

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use codicil_config::EffectiveConfig;
use codicil_mcp::{Elicitor, ToolSet};
use codicil_model::{ModelProvider, ToolList};
use codicil_policy::AccessGrant;
use codicil_protocol::{Frame, NotificationMethod, ThreadId, ThreadItem, TurnId};
use codicil_store::Epoch;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, RwLock};
use tokio_util::sync::CancellationToken;

use crate::{
    file_access::AccessSources,
    hooks::TurnHooks,
    settings::{TurnSettings, join},
    thread::TurnOrigin,
    turn_channel::{TurnEvent, TurnReporter},
};

pub use command::{CredentialVariables, environment_policy};
pub use mcp::{ClientCallError, ThreadMcpServers};
pub(crate) use {
    apply_patch::is_patch_tool,
    call::{ToolCall, TurnCancelled, outcome_unknown},
    command::{CommandEnd, CommandItem, CommandScreen, shell_start},
    dynamic::check_dynamic_tools,
    mcp::MentionedSkills,
    offer::{OfferCache, ThreadRole, ToolOffer},
    thread_tools::{BackgroundTerminal, ThreadTools},
};

use turn_diff::DiffTracker;

/// The tools of one turn, under the settings it was started with.
pub(crate) struct TurnTools {
    pub thread: Arc<ThreadTools>,
    pub turn_id: TurnId,
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    /// The provider of the turn's model, which also serves the guardian.
    provider: Arc<dyn ModelProvider>,
    /// The offer without MCP tools, which may still be loading; `None` for turns without tools.
    offer: Option<ToolOffer>,
    offered: Mutex<Arc<OfferedTools>>,
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
    /// Cancelled when the turn has ended for whatever reason.
    pub ended: CancellationToken,
    /// A reference for what outlives a call and must not keep the turn from ending.
    weak_self: Weak<Self>,
    /// What caused the turn; the turns of its subagents have the same origin.
    pub origin: TurnOrigin,
    diff: DiffTracker,
    /// Read-locked by calls that run in parallel, write-locked by the others.
    parallel_lock: RwLock<()>,
    /// The path of the thread's file, for hooks.
    transcript: Option<String>,
    skills: Option<MentionedSkills>,
    hooks: OnceCell<TurnHooks>,
    elicitor: OnceLock<Arc<dyn Elicitor>>,
    /// Whether a hook has asked to end the turn after the current calls.
    stop_requested: AtomicBool,
    /// The epoch at which the thread was loaded.
    pub epoch: Option<Epoch>,
}

/// The environment in which the tools of all threads run, as clients of the 0.166 generation name it.
pub(crate) const LOCAL_ENVIRONMENT: &str = "local";

/// What holds for the tools of a turn, as it was when the turn began.
pub(crate) struct TurnConfig {
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    pub provider: Arc<dyn ModelProvider>,
    /// The tools to offer, without those of MCP servers and the client; `None` for turns without tools.
    pub offer: Option<ToolOffer>,
    /// The path of the thread's file.
    pub transcript: Option<String>,
    /// The skills that the user mentions; `None` for turns without user input.
    pub skills: Option<MentionedSkills>,
    pub origin: TurnOrigin,
    /// The epoch at which the thread was loaded; `None` for threads in files and in memory.
    pub epoch: Option<Epoch>,
}

/// The tools that the model was offered with the last request.
#[derive(Debug, Default)]
struct OfferedTools {
    tools: ToolList,
    mcp: Option<Arc<ToolSet>>,
    /// The offer that the list was made from; `tool_search` extends it.
    offer: Option<ToolOffer>,
}

impl TurnTools {
    pub fn new(
        thread: Arc<ThreadTools>,
        turn_id: TurnId,
        config: TurnConfig,
        reporter: TurnReporter,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let TurnConfig { settings, config, provider, offer, transcript, skills, origin, epoch } = config;
        let diff = DiffTracker::new(settings.cwd.clone());
        Arc::new_cyclic(|weak_self| Self {
            thread,
            turn_id,
            settings,
            config,
            provider,
            offer,
            offered: Mutex::default(),
            reporter,
            cancel,
            ended: CancellationToken::new(),
            weak_self: weak_self.clone(),
            origin,
            diff,
            parallel_lock: RwLock::default(),
            transcript,
            skills,
            hooks: OnceCell::new(),
            elicitor: OnceLock::new(),
            stop_requested: AtomicBool::new(false),
            epoch,
        })
    }

    /// Waits for MCP servers that are still starting and returns the tools that the model is offered.
    pub async fn load(&self) -> ToolList {
        let Some(offer) = self.offer.clone() else { return ToolList::default() };
        let mut offer = offer.with_dynamic(self.thread.dynamic.clone());
        offer.discovered = self.thread.discovered_tools();
        if !self.thread.servers.is_empty() {
            offer = offer.with_mcp(self.thread.servers.tools().await);
        }
        // MCP tools that are not offered cannot be called either.
        let mcp = offer.mcp.as_ref().map(|tools| tools.0.clone());
        let tools = self.thread.tools(offer.clone());
        self.thread.set_current_offer(offer.clone());
        *self.offered.lock() = Arc::new(OfferedTools { tools: tools.clone(), mcp, offer: Some(offer) });
        tools
    }

    /// Returns the tools for the next request if MCP servers have changed theirs since the last one.
    pub async fn reload(&self) -> Option<ToolList> {
        let offered = self.offered().mcp.clone()?;
        let current = self.thread.servers.tools().await;
        if Arc::ptr_eq(&offered, &current) { None } else { Some(self.load().await) }
    }

    fn offered(&self) -> Arc<OfferedTools> {
        self.offered.lock().clone()
    }

    /// Whether the model may be asked again after its calls.
    pub fn can_continue(&self) -> bool {
        !self.stop_requested.load(Ordering::Relaxed)
    }

    fn thread_id(&self) -> ThreadId {
        self.thread.thread_id.clone()
    }

    async fn emit_started(&self, item: ThreadItem) {
        self.reporter.report_one(TurnEvent::Started(Box::new(item))).await;
    }

    async fn emit_completed(&self, item: ThreadItem) {
        self.reporter.report_one(TurnEvent::Completed { item: Box::new(item), context: Vec::new() }).await;
    }

    /// Sends a notification to the thread's subscribers.
    async fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        self.reporter.report_one(TurnEvent::Notification(Frame::notification::<N>(params))).await;
    }

    /// Interrupts the turn because the user said so.
    fn interrupt(&self) -> TurnCancelled {
        self.cancel.cancel();
        TurnCancelled
    }

    fn is_plan_mode(&self) -> bool {
        self.settings.is_plan_mode()
    }

    /// Returns what the tools of this turn may read and write, with `granted` on top of the settings.
    fn access_sources(&self, granted: AccessGrant) -> AccessSources {
        AccessSources::new(&self.settings, &self.thread, granted)
    }

    /// Resolves a path of the model against the turn's working directory.
    fn path(&self, given: &str) -> PathBuf {
        join(&self.settings.cwd, given)
    }

    /// Returns how much of an output the model gets: what it asked for, up to the configured limit.
    fn output_tokens(&self, requested: Option<u64>) -> u64 {
        let limit = self.config.settings.tool_output_token_limit;
        let limit = limit.unwrap_or(codicil_prompts::DEFAULT_OUTPUT_TOKENS);
        requested.map_or(limit, |requested| requested.min(limit))
    }
}
