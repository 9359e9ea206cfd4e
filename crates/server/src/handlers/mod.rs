//! One module of handlers for each area of the protocol. The method name tells the file and the function.

pub mod account;
pub mod config;
pub mod connection;
pub mod models;
pub mod policy;
pub mod realtime;
pub mod threads;
pub mod turns;
