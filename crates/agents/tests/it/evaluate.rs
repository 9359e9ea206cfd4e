//! `evaluate` through its public API: against a scripted server, misbehaving ones, and the real one.

mod approvals;
mod deadline;
mod expansion;
mod failures;
mod fake;
mod flow;
mod hostile;
mod login;
mod real;
mod reuse;
mod stage;
mod surroundings;
mod tools;

use std::{sync::Arc, time::Duration};

use codicil_agents::evaluate::{EvaluationEvent, Session, ToolInvoked};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Awaits an event that must happen. The timeout is long enough for a loaded machine.
pub async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), event).await.expect("the event happens in time")
}

/// A session that records its events.
#[derive(Clone)]
pub struct Recording {
    pub session: Session,
    events: Arc<Mutex<Vec<EvaluationEvent>>>,
}

impl Recording {
    pub fn new() -> Self {
        let session = Session::new();
        let events = Arc::<Mutex<Vec<EvaluationEvent>>>::default();
        let log = events.clone();
        session.observe(move |event| log.lock().push(event.clone()));
        Self { session, events }
    }

    pub fn events(&self) -> Vec<EvaluationEvent> {
        self.events.lock().clone()
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.events().iter().map(EvaluationEvent::name).collect()
    }

    pub fn tools(&self) -> Vec<ToolInvoked> {
        let invoked = self.events().into_iter().filter_map(|event| match event {
            EvaluationEvent::ToolInvoked(invoked) => Some(invoked),
            _ => None,
        });
        invoked.collect()
    }
}
