//! The loopback address to which the browser returns at the end of an OAuth authorization code flow.
//!
//! [`CallbackPort`] binds the port, [`CallbackListener`] waits for the browser, [`CallbackPage`] is what the
//! browser shows. Exchanging the code is left to the caller, who decides the page by its result:
//!
//! 1. `CallbackPort::bind` or `bind_shared`, then build the redirect URI from its number;
//! 2. `CallbackPort::listen` with the path and the state of the authorization request;
//! 3. `CallbackListener::next_visit`, then `CallbackVisit::show` with the page.
//!
//! Only loopback is bound. A request without the right state gets an error page and does not end the wait, so
//! that a page in the same browser cannot take part in a login or stop it.

mod listener;
mod page;
mod port;
mod query;
#[cfg(test)]
mod tests;

use codicil_protocol::Secret;

pub use {
    listener::{CallbackListener, CallbackVisit},
    page::CallbackPage,
    port::CallbackPort,
};

/// The result that a browser brings from the authorization server.
#[derive(Debug, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// An authorization code, with the `iss` parameter of RFC 9207.
    Code { code: Secret, issuer: Option<String> },
    /// An error of the authorization server, such as `access_denied`.
    Error { error: Option<String>, description: Option<String> },
    /// The right state with neither a code nor an error.
    MissingCode,
    /// Another program asks for the shared port.
    Cancelled,
}

/// Which responses must carry the state of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateCheck {
    Always,
    /// Errors are also accepted without a state, since some authorization servers omit it there. Accepting a
    /// forged one costs no more than the login itself.
    ExceptErrors,
}
