//! Clients that join a loaded thread with `thread/resume`.
//!
//! The thread keeps its settings: other clients see it work with them, and a turn may be running. The client is informed of
//! the settings in its request that therefore have no effect.

use std::path::Path;

use codicil_protocol::{Patch, SandboxMode, SandboxPolicy, ThreadSandbox};

use super::{
    AnnouncedReply, CommandReply, JoinRequest, JoinedThread, ThreadState,
    actor::{ThreadActor, answer},
};
use crate::{
    profiles::ThreadProfile,
    settings::{SettingsOverrides, TurnSettings, join, ordinary},
    threads::{IncludeTurns, stored_turns},
};

impl ThreadActor {
    pub(super) async fn on_join(
        &mut self,
        request: JoinRequest,
        reply: CommandReply<AnnouncedReply<JoinedThread>>,
    ) {
        self.refresh_records().await;
        let snapshot = self.snapshot().await;
        let turns = if self.state.log.is_some() && request.turns == IncludeTurns::Included {
            stored_turns(&self.engine, &self.state.id, Some(&snapshot)).await
        } else {
            Ok(Vec::new())
        };
        match turns {
            Ok(turns) => {
                self.state.is_usage_unsent = true;
                let unapplied = unapplied_settings(&request.given, &self.state, &self.engine.cwd);
                self.notifier.pause();
                let position = self.note_position();
                let usage = self.state.usage.clone();
                self.accept(reply, JoinedThread { snapshot, turns, usage, unapplied, position }).await;
                self.notifier.resume();
                self.continue_turn().await;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }
}

/// Returns the members of a request that differ from what is in force. `base` is what a relative `cwd` is joined to.
fn unapplied_settings(given: &SettingsOverrides, state: &ThreadState, base: &Path) -> Vec<String> {
    let settings = &state.settings;
    let active_profile = settings.profile.as_ref().map(ThreadProfile::id);
    let differs = [
        ("model", is_other(given.model.as_ref(), &settings.model)),
        ("modelProvider", is_other(given.provider.as_ref(), &settings.provider)),
        (
            "serviceTier",
            match &given.service_tier {
                Patch::Missing => false,
                tier => ordinary(tier.clone().apply(None)) != ordinary(settings.service_tier.clone()),
            },
        ),
        ("cwd", given.cwd.as_deref().is_some_and(|cwd| join(base, cwd) != settings.cwd)),
        ("approvalPolicy", is_other(given.approval_policy.as_ref(), &settings.approval_policy)),
        ("approvalsReviewer", is_other(given.approvals_reviewer.as_ref(), &settings.approvals_reviewer)),
        ("sandbox", given.sandbox.as_ref().is_some_and(|sandbox| !has_sandbox(settings, sandbox))),
        ("permissions", given.profile.is_some() && given.profile.as_deref() != active_profile),
        ("personality", given.personality.is_some() && given.personality != settings.personality),
        (
            "baseInstructions",
            given.base_instructions.is_some() && given.base_instructions != state.base_instructions,
        ),
        (
            "developerInstructions",
            given.developer_instructions.is_some()
                && given.developer_instructions != state.developer_instructions,
        ),
    ];
    let members = differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned());
    let config = given.config.iter().filter(|(key, value)| state.overrides.get(*key) != Some(*value));
    members.chain(config.map(|(key, _)| format!("config.{key}"))).collect()
}

fn is_other<T: PartialEq>(given: Option<&T>, current: &T) -> bool {
    given.is_some_and(|given| given != current)
}

/// Returns whether a sandbox is in force. For a mode, its kind counts.
fn has_sandbox(settings: &TurnSettings, sandbox: &ThreadSandbox) -> bool {
    match (sandbox, &settings.sandbox) {
        (ThreadSandbox::Policy(policy), current) => policy == current,
        (ThreadSandbox::Mode(SandboxMode::ReadOnly), SandboxPolicy::ReadOnly { .. })
        | (ThreadSandbox::Mode(SandboxMode::WorkspaceWrite), SandboxPolicy::WorkspaceWrite { .. })
        | (ThreadSandbox::Mode(SandboxMode::DangerFullAccess), SandboxPolicy::DangerFullAccess) => true,
        (ThreadSandbox::Mode(_), _) => false,
    }
}
