//! Live updates of pages, over server-sent events.
//!
//! | file | |
//! |---|---|
//! | `page_ops.rs` | what a browser is told to change, and its encoding as an event |
//! | `page_events.rs` | the pages of a thread, what they get, and what is kept for those that connect again |
//! | `thread_view.rs` | what is known of a thread, and how the server's messages change it |
//! | `item_text.rs` | the texts of an item: their size, and how deltas extend them |
//! | `thread_hub.rs` | one task per thread that pages show: one subscription, rendered once for all of them |
//! | `thread_hubs.rs` | the hubs that are open |
//! | `overview.rs` | what every page shows: the list of threads and the open questions |
//! | `event_stream.rs` | the response of `/events` |

mod event_stream;
mod item_text;
mod overview;
mod page_events;
mod page_ops;
mod thread_hub;
mod thread_hubs;
mod thread_view;

pub use event_stream::events;
pub use item_text::ItemPart;
pub use overview::{Overview, OverviewTask};
pub use page_ops::PageOp;
pub use thread_hub::{HubError, ThreadPage};
pub use thread_hubs::ThreadHubs;
pub use thread_view::{OlderItems, ThreadView, TurnSettings, TurnView, ViewChange, thread_title};
