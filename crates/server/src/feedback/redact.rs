//! Removes text that looks like a secret.
//!
//! There is no crate for this: scanners for secrets in repositories bring rule files and entropy checks, while a
//! report needs a fixed set of patterns that runs in linear time and redacts too much rather than too little.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

/// Replaces each secret.
const REDACTED: &str = "[redacted]";

/// Tokens that are recognised by their own form.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}
        | \b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}
        | \bwhsec_[A-Za-z0-9]{16,}
        | \bgh[pousr]_[A-Za-z0-9]{20,}
        | \bgithub_pat_[A-Za-z0-9_]{20,}
        | \bgl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_.-]{16,}
        | \bxox[abeprs]-[A-Za-z0-9-]{10,}
        | \bxapp-[A-Za-z0-9-]{10,}
        | \bhf_[A-Za-z0-9]{20,}
        | \bnpm_[A-Za-z0-9]{20,}
        | \bya29\.[A-Za-z0-9_-]{10,}
        | \bSG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}
        | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
        | \bAIza[0-9A-Za-z_-]{30,}
        | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?
        ",
    )
});

/// Values that are recognised by the name or scheme before them. A quoted value ends at its quote, any other value at
/// the next space. An escaped quote, as in JSON within JSON, counts as a quote.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?xi)
        (?P<scheme> \b(?:bearer|basic)\s+ ) (?P<credentials> [A-Za-z0-9._~+/=-]{8,} )
        | (?P<name> [A-Za-z0-9_-]*
            (?: (?:api|account|access|private|signing|encryption)[_-]?key
              | token | secret | password | passwd | passphrase | passcode | credential | authorization ) s?
            (?:\\?["'])? \s* [:=] \s* )
          (?: (?P<open1> \\["'] (?:(?:bearer|basic)\s+)? ) (?P<quoted1> [^"'\\\r\n]{4,} )
            | (?P<open2> " (?:(?:bearer|basic)\s+)? ) (?P<quoted2> (?:[^"\\\r\n]|\\.){4,} )
            | (?P<open3> ' (?:(?:bearer|basic)\s+)? ) (?P<quoted3> (?:[^'\\\r\n]|\\.){4,} )
            | (?P<bare> (?:(?:bearer|basic)\s+)? ) (?P<value> [^\s"',;&\\}\]]{6,} ) )
        | (?P<at> ://[^/\s:@"']*: ) (?P<password> [^/\s"']+ ) @
        "#,
    )
});

/// Passphrases without quotes, which have several words and end with their line.
static PASSPHRASE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?i)(?P<name>\bpass[ _-]?phrases?\s*[:=]\s*)(?P<value>[^\s"'\\][^"'\\\r\n]{4,})"#)
});

const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_ENDS: &str = "-----END ";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is tested")
}

/// Replaces what looks like a secret: private keys, tokens of known forms, credentials in headers and URLs, and values
/// with names such as `password`. When in doubt, it redacts. Runs in time linear in the length of the text.
pub(super) fn redact(text: &str) -> String {
    let text = without_private_keys(text);
    let text = TOKENS.replace_all(&text, REDACTED);
    let text = PASSPHRASE.replace_all(&text, |found: &Captures<'_>| {
        let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
        let value = part("value");
        format!("{}{}", part("name"), if value.starts_with(REDACTED) { value } else { REDACTED })
    });
    NAMED.replace_all(&text, redact_named).into_owned()
}

/// Replaces private keys in PEM. A key without an end was cut off, so everything after its beginning is replaced.
fn without_private_keys(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(PrivateKey { before, label, after }) = next_private_key(rest) {
        kept.push_str(before);
        kept.push_str(REDACTED);
        let end = after.find(KEY_ENDS).and_then(|at| after.get(at + KEY_ENDS.len()..));
        rest = end.map_or("", |end| end.strip_prefix(label).unwrap_or(end));
        rest = rest.strip_prefix("-----").unwrap_or(rest);
    }
    if kept.is_empty() && rest.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(kept + rest) }
}

/// The first line of a private key, `-----BEGIN <label>-----`, and the text around that line.
struct PrivateKey<'a> {
    before: &'a str,
    label: &'a str,
    after: &'a str,
}

fn next_private_key(text: &str) -> Option<PrivateKey<'_>> {
    let mut from = 0;
    loop {
        let begin = from + text.get(from..)?.find(KEY_BEGINS)?;
        let label_start = begin + KEY_BEGINS.len();
        let is_letter = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ' || byte.is_ascii_digit();
        let len = text.as_bytes().get(label_start..)?.iter().take_while(|byte| is_letter(byte)).count();
        let (label, rest) = text.get(label_start..)?.split_at(len);
        if label.contains("PRIVATE KEY")
            && let Some(after) = rest.strip_prefix("-----")
        {
            return Some(PrivateKey { before: text.get(..begin)?, label, after });
        }
        from = label_start;
    }
}

fn redact_named(found: &Captures<'_>) -> String {
    let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
    let quoted = [("open1", "quoted1"), ("open2", "quoted2"), ("open3", "quoted3")];
    if let Some((open, quoted)) = quoted.into_iter().find(|(_, quoted)| found.name(quoted).is_some()) {
        let shown = if part(quoted).starts_with(REDACTED) { part(quoted) } else { REDACTED };
        return format!("{}{}{shown}", part("name"), part(open));
    }
    if let Some(value) = found.name("value") {
        // Numbers of tokens are not secrets.
        let is_number = value.as_str().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_redacted = value.as_str().starts_with("[redacted");
        let shown = if is_number || is_redacted { value.as_str() } else { REDACTED };
        return format!("{}{}{shown}", part("name"), part("bare"));
    }
    if found.name("password").is_some() {
        return format!("{}{REDACTED}@", part("at"));
    }
    format!("{}{REDACTED}", part("scheme"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted() {
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
    fn tokens_of_many_services_are_redacted() {
        let letters = "abcdefghij0123456789ABCDEFGHIJ0123456789";
        for token in [
            format!("sk_live_{letters}"),
            format!("sk_test_{letters}"),
            format!("rk_live_{letters}"),
            format!("whsec_{letters}"),
            format!("hf_{letters}"),
            format!("ya29.{letters}"),
            format!("npm_{letters}"),
            format!("SG.{letters}.{letters}"),
            format!("glpat-{letters}"),
            format!("gldt-{letters}"),
            format!("xoxb-{letters}"),
            format!("xoxp-{letters}"),
            format!("xapp-1-{letters}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            "ASIAIOSFODNN7EXAMPLE".to_owned(),
            format!("ghp_{letters}"),
            format!("gho_{letters}"),
            format!("github_pat_{letters}"),
            format!("AIza{letters}"),
            format!("sk-ant-api03-{letters}"),
        ] {
            assert_eq!(redact(&format!("a {token} b")), "a [redacted] b", "{token}");
            assert_eq!(redact(&format!("\"{token}\"")), "\"[redacted]\"", "{token}");
            assert_eq!(redact(&format!("https://{token}@host/")), "https://[redacted]@host/", "{token}");
        }
    }

    #[test]
    fn values_are_known_by_their_names() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text), expected, "{text}");
        check(
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abc+/def==;EndpointSuffix=y",
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=[redacted];EndpointSuffix=y",
        );
        check("SharedAccessKey=abc+/def==", "SharedAccessKey=[redacted]");
        check("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]");
        check("password=hunter22 user=me", "password=[redacted] user=me");
        check("passwd: hunter22", "passwd: [redacted]");
        check("passphrase: correct horse battery staple\nnext", "passphrase: [redacted]\nnext");
        check("Passphrase = correct horse", "Passphrase = [redacted]");
        check(r#"passphrase: "correct horse""#, r#"passphrase: "[redacted]""#);
        check(r#"{"password": "with, many; parts & }", "n": 1}"#, r#"{"password": "[redacted]", "n": 1}"#);
        check(r"{'client_secret': 'a b c d'}", r"{'client_secret': '[redacted]'}");
        check(r#"{\"password\":\"with, parts\",\"n\":1}"#, r#"{\"password\":\"[redacted]\",\"n\":1}"#);
        check(r#""authorization": "Bearer abc""#, r#""authorization": "[redacted]""#);
        check(r#""authorization": "Bearer abcdef""#, r#""authorization": "Bearer [redacted]""#);
        check(r#""password": "it's \"it\", n""#, r#""password": "[redacted]""#);
        check(r#"'password': 'a "b" c', n"#, r#"'password': '[redacted]', n"#);
        check("https://me:p@ss@example.com/x", "https://me:[redacted]@example.com/x");
        check("redis://default:s3cret@10.0.0.1:6379", "redis://default:[redacted]@10.0.0.1:6379");
    }

    #[test]
    fn private_keys_are_redacted_even_if_cut_off() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text), expected, "{text}");
        for label in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let key =
                format!("-----BEGIN {label}PRIVATE KEY-----\nMIIabc-_\n-----END {label}PRIVATE KEY-----");
            check(&format!("a\n{key}\nb {key} c"), "a\n[redacted]\nb [redacted] c");
        }
        check(
            "x -----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK----- y",
            "x [redacted] y",
        );
        check("a -----BEGIN PRIVATE KEY-----\nMIIabc", "a [redacted]");
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----";
        check(certificate, certificate);
        check("-----BEGIN ", "-----BEGIN ");
        check("-----BEGIN PRIVATE KEY-----", "[redacted]");
    }

    /// With a quadratic pattern these texts would take minutes.
    #[test]
    fn long_texts_take_linear_time() {
        let begun = std::time::Instant::now();
        for piece in [
            "-----BEGIN RSA PRIVATE KEY",
            "-----BEGIN PRIVATE KEY-----ghp_abcdefghijklmnopqrstuvwxyz ",
            "-----BEGIN CERTIFICATE-----",
            "a_token-",
            "password",
            "password=",
            "password=\"",
            "passphrase: ",
            "://a:b",
            "://",
            "bearer ",
            "eyJabcdefgh.",
            "SG.abcdefghij",
            "x",
            "\\\"",
        ] {
            redact(&piece.repeat((1 << 18) / piece.len()));
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            r#"{"totalTokens": 123456789, "cachedTokens": 1234567}"#,
            "the token is short; a secret garden",
            "https://example.com:8080/a@b",
            "skill-abc sk-short task-abcdefghijklmnopqrstuvwxyz",
            "password: no",
            "hf_short npm_install SG.1.2 ya29.x sk_live_x",
            "max_tokens=4096 passwords are kept elsewhere",
            "the passphrase is asked for",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        let once = redact("token=abcdefgh Authorization: Bearer abcdefgh1 https://a:bcdef@c/");
        assert_eq!(redact(&once), once);
    }
}
