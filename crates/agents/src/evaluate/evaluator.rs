//! The entry point: an evaluator, and the options of one evaluation.

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

/// Evaluates prompts. Each evaluation starts a server, has the agent work on the prompt in a thread, and ends the
/// server. Clones share the configuration, and evaluations may run concurrently.
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

/// The configuration that all evaluations of an evaluator share.
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
        f.debug_struct("EvaluatorSetup")
            .field("client", &self.client)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Evaluator {
    /// Creates an evaluator. Checks the configuration, and starts nothing yet.
    pub fn new(client: ClientConfig, model: ModelConfig) -> Result<Self, ConfigError> {
        client.check()?;
        Ok(Self { setup: Arc::new(EvaluatorSetup { client, model, connect: None }) })
    }

    /// Connects to an existing server, or one in the same process, instead of starting one. The function is called for
    /// each evaluation.
    pub fn connect_with<F, R>(mut self, connect: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<Endpoint>> + Send + 'static,
    {
        Arc::make_mut(&mut self.setup).connect = Some(Arc::new(move || Box::pin(connect())));
        self
    }

    /// Replaces the model configuration.
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        Arc::make_mut(&mut self.setup).model = model;
        self
    }

    /// Prepares an evaluation. [`text`](Evaluation::text) or [`value`](Evaluation::value) runs it.
    pub fn evaluate<'e>(&'e self, prompt: &'e Prompt) -> Evaluation<'e> {
        Evaluation {
            setup: &self.setup,
            prompt,
            session: Session::new(),
            workspace: None,
            deadline: None,
            budget: None,
            continued: None,
            max_expansions: DEFAULT_EXPANSIONS,
        }
    }
}

/// Expansions of a prompt unless configured otherwise.
const DEFAULT_EXPANSIONS: u32 = 3;

/// A prepared evaluation. Dropping its future ends the server.
#[derive(Debug)]
#[must_use = "nothing happens before `text` or `value` is awaited"]
pub struct Evaluation<'e> {
    setup: &'e EvaluatorSetup,
    prompt: &'e Prompt,
    session: Session,
    workspace: Option<&'e Workspace>,
    deadline: Option<Instant>,
    budget: Option<Budget>,
    continued: Option<ThreadId>,
    max_expansions: u32,
}

impl<'e> Evaluation<'e> {
    /// Sets the session: the state that tools change, the thread to continue and the observers. A new session by
    /// default.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// Sets the agent's working directory, in place of the configured one.
    pub fn workspace(mut self, workspace: &'e Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets the deadline. A turn that is still running then is interrupted; a server that does not interrupt it is
    /// killed. Without a deadline the evaluation takes as long as the agent does.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the deadline relative to now.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// Sets the budget. The evaluation ends when a limit is exceeded. The budget's deadline applies as well.
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// Continues the thread of an earlier evaluation of this prompt, such as one that exceeded its deadline or budget,
    /// instead of starting over: what was done is not done twice. The thread has the prompt already, and gets a short
    /// message to go on. Fails if the server no longer has the thread.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use codicil_agents::evaluate::{EvaluateError, Evaluator, Prompt};
    ///
    /// # async fn example(evaluator: Evaluator, prompt: Prompt) -> Result<(), EvaluateError> {
    /// let first = evaluator.evaluate(&prompt).timeout(Duration::from_secs(60)).text().await;
    /// let begun = first.as_ref().err().and_then(|error| error.failed()?.thread_id.clone());
    /// let answer = match begun {
    ///     Some(thread) => {
    ///         evaluator.evaluate(&prompt).continue_thread(&thread).timeout(Duration::from_secs(600)).text().await?
    ///     }
    ///     None => first?,
    /// };
    /// # Ok(())
    /// # }
    /// ```
    pub fn continue_thread(mut self, thread: &ThreadId) -> Self {
        self.continued = Some(thread.clone());
        self
    }

    /// Sets how often the prompt may be expanded; 3 by default. A further expansion fails with
    /// [`EvaluateError::ExpansionRequired`].
    pub fn max_expansions(mut self, times: u32) -> Self {
        self.max_expansions = times;
        self
    }

    /// Runs the evaluation and returns the agent's answer as text.
    pub async fn text(self) -> Result<EvaluationAnswer, EvaluateError> {
        let finished = self.run(None).await?;
        Ok(self.answer(finished, ()))
    }

    /// Runs the evaluation and returns the answer as a value. The model is constrained to the type's JSON schema.
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
        self.session.emit(&finished.event(&self.setup.client.adapter_name, self.prompt.name()));
        let FinishedTurn { text, usage, thread_id, turn_id, .. } = finished;
        EvaluationAnswer { text, value, usage, thread_id, turn_id }
    }

    async fn run(&self, output: Option<&OutputSchema>) -> Result<FinishedTurn, EvaluateError> {
        let run = self.prepare_run(output)?;
        // Boxed because the future of a whole run is large and would live on the caller's stack.
        Box::pin(run.run()).await
    }

    fn prepare_run<'r>(
        &'r self,
        output: Option<&'r OutputSchema>,
    ) -> Result<EvaluationRun<'r>, EvaluateError> {
        let budget_deadline = self.budget.as_ref().and_then(Budget::deadline_instant);
        Ok(EvaluationRun {
            setup: self.setup,
            prompt: self.prompt,
            session: &self.session,
            cwd: self.cwd()?,
            workspace: self.workspace.map(Workspace::fingerprint),
            deadline: self.deadline.into_iter().chain(budget_deadline).min(),
            budget: self.budget.as_ref(),
            continued: self.continued.as_ref(),
            max_expansions: self.max_expansions,
            output,
        })
    }

    fn cwd(&self) -> Result<PathBuf, EvaluateError> {
        let cwd_error =
            |cause: io::Error| EvaluateError::from(FailedEvaluation::new(EvaluationCause::Cwd(cause)));
        let given = self.workspace.map(|workspace| workspace.path().to_owned());
        let cwd = match given.or_else(|| self.setup.client.cwd.clone()) {
            Some(cwd) => cwd,
            None => std::env::current_dir().map_err(cwd_error)?,
        };
        match cwd.to_str() {
            Some(_) => Ok(cwd),
            None => Err(cwd_error(io::Error::other("its path is not UTF-8, which messages are"))),
        }
    }
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationAnswer<T = ()> {
    /// The agent's answer.
    pub text: String,
    /// The answer as a value; `()` if only text was requested.
    pub value: T,
    /// The tokens used by the evaluation, if the server reported them.
    pub usage: Option<TokenUsage>,
    /// The thread of the turn.
    pub thread_id: ThreadId,
    /// The last turn.
    pub turn_id: TurnId,
}
