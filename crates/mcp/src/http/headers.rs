//! The headers of requests to a server.

use std::{collections::HashMap, ffi::OsStr};

use codicil_exec::ProcessEnvironment;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::HttpConfig;

/// Returns the configured headers. A header whose variable is not set is omitted.
pub(super) fn configured(config: &HttpConfig, environment: &ProcessEnvironment) -> HeaderMap {
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
            tracing::warn!(name, "omitted an invalid header");
            continue;
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

/// Adds the headers of the protocol, which take precedence over the configured ones.
pub(super) fn with_protocol(own: &HeaderMap, protocol: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let mut headers = own.clone();
    headers.extend(protocol);
    headers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn headers_from_unset_variables_are_omitted() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let config = HttpConfig {
            url: "http://x".to_owned(),
            bearer_token_env_var: None,
            headers: pairs(&[("X-One", "1")]),
            env_headers: pairs(&[("X-Two", "TWO"), ("X-Three", "THREE"), ("X-Four", "FOUR")]),
            oauth_resource: None,
            oauth_client: None,
        };
        let environment = ProcessEnvironment::from([("TWO".into(), "2".into()), ("FOUR".into(), " ".into())]);
        let headers = configured(&config, &environment);
        let shown: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(shown, ["x-one", "x-two"]);
        assert_eq!(headers["x-two"], "2");
        assert!(!format!("{headers:?}").contains('2'), "{headers:?}");
    }
}
