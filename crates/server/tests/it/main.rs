//! Tests of the server over a connection within the process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod account;
mod account_tokens;
mod agents;
mod apps;
mod command_exec;
mod compatibility;
mod config_effects;
mod cursor;
mod cursor_streams;
mod damaged_files;
mod envelope;
mod environments;
mod failures;
mod fs;
mod fuzzy_file_search;
mod gate;
mod generations;
mod goals;
mod handshake;
mod history_edits;
mod hooks;
mod later_methods;
mod locked_files;
mod long_replies;
mod malformed;
mod model_responses;
mod model_support;
mod mutation;
mod namespaces;
mod opening;
mod order;
mod organization;
mod params;
mod permissions;
mod plugins;
mod process_spawn;
mod processes;
mod profiles;
mod queue;
mod read_states;
mod realtime;
mod reference_details;
mod request_keys;
mod requirements;
mod sandbox_read;
mod schema_sessions;
mod search;
mod services;
mod shared_home;
mod skills;
mod surface;
mod thread_list;
mod threads;
mod token_usage;
mod tools;
mod turn_input;
mod turn_read;
mod turns;
mod unix;
mod waiting_requests;

/// An id that has the right form and belongs to no thread.
const NO_THREAD: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
