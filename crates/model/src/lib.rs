//! Language models as streams of events.
//!
//! A [`ModelProvider`] takes a [`ModelRequest`] and gives an [`EventStream`]: batches of [`ModelEvent`]s, the same
//! whatever the provider speaks. Four dialects exist: *responses* (OpenAI's Responses API), *chat* (Chat
//! Completions, as local servers speak it), *anthropic* (Messages) and *scripted* (an embedded model that
//! follows a file). [`ProviderConfig`] says which one, [`ModelCatalogue`] what is known about a model.
//!
//! Two things shape the code. A history is sent whole with each request, so [`History`] keeps what it
//! rendered and a body is a list of shared chunks: the cost of a turn does not grow with its thread. And a
//! burst of tokens must cost next to nothing, so bytes are parsed where they lie and handed on in batches,
//! without a task or a channel in between.
//!
//! What the crate leaves to its caller: which items make up the history, retrying a stream that broke (it
//! has to tell the client; [`RetryPolicy`] says how long to wait), and running the tools.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod event;
mod history;
mod instructions;
mod request;
mod tools;

mod auth;
mod catalogue;
mod config;
mod provider;
mod retry;

mod body;
mod ceilings;
mod endpoint;
mod http;
mod keys;
mod pairs;
mod realtime;
mod said;
mod status;
mod stream;

mod anthropic;
mod chat;
mod responses;
mod scripted;

pub use {
    auth::{AccountAuth, AuthFuture, ProviderCredentials},
    catalogue::{ApplyPatch, CatalogueError, ModelCatalogue, ModelInfo, ThinkingStyle},
    ceilings::{MAX_EVENT_BYTES, MAX_ITEM_BYTES, MAX_ITEMS, MAX_RESPONSE_BYTES},
    config::{ProviderConfig, ProviderLimits, WireApi},
    endpoint::provider_address,
    error::{ModelError, StatusFailure, UsageLimit},
    event::ModelEvent,
    history::{History, HistoryItem},
    instructions::Instructions,
    provider::{EnvironmentSource, ModelProvider, ProviderContext, connect},
    realtime::{RealtimeRequest, RealtimeSocket, open_realtime},
    request::{ModelRequest, ReasoningOptions},
    retry::RetryPolicy,
    scripted::{Script, ScriptAct, ScriptError},
    stream::{EventStream, StreamFlow},
    tools::{ToolGrammar, ToolList, ToolSpec, joined_name},
};
