//! More of a prompt: sections that are shown in short until the model asks for them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    prompt::Prompt,
    session::Session,
    tool::{Tool, ToolContext, ToolError},
};

/// The name of the tool by which the model opens sections. Prompts with closed sections offer it by themselves.
pub const OPEN_SECTIONS: &str = "open_sections";

/// Sections of a prompt that have to be shown in full, and why.
///
/// A tool asks for it with [`ToolError::expand`]. The evaluation then lets the turn end and shows the prompt again
/// with the sections open, as often as
/// [`max_expansions`](super::Evaluation::max_expansions) allows; otherwise it ends with
/// [`EvaluateError::ExpansionRequired`](super::EvaluateError), and the caller decides:
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
    /// The prompt's name; filled in by the evaluation.
    pub(super) prompt: String,
    /// The keys of the sections.
    pub sections: Vec<String>,
    /// In the words of whoever asked.
    pub reason: String,
}

impl SectionExpansion {
    /// Asks for sections by their keys.
    pub fn new<K: Into<String>>(sections: impl IntoIterator<Item = K>, reason: impl Into<String>) -> Self {
        let sections = sections.into_iter().map(Into::into).collect();
        Self { prompt: String::new(), sections, reason: reason.into() }
    }

    /// Shows the sections in full from now on, in all evaluations of this prompt with this session.
    pub fn open(&self, session: &Session) {
        session.update(|open: &mut OpenSections| {
            open.0.entry(self.prompt.clone()).or_default().extend(self.sections.iter().cloned());
        });
    }
}

/// Which sections are open, by prompt: part of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenSections(BTreeMap<String, BTreeSet<String>>);

impl OpenSections {
    pub fn of(session: &Session, prompt: &Prompt) -> BTreeSet<String> {
        let open = session.get::<Self>().unwrap_or_default();
        open.0.get(prompt.name()).cloned().unwrap_or_default()
    }
}

#[derive(Deserialize, JsonSchema)]
struct OpenParams {
    /// The keys of the sections to open.
    section_keys: Vec<String>,
    /// Why they are needed.
    reason: String,
}

/// The tool for prompts whose sections with these keys are closed.
pub(super) fn open_sections(closed: Vec<String>) -> Tool {
    let description = format!(
        "Shows sections of the prompt in full that are given in short. Closed are: {}.",
        closed.join(", ")
    );
    Tool::new(OPEN_SECTIONS, description, move |asked: OpenParams, _: ToolContext| {
        let unknown = asked.section_keys.iter().find(|key| !closed.contains(*key)).cloned();
        let closed = closed.join(", ");
        async move {
            match unknown {
                Some(key) => Err(ToolError::new(format!("no closed section {key:?}; there are: {closed}"))),
                None if asked.section_keys.is_empty() => {
                    Err(ToolError::new(format!("which sections? there are: {closed}")))
                }
                None => Err::<String, _>(ToolError::expand(SectionExpansion::new(
                    asked.section_keys,
                    asked.reason,
                ))),
            }
        }
    })
}
