//! One module of handlers for each area of the protocol. The method name tells the file and the function.

pub mod account;
pub mod apps;
pub mod command_exec;
pub mod config;
pub mod connection;
pub mod external_agents;
pub mod feedback;
pub mod files;
pub mod goals;
pub mod history;
pub mod hooks;
pub mod mcp;
pub mod models;
pub mod plugins;
pub mod policy;
pub mod realtime;
pub mod search;
pub mod skills;
pub mod threads;
pub mod turns;
pub mod windows;
