//! Signing in: with a link that works once, or with the token of a file.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension,
    extract::{Query, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use parking_lot::Mutex;
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::{AccessControl, FormFields, Session, sessions};
use crate::pages;

/// The path of the sign-in page and of the links.
pub const PATH: &str = "/sign-in";

/// Links that wait to be used; beyond that, the oldest stops working.
const MAX_LINKS: usize = 16;

/// How long a link of the page "Sign in another device" works. The link of the terminal works until it is used.
const LINK_TIME: Duration = Duration::from_secs(10 * 60);

/// How people sign in.
#[derive(Clone, Debug, Default)]
pub enum SignIn {
    /// With links that work once.
    #[default]
    Links,
    /// With links, or with this token.
    Token(String),
}

/// The links that have not been used yet.
#[derive(Debug, Default)]
pub struct SignInLinks(Mutex<Vec<SignInLink>>);

#[derive(Debug)]
struct SignInLink {
    token: String,
    works_until: Option<Instant>,
}

impl SignInLinks {
    /// Creates the token of a link that works once, at any time.
    pub fn create(&self) -> io::Result<String> {
        self.add(None)
    }

    /// Creates the token of a link that works once, within some minutes.
    pub fn create_for_device(&self) -> io::Result<String> {
        self.add(Some(Instant::now() + LINK_TIME))
    }

    fn add(&self, works_until: Option<Instant>) -> io::Result<String> {
        let token = sessions::random_text()?;
        let mut links = self.0.lock();
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push(SignInLink { token: token.clone(), works_until });
        Ok(token)
    }

    /// Uses a link up. Returns whether it worked.
    pub fn redeem(&self, token: &str) -> bool {
        let mut links = self.0.lock();
        let now = Instant::now();
        links.retain(|link| link.works_until.is_none_or(|until| until > now));
        let found = links.iter().position(|link| bool::from(link.token.as_bytes().ct_eq(token.as_bytes())));
        found.map(|index| links.remove(index)).is_some()
    }
}

#[derive(Debug, Deserialize)]
pub struct SignInQuery {
    token: Option<String>,
}

/// Signs in with the link of the terminal, or shows the form.
pub async fn sign_in_page(
    State(access): State<Arc<AccessControl>>,
    Query(query): Query<SignInQuery>,
) -> Response {
    match query.token {
        Some(token) => admit(&access, access.links.redeem(&token)),
        None => pages::sign_in(&access, None).into_response(),
    }
}

/// Signs in with the token that a person has entered.
pub async fn sign_in(
    State(access): State<Arc<AccessControl>>,
    Extension(fields): Extension<FormFields>,
) -> Response {
    let given = fields.get("token").unwrap_or_default().trim();
    let is_token = match &access.sign_in {
        SignIn::Token(token) => bool::from(token.as_bytes().ct_eq(given.as_bytes())),
        SignIn::Links => false,
    };
    admit(&access, is_token || access.links.redeem(given))
}

/// Ends the session of a browser: its cookie is removed and not accepted any more, and its event streams end.
pub async fn sign_out(
    State(access): State<Arc<AccessControl>>,
    Extension(session): Extension<Session>,
) -> Response {
    access.ended.end(session.id);
    let cookie = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", access.cookie);
    match HeaderValue::from_str(&cookie) {
        Ok(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to(PATH)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn admit(access: &AccessControl, may_enter: bool) -> Response {
    if !may_enter {
        let page = pages::sign_in(access, Some("This link or token does not work. A link works once."));
        return (StatusCode::UNAUTHORIZED, page).into_response();
    }
    let cookie = access.key.begin().map(|(_, value)| set_cookie(access, &value));
    match cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
        // A page that goes on by itself: after a redirect from another site, browsers hold a strict cookie back.
        Ok(Ok(cookie)) => ([(header::SET_COOKIE, cookie)], pages::signed_in()).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "no random numbers are available").into_response(),
    }
}

fn set_cookie(access: &AccessControl, value: &str) -> String {
    let secure = if access.is_behind_tls { "; Secure" } else { "" };
    let seconds = sessions::SESSION_SECONDS;
    format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", access.cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once() {
        let links = SignInLinks::default();
        let token = links.create().unwrap();
        assert!(!links.redeem("other"));
        assert!(links.redeem(&token));
        assert!(!links.redeem(&token));
    }

    #[test]
    fn the_oldest_link_is_forgotten() {
        let links = SignInLinks::default();
        let first = links.create().unwrap();
        let rest: Vec<_> = (0..MAX_LINKS).map(|_| links.create().unwrap()).collect();
        assert!(!links.redeem(&first));
        assert!(rest.iter().all(|token| links.redeem(token)));
    }
}
