//! The `WWW-Authenticate` header of a response to a request without credentials.

use http::header::WWW_AUTHENTICATE;
use reqwest::Response;
use url::Url;

/// The parameters of a challenge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AuthChallenge {
    /// Address of the protected resource metadata.
    pub(super) resource_metadata: Option<Url>,
    /// Scopes to request.
    pub(super) scopes: Vec<String>,
}

impl AuthChallenge {
    pub(super) fn of(response: &Response, server: &Url) -> AuthChallenge {
        if response.status() != reqwest::StatusCode::UNAUTHORIZED {
            return AuthChallenge::default();
        }
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let text: Vec<&str> = headers.filter_map(|header| header.to_str().ok()).collect();
        AuthChallenge::parse(&text.join(", "), server)
    }

    fn parse(text: &str, server: &Url) -> AuthChallenge {
        let scopes = parameter(text, "scope").unwrap_or_default();
        AuthChallenge {
            resource_metadata: parameter(text, "resource_metadata").and_then(|url| server.join(&url).ok()),
            scopes: scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        }
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
            let challenge = AuthChallenge::parse(text, &server);
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
}
