//! Where spans are sent: the table `[otel]` of the configuration and the standard variables of OpenTelemetry.
//!
//! A variable takes precedence over the configuration, except that `trace_exporter = "none"` turns the export off. The
//! configuration is that of the user and the system: a project cannot send traces anywhere.

use std::collections::BTreeMap;

use codicil_config::{OtelExporter, OtelSettings, OtlpEncoding, OtlpHttpSettings};
use codicil_protocol::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::{Url, form_urlencoded};

/// Where and how spans are sent.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    pub(crate) endpoint: Url,
    /// Marked as sensitive, so that they are not shown.
    pub(crate) headers: HeaderMap,
    pub(crate) encoding: OtlpEncoding,
    pub(crate) environment: Option<String>,
    pub(crate) span_attributes: BTreeMap<String, String>,
}

/// A reason why traces cannot be exported. Texts contain no headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{name} is not an http or https address")]
    Endpoint { name: &'static str },
    #[error("`otel.trace_exporter.otlp-http` has no `endpoint`")]
    NoEndpoint,
    #[error("{name} has an invalid header")]
    Header { name: &'static str },
    #[error("the exporter `{0}` is not supported; use `otlp-http`")]
    Exporter(&'static str),
    #[error("the protocol `{0}` is not supported; use `http/protobuf` or `http/json`")]
    Protocol(String),
}

/// The name of the configured endpoint in messages.
const CONFIGURED_ENDPOINT: &str = "the `endpoint` of `otel.trace_exporter`";

/// The path of a collector that receives traces.
const TRACES_PATH: &str = "v1/traces";

impl ExportSettings {
    /// Returns the settings of this process; `None` if traces are not exported.
    pub fn of_process(config: &OtelSettings) -> Result<Option<Self>, SettingsError> {
        Self::resolve(config, |name| std::env::var(name).ok())
    }

    fn resolve(
        otel: &OtelSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none")
            || matches!(otel.trace_exporter, Some(OtelExporter::None));
        if is_off {
            return Ok(None);
        }
        let configured = configured(otel);
        let endpoint = match (endpoint_variable(variable)?, &configured) {
            (Some(endpoint), _) => endpoint,
            (None, Ok(Some(http))) => configured_endpoint(http, otel.trace_exporter.is_none())?,
            (None, Ok(None)) => return Ok(None),
            (None, Err(error)) => return Err(error.clone()),
        };
        let http = configured.ok().flatten().cloned().unwrap_or_default();
        Ok(Some(Self {
            endpoint,
            headers: headers(&http, variable)?,
            encoding: encoding(&http, variable)?,
            environment: otel.environment.clone(),
            span_attributes: otel.span_attributes.clone(),
        }))
    }
}

/// Returns the configured collector. The reference uses `exporter` for traces too if `trace_exporter` is missing.
fn configured(otel: &OtelSettings) -> Result<Option<&OtlpHttpSettings>, SettingsError> {
    match otel.trace_exporter.as_ref().or(otel.exporter.as_ref()) {
        None | Some(OtelExporter::None) => Ok(None),
        Some(OtelExporter::OtlpHttp(http)) => Ok(Some(http)),
        Some(OtelExporter::OtlpGrpc(_)) => Err(SettingsError::Exporter("otlp-grpc")),
        Some(OtelExporter::Statsig) => Err(SettingsError::Exporter("statsig")),
    }
}

/// Returns the configured endpoint, which is the whole address. That of an exporter of logs is changed to the one for traces.
fn configured_endpoint(http: &OtlpHttpSettings, is_for_logs: bool) -> Result<Url, SettingsError> {
    let text = http.endpoint.as_deref().ok_or(SettingsError::NoEndpoint)?;
    match text.strip_suffix("/v1/logs").filter(|_| is_for_logs) {
        Some(base) => parse_endpoint(CONFIGURED_ENDPOINT, &format!("{base}/{TRACES_PATH}")),
        None => parse_endpoint(CONFIGURED_ENDPOINT, text),
    }
}

/// Returns the endpoint of the variables: that for traces is the whole address, the general one is its beginning.
fn endpoint_variable(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Url>, SettingsError> {
    let name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    if let Some(whole) = variable(name) {
        return parse_endpoint(name, &whole).map(Some);
    }
    let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let Some(base) = variable(name) else { return Ok(None) };
    parse_endpoint(name, &format!("{}/{TRACES_PATH}", base.trim().trim_end_matches('/'))).map(Some)
}

fn parse_endpoint(name: &'static str, text: &str) -> Result<Url, SettingsError> {
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(Url::has_host).ok_or(SettingsError::Endpoint { name })
}

/// Returns the configured headers, and those of the variables, which replace configured ones of the same name.
fn headers(
    http: &OtlpHttpSettings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        add_header(&mut headers, name, value).ok_or(SettingsError::Header { name: "`otel`" })?;
    }
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
        for (header, value) in variable(name).iter().flat_map(|list| pairs(list)) {
            add_header(&mut headers, &header, &value).ok_or(SettingsError::Header { name })?;
        }
    }
    Ok(headers)
}

fn encoding(
    http: &OtlpHttpSettings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<OtlpEncoding, SettingsError> {
    let protocol =
        variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
    match protocol.as_deref() {
        None => Ok(http.protocol),
        Some("http/protobuf") => Ok(OtlpEncoding::Binary),
        Some("http/json") => Ok(OtlpEncoding::Json),
        Some(other) => Err(SettingsError::Protocol(other.to_owned())),
    }
}

/// Returns the pairs of a list like `a=1,b=2`, whose values may be percent-encoded.
fn pairs(list: &str) -> impl Iterator<Item = (String, Secret)> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        (name.trim().to_owned(), percent_decoded(value.trim()).into())
    })
}

/// Decodes percent-encoded text. Unlike in a form, a plus sign stays a plus sign.
fn percent_decoded(text: &str) -> String {
    let escaped = format!("={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(escaped.as_bytes()).map(|(_, value)| value.into_owned()).collect()
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &Secret) -> Option<()> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.reveal()).ok()?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        exporters: [Option<OtelExporter>; 2],
        variables: &[(&str, &str)],
    ) -> Result<Option<ExportSettings>, SettingsError> {
        let [exporter, trace_exporter] = exporters;
        let otel = OtelSettings { exporter, trace_exporter, ..OtelSettings::default() };
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        ExportSettings::resolve(&otel, |name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn http(endpoint: &str) -> Option<OtelExporter> {
        let headers = BTreeMap::from([("x-key".to_owned(), "configured".to_owned().into())]);
        let protocol = OtlpEncoding::Json;
        Some(OtelExporter::OtlpHttp(OtlpHttpSettings {
            endpoint: Some(endpoint.to_owned()),
            headers,
            protocol,
        }))
    }

    fn endpoint(exporters: [Option<OtelExporter>; 2], variables: &[(&str, &str)]) -> Option<String> {
        resolve(exporters, variables).unwrap().map(|settings| settings.endpoint.to_string())
    }

    #[test]
    fn nothing_is_exported_by_default() {
        assert_eq!(endpoint([None, None], &[]), None);
        assert_eq!(endpoint([None, None], &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        assert_eq!(endpoint([None, None], &[("OTEL_SERVICE_NAME", "x")]), None);
    }

    #[test]
    fn endpoints_are_found() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/spans");
        let check = |exporters, variables: &[_], expected: &str| {
            assert_eq!(endpoint(exporters, variables).as_deref(), Some(expected));
        };
        check([None, None], &[base], "http://a:4318/v1/traces");
        check([None, None], &[base, whole], "http://b/spans");
        check([None, http("http://c/v1/traces")], &[], "http://c/v1/traces");
        check([None, http("http://c/v1/traces")], &[base], "http://a:4318/v1/traces");
        check([http("http://d/v1/logs"), None], &[], "http://d/v1/traces");
        check([http("http://d/v1/logs"), http("http://c/x")], &[], "http://c/x");
    }

    #[test]
    fn the_export_can_be_turned_off() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        assert_eq!(endpoint([None, Some(OtelExporter::None)], &[base]), None);
        assert_eq!(endpoint([http("http://c/x"), Some(OtelExporter::None)], &[]), None);
        assert_eq!(endpoint([None, None], &[base, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(endpoint([None, http("http://c/x")], &[("OTEL_TRACES_EXPORTER", "none")]), None);
    }

    #[test]
    fn headers_of_variables_replace_configured_ones_and_are_not_shown() {
        let list = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b+c, authorization=Bearer%20t==");
        let settings = resolve([None, http("http://c/x")], &[list]).unwrap().unwrap();
        assert_eq!(settings.headers["x-key"], "a b+c");
        assert_eq!(settings.headers["authorization"], "Bearer t==");
        assert_eq!(settings.encoding, OtlpEncoding::Json);
        let shown = format!("{settings:?}");
        assert!(!shown.contains("Bearer") && !shown.contains("b+c"), "{shown}");
    }

    #[test]
    fn what_cannot_be_used_is_reported() {
        let error = |exporters, variables: &[_]| resolve(exporters, variables).unwrap_err().to_string();
        assert!(error([None, http("collector:4318")], &[]).contains("not an http or https address"));
        assert!(error([None, Some(OtelExporter::Statsig)], &[]).contains("`statsig` is not supported"));
        let missing = OtelExporter::OtlpHttp(OtlpHttpSettings::default());
        assert!(error([None, Some(missing)], &[]).contains("no `endpoint`"));
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
        assert!(error([None, None], &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).contains("`grpc`"));
        let invalid = error([None, None], &[base, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret")]);
        assert!(invalid.contains("invalid header") && !invalid.contains("secret"), "{invalid}");
    }
}
