//! Traces for operators: the spans of the server, their place in the traces of clients, and their export.
//!
//! [`spans`] has a function for each kind of span. They contain ids, names and outcomes, never texts of users or models,
//! arguments of tools or secrets. The same spans name the thread and the turn in structured logs.
//!
//! Without an [`ExportSettings`] there is no layer of the subscriber, no task and no header: spans are disabled where they are
//! declared, unless the log shows them. With one, [`TraceExport`] makes the layer, and its task sends the spans in batches.
//!
//! The OTLP messages are made with the types of `opentelemetry-proto` and sent with the HTTP clients of this workspace. The
//! exporter of `opentelemetry-otlp` would need clients of its own and has no bounded end.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod position;
pub mod spans;

mod export;
mod sender;
mod settings;

pub use {
    export::{RunningExport, TraceExport},
    position::TracePosition,
    settings::{ExportSettings, SettingsError},
    spans::SPAN_TARGET,
};
