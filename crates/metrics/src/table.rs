//! The table of all metrics: one line each, with its name and its explanation.
//!
//! The names do not have the suffix `_total` of counters: the encoder adds it.

use prometheus_client::registry::Registry;

use crate::{
    instruments::{Counter, CounterSet, Gauge, TimeHistogram},
    labels::{
        AppendEnd, ModelRequestEnd, OverloadReason, RelayDirection, RequestEnd, SpanEnd, TokenKind,
        ToolCallEnd, TurnEnd,
    },
};

/// The bounds for what takes microseconds to seconds: appends, flushes, statements.
const SHORT_TIMES: &[f64] =
    &[0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// The bounds for what a model takes part in: the first token, a turn.
const LONG_TIMES: &[f64] =
    &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Declares [`Metrics`]. The doc comment of a field is the explanation that operators see.
macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $kind:ty = $new:expr, $name:literal;)*) => {
        /// The metrics of the process.
        #[derive(Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl Metrics {
            const fn new() -> Self {
                Self { $($field: $new,)* }
            }

            pub(crate) fn register(&'static self, registry: &mut Registry) {
                $(registry.register($name, $help.trim_start().trim_end_matches('.'), &self.$field);)*
            }
        }

        const TABLE_NAMES: &[&str] = &[$($name),*];
    };
}

metrics! {
    /// Clients that are connected.
    connections: Gauge = Gauge::new(), "codicil_connections";
    /// Clients that have connected since the start.
    connections_opened: Counter = Counter::new(), "codicil_connections_opened";
    /// Clients that were disconnected because they stopped reading.
    slow_clients: Counter = Counter::new(), "codicil_slow_clients";
    /// Bytes that wait in the queues of all clients.
    queue_bytes: Gauge = Gauge::new(), "codicil_queue_bytes";
    /// Requests of clients that have been answered.
    requests: CounterSet<RequestEnd, { RequestEnd::COUNT }> = CounterSet::new(), "codicil_requests";
    /// Requests that are being served.
    requests_in_flight: Gauge = Gauge::new(), "codicil_requests_in_flight";
    /// Requests that were refused with the error code -32001.
    overload_refusals: CounterSet<OverloadReason, { OverloadReason::COUNT }> = CounterSet::new(), "codicil_overload_refusals";

    /// Threads that are loaded.
    threads_loaded: Gauge = Gauge::new(), "codicil_threads_loaded";
    /// Loaded threads with a turn that is working.
    threads_running: Gauge = Gauge::new(), "codicil_threads_running";
    /// Loaded threads with a turn that waits for an answer of a client.
    threads_waiting: Gauge = Gauge::new(), "codicil_threads_waiting";
    /// Turns that this process left waiting for an answer, without a process.
    turns_parked: Counter = Counter::new(), "codicil_turns_parked";
    /// Turns of an earlier process that this one has continued.
    turns_continued: Counter = Counter::new(), "codicil_turns_continued";
    /// Turns that have ended.
    turns: CounterSet<TurnEnd, { TurnEnd::COUNT }> = CounterSet::new(), "codicil_turns";
    /// The time from the start to the end of a turn.
    turn_seconds: TimeHistogram = TimeHistogram::new(LONG_TIMES), "codicil_turn_seconds";
    /// Calls of tools that have ended.
    tool_calls: CounterSet<ToolCallEnd, { ToolCallEnd::COUNT }> = CounterSet::new(), "codicil_tool_calls";

    /// Requests to models that have ended.
    model_requests: CounterSet<ModelRequestEnd, { ModelRequestEnd::COUNT }> = CounterSet::new(), "codicil_model_requests";
    /// The time from a model request to the first event of its response.
    first_token_seconds: TimeHistogram = TimeHistogram::new(LONG_TIMES), "codicil_first_token_seconds";
    /// Tokens as providers count them; input includes cached input and output includes reasoning.
    tokens: CounterSet<TokenKind, { TokenKind::COUNT }> = CounterSet::new(), "codicil_tokens";

    /// Appends to the records of threads.
    appends: CounterSet<AppendEnd, { AppendEnd::COUNT }> = CounterSet::new(), "codicil_appends";
    /// The time of an append, from the request to the kernel or the database having it.
    append_seconds: TimeHistogram = TimeHistogram::new(SHORT_TIMES), "codicil_append_seconds";
    /// The time to flush the file of a thread to the disk.
    fsync_seconds: TimeHistogram = TimeHistogram::new(SHORT_TIMES), "codicil_fsync_seconds";
    /// Subscriptions that were answered with the missed messages.
    replays: Counter = Counter::new(), "codicil_replays";
    /// Subscriptions that were answered with the whole thread.
    snapshots: Counter = Counter::new(), "codicil_snapshots";

    /// Trees of threads that this node owns.
    leases_held: Gauge = Gauge::new(), "codicil_leases_held";
    /// Trees of threads that this node has lost to another one, or given up because it could not renew its lease.
    leases_lost: Counter = Counter::new(), "codicil_leases_lost";
    /// Trees of threads that this node has taken over from another one.
    leases_taken_over: Counter = Counter::new(), "codicil_leases_taken_over";
    /// Bytes of messages that this node has relayed.
    relay_bytes: CounterSet<RelayDirection, { RelayDirection::COUNT }> = CounterSet::new(), "codicil_relay_bytes";
    /// The time of a round trip to the database.
    database_seconds: TimeHistogram = TimeHistogram::new(SHORT_TIMES), "codicil_database_seconds";
    /// Round trips to the database that failed.
    database_failures: Counter = Counter::new(), "codicil_database_failures";

    /// Spans of traces for the collector.
    spans: CounterSet<SpanEnd, { SpanEnd::COUNT }> = CounterSet::new(), "codicil_spans";
}

/// The metrics of the process.
pub static METRICS: Metrics = Metrics::new();

/// Returns the names of all metrics, without the suffixes of their kinds.
pub fn metric_names() -> impl Iterator<Item = &'static str> {
    TABLE_NAMES.iter().copied().chain(crate::process::NAMES.iter().copied())
}
