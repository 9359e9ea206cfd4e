//! The handlers of the protocol's methods. [`router`](crate::router) has the rule that names files and functions.

pub mod account;
pub mod app;
pub mod codicil;
pub mod collaboration_mode;
pub mod command;
pub mod config;
pub mod config_requirements;
pub mod experimental_feature;
pub mod external_agent_config;
pub mod feedback;
pub mod fs;
pub mod fuzzy_file_search;
pub mod hooks;
pub mod initialize;
pub mod mcp_server;
pub mod mcp_server_status;
pub mod mock;
pub mod model;
pub mod permission_profile;
pub mod plugin;
pub mod review;
pub mod skills;
pub mod thread;
pub mod turn;
pub mod windows_sandbox;
