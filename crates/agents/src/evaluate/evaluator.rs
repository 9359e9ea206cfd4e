//! The way in: an evaluator, and one evaluation with its choices.

use std::{fmt, io, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use codicil_client::{
    Endpoint,
    protocol::{ThreadId, TurnId},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    budget::{Budget, TokenUsage},
    config::{ClientConfig, ConfigError, ModelConfig},
    error::{EvaluateError, EvaluationCause, FailedEvaluation},
    prompt::Prompt,
    run::{EvaluationRun, FinishedTurn},
    schema::OutputSchema,
    session::Session,
};
use crate::workspace::Workspace;

/// Evaluates prompts: starts a server, has the agent work on the prompt in a thread, and ends the server.
/// Clones share their configuration, and evaluations may run at the same time.
///
/// ```no_run
/// use codicil_agents::evaluate::{ClientConfig, EvaluateError, Evaluator, ModelConfig, Prompt};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let evaluator = Evaluator::new(ClientConfig::default(), ModelConfig::default())?;
/// let prompt = Prompt::text("List the files in the repository and summarise.");
/// let answer = evaluator.evaluate(&prompt).text().await?;
/// println!("{}", answer.text);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Evaluator {
    setup: Arc<EvaluatorSetup>,
}

/// What all evaluations of an evaluator have in common.
#[derive(Clone)]
pub(super) struct EvaluatorSetup {
    pub client: ClientConfig,
    pub model: ModelConfig,
    pub connect: Option<ConnectFn>,
}

pub(super) type ConnectFn =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<Endpoint>> + Send>> + Send + Sync>;

impl fmt::Debug for EvaluatorSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("client", &self.client)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Evaluator {
    /// Checks the configuration. Nothing is started before something is evaluated.
    pub fn new(client: ClientConfig, model: ModelConfig) -> Result<Self, ConfigError> {
        client.check()?;
        Ok(Self { setup: Arc::new(EvaluatorSetup { client, model, connect: None }) })
    }

    /// Connects to a server that is there already, or in the same process, instead of starting one. The function is
    /// called for each evaluation.
    pub fn connect_with<F, R>(mut self, connect: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<Endpoint>> + Send + 'static,
    {
        Arc::make_mut(&mut self.setup).connect = Some(Arc::new(move || Box::pin(connect())));
        self
    }

    /// The same with another model.
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        Arc::make_mut(&mut self.setup).model = model;
        self
    }

    /// Begins an evaluation. Nothing happens until [`text`](Evaluation::text) or [`value`](Evaluation::value).
    pub fn evaluate<'e>(&'e self, prompt: &'e Prompt) -> Evaluation<'e> {
        Evaluation {
            setup: &self.setup,
            prompt,
            session: Session::new(),
            workspace: None,
            deadline: None,
            budget: None,
            max_expansions: DEFAULT_EXPANSIONS,
        }
    }
}

/// How often a prompt is shown again with more of it, unless said otherwise.
const DEFAULT_EXPANSIONS: u32 = 3;

/// One evaluation. Dropping its future ends the server.
#[derive(Debug)]
#[must_use = "nothing happens before `text` or `value` is awaited"]
pub struct Evaluation<'e> {
    setup: &'e EvaluatorSetup,
    prompt: &'e Prompt,
    session: Session,
    workspace: Option<&'e Workspace>,
    deadline: Option<Instant>,
    budget: Option<Budget>,
    max_expansions: u32,
}

impl<'e> Evaluation<'e> {
    /// Whose state the tools change, whose thread may be gone on with, whose observers are told; one of its own if
    /// not said.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// Where the agent works, in place of the configured directory.
    pub fn workspace(mut self, workspace: &'e Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// When it has to be over. A turn that still runs then is interrupted; a server that does not stop it is
    /// killed. Without a deadline an evaluation takes as long as the agent does.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same, counted from now.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// What it may use. It ends as soon as that is too much. The budget's own deadline counts too.
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// How often the prompt may be shown again with more of it; 3 if not said. Beyond that, a tool that asks for
    /// more ends in [`EvaluateError::ExpansionRequired`].
    pub fn max_expansions(mut self, times: u32) -> Self {
        self.max_expansions = times;
        self
    }

    /// Runs it for the agent's answer as it is.
    pub async fn text(self) -> Result<EvaluationAnswer, EvaluateError> {
        let finished = self.run(None).await?;
        Ok(self.answer(finished, ()))
    }

    /// Runs it for a value: the model is held to the type's schema, and its answer is read as the type.
    ///
    /// ```no_run
    /// # use codicil_agents::evaluate::{EvaluateError, Evaluator, Prompt};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Summary {
    ///     title: String,
    ///     files: Vec<String>,
    /// }
    ///
    /// # async fn example(evaluator: Evaluator) -> Result<(), EvaluateError> {
    /// let prompt = Prompt::text("Summarise the structure of the repository.");
    /// let summary: Summary = evaluator.evaluate(&prompt).value().await?.value;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn value<T: DeserializeOwned + JsonSchema>(self) -> Result<EvaluationAnswer<T>, EvaluateError> {
        let schema = OutputSchema::of::<T>();
        let finished = self.run(Some(&schema)).await?;
        match schema.parse(&finished.text) {
            Ok(value) => Ok(self.answer(finished, value)),
            Err(error) => Err(finished.failed(error).into()),
        }
    }

    fn answer<T>(&self, finished: FinishedTurn, value: T) -> EvaluationAnswer<T> {
        self.session.tell(&finished.event(self.prompt.name()));
        let FinishedTurn { text, usage, thread_id, turn_id, .. } = finished;
        EvaluationAnswer { text, value, usage, thread_id, turn_id }
    }

    /// Runs it, and again with more of the prompt where a tool asks for that.
    async fn run(&self, output: Option<&OutputSchema>) -> Result<FinishedTurn, EvaluateError> {
        let mut left = self.max_expansions;
        loop {
            let job = self.job(output)?;
            // Boxed: the future of a whole run is large, and callers put it on their stack.
            match Box::pin(job.run()).await {
                Err(EvaluateError::ExpansionRequired(expansion)) if left > 0 => {
                    left -= 1;
                    expansion.open(&self.session);
                }
                outcome => return outcome,
            }
        }
    }

    fn job<'j>(&'j self, output: Option<&'j OutputSchema>) -> Result<EvaluationRun<'j>, EvaluateError> {
        let of_budget = self.budget.as_ref().and_then(Budget::must_end);
        Ok(EvaluationRun {
            setup: self.setup,
            prompt: self.prompt,
            session: &self.session,
            cwd: self.cwd()?,
            workspace: self.workspace.map(Workspace::fingerprint),
            deadline: self.deadline.into_iter().chain(of_budget).min(),
            budget: self.budget.as_ref(),
            output,
        })
    }

    fn cwd(&self) -> Result<PathBuf, EvaluateError> {
        let unusable =
            |cause: io::Error| EvaluateError::from(FailedEvaluation::new(EvaluationCause::Cwd(cause)));
        let given = self.workspace.map(|workspace| workspace.path().to_owned());
        let cwd = match given.or_else(|| self.setup.client.cwd.clone()) {
            Some(cwd) => cwd,
            None => std::env::current_dir().map_err(unusable)?,
        };
        match cwd.to_str() {
            Some(_) => Ok(cwd),
            None => Err(unusable(io::Error::other("its path is not UTF-8, which messages are"))),
        }
    }
}

/// What an evaluation brought.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationAnswer<T = ()> {
    /// The agent's answer as it wrote it.
    pub text: String,
    /// The answer as a value; `()` when none was asked for.
    pub value: T,
    /// What the turn used, if the server said it.
    pub usage: Option<TokenUsage>,
    /// The thread in which it ran.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
}
