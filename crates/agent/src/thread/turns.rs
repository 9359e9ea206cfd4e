//! Turns begin here: accepted, written, answered, announced, and only then at work.

use codicil_config::Feature;
use codicil_model::{Provider, Tools};
use codicil_protocol::{
    AskForApproval, CodexErrorInfo, ItemCompleted, ItemCompletedNotification, ItemId, ItemStarted,
    ItemStartedNotification, ResponseItem, ThreadItem, ThreadStatus, Turn, TurnError, TurnId,
    TurnStartParams, TurnStarted, TurnStartedNotification, TurnStatus, UserInput, rpc::RequestId,
};
use codicil_store::Record;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Announced, Origin, Reply,
    actor::{ThreadActor, answer},
    review::Review,
};
use crate::{
    clock::unix_now_ms,
    error::{ThreadError, TurnKind},
    git,
    kin::Kin,
    profiles::Profile,
    settings::Settings,
    step::{Outcome, Step, Steps, WeakSteps},
    tools::{Kind, Offer, Role, Terms, TurnTools},
    turn::{Show, TurnTask},
};

/// The longest input of a turn, over all its texts.
const MAX_INPUT_CHARS: usize = 1 << 20;

/// Everything that lives only while a turn does.
pub(super) struct ActiveTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    pub origin: Origin,
    pub output_schema: Option<Arc<Value>>,
    /// What the turn was started with, until the model is asked about it.
    pub first: Option<FirstInput>,
    /// Messages that arrived meanwhile, for the next request. They are stored, and not said yet.
    pub steered: Vec<ThreadItem>,
    /// What else the model is to know with the next request.
    pub notices: Vec<ResponseItem>,
    /// The last thing the model said.
    pub last_words: Option<String>,
    /// Items that have begun and are not complete.
    pub open: BTreeMap<ItemId, ThreadItem>,
    /// Questions that nobody has answered yet.
    pub asked: Vec<(RequestId, Kind)>,
    /// What the model may call.
    pub offered: Tools,
    /// Those who wait for the turn to be stopped.
    pub interrupts: Vec<Reply<Announced<()>>>,
    /// What only a review has.
    pub review: Option<Review>,
    /// Whether the history has been summed up since the model was asked last.
    pub compacted: bool,
    /// Whether something happened beside the turn that the model has not seen.
    pub wants_more: bool,
    /// Requests that joined the turn; what they set is for the turns to come.
    pub afterwards: Vec<TurnStartParams>,
    /// Why the turn fails although the model did not.
    pub failure: Option<TurnError>,
    pub cancel: CancellationToken,
    pub reports: WeakSteps,
    steps: mpsc::Receiver<Vec<Step>>,
    task: JoinHandle<Outcome>,
}

impl ActiveTurn {
    /// Starts the turn's task, which ends with it.
    pub fn new<R>(id: TurnId, kind: TurnKind, run: impl FnOnce(Steps, CancellationToken) -> R) -> Self
    where
        R: Future<Output = Outcome> + Send + 'static,
    {
        let (sender, steps) = Steps::channel();
        let cancel = CancellationToken::new();
        let reports = sender.downgrade();
        // Owned by the active turn, which cancels it and waits for its end.
        let task = tokio::spawn(run(sender, cancel.clone()));
        Self {
            id,
            kind,
            origin: Origin::default(),
            output_schema: None,
            first: None,
            steered: Vec::new(),
            notices: Vec::new(),
            last_words: None,
            open: BTreeMap::new(),
            asked: Vec::new(),
            offered: Tools::default(),
            interrupts: Vec::new(),
            review: None,
            compacted: false,
            wants_more: false,
            afterwards: Vec::new(),
            failure: None,
            cancel,
            reports,
            steps,
            task,
        }
    }

    /// The next steps, or how the turn ended. Everything it reported comes before its end.
    pub async fn next_event(&mut self) -> Result<Vec<Step>, Outcome> {
        match self.steps.recv().await {
            Some(steps) => Ok(steps),
            None => Err((&mut self.task).await.unwrap_or_else(|_| Outcome::Failed(internal_error()))),
        }
    }

    pub fn abort(&self) {
        self.task.abort();
    }
}

/// The input of a new turn.
pub(super) struct FirstInput {
    item: ThreadItem,
    /// What the model is told besides.
    surroundings: Vec<ResponseItem>,
    /// The input as the model sees it.
    content: Vec<ResponseItem>,
    /// What of it is written only when it is said.
    unstored: Vec<Record>,
}

impl FirstInput {
    /// Takes back what was asked, of which nobody has been told.
    pub fn withdrawal(&self, turn: &TurnId) -> Option<Record> {
        self.item.id().map(|item| Record::withdrawn(turn, item))
    }

    /// What the person wrote.
    fn text(&self) -> String {
        let ThreadItem::UserMessage { content, .. } = &self.item else { return String::new() };
        let texts = content.iter().filter_map(|input| match input {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Why a turn that broke inside says it failed; the log has the rest.
fn internal_error() -> TurnError {
    TurnError {
        message: "internal error; the server's log has the details".to_owned(),
        codex_error_info: Some(CodexErrorInfo::Other),
        additional_details: None,
    }
}

impl ThreadActor {
    pub(super) async fn on_start_turn(
        &mut self,
        mut params: TurnStartParams,
        origin: Origin,
        reply: Reply<Announced<Turn>>,
    ) {
        if self.active.is_none() {
            self.refresh_config().await;
        }
        let result = match check_input(&params.input).and_then(|()| self.check_allowed(&params)) {
            Err(error) => Err(error),
            Ok(()) if self.active.is_none() => return self.begin_turn(params, origin, reply).await,
            Ok(()) => {
                // It joins the turn that is running: two at once would speak over each other.
                let joined = self.steer(std::mem::take(&mut params.input)).await;
                if let (Ok(_), Some(active)) = (&joined, &mut self.active) {
                    active.afterwards.push(params);
                }
                joined.map(|turn| Announced::new(in_progress(turn)).0)
            }
        };
        answer(reply, result);
    }

    /// A turn that is running keeps what it began with.
    pub(super) async fn on_update_settings(
        &mut self,
        mut change: TurnStartParams,
    ) -> Result<Settings, ThreadError> {
        self.check_allowed(&change)?;
        let mut settings = self.next_settings.take().unwrap_or_else(|| self.state.settings.clone());
        settings.apply(&mut change);
        if self.active.is_some() {
            self.next_settings = Some(settings.clone());
            return Ok(settings);
        }
        self.state.settings = settings.clone();
        let record = self.state.settings_record();
        self.store(record.into_iter().collect()).await?;
        Ok(settings)
    }

    async fn begin_turn(
        &mut self,
        mut params: TurnStartParams,
        origin: Origin,
        reply: Reply<Announced<Turn>>,
    ) {
        self.refresh_servers().await;
        if let Some(settings) = self.next_settings.take() {
            self.state.settings = settings;
        }
        let before = self.state.settings.clone();
        self.state.settings.apply(&mut params);
        let prepared = self.prepare_turn(&mut params).await;
        let (turn, provider, first) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.state.settings = before;
                return answer(reply, Err(error));
            }
        };
        let id = turn.id.clone();
        let prompt = Some(first.text());
        let mut active =
            self.launch(turn.id.clone(), TurnKind::Regular, provider, origin, params.output_schema, prompt);
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
        if let Some(profile) = Profile::asked(params.permissions.as_deref(), "sandboxPolicy", is_given)? {
            requirements.check_sandbox_mode(&profile.mode())?;
        }
        Ok(())
    }

    /// Works out what the model is told and writes everything down. Nothing is said yet.
    async fn prepare_turn(
        &mut self,
        params: &mut TurnStartParams,
    ) -> Result<(Turn, Arc<dyn Provider>, FirstInput), ThreadError> {
        let provider = self.provider()?;
        let id = TurnId::from(uuid::Uuid::now_v7().to_string());
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
        let has_hooks = self.state.config.features.enabled(Feature::Hooks);
        // A history that is too long is summed up first, and without what is asked now.
        let asked = content.iter().map(|item| context_record(&id, item));
        let mut unstored = Vec::new();
        match self.is_too_long() || has_hooks {
            true => unstored.extend(asked),
            false => records.extend(asked),
        }
        self.store(records).await?;
        self.state.note_preview(&item);
        self.state.remember(surroundings.iter().cloned());
        Ok((in_progress(id), provider, FirstInput { item, surroundings, content, unstored }))
    }

    /// Says what the turn is about, once nothing has to be done before.
    pub(super) async fn say_first(&mut self, turn: &TurnId) {
        let Some(first) = self.active.as_mut().and_then(|active| active.first.take()) else { return };
        let FirstInput { item, surroundings, content, unstored } = first;
        if !self.keep(unstored).await {
            return;
        }
        self.say_raw(turn, &surroundings);
        self.say_raw(turn, &content);
        self.state.remember(content);
        self.say_item(turn, &item);
    }

    pub(super) fn provider(&self) -> Result<Arc<dyn Provider>, ThreadError> {
        let provider = self.world.provider(&self.state.settings.provider, &self.state.config);
        provider.map_err(ThreadError::Provider)
    }

    /// Starts the turn's task. Its first steps wait until the turn has been announced.
    pub(super) fn launch(
        &self,
        id: TurnId,
        kind: TurnKind,
        provider: Arc<dyn Provider>,
        origin: Origin,
        output_schema: Option<Value>,
        prompt: Option<String>,
    ) -> ActiveTurn {
        let (thread, turn, show) = (self.state.id.clone(), id.clone(), self.show(kind));
        let terms = Terms {
            settings: self.tool_settings(kind),
            config: self.state.config.clone(),
            provider: provider.clone(),
            offer: self.offer(kind),
            transcript: self.state.view().path,
            origin: origin.clone(),
        };
        let kit = self.kit.clone();
        let run = |steps: Steps, cancel: CancellationToken| {
            let tools = TurnTools::new(kit, turn.clone(), terms, steps.clone(), cancel.clone());
            TurnTask { thread, turn, provider, steps, cancel, show, tools, prompt }.run()
        };
        let output_schema = output_schema.map(Arc::new);
        ActiveTurn { origin, output_schema, ..ActiveTurn::new(id, kind, run) }
    }

    fn offer(&self, kind: TurnKind) -> Option<Offer> {
        let role = match kind {
            TurnKind::Regular | TurnKind::Shell => match Kin::of(&self.state.source) {
                Some(kin) => Role::Agent { depth: kin.depth },
                None => Role::Main,
            },
            TurnKind::Review => Role::Reviewer,
            TurnKind::Compact => return None,
        };
        Some(Offer::new(role, &self.state.config, self.model_info()))
    }

    /// What holds for the tools of a turn. A reviewer asks nobody.
    pub(super) fn tool_settings(&self, kind: TurnKind) -> Settings {
        let mut settings = self.state.settings.clone();
        if kind == TurnKind::Review {
            settings.approval_policy = AskForApproval::Never;
        }
        settings
    }

    fn show(&self, kind: TurnKind) -> Show {
        let plan_mode = (self.state.settings.collaboration_mode.as_ref())
            .is_some_and(|mode| mode.mode == codicil_protocol::ModeKind::Plan);
        Show {
            raw_reasoning: self.state.config.settings.show_raw_agent_reasoning.unwrap_or(false),
            plans: plan_mode && kind == TurnKind::Regular,
            // A reviewer answers in JSON; people see what is made of it.
            deltas: kind != TurnKind::Review,
        }
    }

    /// Answers, and waits until the answer is on its way: what follows must come after it.
    pub(super) async fn accept<T>(&mut self, reply: Reply<Announced<T>>, value: T) {
        let (announced, said) = Announced::new(value);
        answer(reply, Ok(announced));
        let _: Result<(), oneshot::error::RecvError> = said.await;
    }

    pub(super) fn announce_turn(&mut self, id: &TurnId) {
        self.mark_turn();
        self.set_status(ThreadStatus::Active { active_flags: Vec::new() });
        let params =
            TurnStartedNotification { thread_id: self.state.id.clone(), turn: in_progress(id.clone()) };
        self.notify::<TurnStarted>(&params);
    }

    /// An item that is complete when it begins.
    pub(super) fn say_item(&mut self, turn: &TurnId, item: &ThreadItem) {
        self.say_started(turn, item);
        self.say_completed(turn, item);
    }

    pub(super) fn say_started(&self, turn: &TurnId, item: &ThreadItem) {
        self.notify::<ItemStarted>(&ItemStartedNotification {
            item: item.clone(),
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            started_at_ms: Some(unix_now_ms()),
        });
    }

    pub(super) fn say_completed(&mut self, turn: &TurnId, item: &ThreadItem) {
        if let (Some(active), Some(id)) = (&mut self.active, item.id()) {
            active.open.remove(id);
        }
        self.notify::<ItemCompleted>(&ItemCompletedNotification {
            item: item.clone(),
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            completed_at_ms: Some(unix_now_ms()),
        });
        self.world.realtime.heard(&self.state.id, turn, item);
    }

    pub(super) fn on_interrupt(&mut self, reply: Reply<Announced<()>>) {
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

pub(super) fn check_input(input: &[UserInput]) -> Result<(), ThreadError> {
    if input.is_empty() {
        return Err(ThreadError::EmptyInput);
    }
    let lengths = input.iter().map(|input| match input {
        UserInput::Text { text, .. } => text.chars().count(),
        _ => 0,
    });
    let actual = lengths.sum();
    if actual > MAX_INPUT_CHARS {
        return Err(ThreadError::InputTooLong { max: MAX_INPUT_CHARS, actual });
    }
    Ok(())
}

pub(super) fn in_progress(id: TurnId) -> Turn {
    Turn { id, items: Vec::new(), status: TurnStatus::InProgress, error: None }
}

pub(super) fn user_message(content: Vec<UserInput>) -> ThreadItem {
    ThreadItem::UserMessage { id: new_item_id(), content }
}

/// A user message as it is kept: its texts are one, and come before everything else.
pub(super) fn stored_form(item: &ThreadItem) -> ThreadItem {
    let ThreadItem::UserMessage { id, content } = item else { return item.clone() };
    let mut joined = String::new();
    let mut elements = Vec::new();
    let mut others = Vec::new();
    for input in content {
        match input {
            UserInput::Text { text, text_elements } => {
                let shift = joined.len() as u64;
                elements.extend(text_elements.iter().cloned().map(|mut element| {
                    let range = &mut element.byte_range;
                    let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                    let shown = bounds.and_then(|(start, end)| text.get(start..end));
                    element.placeholder = element.placeholder.or_else(|| shown.map(str::to_owned));
                    range.start = range.start.saturating_add(shift);
                    range.end = range.end.saturating_add(shift);
                    element
                }));
                joined.push_str(text);
            }
            other => others.push(other.clone()),
        }
    }
    let text = (!joined.is_empty()).then_some(UserInput::Text { text: joined, text_elements: elements });
    ThreadItem::UserMessage { id: id.clone(), content: text.into_iter().chain(others).collect() }
}

pub(super) fn new_item_id() -> ItemId {
    ItemId::from(uuid::Uuid::now_v7().to_string())
}

pub(super) fn context_record(turn: &TurnId, item: &ResponseItem) -> Record {
    Record::Context { turn_id: Some(turn.clone()), item: item.clone() }
}
