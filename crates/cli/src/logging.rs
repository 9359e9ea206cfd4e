//! Writes logs to standard error. `RUST_LOG` filters them, `LOG_FORMAT=json` prints one JSON object per line.
//! The last lines are also kept in memory for feedback reports.
//!
//! JSON lines name the thread and the turn that they are about, whatever their level. Spans for a collector of traces are
//! filtered separately.

use std::{env, io};

use codicil_server::recent_logs;
use codicil_telemetry::{SPAN_TARGET, TraceExport};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer, filter::Directive, fmt, fmt::writer::MakeWriterExt, layer::SubscriberExt,
    registry::LookupSpan, util::SubscriberInitExt,
};

/// Logs warnings and errors, unless `RUST_LOG` is set.
pub fn init() {
    init_at(LevelFilter::WARN);
}

/// Logs this level and more severe ones, unless `RUST_LOG` is set.
pub fn init_at(level: LevelFilter) {
    init_with(level, None);
}

/// Logs like [`init_at`], and shows spans to an export of traces.
pub fn init_with(level: LevelFilter, traces: Option<&TraceExport>) {
    let format = LogFormat::of_process();
    let filter = format.filter(level);
    match traces {
        // One filter for everything costs less than one for each layer.
        None => tracing_subscriber::registry().with(filter).with(format.layer()).init(),
        Some(traces) => {
            let shown = format.layer().with_filter(filter);
            tracing_subscriber::registry().with(traces.layer()).with(shown).init();
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    fn of_process() -> Self {
        let is_json = env::var("LOG_FORMAT").is_ok_and(|format| format.eq_ignore_ascii_case("json"));
        if is_json { Self::Json } else { Self::Text }
    }

    fn filter(self, level: LevelFilter) -> EnvFilter {
        let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
        match (self, format!("{SPAN_TARGET}=info").parse::<Directive>()) {
            (Self::Json, Ok(spans)) => filter.add_directive(spans),
            _ => filter,
        }
    }

    fn layer<S>(self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer = fmt::layer().with_writer(io::stderr.and(recent_logs));
        match self {
            Self::Json => layer.json().boxed(),
            Self::Text => layer.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).boxed(),
        }
    }
}
