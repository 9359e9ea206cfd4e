//! The headers that a server's configuration asks for.

use std::{collections::HashMap, ffi::OsStr};

use codicil_exec::ProcessEnvironment;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::HttpConfig;

/// Headers as written, then those from variables. A variable that is not set gives no header.
pub(super) fn of(config: &HttpConfig, environment: &ProcessEnvironment) -> HeaderMap {
    let from_variables = config.env_headers.iter().filter_map(|(header, variable)| {
        let value = environment.get(OsStr::new(variable))?.to_str()?;
        (!value.trim().is_empty()).then(|| (header.clone(), value.to_owned()))
    });
    let written = config.headers.iter().map(|(header, value)| (header.clone(), value.clone()));
    let mut headers = HeaderMap::new();
    for (name, value) in written.chain(from_variables) {
        let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value))
        else {
            tracing::warn!(name, "a header cannot be sent and is left out");
            continue;
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

/// The headers that the SDK adds, over those of the configuration.
pub(super) fn joined(own: &HeaderMap, protocol: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let mut headers = own.clone();
    headers.extend(protocol);
    headers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn variables_that_are_set_become_headers() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let config = HttpConfig {
            url: "http://x".to_owned(),
            bearer_token_env_var: None,
            headers: pairs(&[("X-One", "1")]),
            env_headers: pairs(&[("X-Two", "TWO"), ("X-Three", "THREE"), ("X-Four", "FOUR")]),
            oauth_resource: None,
        };
        let environment = ProcessEnvironment::from([("TWO".into(), "2".into()), ("FOUR".into(), " ".into())]);
        let headers = of(&config, &environment);
        let shown: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(shown, ["x-one", "x-two"]);
        assert_eq!(headers["x-two"], "2");
        assert!(!format!("{headers:?}").contains('2'), "{headers:?}");
    }
}
