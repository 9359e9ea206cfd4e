//! Connections to MCP servers, on the official SDK: started on demand, shared between threads, bounded, and
//! ended with those who hold them.
//!
//! Start with [`ServerPool`]. A thread joins it with its [`ServerTable`] and holds [`ThreadServers`].
//!
//! | what | where |
//! |---|---|
//! | which servers there are | [`ServerTable`], [`ServerConfig`] |
//! | what they offer a model | [`ThreadServers::tools`], [`ToolSet`], [`McpTool`] |
//! | call a tool | [`ThreadServers::call`], [`McpCall`], [`ToolOutcome`] |
//! | answer a server's questions | [`Elicitor`] |
//! | read resources | [`ThreadServers::list_resources`], [`ThreadServers::read_resource`] |
//! | list all servers for a person | [`ServerPool::status_page`] |
//! | sign in | [`ServerPool::login`] |
//! | take up a changed configuration | [`ServerPool::reload`], [`ThreadServers::begin_turn`] |
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use codicil_mcp::{ClientIdentity, Elicitor, Pool, PoolOptions, ServerTable, McpCall};
//! # use codicil_config::EffectiveConfig;
//! # use serde_json::json;
//! # use tokio_util::sync::CancellationToken;
//! # async fn example(config: EffectiveConfig, elicitor: Arc<dyn Elicitor>, interrupted: CancellationToken)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! // Once for the process.
//! let identity = ClientIdentity { name: "codicil".into(), version: "0.1.0".into() };
//! let pool = Pool::new(PoolOptions::new("/home/me/.codicil", identity));
//!
//! // A thread starts: nothing is waited for, unless a server is required.
//! let servers = pool.join(&ServerTable::read(&config)?, Arc::new(|update| println!("{update:?}")));
//! servers.required().await?;
//!
//! // A turn begins.
//! servers.begin_turn(|| ServerTable::read(&config))?;
//! let tools = servers.tools().await;
//!
//! // The model calls a tool.
//! if let Some(tool) = tools.get("mcp__notes__search") {
//!     let outcome = servers.call(McpCall {
//!         server: tool.server.clone(),
//!         tool: tool.tool.name.clone(),
//!         arguments: json!({ "query": "milk" }),
//!         meta: None,
//!         progress: Some(Arc::new(|progress| println!("{}", progress.text()))),
//!         elicitor: Some(elicitor),
//!         cancel: interrupted,
//!     });
//!     match outcome.await {
//!         Ok(outcome) => println!("{:?} {:?}", outcome.status(), outcome.for_model()),
//!         Err(error) => println!("{}", error.to_item_error().message),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! How a connection is made up, from the outside in: `slot.rs` starts it and notices its end; `connection.rs`
//! asks; `pending.rs` waits for an answer; `tap.rs` sees every message on its way to and from the SDK, and
//! tells `switchboard.rs`, which knows the calls under way; `stdio` and `http` carry the messages; `oauth` gets
//! tokens.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod config;
mod limits;

mod login;
mod pool;
mod resources;
mod status;
mod thread;
mod tools;

mod call;
mod elicitation;
mod names;
mod schema;

mod connection;
mod lists;
mod pending;
mod service;
mod slot;
mod start_error;
mod switchboard;
mod tap;
mod text;
mod wire;

mod http;
mod oauth;
mod stdio;

pub use {
    call::{CallError, McpCall, ModelOutput, ModelPart, ProgressSink, ToolOutcome, ToolProgress},
    config::{
        ApprovalMode, HttpConfig, OauthSettings, ServerConfig, ServerConfigError, ServerTable,
        ServerTransport, StdioConfig,
    },
    elicitation::Elicitor,
    limits::{MESSAGE_BYTES, TOOLS_PER_SERVER},
    oauth::{LoginError, LoginOptions, OauthError, OauthLogin},
    pool::{PoolOptions, ServerPool},
    resources::ResourceError,
    service::ClientIdentity,
    start_error::StartError,
    status::StatusPageError,
    text::ordered,
    thread::{RequiredError, StartupObserver, ThreadServers},
    tools::{McpTool, ToolHints, ToolSet},
};
