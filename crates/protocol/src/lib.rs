//! The app-server protocol, each part of it declared once.
//!
//! Start with the three tables: [`CLIENT_REQUESTS`], [`SERVER_REQUESTS`] and [`NOTIFICATIONS`]. The types
//! they name live in one module per area and are all found at the root of this crate, under the names
//! of the published schema. They are plain data, liberal in what they read (other spellings are
//! `alias`es on the type) and exact in what they write.
//!
//! The same types serve both sides. A server asks [`InspectFindings`] whether a decoded request uses what it
//! has to refuse; a client does not, and keeps what it does not know in `Unrecognized` and `Unknown`.

mod frame;
mod inspect;
mod lines;
mod methods;
#[doc(hidden)]
pub mod open;
pub mod rpc;
pub mod schema;

mod client_requests;
mod notifications;
mod server_requests;

mod ids;
mod patch;
mod path;
mod secret;

mod accounts;
mod approvals;
mod apps;
mod config;
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
mod later;
mod mcp;
mod models;
mod notices;
mod opening;
mod plugins;
mod policy;
mod realtime;
mod response_items;
mod review;
mod search;
mod skills;
mod threads;
mod tool_calls;
mod turns;
mod usage;
mod windows;

pub(crate) use codicil_protocol_macros::wire;

/// The default of flags that are on unless a message says otherwise.
fn yes() -> bool {
    true
}

pub use {
    accounts::*, approvals::*, apps::*, client_requests::*, config::*, dynamic_tools::*, elicitation::*,
    exec::*, external_agents::*, feedback::*, frame::*, fs::*, goals::*, guardian::*, hooks::*, ids::*,
    initialize::*, input::*, inspect::*, item_updates::*, items::*, later::*, lines::*, mcp::*, methods::*,
    models::*, notices::*, notifications::*, opening::*, patch::*, path::*, plugins::*, policy::*,
    realtime::*, response_items::*, review::*, search::*, secret::*, server_requests::*, skills::*,
    threads::*, tool_calls::*, turns::*, usage::*, windows::*,
};
