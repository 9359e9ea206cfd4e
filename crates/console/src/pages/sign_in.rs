//! The pages around signing in.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

use super::{PageError, PageFrame, page};
use crate::{
    access::{AccessControl, Session, SignIn},
    state::Console,
};

/// Returns the form that asks for a token, with the reason why an earlier try failed.
pub fn sign_in(access: &AccessControl, reason: Option<&str>) -> Markup {
    let hint = match access.sign_in {
        SignIn::Links => "Open the link that `codicil console` has printed, or paste its token.",
        SignIn::Token(_) => "Enter the token from the console's token file.",
    };
    plain(
        "Sign in",
        html! {
            p.brand { "Codicil" }
            h1 { "Sign in" }
            @if let Some(reason) = reason { p.error role="alert" { (reason) } }
            form method="post" action="/sign-in" {
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="off" required autofocus;
                button.primary { "Sign in" }
            }
            p.hint { (hint) }
        },
    )
}

/// Refuses a request without a session.
pub fn sign_in_required(access: &AccessControl) -> Response {
    (StatusCode::UNAUTHORIZED, sign_in(access, None)).into_response()
}

/// Returns the page after signing in, which goes on by itself.
pub fn signed_in() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Signed in" } link rel="icon" href="/assets/icon.svg" type="image/svg+xml"; meta http-equiv="refresh" content="0;url=/"; }
            body { p { "Signed in. " a href="/" { "Continue" } } }
        }
    }
}

/// `/device`: a link that signs in another browser, once.
pub async fn device_link(
    State(console): State<Console>,
    session: Option<Extension<Session>>,
    headers: HeaderMap,
) -> Result<Markup, PageError> {
    let Some(Extension(session)) = session else { return Ok(sign_in(&console.access, None)) };
    let token = console.access.links.create_for_device();
    let token = token.map_err(|error| PageError::BadRequest(error.to_string()))?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if console.access.is_behind_tls { "https" } else { "http" };
    let url = format!("{scheme}://{host}/sign-in?token={token}");
    Ok(page(
        &console,
        &session,
        &PageFrame::new("Sign in another device", "device"),
        html! {
            main #main aria-label="Sign in another device" {
                h1 { "Sign in another device" }
                div.sheet {
                    p { "Open this link there within ten minutes. It works once." }
                    label for="link" { "Link" }
                    input #link .wide readonly value=(url);
                }
            }
        },
    ))
}

/// Returns a page without the frame of the console.
pub(super) fn plain(title: &str, main: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Codicil" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/console.css";
            }
            body.plain-page { main #main aria-label=(title) { (main) } }
        }
    }
}
