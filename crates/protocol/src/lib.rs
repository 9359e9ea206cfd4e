//! The app-server protocol, each part of it declared once.
//!
//! Start with the three tables: [`CLIENT_REQUESTS`], [`SERVER_REQUESTS`] and [`NOTIFICATIONS`]; the extension has
//! [`CODICIL_REQUESTS`] and [`CODICIL_NOTIFICATIONS`]. The types they name live in one module per area and are re-exported at the root of this crate, under the names of the published schema. They
//! are plain data. Reading is liberal (other spellings are `alias`es on the type), writing is exact.
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

mod accounts;
mod approvals;
mod apps;
mod codicil;
mod codicil_requests;
mod config;
mod diagnostics;
mod dynamic_tools;
mod elicitation;
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
mod known_methods;
mod mcp;
mod models;
mod plugins;
mod policy;
mod realtime;
mod request_keys;
mod response_items;
mod review;
mod search;
mod skills;
mod thread_opening;
mod thread_pages;
mod thread_settings;
mod threads;
mod tool_calls;
mod turns;
mod windows;

pub(crate) use codicil_protocol_macros::wire;

/// The serde default of flags that are on when absent.
fn yes() -> bool {
    true
}

pub use {
    accounts::*, approvals::*, apps::*, client_requests::*, codicil::*, codicil_requests::*, config::*,
    diagnostics::*, dynamic_tools::*, elicitation::*, exec::*, external_agents::*, feedback::*, frame::*,
    fs::*, generation::*, goals::*, guardian::*, hooks::*, ids::*, initialize::*, input::*, inspect::*,
    item_updates::*, items::*, known_methods::*, lines::*, mcp::*, methods::*, models::*, notifications::*,
    patch::*, path::*, plugins::*, policy::*, realtime::*, request_keys::*, response_items::*, review::*,
    search::*, secret::*, sequence::*, server_requests::*, skills::*, thread_opening::*, thread_pages::*,
    thread_settings::*, threads::*, tool_calls::*, turns::*, windows::*,
};
