//! `apply_patch`: edits to files, approved before they are made, and made as a whole or not at all.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use codicil_config::Feature;
use codicil_model::{ToolGrammar, ToolSpec};
use codicil_patch::{DiskFiles, Durability, Patch, PatchInvocation, PatchPlan};
use codicil_policy::{
    ApprovalOutcome, CommandRules, DecisionPolicies, PatchDecision, decide_patch, settle_patch,
};
use codicil_protocol::{
    FileChangeApproval, FileChangeOutputDelta, FileChangeOutputDeltaNotification,
    FileChangeRequestApprovalParams, FileUpdateChange, ItemId, PatchApplyStatus, ThreadItem,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    TurnTools,
    ask::{AskingCall, QuestionKind, QuestionReply},
    builtin::{BuiltinTool, HookView},
    call::{ToolCall, ToolError, ToolInput, ToolResult, TurnCancelled, text_output},
    command::exit_text,
    guardian,
    offer::ToolOffer,
    turn_diff,
};
use crate::clock::unix_now_ms;

const NAME: &str = "apply_patch";

/// The grammar of a patch, for models that can be held to one.
const PATCH_GRAMMAR: &str = r#"start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF
change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF
%import common.LF
"#;

pub(super) struct ApplyPatch;

/// Returns whether a tool takes patches.
pub(crate) fn is_patch_tool(name: &str) -> bool {
    name == NAME
}

/// The arguments of models that call the tool as a function.
#[derive(Deserialize)]
struct PatchArguments {
    #[serde(alias = "patch")]
    input: String,
}

impl BuiltinTool for ApplyPatch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        offer.apply_patch.then(|| ToolSpec::Custom {
            name: NAME.to_owned(),
            description: "Changes files. The input is the patch itself, as free text and not as JSON."
                .to_owned(),
            grammar: Some(ToolGrammar { syntax: "lark".to_owned(), definition: PATCH_GRAMMAR.to_owned() }),
        })
    }

    /// Models that were trained with the tool call it without being offered it.
    fn accepts_unoffered_calls(&self, turn: &TurnTools) -> bool {
        accepts_patches(turn)
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn hook_view(&self, call: &ToolCall) -> Option<HookView> {
        let input = call.input_value();
        let patch = input.get("input").and_then(Value::as_str).map(str::to_owned);
        let patch = patch.map_or(input, Value::String);
        Some(HookView { tool: NAME.to_owned(), input: json!({ "command": patch }) })
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let patch = match &call.input {
                ToolInput::Text(text) => text.clone(),
                ToolInput::Arguments(_) => call.arguments::<PatchArguments>()?.input,
            };
            apply(turn, call, patch, turn.settings.cwd.clone()).await
        })
    }
}

/// Returns whether the turn applies patches. A configuration that disables the tool disables every way to it.
fn accepts_patches(turn: &TurnTools) -> bool {
    let is_off = turn.config.features.configured(Feature::ApplyPatchFreeform) == Some(false);
    turn.settings.has_environment && !is_off
}

/// Returns the patch that a model wrote as a shell command; `None` if the command is to run as it is.
pub(super) fn find_in_command(turn: &TurnTools, argv: &[String]) -> Option<PatchInvocation> {
    accepts_patches(turn).then(|| codicil_patch::find_in_command(argv)).flatten()
}

/// Applies a patch that a model wrote as a shell command.
pub(super) async fn apply_from_command(
    turn: &TurnTools,
    call: &ToolCall,
    invocation: PatchInvocation,
    cwd: &Path,
) -> ToolResult {
    let cwd = cwd.join(invocation.workdir.unwrap_or_default());
    apply(turn, call, invocation.patch, cwd).await
}

async fn apply(turn: &TurnTools, call: &ToolCall, patch: String, cwd: PathBuf) -> ToolResult {
    let began = Instant::now();
    let patch = match PlannedPatch::new(turn, call.item_id(), patch, cwd).await? {
        Ok(patch) => patch,
        Err(unfit) => return Err(unfit.report(turn, call.item_id()).await),
    };
    turn.emit_started(patch.item(PatchApplyStatus::InProgress)).await;
    if let PatchDecision::Refuse { why } = &patch.decision {
        turn.emit_completed(patch.item(PatchApplyStatus::Declined)).await;
        return Err(ToolError::Failed(format!("patch rejected: {why}")));
    }
    if patch.decision == PatchDecision::Ask {
        patch.request_approval(turn).await?;
    }
    turn.begin(&patch.item_id, Some(patch.item(PatchApplyStatus::InProgress))).await?;
    match write(patch.plan.clone()).await {
        Ok(()) => {
            let summary = patch.plan.summary();
            patch.send_summary(turn, summary.clone()).await;
            turn.emit_completed(patch.item(PatchApplyStatus::Completed)).await;
            turn.diff.record(&patch.plan);
            turn_diff::send_if_changed(turn).await;
            Ok(text_output(exit_text(0, began.elapsed(), &summary)))
        }
        Err(why) => {
            turn.emit_completed(patch.item(PatchApplyStatus::Failed)).await;
            Ok(text_output(exit_text(1, began.elapsed(), &why)))
        }
    }
}

async fn write(plan: Arc<PatchPlan>) -> Result<(), String> {
    let write = move || codicil_patch::apply(&plan, &DiskFiles, Durability::Cached);
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(_panic) => Err("internal error; the server's log has the details".to_owned()),
    }
}

/// A patch that fits the files, and whether it may be applied.
struct PlannedPatch {
    item_id: ItemId,
    plan: Arc<PatchPlan>,
    changes: Vec<FileUpdateChange>,
    decision: PatchDecision,
}

/// A patch that cannot be read, or does not fit the files.
struct UnfitPatch {
    /// The changes that it asks for; empty if it cannot be read.
    changes: Vec<FileUpdateChange>,
    why: String,
}

impl UnfitPatch {
    /// Reports an item that failed, and returns the error for the model.
    async fn report(self, turn: &TurnTools, item_id: ItemId) -> ToolError {
        let item =
            |status| ThreadItem::FileChange { id: item_id.clone(), changes: self.changes.clone(), status };
        turn.emit_started(item(PatchApplyStatus::InProgress)).await;
        turn.emit_completed(item(PatchApplyStatus::Failed)).await;
        ToolError::Failed(format!("apply_patch verification failed: {}", self.why))
    }
}

/// Why a patch was not approved.
struct PatchRejection {
    status: PatchApplyStatus,
    why: String,
}

impl PlannedPatch {
    /// Parses the patch, compares it with the files and looks up the policies.
    async fn new(
        turn: &TurnTools,
        item_id: ItemId,
        patch: String,
        cwd: PathBuf,
    ) -> Result<Result<Self, UnfitPatch>, TurnCancelled> {
        let grants = turn.thread.grants().clone();
        let approval = turn.settings.approval_policy.clone();
        let sandbox = turn.settings.sandbox.clone();
        let sources = turn.access_sources(grants.access());
        let plan = move || {
            let patch = Patch::parse(&patch)
                .map_err(|error| UnfitPatch { changes: Vec::new(), why: error.to_string() })?;
            let unfit = |why: String| UnfitPatch { changes: patch.requested_changes(&cwd), why };
            let plan = PatchPlan::new(&patch, &cwd, &DiskFiles).map_err(|error| unfit(error.to_string()))?;
            let files = sources.files().map_err(|error| unfit(error.to_string()))?;
            let policies = DecisionPolicies {
                approval: &approval,
                sandbox: &sandbox,
                // Rules are about commands and do not apply here.
                rules: &CommandRules::default(),
                grants: &grants,
            };
            let decision = decide_patch(plan.places(), |place| files.can_write(place), &policies);
            Ok(Self { item_id, changes: plan.file_changes(), plan: Arc::new(plan), decision })
        };
        tokio::task::spawn_blocking(plan).await.map_err(|_panic| TurnCancelled)
    }

    fn item(&self, status: PatchApplyStatus) -> ThreadItem {
        ThreadItem::FileChange { id: self.item_id.clone(), changes: self.changes.clone(), status }
    }

    /// Asks whether the patch may be applied. Completes the item if it may not.
    async fn request_approval(&self, turn: &TurnTools) -> Result<(), ToolError> {
        match self.ask(turn).await {
            Ok(None) => Ok(()),
            Ok(Some(PatchRejection { status, why })) => {
                turn.emit_completed(self.item(status)).await;
                Err(ToolError::Failed(why))
            }
            Err(TurnCancelled) => {
                turn.emit_completed(self.item(PatchApplyStatus::Declined)).await;
                Err(ToolError::Cancelled)
            }
        }
    }

    /// Asks the user, or the guardian. `None` means that the patch is approved.
    async fn ask(&self, turn: &TurnTools) -> Result<Option<PatchRejection>, TurnCancelled> {
        let declined = |why: String| PatchRejection { status: PatchApplyStatus::Declined, why };
        if guardian::is_enabled(turn) {
            let files: Vec<_> = self.plan.places().map(|place| place.to_string_lossy()).collect();
            let action = json!({
                "tool": NAME,
                "cwd": turn.settings.cwd.to_string_lossy(),
                "files": files,
                "change_count": self.plan.changes.len(),
            });
            let ruling = guardian::review(turn, &self.item_id, action).await?;
            return Ok(ruling.err().map(|why| declined(format!("patch {why}"))));
        }
        let params = FileChangeRequestApprovalParams {
            thread_id: turn.thread_id(),
            turn_id: turn.turn_id.clone(),
            item_id: self.item_id.clone(),
            started_at_ms: Some(unix_now_ms()),
            reason: None,
            grant_root: None,
        };
        let rejected_by_user = || declined("patch rejected by user".to_owned());
        let item = Some(self.item(PatchApplyStatus::InProgress));
        let asker = AskingCall { call_id: &self.item_id, item };
        match turn.ask_durably::<FileChangeApproval>(params, QuestionKind::Approval, asker).await? {
            QuestionReply::Answer(response) => {
                let outcome = settle_patch(&response.decision, self.plan.places(), &mut turn.thread.grants());
                match outcome {
                    ApprovalOutcome::Accepted { .. } => Ok(None),
                    ApprovalOutcome::Declined => Ok(Some(rejected_by_user())),
                    ApprovalOutcome::Cancelled => Err(turn.interrupt()),
                }
            }
            QuestionReply::Unreadable => Ok(Some(rejected_by_user())),
            QuestionReply::Error => Ok(Some(PatchRejection {
                status: PatchApplyStatus::Failed,
                why: "patch rejected: the client could not be asked for approval".to_owned(),
            })),
        }
    }

    async fn send_summary(&self, turn: &TurnTools, delta: String) {
        let params = FileChangeOutputDeltaNotification {
            thread_id: turn.thread_id(),
            turn_id: turn.turn_id.clone(),
            item_id: self.item_id.clone(),
            delta,
        };
        turn.notify::<FileChangeOutputDelta>(&params).await;
    }
}
