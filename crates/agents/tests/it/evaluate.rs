//! `evaluate` through its public API: against a scripted server, hostile ones, and the real one.

mod auth;
mod deadline;
mod expansion;
mod failures;
mod fake;
mod flow;
mod hostile;
mod policies;
mod real;
mod reuse;
mod stage;
mod surroundings;
mod tools;

use std::{sync::Arc, time::Duration};

use codicil_agents::evaluate::{EvaluationEvent, Session, ToolInvoked};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Waits for what must come. Generous: machines are busy.
pub async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), event).await.expect("it happens soon")
}

/// A session whose events are kept.
#[derive(Clone)]
pub struct Recording {
    pub session: Session,
    events: Arc<Mutex<Vec<EvaluationEvent>>>,
}

impl Recording {
    pub fn new() -> Self {
        let (session, events) = (Session::new(), Arc::<Mutex<Vec<EvaluationEvent>>>::default());
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
