//! Writes logs to standard error. `RUST_LOG` filters them, `LOG_FORMAT=json` prints one JSON object per line.
//! The last lines are also kept in memory for feedback reports.

use std::{env, io};

use codicil_server::recent_logs;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, fmt, fmt::writer::MakeWriterExt};

/// Logs warnings and errors, unless `RUST_LOG` is set.
pub fn init() {
    init_at(LevelFilter::WARN);
}

/// Logs this level and more severe ones, unless `RUST_LOG` is set.
pub fn init_at(level: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr.and(recent_logs));
    if env::var("LOG_FORMAT").is_ok_and(|format| format.eq_ignore_ascii_case("json")) {
        builder.json().init();
    } else {
        builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init();
    }
}
