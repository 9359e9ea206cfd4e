//! The table `[otel]`: where traces are sent. The keys are those of the reference server; `catalogue.rs` says which of them
//! have no effect here.
//!
//! ```toml
//! [otel]
//! environment = "production"
//! span_attributes = { team = "search" }
//!
//! [otel.trace_exporter.otlp-http]
//! endpoint = "https://collector.example.com/v1/traces"
//! protocol = "binary"             # or "json"
//! headers = { x-key = "..." }
//! ```

use std::collections::BTreeMap;

use codicil_protocol::Secret;
use serde::{Deserialize, de::IgnoredAny};

/// The table `[otel]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OtelSettings {
    /// The environment that the server is part of, such as "production".
    pub environment: Option<String>,
    /// The exporter of the reference's logs. It is used for traces if `trace_exporter` is missing.
    pub exporter: Option<OtelExporter>,
    pub trace_exporter: Option<OtelExporter>,
    /// Attributes of every span.
    pub span_attributes: BTreeMap<String, String>,
}

/// An exporter of telemetry.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtelExporter {
    None,
    /// A service of the reference's vendor.
    Statsig,
    OtlpHttp(OtlpHttpSettings),
    OtlpGrpc(IgnoredAny),
}

/// A collector that is reached over HTTP.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OtlpHttpSettings {
    pub endpoint: Option<String>,
    /// Headers of requests to the collector, which usually contain a key.
    pub headers: BTreeMap<String, Secret>,
    pub protocol: OtlpEncoding,
}

/// The encoding of messages to a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtlpEncoding {
    #[default]
    Binary,
    Json,
}
