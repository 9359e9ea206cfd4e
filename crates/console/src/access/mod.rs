//! Who may use the console: sign-in, sessions, and the checks of every request.

mod guard;
mod hosts;
mod layer;
mod sessions;
mod sign_in;

pub use guard::{FormFields, guard};
pub use hosts::AllowedHosts;
pub use layer::{AccessControl, SessionLayer};
pub use sessions::{EndedSessions, Session, SessionKey, random_text as new_id};
pub use sign_in::{SignIn, SignInLinks, sign_in, sign_in_page, sign_out};
