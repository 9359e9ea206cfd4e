//! The stylesheet, the script and the icon, embedded in the binary.

use axum::{
    extract::{Path, Query},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use maud::{PreEscaped, html};
use serde::Deserialize;
use sha2::{Digest, Sha256};

const STYLE: &str = concat!(include_str!("assets/console.css"), include_str!("assets/content.css"));

/// The modules of the script, by their names.
const SCRIPTS: [(&str, &str); 6] = [
    ("console.js", include_str!("assets/console.js")),
    ("live.js", include_str!("assets/live.js")),
    ("forms.js", include_str!("assets/forms.js")),
    ("composer.js", include_str!("assets/composer.js")),
    ("suggestions.js", include_str!("assets/suggestions.js")),
    ("keyboard.js", include_str!("assets/keyboard.js")),
];

#[derive(Debug, Deserialize)]
pub struct IconQuery {
    /// The number that the icon shows.
    n: Option<u32>,
}

/// `GET /assets/{name}`
pub async fn asset(Path(name): Path<String>, Query(query): Query<IconQuery>, headers: HeaderMap) -> Response {
    if name == "icon.svg" {
        return ([(header::CONTENT_TYPE, "image/svg+xml")], icon(query.n.unwrap_or(0)).into_string())
            .into_response();
    }
    let found = match name.as_str() {
        "console.css" => Some(("text/css; charset=utf-8", STYLE)),
        script => SCRIPTS
            .iter()
            .find(|(name, _)| *name == script)
            .map(|(_, text)| ("text/javascript; charset=utf-8", *text)),
    };
    let Some((media_type, text)) = found else { return StatusCode::NOT_FOUND.into_response() };
    let etag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(text)));
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    // Checked with every page: a new binary may have the same version.
    let head = [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::ETAG, etag),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, text).into_response()
}

/// Returns the icon, with the number of open questions.
fn icon(questions: u32) -> PreEscaped<String> {
    let label = if questions > 9 { "9+".to_owned() } else { questions.to_string() };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" {
            rect width="32" height="32" rx="7" fill="#2f5fd0" {}
            path d="M21 10.5a7 7 0 1 0 0 11" fill="none" stroke="#fff" stroke-width="3.4" stroke-linecap="round" {}
            @if questions > 0 {
                circle cx="23" cy="23" r="9" fill="#c2410c" {}
                text x="23" y="27" font-size="12" font-family="sans-serif" font-weight="bold" text-anchor="middle" fill="#fff" { (label) }
            }
        }
    }
}
