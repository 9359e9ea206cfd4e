//! `apply_patch`: edits to files, shown before they are made, and made as a whole or not at all.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use codicil_patch::{DiskFiles, Durability, Patch, PatchInvocation, PatchPlan};
use codicil_policy::{
    ApprovalOutcome, CommandRules, DecisionPolicies, PatchDecision, decide_patch, settle_patch,
};
use codicil_protocol::{
    FileChangeApproval, FileChangeOutputDelta, FileChangeOutputDeltaNotification,
    FileChangeRequestApprovalParams, FileUpdateChange, Frame, ItemId, PatchApplyStatus, ThreadItem,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::{ToolCall, ToolInput, ToolOutput, TurnCancelled, say},
    command::exit_text,
};
use crate::{clock::unix_now_ms, turn_channel::TurnEvent};

/// The arguments of the patch tool where it is a function.
#[derive(Deserialize)]
struct PatchArguments {
    #[serde(alias = "patch")]
    input: String,
}

/// A patch that fits the files, and what the policies say to it.
struct PlannedPatch {
    plan: Arc<PatchPlan>,
    changes: Vec<FileUpdateChange>,
    decision: PatchDecision,
}

impl TurnTools {
    pub(super) async fn apply_patch_call(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let patch = match &call.input {
            ToolInput::Text(text) => text.clone(),
            ToolInput::Arguments(_) => match call.arguments::<PatchArguments>() {
                Ok(arguments) => arguments.input,
                Err(told) => return Ok(told),
            },
        };
        self.apply_patch(call, patch, self.settings.cwd.clone()).await
    }

    /// A patch that came as a shell command.
    pub(super) async fn apply_patch_of_command(
        &self,
        call: &ToolCall,
        found: PatchInvocation,
        cwd: &Path,
    ) -> Result<ToolOutput, TurnCancelled> {
        let cwd = cwd.join(found.workdir.unwrap_or_default());
        self.apply_patch(call, found.patch, cwd).await
    }

    async fn apply_patch(
        &self,
        call: &ToolCall,
        patch: String,
        cwd: PathBuf,
    ) -> Result<ToolOutput, TurnCancelled> {
        let began = Instant::now();
        let planned = match self.plan_patch(patch, cwd).await? {
            Ok(planned) => planned,
            Err(why) => return Ok(say(format!("apply_patch verification failed: {why}"))),
        };
        let id = call.item_id();
        let item =
            |status| ThreadItem::FileChange { id: id.clone(), changes: planned.changes.clone(), status };
        if let PatchDecision::Refuse { why } = &planned.decision {
            return Ok(say(format!("patch rejected: {why}")));
        }
        self.started(item(PatchApplyStatus::InProgress)).await;
        if planned.decision == PatchDecision::Ask {
            match self.ask_patch(&id, &planned.plan).await {
                Ok(None) => {}
                Ok(Some((status, why))) => {
                    self.completed(item(status)).await;
                    return Ok(say(why));
                }
                Err(TurnCancelled) => {
                    self.completed(item(PatchApplyStatus::Declined)).await;
                    return Err(TurnCancelled);
                }
            }
        }
        match self.write_patch(planned.plan.clone()).await {
            Ok(()) => {
                let summary = planned.plan.summary();
                self.say_patched(&id, summary.clone()).await;
                self.completed(item(PatchApplyStatus::Completed)).await;
                self.diff.record(&planned.plan);
                self.refresh_diff().await;
                Ok(say(exit_text(0, began.elapsed(), &summary)))
            }
            Err(why) => {
                self.completed(item(PatchApplyStatus::Failed)).await;
                Ok(say(exit_text(1, began.elapsed(), &why)))
            }
        }
    }

    /// Reads the patch and the files. The inner error is for the model.
    async fn plan_patch(
        &self,
        patch: String,
        cwd: PathBuf,
    ) -> Result<Result<PlannedPatch, String>, TurnCancelled> {
        let grants = self.kit.grants().clone();
        let (approval, sandbox) = (self.settings.approval_policy.clone(), self.settings.sandbox.clone());
        let sources = self.access_sources(grants.access());
        let plan = move || {
            let patch = Patch::parse(&patch).map_err(|error| error.to_string())?;
            let plan = PatchPlan::new(&patch, &cwd, &DiskFiles).map_err(|error| error.to_string())?;
            let files = sources.files().map_err(|error| error.to_string())?;
            // Rules are about commands; they have nothing to say here.
            let (rules, grants) = (&CommandRules::default(), &grants);
            let policies = DecisionPolicies { approval: &approval, sandbox: &sandbox, rules, grants };
            let decision = decide_patch(plan.places(), |place| files.can_write(place), &policies);
            Ok(PlannedPatch { changes: plan.file_changes(), plan: Arc::new(plan), decision })
        };
        tokio::task::spawn_blocking(plan).await.map_err(|_| TurnCancelled)
    }

    /// Asks whether the edits may be made. `None` means yes.
    async fn ask_patch(
        &self,
        id: &ItemId,
        plan: &PatchPlan,
    ) -> Result<Option<(PatchApplyStatus, String)>, TurnCancelled> {
        if self.is_guarded() {
            let files: Vec<_> = plan.places().map(|place| place.to_string_lossy()).collect();
            let (cwd, count) = (self.settings.cwd.to_string_lossy(), plan.changes.len());
            let action = json!({ "tool": "apply_patch", "cwd": cwd, "files": files, "change_count": count });
            let ruling = self.consult_guardian(id, action).await?;
            return Ok(ruling.err().map(|why| (PatchApplyStatus::Declined, format!("patch {why}"))));
        }
        let params = FileChangeRequestApprovalParams {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: id.clone(),
            started_at_ms: Some(unix_now_ms()),
            reason: None,
            grant_root: None,
        };
        let declined = || Some((PatchApplyStatus::Declined, "patch rejected by user".to_owned()));
        Ok(match self.ask::<FileChangeApproval>(params, QuestionKind::Approval).await? {
            QuestionReply::Answer(response) => {
                let outcome = settle_patch(&response.decision, plan.places(), &mut self.kit.grants());
                match outcome {
                    ApprovalOutcome::Accepted { .. } => None,
                    ApprovalOutcome::Cancelled => return Err(self.interrupt()),
                    ApprovalOutcome::Declined => declined(),
                }
            }
            QuestionReply::Nonsense => declined(),
            QuestionReply::Error => {
                let why = "patch rejected: the client could not be asked for approval".to_owned();
                Some((PatchApplyStatus::Failed, why))
            }
        })
    }

    async fn write_patch(&self, plan: Arc<PatchPlan>) -> Result<(), String> {
        let write = move || codicil_patch::apply(&plan, &DiskFiles, Durability::Cached);
        match tokio::task::spawn_blocking(write).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err("internal error; the server's log has the details".to_owned()),
        }
    }

    async fn say_patched(&self, id: &ItemId, delta: String) {
        let params = FileChangeOutputDeltaNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: id.clone(),
            delta,
        };
        self.reporter
            .report_one(TurnEvent::Notification(Frame::notification::<FileChangeOutputDelta>(&params)))
            .await;
    }
}
