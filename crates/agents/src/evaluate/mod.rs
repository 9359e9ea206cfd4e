//! Evaluates a prompt to text or a typed value, with tools, budgets and events.
//!
//! | task | API |
//! |---|---|
//! | evaluate a prompt | [`Evaluator::evaluate`], then [`Evaluation::text`] or [`Evaluation::value`] |
//! | configure server, model and login | [`ClientConfig`], [`ModelConfig`], [`LoginMethod`] |
//! | answer approvals | [`OnApproval`] |
//! | give the model functions | [`Tool`], with [`ToolContext`] for the session's state |
//! | keep state, observe events | [`Session`], [`EvaluationEvent`] |
//! | limit time and tokens | [`Evaluation::deadline`], [`Budget`] |
//! | summarise long sections | [`Section::summary`], [`SectionExpansion`] |
//! | go on after a deadline or budget | [`Evaluation::continue_thread`] |
//! | handle a failure | [`EvaluateError`], [`EvaluationPhase`], [`EvaluationCause`] |
//!
//! Each evaluation starts its own server and has ended it when it returns. The agent does the work; this module
//! renders the prompt, answers the server's requests, runs the prompt's tools, reports events and decodes the answer.
//!
//! ```no_run
//! use codicil_agents::evaluate::{ClientConfig, Evaluator, ModelConfig, Prompt, Tool, ToolContext};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Ticket {
//!     id: u32,
//! }
//!
//! #[derive(Debug, Deserialize, JsonSchema)]
//! struct Verdict {
//!     urgent: bool,
//!     reason: String,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let evaluator = Evaluator::new(ClientConfig::default(), ModelConfig::default())?;
//!     let prompt = Prompt::text("Is ticket 7 urgent?").tool(Tool::new(
//!         "ticket",
//!         "Reads a ticket.",
//!         |ticket: Ticket, _: ToolContext| async move { Ok(format!("Ticket {}: the door squeaks.", ticket.id)) },
//!     ));
//!     let verdict: Verdict = evaluator.evaluate(&prompt).value().await?.value;
//!     println!("{verdict:?}");
//!     Ok(())
//! }
//! ```

mod budget;
mod config;
mod error;
mod evaluator;
mod events;
mod expansion;
mod login;
mod prompt;
mod schema;
mod session;
mod strict_schema;
mod thread_state;
mod tool;
mod transaction;

mod approvals;
mod bridge;
mod connect;
mod follow;
mod item_events;
mod run;

pub use codicil_client::protocol::{
    AskForApproval, Personality, ReasoningEffort, ReasoningSummary, SandboxMode, Secret,
};

pub use self::{
    approvals::OnApproval,
    budget::{Budget, BudgetExceeded, TokenUsage},
    config::{ClientConfig, ConfigError, ModelConfig},
    error::{EvaluateError, EvaluationCause, EvaluationPhase, FailedEvaluation, STDERR_TAIL},
    evaluator::{Evaluation, EvaluationAnswer, Evaluator},
    events::{
        ADAPTER_NAME, EvaluationEvent, MAX_OUTPUT, PromptExecuted, PromptRendered, ToolInvoked, ToolKind,
    },
    expansion::{OPEN_SECTIONS, SectionExpansion},
    login::{AccountTokens, ExternalTokens, LoginMethod},
    prompt::{Prompt, Section},
    schema::OutputError,
    session::{Session, Slice},
    thread_state::{AwaitedSections, ThreadState},
    tool::{Tool, ToolContext, ToolError, ToolOutput},
};
