//! Language models as streams of events.
//!
//! A [`ModelProvider`] takes a [`ModelRequest`] and returns an [`EventStream`]: batches of [`ModelEvent`]s, the
//! same for every provider. There are four dialects: *responses* (OpenAI's Responses API), *chat* (Chat
//! Completions, the API of local servers), *anthropic* (Messages) and *scripted* (an embedded model that follows
//! a file). [`ProviderConfig`] selects the dialect; [`ModelCatalogue`] holds what is known about each model, and
//! [`ServedModels`] asks the servers that know it better.
//!
//! Two requirements shape the code. The whole history is sent with each request, so [`History`] keeps its
//! rendered form and a request body is a list of shared chunks: the cost of a request does not grow with its
//! thread. And deltas arrive by the thousand, so they are parsed in place and passed on in batches, without a
//! task or a channel in between.
//!
//! The caller decides which items make up the history, runs the tools, and retries a stream that broke, since it
//! notifies the client of each retry ([`RetryPolicy`] gives the delay).

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod event;
mod history;
mod request;
mod tools;

mod catalogue;
mod config;
mod provider;
mod retry;

mod body;
mod credentials;
mod endpoint;
mod http;
mod overflow;
mod pairs;
mod realtime;
mod response_limits;
mod served_models;
mod status;
mod stream;
mod wire_json;

mod anthropic;
mod chat;
mod responses;
mod scripted;

#[cfg(fuzzing)]
pub mod fuzzing;

pub use {
    anthropic::anthropic_tier,
    catalogue::{ApplyPatch, CatalogueError, ModelCatalogue, ModelInfo, ThinkingStyle},
    config::{ProviderConfig, ProviderLimits, WireApi},
    credentials::{AccountAuth, AuthFuture, ProviderCredentials},
    endpoint::provider_address,
    error::{ModelError, StatusFailure, UsageLimit},
    event::ModelEvent,
    history::{History, HistoryItem},
    provider::{EnvironmentSource, ModelProvider, ProviderContext, connect},
    realtime::{RealtimeRequest, RealtimeSocket, open_realtime},
    request::{ModelRequest, ReasoningOptions, SystemInstructions},
    response_limits::{MAX_EVENT_BYTES, MAX_ITEM_BYTES, MAX_ITEMS, MAX_RESPONSE_BYTES},
    retry::RetryPolicy,
    scripted::{Script, ScriptAct, ScriptError},
    served_models::{ServedModels, ServedModelsError, WindowReport},
    stream::{EventStream, StreamFlow},
    tools::{ToolGrammar, ToolList, ToolSpec, joined_name},
};
