//! The tools that a model may call, and what stands between a call and its effect.
//!
//! | part | where |
//! |---|---|
//! | which tools there are, as the model is told | `offer.rs`, `specs.rs` |
//! | a call and its answer | `call.rs` |
//! | questions to people | `ask.rs` |
//! | commands: decided, confined, run, followed | `command/` |
//! | patches and the diff of a turn | `patch.rs`, `diff.rs` |
//! | other agents: started, addressed, waited for, ended | `agents/` |
//! | everything else | a file each |

mod agents;
mod ask;
mod call;
mod command;
mod diff;
mod dynamic;
mod image;
mod kit;
mod offer;
mod patch;
mod permissions;
mod plan;
mod specs;
mod user_input;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use codicil_command::Access;
use codicil_config::EffectiveConfig;
use codicil_model::Tools;
use codicil_protocol::{ModeKind, ResponseItem, ThreadItem, TurnId};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use crate::{
    settings::{Settings, join},
    step::{Step, Steps},
    thread::Origin,
};

pub(crate) use {
    ask::{Asking, Kind},
    call::{Call, Cancelled, Input, Output},
    command::{CommandEnd, CommandItem, Screen},
    dynamic::check_dynamic_tools,
    kit::{Report, Toolkit},
    offer::{Offer, Role},
};

use call::say;
use diff::Diff;

/// How long tools that were told to stop may take for it.
const STOP_TIME: Duration = Duration::from_secs(2);

/// The tools of one turn, under the settings it was started with.
pub(crate) struct TurnTools {
    pub kit: Arc<Toolkit>,
    pub turn: TurnId,
    pub settings: Settings,
    pub config: Arc<EffectiveConfig>,
    pub offered: Tools,
    pub steps: Steps,
    pub cancel: CancellationToken,
    /// Who asked for the turn, and so for those of its agents.
    pub origin: Origin,
    diff: Diff,
    /// What was granted for this turn only.
    access: Mutex<Access>,
    /// Held shared by tools that do not mind others beside them, and alone by the rest.
    alone: RwLock<()>,
}

impl TurnTools {
    pub fn new(
        kit: Arc<Toolkit>,
        turn: TurnId,
        settings: Settings,
        config: Arc<EffectiveConfig>,
        offered: Tools,
        steps: Steps,
        cancel: CancellationToken,
    ) -> Self {
        let diff = Diff::new(settings.cwd.clone());
        let (origin, access, alone) = (Origin::default(), Mutex::default(), RwLock::default());
        Self { kit, turn, settings, config, offered, steps, cancel, origin, diff, access, alone }
    }

    /// Runs the calls of one response, beside each other where they allow it, and reports their outputs.
    pub async fn run(&self, calls: Vec<Call>) {
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

    async fn run_one(&self, call: Call) {
        let done = if runs_beside_others(&call.name) {
            let _shared = self.alone.read().await;
            self.dispatch(&call).await
        } else {
            let _alone = self.alone.write().await;
            self.dispatch(&call).await
        };
        let output = done.unwrap_or_else(|Cancelled| say("aborted by user"));
        self.steps.one(Step::Context(vec![call.answer(output)])).await;
    }

    async fn dispatch(&self, call: &Call) -> Result<Output, Cancelled> {
        if self.cancel.is_cancelled() {
            return Err(Cancelled);
        }
        let name = call.name.as_str();
        // First: a client that brings a tool of a built-in's name means its own.
        if self.kit.dynamic.iter().any(|tool| tool.name == name) {
            return self.call_dynamic(call).await;
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
            _ if agents::has_tool(name) => self.agent_tool(call).await,
            _ => Ok(say(format!("unsupported call: {name}"))),
        }
    }

    /// Models that know the patch tool call it even where it is not on the list.
    fn is_offered(&self, name: &str) -> bool {
        name == "apply_patch" || self.offered.specs().iter().any(|spec| spec.name() == name)
    }

    /// Items of tools that end within their call.
    async fn started(&self, item: ThreadItem) {
        self.steps.one(Step::Started(item)).await;
    }

    async fn completed(&self, item: ThreadItem) {
        self.steps.one(Step::Completed { item, context: Vec::new() }).await;
    }

    /// Ends the turn as interrupted, because a person said so.
    fn interrupt(&self) -> Cancelled {
        self.cancel.cancel();
        Cancelled
    }

    fn is_plan_mode(&self) -> bool {
        self.settings.collaboration_mode.as_ref().is_some_and(|mode| mode.mode == ModeKind::Plan)
    }

    /// A path as a model writes it: relative to where the turn works.
    fn path(&self, given: &str) -> PathBuf {
        join(&self.settings.cwd, given)
    }

    fn turn_access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a response leaves to do: its calls, as they entered the history.
pub(crate) fn call_of(item: &ResponseItem) -> Option<Call> {
    let (id, name, input) = match item {
        ResponseItem::FunctionCall { call_id, name, arguments, .. } => {
            (call_id, name, Input::Arguments(arguments.clone()))
        }
        ResponseItem::CustomToolCall { call_id, name, input, .. } => {
            (call_id, name, Input::Text(input.clone()))
        }
        _ => return None,
    };
    Some(Call { id: id.clone(), name: name.clone(), input })
}

fn runs_beside_others(tool: &str) -> bool {
    matches!(tool, "exec_command" | "write_stdin" | "view_image")
}
