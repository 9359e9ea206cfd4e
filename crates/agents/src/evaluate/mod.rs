//! One prompt to an answer: text or a typed value, with tools, budgets and events.
//!
//! | what | how |
//! |---|---|
//! | evaluate a prompt | [`Evaluator::evaluate`], then [`Evaluation::text`] or [`Evaluation::value`] |
//! | say where and how | [`ClientConfig`], [`ModelConfig`], [`LoginMethod`], [`McpServer`] |
//! | give the model functions | [`Tool`], with [`ToolContext`] for the session's state |
//! | keep state, hear events | [`Session`], [`EvaluationEvent`] |
//! | limit it | [`Evaluation::deadline`], [`Budget`] |
//! | show long prompts in short | [`Section::summary`], [`SectionExpansion`] |
//! | understand a failure | [`EvaluateError`], [`EvaluationPhase`], [`EvaluationCause`] |
//!
//! Each evaluation starts a server of its own, and has ended it when it returns, whatever happened. The agent does
//! the work; this module renders, answers its questions, runs its tools, tells what it does and reads its
//! answer.
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

mod auth;
mod budget;
mod config;
mod error;
mod evaluator;
mod events;
mod expansion;
mod prompt;
mod schema;
mod session;
mod strict;
mod thread_state;
mod tool;
mod transaction;

mod answers;
mod bridge;
mod connect;
mod follow;
mod items;
mod run;

pub use codicil_client::protocol::{Personality, ReasoningEffort, ReasoningSummary, SandboxMode, Secret};

pub use self::{
    auth::{AccountTokens, ExternalTokens, LoginMethod},
    budget::{Budget, BudgetExceeded, TokenUsage},
    config::{ApprovalPolicy, ClientConfig, ConfigError, McpServer, ModelConfig},
    error::{EvaluateError, EvaluationCause, EvaluationPhase, FailedEvaluation, STDERR_TAIL, phase_of},
    evaluator::{Evaluation, EvaluationAnswer, Evaluator},
    events::{
        ADAPTER_NAME, EvaluationEvent, MAX_OUTPUT, PromptExecuted, PromptRendered, ToolInvoked, ToolKind,
    },
    expansion::{OPEN_SECTIONS, SectionExpansion},
    prompt::{Prompt, Section},
    schema::OutputError,
    session::{Session, Slice},
    thread_state::ThreadState,
    tool::{Tool, ToolContext, ToolError, ToolOutput},
};
