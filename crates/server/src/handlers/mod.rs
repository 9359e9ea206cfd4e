//! One module of handlers for each area of the protocol. The method name tells the file and the function.

pub mod config;
pub mod connection;
pub mod external_agents;
pub mod feedback;
pub mod files;
pub mod models;
pub mod policy;
pub mod search;
pub mod threads;
pub mod turns;
pub mod windows;
