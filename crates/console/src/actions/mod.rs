//! What people change: each action is a form that is posted, and answered by going back to the page.

mod completions;
mod input;
mod new_thread;
mod questions;
mod terminals;
mod threads;

use axum::{
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};

pub use completions::{complete_directories, complete_files, complete_skills};
pub use input::{change_settings, remove_queued, send_input};
pub use new_thread::{create_thread, new_thread};
pub use questions::answer_question;
pub use terminals::{end_terminal, terminals};
pub use threads::{
    archive_thread, compact_thread, delete_thread, fork_thread, fork_turn, rename_thread, revert_turn,
    review_thread, unarchive_thread, undo_last_turn,
};

/// Ends an action: the script stays on its page, a browser without it goes to `location`.
fn done(headers: &HeaderMap, location: &str) -> Response {
    if is_script(headers) {
        StatusCode::NO_CONTENT.into_response()
    } else {
        Redirect::to(location).into_response()
    }
}

/// Goes to another page. The script follows the address in the header.
fn go_to(headers: &HeaderMap, location: &str) -> Response {
    if is_script(headers) {
        (StatusCode::NO_CONTENT, [("x-location", location.to_owned())]).into_response()
    } else {
        Redirect::to(location).into_response()
    }
}

fn is_script(headers: &HeaderMap) -> bool {
    headers.contains_key("x-csrf-token")
}
