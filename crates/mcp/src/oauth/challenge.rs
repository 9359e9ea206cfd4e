//! The `WWW-Authenticate` header of a response that refuses a request, and the last one of each server. Servers may
//! send it only in response to some requests, so a login uses what a connection has received.

use std::{collections::HashMap, sync::Arc};

use http::{StatusCode, header::WWW_AUTHENTICATE};
use parking_lot::Mutex;
use reqwest::Response;
use url::Url;

/// The parameters of a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthChallenge {
    pub(super) kind: ChallengeKind,
    /// Address of the protected resource metadata.
    pub(super) resource_metadata: Option<Url>,
    /// Scopes to request.
    pub(crate) scopes: Vec<String>,
}

/// The reason of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChallengeKind {
    /// There is no valid token.
    SignIn,
    /// The token lacks scopes.
    MoreScopes,
}

/// The last challenge of each server, by name and URL.
#[derive(Debug, Default)]
pub(crate) struct ChallengeRecord(Mutex<HashMap<(String, String), Arc<AuthChallenge>>>);

impl ChallengeRecord {
    pub(super) fn note(&self, server: &str, url: &str, challenge: AuthChallenge) {
        self.0.lock().insert((server.to_owned(), url.to_owned()), Arc::new(challenge));
    }

    pub(crate) fn get(&self, server: &str, url: &str) -> Option<Arc<AuthChallenge>> {
        self.0.lock().get(&(server.to_owned(), url.to_owned())).cloned()
    }

    pub(super) fn remove(&self, server: &str, url: &str) {
        self.0.lock().remove(&(server.to_owned(), url.to_owned()));
    }
}

impl AuthChallenge {
    /// Returns the challenge of a response; `None` if the response refuses nothing.
    pub(crate) fn of(response: &Response, server: &Url) -> Option<AuthChallenge> {
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let text: Vec<&str> = headers.filter_map(|header| header.to_str().ok()).collect();
        AuthChallenge::parse(response.status(), &text.join(", "), server)
    }

    fn parse(status: StatusCode, text: &str, server: &Url) -> Option<AuthChallenge> {
        let scopes = parameter(text, "scope").unwrap_or_default();
        let kind = match status {
            StatusCode::UNAUTHORIZED => ChallengeKind::SignIn,
            // Other refusals do not go away with another token.
            StatusCode::FORBIDDEN if !scopes.is_empty() => ChallengeKind::MoreScopes,
            _ => return None,
        };
        Some(AuthChallenge {
            kind,
            resource_metadata: parameter(text, "resource_metadata").and_then(|url| server.join(&url).ok()),
            scopes: scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        })
    }
}

/// Returns the value of `name="value"` or `name=value`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let at = rest.to_ascii_lowercase().find(name)?;
        let is_whole_name =
            rest.get(..at)?.chars().next_back().is_none_or(|before| matches!(before, ' ' | ',' | '\t'));
        rest = rest.get(at + name.len()..)?;
        if is_whole_name && let Some(value) = rest.trim_start().strip_prefix('=') {
            return Some(unquoted(value.trim_start()));
        }
    }
}

fn unquoted(value: &str) -> String {
    let Some(quoted) = value.strip_prefix('"') else {
        return value.split([',', ' ']).next().unwrap_or_default().to_owned();
    };
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found() {
        let server: Url = "https://x/mcp".parse().unwrap();
        let parse = |text: &str| {
            let challenge = AuthChallenge::parse(StatusCode::UNAUTHORIZED, text, &server).unwrap();
            (challenge.resource_metadata.map(String::from), challenge.scopes.join("+"))
        };
        assert_eq!(
            parse(r#"Bearer error="x", resource_metadata="https://x/.well-known/p", scope="a b""#),
            (Some("https://x/.well-known/p".to_owned()), "a+b".to_owned())
        );
        assert_eq!(
            parse("Bearer resource_metadata=/p, Scope=a"),
            (Some("https://x/p".to_owned()), "a".to_owned())
        );
        assert_eq!(parse(r#"Bearer myscope="no""#), (None, String::new()));
        assert_eq!(parse("Bearer"), (None, String::new()));
        assert_eq!(parse(r#"Bearer scope="unterminated \"#), (None, "unterminated".to_owned()));
    }

    #[test]
    fn the_status_decides_what_a_challenge_asks_for() {
        let server: Url = "https://x/mcp".parse().unwrap();
        let check = |status: u16, text: &str, expected: Option<ChallengeKind>| {
            let status = StatusCode::from_u16(status).unwrap();
            let kind = AuthChallenge::parse(status, text, &server).map(|challenge| challenge.kind);
            assert_eq!(kind, expected, "{status} {text}");
        };
        check(401, "", Some(ChallengeKind::SignIn));
        check(403, r#"Bearer error="insufficient_scope", scope="a b""#, Some(ChallengeKind::MoreScopes));
        check(403, "Bearer", None);
        check(404, r#"Bearer scope="a""#, None);
    }
}
