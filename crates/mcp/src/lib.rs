//! Connections to MCP servers, built on the official SDK: started on demand, shared between threads, limited in
//! size and time, and closed when the last thread releases them.
//!
//! Start with [`ServerPool`]. A thread joins it with its [`ServerTable`] and holds [`ThreadServers`].
//!
//! | what | where |
//! |---|---|
//! | configured servers | [`ServerTable`], [`ServerConfig`] |
//! | the server of an account's apps | [`ServerConfig::of_apps`], [`ToolApp`] |
//! | tools for the model | [`ThreadServers::tools`], [`ToolSet`], [`McpTool`] |
//! | call a tool | [`ThreadServers::call`], [`McpCall`], [`ToolOutcome`] |
//! | elicitation requests of servers | [`Elicitor`] |
//! | read resources | [`ThreadServers::list_resources`], [`ThreadServers::read_resource`] |
//! | status of all servers | [`ServerPool::status_page`] |
//! | OAuth login | [`ServerPool::login`] |
//! | configuration reload | [`ServerPool::reload`], [`ThreadServers::begin_turn`] |
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use codicil_mcp::{ClientIdentity, Elicitor, McpCall, PoolOptions, ServerPool, ServerTable};
//! # use codicil_config::EffectiveConfig;
//! # use serde_json::json;
//! # use tokio_util::sync::CancellationToken;
//! # async fn example(config: EffectiveConfig, elicitor: Arc<dyn Elicitor>, interrupted: CancellationToken)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! // Once per process.
//! let identity = ClientIdentity { name: "codicil".into(), version: "0.1.0".into() };
//! let pool = ServerPool::new(PoolOptions::new("/home/me/.codicil", identity));
//!
//! // A thread starts. Only required servers are waited for.
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
//! The layers of a connection, from the outside in: `server_slot.rs` starts it and observes its end;
//! `connection.rs` sends requests; `pending.rs` waits for a response; `message_tap.rs` sees every message between
//! the SDK and the transport and updates `call_registry.rs`, which holds the active calls; `stdio` and `http` are
//! the transports; `oauth` obtains tokens.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod config;
mod limits;

mod apps;
mod pool;
mod resources;
mod status;
mod thread;
mod tools;

mod call;
mod call_registry;
mod elicitation;
mod names;
mod schema;

mod connection;
mod lists;
mod message_tap;
mod pending;
mod server_slot;
mod service;
mod start_error;
mod text;
mod wire;

mod http;
mod oauth;
mod stdio;

pub use {
    apps::{APP_SERVER, AppServerConfig, ToolApp},
    call::{CallError, McpCall, ModelOutput, ModelPart, ProgressSink, ToolOutcome, ToolProgress},
    config::{
        ApprovalMode, HttpConfig, OauthClientConfig, OauthSettings, ServerConfig, ServerConfigError,
        ServerTable, ServerTransport, StdioConfig,
    },
    elicitation::Elicitor,
    limits::{MESSAGE_BYTES, TOOLS_PER_SERVER},
    oauth::{LoginError, LoginOptions, OauthError, OauthLogin},
    pool::{PoolOptions, ServerPool},
    resources::ResourceError,
    service::ClientIdentity,
    start_error::StartError,
    status::StatusPageError,
    text::to_ordered_json,
    thread::{RequiredError, StartupObserver, ThreadServers},
    tools::{McpTool, ToolHints, ToolSet},
};
