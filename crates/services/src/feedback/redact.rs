//! Blotting out what looks like a secret.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What stands where a secret was.
const BLOT: &str = "[redacted]";

/// What is recognised by its form, wherever it stands.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)
        -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----[\s\S]*?-----END\ [A-Z\ ]*PRIVATE\ KEY-----
        | \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}
        | \bgh[pousr]_[A-Za-z0-9]{20,}
        | \bgithub_pat_[A-Za-z0-9_]{20,}
        | \bglpat-[A-Za-z0-9_-]{16,}
        | \bxox[abeprs]-[A-Za-z0-9-]{10,}
        | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
        | \bAIza[0-9A-Za-z_-]{30,}
        | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?
        ",
    )
});

/// What is recognised by what stands before it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?xi)
        (?P<scheme> \b(?:bearer|basic)\s+ ) (?P<credentials> [A-Za-z0-9._~+/=-]{8,} )
        | (?P<name> [A-Za-z0-9_-]* (?:api[_-]?key|token|secret|password|passwd|credential|authorization) s?
            (?:\\?["'])? \s* [:=] \s* (?:\\?["'])? (?:(?:bearer|basic)\s+)? )
          (?P<value> [^\s"',;&\\}\]]{6,} )
        | (?P<at> ://[^/\s:@"']*: ) (?P<password> [^/\s@"']+ ) @
        "#,
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is tested")
}

/// The text without what looks like a secret: keys and tokens of known forms, private keys, credentials in
/// headers and addresses, and values whose names say what they are. It errs on the side of blotting out.
pub(super) fn redact(text: &str) -> String {
    let text = TOKENS.replace_all(text, BLOT);
    NAMED.replace_all(&text, blotted).into_owned()
}

fn blotted(found: &Captures<'_>) -> String {
    let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
    if let Some(value) = found.name("value") {
        // Counts of tokens are no secrets, and what is blotted out already stays so.
        let is_number = value.as_str().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_blotted = value.as_str().starts_with("[redacted");
        return format!("{}{}", part("name"), if is_number || is_blotted { value.as_str() } else { BLOT });
    }
    if found.name("password").is_some() {
        return format!("{}{BLOT}@", part("at"));
    }
    format!("{}{BLOT}", part("scheme"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blotted_out() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text), expected);
        check("key sk-proj-abcdefghijklmnop1234 end", "key [redacted] end");
        check("ghp_abcdefghijklmnopqrstuvwxyz012345", "[redacted]");
        check("Authorization: Bearer abc.def-ghi_123", "Authorization: Bearer [redacted]");
        check("curl -H 'x: Bearer abcdefgh12345678'", "curl -H 'x: Bearer [redacted]'");
        check(r#"{"api_key": "hunter2hunter2", "n": 1}"#, r#"{"api_key": "[redacted]", "n": 1}"#);
        check(r#"{\"OPENAI_API_KEY\":\"hunter2hunter2\"}"#, r#"{\"OPENAI_API_KEY\":\"[redacted]\"}"#);
        check("export DB_PASSWORD=correct-horse", "export DB_PASSWORD=[redacted]");
        check("https://me:hunter2@example.com/x", "https://me:[redacted]@example.com/x");
        check("postgres://:pa55@h/db", "postgres://:[redacted]@h/db");
        check("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]");
        check("AKIAABCDEFGHIJKLMNOP", "[redacted]");
        let key = "-----BEGIN RSA PRIVATE KEY-----\\nMIIabc\\n-----END RSA PRIVATE KEY-----";
        check(&format!("a {key} b"), "a [redacted] b");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            r#"{"totalTokens": 123456789, "cachedTokens": 1234567}"#,
            "the token is short; a secret garden",
            "https://example.com:8080/a@b",
            "skill-abc sk-short task-abcdefghijklmnopqrstuvwxyz",
            "password: no",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn nothing_more_is_blotted_out_the_second_time() {
        let once = redact("token=abcdefgh Authorization: Bearer abcdefgh1 https://a:bcdef@c/");
        assert_eq!(redact(&once), once);
    }
}
