//! The text of all metrics.

use std::sync::LazyLock;

use prometheus_client::{encoding::text, registry::Registry};

use crate::{process::ProcessCollector, table::METRICS};

/// The media type of [`encode`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry::default();
    METRICS.register(&mut registry);
    registry.register_collector(Box::new(ProcessCollector));
    registry
});

/// Returns all metrics as OpenMetrics text. Reads a few files of `/proc`.
pub fn encode() -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, and the metrics add no errors of their own.
    let _ = text::encode(&mut out, &REGISTRY);
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{labels::TurnEnd, metric_names};

    #[test]
    fn every_metric_is_encoded_with_its_labels() {
        METRICS.turns.inc(TurnEnd::FailedLimit);
        METRICS.threads_loaded.set(7);
        METRICS.fsync_seconds.observe(Duration::from_micros(700));
        METRICS.fsync_seconds.observe(Duration::from_secs(9));
        let text = encode();
        for name in metric_names() {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name} is missing:\n{text}");
        }
        for line in [
            "codicil_turns_total{end=\"failed\",cause=\"limit\"} 1",
            "codicil_turns_total{end=\"completed\",cause=\"done\"} 0",
            "codicil_threads_loaded 7",
            "# HELP codicil_connections Clients that are connected.",
            "codicil_fsync_seconds_sum 9.0007",
            "codicil_fsync_seconds_count 2",
            "codicil_fsync_seconds_bucket{le=\"0.0005\"} 0",
            "codicil_fsync_seconds_bucket{le=\"0.001\"} 1",
            "codicil_fsync_seconds_bucket{le=\"5.0\"} 1",
            "codicil_fsync_seconds_bucket{le=\"+Inf\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line}:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_numbers_of_the_process_are_plausible() {
        let text = encode();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name}:\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
    }
}
