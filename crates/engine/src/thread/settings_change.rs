//! Changes of a thread's settings: `thread/settings/update`, `turn/settings/update`, and the settings that a
//! `turn/start` brings along.
//!
//! A running turn keeps the settings that it began with, unless the change is for that turn; the settings of the turns
//! after it wait in `next_settings`.

use codicil_config::Feature;
use codicil_protocol::{
    ApprovalsReviewer, ConfigWarning, Frame, ReasoningEffort, ThreadSettings, ThreadSettingsUpdated,
    ThreadSettingsUpdatedNotification, TurnId, TurnStartParams,
};
use codicil_store::Record;

use super::{actor::ThreadActor, other_writers::MAX_RELOADS};
use crate::{
    error::{SettingsError, ThreadError},
    model_support::warning,
    profiles::{self, NamedProfile},
    settings::{TurnSettings, local_environment},
};

impl ThreadActor {
    /// Changes the settings of the next turn. A running turn keeps those that it began with.
    pub(super) async fn on_update_settings(&mut self, change: TurnStartParams) -> Result<(), ThreadError> {
        self.check_allowed(&change)?;
        if self.active.is_some() {
            let before = self.state.restore_point();
            let known = self.next_settings().clone();
            let record = self.change_later(&mut change.clone());
            let records = record.into_iter().chain(self.key_records(&())?).collect();
            if let Err(error) = self.store(records).await {
                self.state.restore(before);
                return Err(error);
            }
            self.announce_settings(&known);
            return Ok(());
        }
        self.claim_conversation().await?;
        for _ in 0..MAX_RELOADS {
            let before = self.state.restore_point();
            let known = self.next_settings().clone();
            self.state.settings.apply(&mut change.clone(), &self.state.config);
            let records = self.state.settings_record().into_iter().chain(self.key_records(&())?).collect();
            match self.store_once(records).await {
                Ok(()) => {
                    self.announce_settings(&known);
                    return Ok(());
                }
                Err(error) => self.restore_or_catch_up(before, error).await?,
            }
        }
        Err(ThreadError::Busy)
    }

    /// Changes the settings of the running turn, which its next model request has. The turns after it have the settings from
    /// before. Returns false if the turn does not run.
    pub(super) fn on_update_turn_settings(
        &mut self,
        turn: &TurnId,
        mut change: TurnStartParams,
    ) -> Result<bool, ThreadError> {
        self.check_allowed(&change)?;
        if self.active.as_ref().is_none_or(|active| active.id != *turn) {
            return Ok(false);
        }
        if let Some(reviewer) = &change.approvals_reviewer {
            self.tools.set_turn_reviewer(turn.clone(), reviewer.clone());
        }
        self.state.next_settings.get_or_insert_with(|| self.state.settings.clone());
        self.state.settings.apply(&mut change, &self.state.config);
        self.report_missing_reviewer();
        Ok(true)
    }

    /// Changes the settings of the turns after the running one. Their record is stored at once: a thread that is forked
    /// or loaded again meanwhile has them too.
    pub(super) fn change_later(&mut self, change: &mut TurnStartParams) -> Option<Record> {
        let mut settings = self.next_settings().clone();
        settings.apply(change, &self.state.config);
        self.state.next_settings = Some(settings);
        self.state.settings_record()
    }

    /// Returns the settings of the next turn.
    fn next_settings(&self) -> &TurnSettings {
        self.state.next_settings.as_ref().unwrap_or(&self.state.settings)
    }

    /// Returns settings as clients see them: without a personality if the configuration switches personalities off.
    fn shown_settings(&self, settings: &TurnSettings) -> ThreadSettings {
        let is_on = self.state.config.features.enabled(Feature::Personality);
        let settings = settings.clone();
        TurnSettings { personality: settings.personality.filter(|_| is_on), ..settings }.into_wire()
    }

    /// Announces the settings of the next turn, if clients see a difference to those that they know.
    pub(super) fn announce_settings(&self, known: &TurnSettings) {
        if self.present_settings() != self.shown_settings(known) {
            self.notifier.send(self.settings_frame());
        }
    }

    /// Returns the settings of the next turn as clients see them.
    fn present_settings(&self) -> ThreadSettings {
        self.shown_settings(self.next_settings())
    }

    /// Returns the message about the present settings.
    pub(super) fn settings_frame(&self) -> Frame {
        let thread_id = self.state.id.clone();
        let params =
            ThreadSettingsUpdatedNotification { thread_id, thread_settings: self.present_settings() };
        Frame::notification::<ThreadSettingsUpdated>(&params)
    }

    /// Refuses what the administrator's requirements forbid, before anything of the request takes effect.
    pub(super) fn check_allowed(&self, params: &TurnStartParams) -> Result<(), SettingsError> {
        if params.effort == Some(ReasoningEffort::Unrecognized(String::new())) {
            return Err(SettingsError::EmptyEffort);
        }
        if params.disabled_plugin_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
            return Err(SettingsError::Unsupported("disabledPluginIds"));
        }
        local_environment(params.environments.clone().unwrap_or_default())?;
        let requirements = &self.state.config.requirements;
        if let Some(policy) = &params.approval_policy {
            requirements.check_approval_policy(policy)?;
        }
        if let Some(policy) = &params.sandbox_policy {
            requirements.check_sandbox_policy(policy)?;
        }
        let is_given = params.sandbox_policy.is_some();
        profiles::check_request(params.permissions.as_deref(), "sandboxPolicy", is_given)?;
        if let Some(id) = &params.permissions {
            NamedProfile::find(id, &self.state.config)?.check_allowed(&self.state.config)?;
        }
        Ok(())
    }

    /// Warns, once for a loaded thread, that approvals go to the user although the settings choose the guardian.
    pub(super) fn report_missing_reviewer(&mut self) {
        let is_missing = self.state.settings.approvals_reviewer == ApprovalsReviewer::GuardianSubagent
            && !self.state.config.features.enabled(Feature::GuardianApproval);
        if !is_missing || std::mem::replace(&mut self.is_reviewer_reported, true) {
            return;
        }
        self.notifier.notify::<ConfigWarning>(&warning(
            "`approvalsReviewer: guardian_subagent` has no effect: the feature `guardian_approval` is disabled"
                .to_owned(),
            "Approval requests go to the user. Set `features.guardian_approval = true` to have the guardian answer them.",
        ));
    }
}
