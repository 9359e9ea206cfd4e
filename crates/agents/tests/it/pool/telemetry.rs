//! Spans and events for `tracing` subscribers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use serde_json::json;
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::{all, cold, fake::Fake};

/// Records the names of spans and the levels of events of the pool.
#[derive(Clone, Default)]
struct Notes {
    reported: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "codicil_agents"
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.reported.lock().push(format!("span {}", span.metadata().name()));
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() <= Level::WARN {
            self.reported.lock().push(format!("{}", event.metadata().level()));
        }
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn each_turn_is_a_span_and_failures_are_warnings() {
    let notes = Notes::default();
    // With a single subscriber, the first thread that reaches a call site decides for all threads whether it is
    // enabled. With two, every subscriber is consulted.
    let _second = tracing::Dispatch::new(Notes::default());
    let _guard = tracing::subscriber::set_default(notes.clone());
    tracing::callsite::rebuild_interest_cache();
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let good = agent.ask("one");
    connection.bare_turn().await;
    connection.bare_complete("ok").await;
    all(good).await;
    let bad = agent.ask("two");
    connection.bare_turn().await;
    connection.notify("turn/failed", json!({ "message": "broken" })).await;
    all(bad).await;
    assert_eq!(*notes.reported.lock(), ["span turn", "span turn", "WARN"]);
    let counts = serde_json::to_value(pool.counts()).unwrap();
    assert_eq!((&counts["turns_started"], &counts["turns_failed"]), (&json!(2), &json!(1)));
    pool.close().await;
}
