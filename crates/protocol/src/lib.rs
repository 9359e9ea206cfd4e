//! The app-server protocol, each part of it declared once.
//!
//! Start with the three tables: [`CLIENT_REQUESTS`], [`SERVER_REQUESTS`] and [`NOTIFICATIONS`]; the extension has
//! [`CODICIL_REQUESTS`] and [`CODICIL_NOTIFICATIONS`]. The types they name live in one module per area and are re-exported
//! at the root of this crate, under the names of the published schema. They are plain data. Reading is liberal (other spellings are `alias`es on the type), writing is exact.
//!
//! Clients and servers use the same types. A server checks with [`InspectFindings`] whether a decoded request uses
//! something that it must reject. A client does not check; it keeps unknown values in `Unrecognized` and `Unknown`.

mod frame;
mod generation;
mod inspect;
mod lines;
mod methods;
#[doc(hidden)]
pub mod open_enum;
pub mod rpc;
pub mod schema;

mod client_requests;
mod notifications;
mod server_requests;

mod ids;
mod patch;
mod path;
mod secret;
mod sequence;

mod account_sessions;
mod account_usage;
mod accounts;
mod approvals;
mod apps;
mod cloud_accounts;
mod codicil;
mod codicil_cluster;
mod codicil_requests;
mod codicil_sandbox;
mod codicil_turns;
mod codicil_usage;
mod config;
mod diagnostics;
mod dynamic_tools;
mod earlier_items;
mod elicitation;
mod environments;
mod exec;
mod external_agents;
mod feedback;
mod fs;
mod goals;
mod guardian;
mod hooks;
mod initialize;
mod input;
mod item_updates;
mod items;
mod marketplaces;
mod mcp;
mod mcp_calls;
mod memories;
mod models;
mod plugin_shares;
mod plugins;
mod policy;
mod processes;
mod projects;
mod read_states;
mod realtime;
mod remote_control;
mod request_keys;
mod requirements;
mod response_items;
mod review;
mod search;
mod skills;
mod thread_attachments;
mod thread_commands;
mod thread_history;
mod thread_list;
mod thread_opening;
mod thread_pages;
mod thread_queue;
mod thread_sample;
mod thread_search;
mod thread_sections;
mod thread_settings;
mod thread_timeline;
mod threads;
mod tool_calls;
mod turns;
mod verification;
mod windows;

pub(crate) use codicil_protocol_macros::wire;

/// The serde default of flags that are on when absent.
fn yes() -> bool {
    true
}

pub use {
    account_sessions::*, account_usage::*, accounts::*, approvals::*, apps::*, client_requests::*,
    cloud_accounts::*, codicil::*, codicil_cluster::*, codicil_requests::*, codicil_sandbox::*,
    codicil_turns::*, codicil_usage::*, config::*, diagnostics::*, dynamic_tools::*, elicitation::*,
    environments::*, exec::*, external_agents::*, feedback::*, frame::*, fs::*, generation::*, goals::*,
    guardian::*, hooks::*, ids::*, initialize::*, input::*, inspect::*, item_updates::*, items::*, lines::*,
    marketplaces::*, mcp::*, mcp_calls::*, memories::*, methods::*, models::*, notifications::*, patch::*,
    path::*, plugin_shares::*, plugins::*, policy::*, processes::*, projects::*, read_states::*, realtime::*,
    remote_control::*, request_keys::*, requirements::*, response_items::*, review::*, search::*, secret::*,
    sequence::*, server_requests::*, skills::*, thread_attachments::*, thread_commands::*, thread_history::*,
    thread_list::*, thread_opening::*, thread_pages::*, thread_queue::*, thread_sample::*, thread_search::*,
    thread_sections::*, thread_settings::*, thread_timeline::*, threads::*, tool_calls::*, turns::*,
    verification::*, windows::*,
};
