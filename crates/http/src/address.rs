//! URLs and transport errors, in the form in which messages and logs may show them.

use std::{error::Error, net::IpAddr};

use reqwest::Url;

/// Returns whether the URL's host is this machine: `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Removes the query and the user info, either of which may hold a key or a password.
pub fn without_secrets(mut url: Url) -> Url {
    url.set_query(None);
    // Both setters fail only for URLs that cannot have user info.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// Returns the text of the innermost cause. It names the reason; the errors around it mostly repeat the address.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_recognised() {
        let check = |url: &str, expected| assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        check("http://127.0.0.1:9100/v1", true);
        check("http://localhost:11434/v1", true);
        check("https://localhost/v1", true);
        check("http://[::1]:80/", true);
        check("http://192.168.1.7:11434/v1", false);
        check("http://localhost.example.com/", false);
    }

    #[test]
    fn queries_and_passwords_are_removed() {
        let url: Url = "https://user:canary@example.com/path?key=canary".parse().unwrap();
        assert_eq!(without_secrets(url).as_str(), "https://example.com/path");
    }
}
