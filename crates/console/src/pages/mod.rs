//! The pages as HTML. A page is a function from what is known to markup; only the handlers at the end of each file talk to
//! the server.
//!
//! What models, files, commands and MCP servers wrote goes through `render`, and never into a tag or an attribute that
//! has a meaning. Forms work without scripts: with scripts they are sent in the background.

mod composer;
mod diff;
mod error;
mod export;
mod format;
mod inbox;
mod item_content;
mod items;
mod layout;
mod linked;
mod older;
mod question_cards;
mod question_forms;
mod queue;
mod sign_in;
mod status;
mod thread;
mod threads;
mod tool_items;
mod turns;
mod usage;

pub use composer::{
    EFFORTS, POLICIES, SANDBOXES, choices, directory_input, model_input, next_turn, sandbox_name,
};
pub use diff::{item_diff, thread_diff, turn_diff};
pub use error::PageError;
pub use export::export;
pub use format::unix_now;
pub use inbox::inbox;
pub use item_content::{all_output, image};
pub use items::{StreamedText, text_element_id};
pub use layout::{PageFrame, page};
pub use linked::turn_items;
pub use older::older_turns;
pub use question_cards::question_cards;
pub use queue::queue;
pub use sign_in::{device_link, sign_in, sign_in_required, signed_in};
pub use status::status;
pub use thread::{change_ops, closed_ops, reset_ops, thread};
pub use threads::{thread_links, threads};

/// The element with the links to threads, in the navigation.
pub const THREAD_LIST_ID: &str = "thread-list";

/// The element with the open questions.
pub const QUESTIONS_ID: &str = "questions";
