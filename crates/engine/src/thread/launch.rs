//! The task of a new turn: its provider, its tools and what clients see of its responses.

use std::sync::Arc;

use codicil_config::Feature;
use codicil_model::ModelProvider;
use codicil_protocol::{AskForApproval, ProtocolGeneration, TurnId};
use codicil_store::ThreadLog;
use codicil_telemetry::spans::{TurnIds, turn_span};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{TurnKind, TurnOrigin, active_turn::ActiveTurn, actor::ThreadActor};
use crate::{
    error::{SettingsError, ThreadError},
    settings::TurnSettings,
    subagent::SubagentOrigin,
    tools::{MentionedSkills, ThreadRole, ToolCall, ToolOffer, TurnConfig, TurnTools},
    turn::{ResponseVisibility, TurnTask},
    turn_channel::TurnReporter,
};

/// A turn that is about to run.
pub(super) struct NewTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    pub provider: Arc<dyn ModelProvider>,
    pub origin: TurnOrigin,
    pub output_schema: Option<Value>,
    /// The user's text, for turns that start with user input.
    pub prompt: Option<String>,
    pub skills: Option<MentionedSkills>,
    /// The calls that a turn of an earlier process still has to run. It does not start from the beginning then.
    pub continued_calls: Option<Vec<ToolCall>>,
}

impl NewTurn {
    pub fn new(id: TurnId, kind: TurnKind, provider: Arc<dyn ModelProvider>, origin: TurnOrigin) -> Self {
        Self {
            id,
            kind,
            provider,
            origin,
            output_schema: None,
            prompt: None,
            skills: None,
            continued_calls: None,
        }
    }
}

impl ThreadActor {
    /// Starts the turn's task. Its first messages wait until the turn has been announced.
    pub(super) fn launch(&self, new: NewTurn) -> ActiveTurn {
        let NewTurn { id, kind, provider, origin, output_schema, prompt, skills, continued_calls } = new;
        let config = TurnConfig {
            settings: self.tool_settings(kind),
            config: self.state.config.clone(),
            provider: provider.clone(),
            offer: self.offer(kind, &origin),
            transcript: self.state.path(),
            skills,
            origin: origin.clone(),
            epoch: self.state.log.as_ref().and_then(ThreadLog::epoch),
        };
        let mut over = CancellationToken::new();
        let end_response = watch::Sender::new(0);
        let response_ends = end_response.subscribe();
        let run = |reporter: TurnReporter, cancel: CancellationToken| {
            let tools =
                TurnTools::new(self.tools.clone(), id.clone(), config, reporter.clone(), cancel.clone());
            over = tools.ended.clone();
            let task = TurnTask {
                thread: self.state.id.clone(),
                turn: id.clone(),
                provider,
                reporter,
                cancel,
                response_ends,
                visibility: self.visibility(kind),
                tools,
                prompt,
                continued_calls,
            };
            task.run()
        };
        let cancel = self.fence.child_token();
        let mut active =
            ActiveTurn::new(id.clone(), kind, self.turn_span(&id), self.reporter(&id), cancel, run);
        active.over = over;
        active.end_response = end_response;
        active.origin = origin;
        active.output_schema = output_schema.map(Arc::new);
        active
    }

    /// Returns the span of a new turn, below the current request.
    pub(super) fn turn_span(&self, id: &TurnId) -> Span {
        turn_span(TurnIds { thread: &self.state.id, turn: id }, &self.request_trace)
    }

    fn offer(&self, kind: TurnKind, origin: &TurnOrigin) -> Option<ToolOffer> {
        let role = match kind {
            TurnKind::Regular | TurnKind::Shell => match SubagentOrigin::of(&self.state.source) {
                Some(origin) => ThreadRole::Agent { depth: origin.depth },
                None => ThreadRole::Main,
            },
            TurnKind::Review => ThreadRole::Reviewer,
            TurnKind::Compact => return None,
        };
        let may_set_goals = origin.generation == ProtocolGeneration::V166
            && self.state.config.features.enabled(Feature::Goals);
        // Without its tools, the model could not end a goal.
        let knows_goals = may_set_goals || self.state.goal.is_some();
        let goals = role == ThreadRole::Main && self.state.log.is_some() && knows_goals;
        let offer = ToolOffer { goals, ..ToolOffer::new(role, &self.state.config, self.model_info()) };
        Some(if self.state.settings.has_environment { offer } else { offer.without_environment() })
    }

    /// Returns the settings of a turn's tools. A reviewer asks for no approvals.
    pub(super) fn tool_settings(&self, kind: TurnKind) -> TurnSettings {
        let mut settings = self.state.settings.clone();
        if kind == TurnKind::Review {
            settings.approval_policy = AskForApproval::Never;
        }
        settings
    }

    fn visibility(&self, kind: TurnKind) -> ResponseVisibility {
        ResponseVisibility {
            raw_reasoning: self.state.config.settings.show_raw_agent_reasoning.unwrap_or(false),
            plans: self.state.settings.is_plan_mode() && kind == TurnKind::Regular,
            patches: self.state.config.features.enabled(Feature::ApplyPatchStreamingEvents),
            // A reviewer answers in JSON; clients see the text that is made of it.
            messages: kind != TurnKind::Review,
        }
    }

    pub(super) fn provider(&self) -> Result<Arc<dyn ModelProvider>, ThreadError> {
        let provider = self.engine.provider(&self.state.settings.provider, &self.state.config);
        Ok(provider.map_err(SettingsError::Provider)?)
    }
}
