//! How programs learn that there is a proxy: the variables that they look for.

use std::net::SocketAddr;

/// Addresses of the command's own loopback, which no proxy leads to.
const OWN: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The variables for a command whose proxy is at `proxy`. Names of this machine for which `is_outside` holds
/// mean the machine and not the command's own loopback, and go through the proxy as well.
pub(crate) fn environment(
    proxy: SocketAddr,
    is_outside: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let http = format!("http://{proxy}");
    let socks = format!("socks5h://{proxy}");
    let direct: Vec<_> = OWN.into_iter().filter(|name| !is_outside(name)).collect();
    let direct = direct.join(",");
    let one = || "1".to_owned();
    vec![
        ("HTTP_PROXY", http.clone()),
        ("http_proxy", http.clone()),
        ("HTTPS_PROXY", http.clone()),
        ("https_proxy", http),
        ("ALL_PROXY", socks.clone()),
        ("all_proxy", socks),
        ("NO_PROXY", direct.clone()),
        ("no_proxy", direct),
        // Node looks at the others only when it is told to.
        ("NODE_USE_ENV_PROXY", one()),
        // The reference's name, for scripts that want to know.
        ("CODEX_NETWORK_PROXY_ACTIVE", one()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_machine_are_direct_unless_they_mean_the_machine() {
        let no_proxy = |outside: &str| {
            let variables = environment("127.0.0.1:3128".parse().unwrap(), |name| name == outside);
            variables.into_iter().find(|(name, _)| *name == "NO_PROXY").unwrap().1
        };
        assert_eq!(no_proxy(""), "localhost,127.0.0.1,::1");
        assert_eq!(no_proxy("localhost"), "127.0.0.1,::1");
    }
}
