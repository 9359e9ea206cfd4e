//! Expansion: sections that are summarised until the model asks for them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    prompt::Prompt,
    session::Session,
    tool::{Tool, ToolContext, ToolError},
};

/// The name of the tool with which the model opens sections. Prompts with summarised sections offer it automatically.
pub const OPEN_SECTIONS: &str = "open_sections";

/// A request to show sections of a prompt in full.
///
/// A tool makes it with [`ToolError::expand`]. The evaluation then lets the turn end and sends these sections as a
/// further message of the thread, up to [`max_expansions`](super::Evaluation::max_expansions) times. After that it fails
/// with [`EvaluateError::ExpansionRequired`](super::EvaluateError), and the caller decides. The next evaluation of the
/// prompt with the same session continues the thread, so that nothing is done twice:
///
/// ```no_run
/// use codicil_agents::evaluate::{EvaluateError, Evaluator, Prompt, Session};
///
/// # async fn example(evaluator: Evaluator, prompt: Prompt) -> Result<(), EvaluateError> {
/// let session = Session::new();
/// let answer = match evaluator.evaluate(&prompt).session(&session).max_expansions(0).text().await {
///     Err(EvaluateError::ExpansionRequired(expansion)) => {
///         println!("the agent wants to read {:?}: {}", expansion.sections, expansion.reason);
///         expansion.open(&session);
///         evaluator.evaluate(&prompt).session(&session).text().await?
///     }
///     answer => answer?,
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionExpansion {
    /// The prompt's name, set by the evaluation.
    pub(super) prompt: String,
    /// The keys of the sections.
    pub sections: Vec<String>,
    /// The reason, as given by the tool or the model.
    pub reason: String,
}

impl SectionExpansion {
    /// Creates a request for sections by their keys.
    pub fn new<K: Into<String>>(sections: impl IntoIterator<Item = K>, reason: impl Into<String>) -> Self {
        let sections = sections.into_iter().map(Into::into).collect();
        Self { prompt: String::new(), sections, reason: reason.into() }
    }

    /// Opens the sections in all later evaluations of this prompt with this session.
    pub fn open(&self, session: &Session) {
        session.update(|open: &mut OpenSections| {
            open.0.entry(self.prompt.clone()).or_default().extend(self.sections.iter().cloned());
        });
    }
}

/// The open sections by prompt; a value of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenSections(BTreeMap<String, BTreeSet<String>>);

impl OpenSections {
    pub fn of(session: &Session, prompt: &Prompt) -> BTreeSet<String> {
        let open = session.get::<Self>().unwrap_or_default();
        open.of_prompt(prompt.name())
    }

    fn of_prompt(&self, name: &str) -> BTreeSet<String> {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

#[derive(Deserialize, JsonSchema)]
struct OpenParams {
    /// The keys of the sections to open.
    section_keys: Vec<String>,
    /// Why they are needed.
    reason: String,
}

/// Returns the tool that opens these sections of a prompt.
pub(super) fn open_sections(prompt: &str, keys: Vec<String>) -> Tool {
    let description = format!(
        "Shows sections of the prompt in full that are given in short. The sections are: {}.",
        keys.join(", ")
    );
    let prompt = prompt.to_owned();
    Tool::new(OPEN_SECTIONS, description, move |params: OpenParams, cx: ToolContext| {
        let open = cx.get::<OpenSections>().unwrap_or_default().of_prompt(&prompt);
        let closed: Vec<_> = keys.iter().filter(|key| !open.contains(*key)).cloned().collect();
        async move { Err::<String, _>(request_sections(params, &closed)) }
    })
}

/// Returns the request for sections, or the reason why they cannot be opened.
fn request_sections(params: OpenParams, closed: &[String]) -> ToolError {
    let unknown = params.section_keys.iter().find(|key| !closed.contains(*key));
    let closed = closed.join(", ");
    match unknown {
        Some(key) => ToolError::new(format!("no closed section {key:?}; there are: {closed}")),
        None if params.section_keys.is_empty() => {
            ToolError::new(format!("which sections? there are: {closed}"))
        }
        None => ToolError::expand(SectionExpansion::new(params.section_keys, params.reason)),
    }
}
