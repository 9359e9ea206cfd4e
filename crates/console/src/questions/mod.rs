//! The open questions of all threads: approvals, and input that agents and MCP servers ask for.
//!
//! Most questions outlive the connection and the server: they are listed and answered with `codicil/request/*`, also for
//! threads that are not loaded. Questions of a live connection (network hosts, MCP servers) exist only as server requests
//! to subscribers; `live_questions.rs` holds those.

mod answer;
mod board;
mod live_questions;

pub use answer::{AnswerError, answer_from, offered_decisions};
pub use board::{AnswerOutcome, Question, QuestionBoard, QuestionBoardTask, all_thread_sources};
pub use live_questions::{LiveQuestions, QuestionHandler};
