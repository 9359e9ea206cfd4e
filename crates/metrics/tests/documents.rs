//! The dashboard and the documentation name exactly the metrics that exist.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use codicil_metrics::{encode, metric_names};

/// What the encoder appends to the names of counters and histograms.
const SUFFIXES: &[&str] = &["_total", "_bucket", "_count", "_sum"];

/// Returns the names of series in a text, such as `codicil_turns_total`.
fn named_series(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("codicil_") || word.starts_with("process_")).collect()
}

fn metric_of(series: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| series.strip_suffix(suffix)).unwrap_or(series)
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

#[test]
fn the_dashboard_and_the_documentation_name_exactly_the_metrics_that_exist() {
    serde_json::from_str::<serde_json::Value>(&read("deploy/grafana.json")).expect("the dashboard is JSON");
    let text = encode();
    let metrics: BTreeSet<_> = metric_names().collect();
    for path in ["deploy/grafana.json", "docs/observability.md"] {
        let document = read(path);
        let series = named_series(&document);
        let missing: Vec<_> = series.iter().filter(|name| !is_series(&text, name)).collect();
        // A histogram may be named as a whole.
        let missing: Vec<_> = missing.into_iter().filter(|name| !is_histogram(&text, name)).collect();
        assert!(missing.is_empty(), "{path} names series that do not exist: {missing:?}");
        let named: BTreeSet<_> = series.iter().map(|name| metric_of(name)).collect();
        let unnamed: Vec<_> = metrics.difference(&named).collect();
        assert!(unnamed.is_empty(), "{path} does not name {unnamed:?}");
    }
}

fn is_series(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))
}

fn is_histogram(text: &str, name: &str) -> bool {
    text.lines().any(|line| line == format!("# TYPE {name} histogram"))
}
