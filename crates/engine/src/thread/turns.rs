//! Turns begin here: accepted, written, answered, announced, and only then at work.

use std::sync::Arc;

use codicil_config::Feature;
use codicil_model::ModelProvider;
use codicil_protocol::{AskForApproval, Turn, TurnId, TurnStartParams};
use codicil_store::Record;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active::ActiveTurn,
    actor::{ThreadActor, answer},
    input::{FirstInput, check_input, context_record, stored_form, user_message},
    say::in_progress,
};
use crate::{
    error::ThreadError,
    git,
    ids::new_turn_id,
    kin::SubagentOrigin,
    profiles::BuiltinProfile,
    settings::TurnSettings,
    step::TurnReporter,
    tools::{ThreadRole, ToolOffer, TurnConfig, TurnTools},
    turn::{ResponseVisibility, TurnTask},
};

/// A turn that is about to run.
pub(super) struct NewTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    pub provider: Arc<dyn ModelProvider>,
    /// Who asked for it.
    pub origin: TurnOrigin,
    pub output_schema: Option<Value>,
    /// What the person said, if the turn is about it.
    pub prompt: Option<String>,
}

impl NewTurn {
    pub fn new(id: TurnId, kind: TurnKind, provider: Arc<dyn ModelProvider>, origin: TurnOrigin) -> Self {
        Self { id, kind, provider, origin, output_schema: None, prompt: None }
    }
}

impl ThreadActor {
    pub(super) async fn on_start_turn(
        &mut self,
        mut params: TurnStartParams,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        if self.active.is_none() {
            self.refresh_config().await;
        }
        let result = match check_input(&params.input).and_then(|()| self.check_allowed(&params)) {
            Err(error) => Err(error),
            Ok(()) if self.active.is_none() => return self.begin_turn(params, origin, reply).await,
            Ok(()) => {
                // It joins the turn that is running: two at once would speak over each other.
                match self.steer(std::mem::take(&mut params.input)).await {
                    Ok(turn) => {
                        let set = self.set_later(&mut params).await;
                        set.map(|_| AnnouncedReply::new(in_progress(turn)).0)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        answer(reply, result);
    }

    /// A turn that is running keeps what it began with.
    pub(super) async fn on_update_settings(
        &mut self,
        mut change: TurnStartParams,
    ) -> Result<TurnSettings, ThreadError> {
        self.check_allowed(&change)?;
        if self.active.is_some() {
            return self.set_later(&mut change).await;
        }
        let before = self.state.standing();
        self.state.settings.apply(&mut change);
        if let Err(error) = self.state.store_settings().await {
            self.state.restore(before);
            return Err(error.into());
        }
        Ok(self.state.settings.clone())
    }

    /// Takes over what is set for the turns after the one that is running. It is written at once: a thread that is
    /// forked or loaded again meanwhile has it too.
    async fn set_later(&mut self, change: &mut TurnStartParams) -> Result<TurnSettings, ThreadError> {
        let mut settings = self.state.next_settings.as_ref().unwrap_or(&self.state.settings).clone();
        settings.apply(change);
        self.state.next_settings = Some(settings.clone());
        self.state.store_settings().await?;
        Ok(settings)
    }

    async fn begin_turn(
        &mut self,
        mut params: TurnStartParams,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        self.refresh_servers().await;
        let before = self.state.standing();
        self.state.settings.apply(&mut params);
        let prepared = self.prepare_turn(&mut params).await;
        let (turn, provider, first) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.state.restore(before);
                return answer(reply, Err(error));
            }
        };
        let id = turn.id.clone();
        let mut active = self.launch(NewTurn {
            output_schema: params.output_schema,
            prompt: Some(first.text()),
            ..NewTurn::new(id.clone(), TurnKind::Regular, provider, origin)
        });
        active.first = Some(first);
        self.active = Some(active);
        self.begin_progress();
        self.accept(reply, turn).await;
        self.announce_turn(&id);
    }

    /// What an administrator forbids is refused before anything of the request counts.
    fn check_allowed(&self, params: &TurnStartParams) -> Result<(), ThreadError> {
        let requirements = &self.state.config.requirements;
        if let Some(policy) = &params.approval_policy {
            requirements.check_approval_policy(policy)?;
        }
        if let Some(policy) = &params.sandbox_policy {
            requirements.check_sandbox_policy(policy)?;
        }
        let is_given = params.sandbox_policy.is_some();
        if let Some(profile) =
            BuiltinProfile::asked(params.permissions.as_deref(), "sandboxPolicy", is_given)?
        {
            requirements.check_sandbox_mode(&profile.mode())?;
        }
        Ok(())
    }

    /// Works out what the model is told and writes everything down. Nothing is said yet.
    async fn prepare_turn(
        &mut self,
        params: &mut TurnStartParams,
    ) -> Result<(Turn, Arc<dyn ModelProvider>, FirstInput), ThreadError> {
        let provider = self.provider()?;
        let id = new_turn_id();
        let input = std::mem::take(&mut params.input);
        let surroundings = self.context_messages().await;
        let content = self.user_content(&input).await;
        let item = user_message(input);
        let mut records = vec![Record::Turn { turn_id: id.clone() }];
        records.extend(self.state.settings_record());
        records.extend(self.git_record().await);
        records.extend(surroundings.iter().map(|item| context_record(&id, item)));
        // Hooks may keep back what is asked. It is taken back then; the model's history never has it.
        records.push(Record::Item { turn_id: id.clone(), item: stored_form(&item) });
        let waits_for_hooks = self.state.config.features.enabled(Feature::Hooks);
        // A history that is too long is summed up first, and without what is asked now.
        let asked = content.iter().map(|item| context_record(&id, item));
        let mut unstored = Vec::new();
        match self.is_too_long() || waits_for_hooks {
            true => unstored.extend(asked),
            false => records.extend(asked),
        }
        self.store(records).await?;
        self.state.note_preview(&item);
        self.state.remember(surroundings.iter().cloned());
        let first = FirstInput { item, surroundings, content, unstored, waits_for_hooks };
        Ok((in_progress(id), provider, first))
    }

    /// Says what the turn is about, once nothing has to be done before.
    pub(super) async fn say_first(&mut self, turn: &TurnId) {
        let Some(first) = self.active.as_mut().and_then(|active| active.first.take()) else { return };
        let FirstInput { item, surroundings, content, unstored, .. } = first;
        if !self.keep(unstored).await {
            return;
        }
        self.say_raw(turn, &surroundings);
        self.say_raw(turn, &content);
        self.state.remember(content);
        self.say_item(turn, &item);
    }

    pub(super) fn provider(&self) -> Result<Arc<dyn ModelProvider>, ThreadError> {
        let provider = self.world.provider(&self.state.settings.provider, &self.state.config);
        provider.map_err(ThreadError::Provider)
    }

    /// Starts the turn's task. Its first steps wait until the turn has been announced.
    pub(super) fn launch(&self, new: NewTurn) -> ActiveTurn {
        let NewTurn { id, kind, provider, origin, output_schema, prompt } = new;
        let thread = self.state.id.clone();
        let turn = id.clone();
        let visibility = self.visibility(kind);
        let terms = TurnConfig {
            settings: self.tool_settings(kind),
            config: self.state.config.clone(),
            provider: provider.clone(),
            offer: self.offer(kind),
            transcript: self.state.path(),
            origin: origin.clone(),
        };
        let kit = self.kit.clone();
        let mut over = CancellationToken::new();
        let run = |reporter: TurnReporter, cancel: CancellationToken| {
            let tools = TurnTools::new(kit, turn.clone(), terms, reporter.clone(), cancel.clone());
            over = tools.over.clone();
            TurnTask { thread, turn, provider, reporter, cancel, visibility, tools, prompt }.run()
        };
        let mut active = ActiveTurn::new(id.clone(), kind, self.reporter(&id), run);
        active.over = over;
        active.origin = origin;
        active.output_schema = output_schema.map(Arc::new);
        active
    }

    fn offer(&self, kind: TurnKind) -> Option<ToolOffer> {
        let role = match kind {
            TurnKind::Regular | TurnKind::Shell => match SubagentOrigin::of(&self.state.source) {
                Some(kin) => ThreadRole::Agent { depth: kin.depth },
                None => ThreadRole::Main,
            },
            TurnKind::Review => ThreadRole::Reviewer,
            TurnKind::Compact => return None,
        };
        Some(ToolOffer::new(role, &self.state.config, self.model_info()))
    }

    /// What holds for the tools of a turn. A reviewer asks nobody.
    pub(super) fn tool_settings(&self, kind: TurnKind) -> TurnSettings {
        let mut settings = self.state.settings.clone();
        if kind == TurnKind::Review {
            settings.approval_policy = AskForApproval::Never;
        }
        settings
    }

    fn visibility(&self, kind: TurnKind) -> ResponseVisibility {
        let plan_mode = (self.state.settings.collaboration_mode.as_ref())
            .is_some_and(|mode| mode.mode == codicil_protocol::ModeKind::Plan);
        ResponseVisibility {
            raw_reasoning: self.state.config.settings.show_raw_agent_reasoning.unwrap_or(false),
            plans: plan_mode && kind == TurnKind::Regular,
            // A reviewer answers in JSON; people see what is made of it.
            deltas: kind != TurnKind::Review,
        }
    }

    pub(super) fn on_interrupt(&mut self, reply: CommandReply<AnnouncedReply<()>>) {
        match &mut self.active {
            Some(active) => {
                active.cancel.cancel();
                active.interrupts.push(reply);
            }
            None => answer(reply, Err(ThreadError::NothingToInterrupt)),
        }
    }

    /// The repository, looked at once: when the thread gets its first message.
    pub(super) async fn git_record(&mut self) -> Option<Record> {
        if self.state.preview.is_some() || self.state.git.is_some() || self.state.log.is_none() {
            return None;
        }
        let cwd = self.state.settings.cwd.clone();
        let git = tokio::task::spawn_blocking(move || git::info(&cwd)).await.ok()??;
        self.state.git = Some(git.clone());
        Some(Record::Git { git: Some(git) })
    }
}
