//! What goes wrong, and when.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fastrand::Rng;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, sleep_until},
};

use super::node::ChaosNodes;
use crate::database::{TestDatabase, TestPostgres};

/// The time after which other servers take over.
const LEASE_MS: u64 = 6000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Suspend,
    /// A crash of the database.
    CrashDatabase,
}

/// How often each fault was caused.
#[derive(Default)]
pub struct CausedFaults(BTreeMap<Fault, usize>);

impl fmt::Display for CausedFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faults {:?}", self.0)
    }
}

pub struct FaultPlan<'a> {
    rng: Rng,
    nodes: Arc<ChaosNodes>,
    postgres: Arc<TestPostgres>,
    database: &'a TestDatabase,
}

impl<'a> FaultPlan<'a> {
    pub fn new(
        rng: Rng,
        nodes: Arc<ChaosNodes>,
        postgres: Arc<TestPostgres>,
        database: &'a TestDatabase,
    ) -> Self {
        Self { rng, nodes, postgres, database }
    }

    /// Causes faults until a time, and repairs everything.
    pub async fn run(mut self, until: Instant) -> CausedFaults {
        let mut caused = CausedFaults::default();
        let mut repairs = JoinSet::new();
        loop {
            let pause = Duration::from_millis(self.rng.u64(200..2500));
            if Instant::now() + pause >= until {
                break;
            }
            sleep(pause).await;
            while let Some(repaired) = repairs.try_join_next() {
                repaired.unwrap();
                self.database.check().await;
            }
            let fault = match self.rng.u8(..100) {
                0..40 => Fault::Kill,
                40..55 => Fault::Terminate,
                55..80 => Fault::Suspend,
                _ => Fault::CrashDatabase,
            };
            let down = Duration::from_millis(self.rng.u64(..3000));
            if fault == Fault::CrashDatabase {
                self.crash_database(down).await;
            } else if !self.hit_node(fault, down, &mut repairs) {
                continue;
            }
            *caused.0.entry(fault).or_default() += 1;
        }
        sleep_until(until).await;
        while let Some(repaired) = repairs.join_next().await {
            repaired.unwrap();
        }
        caused
    }

    /// Crashes the database and starts it again after a while. What must hold of its tables holds then.
    async fn crash_database(&self, down: Duration) {
        let postgres = self.postgres.clone();
        spawn_blocking(move || postgres.stop()).await.unwrap();
        sleep(down).await;
        let postgres = self.postgres.clone();
        spawn_blocking(move || postgres.start_again()).await.unwrap();
        self.database.check().await;
    }

    /// Begins a fault of a server, which ends by itself. Returns `false` if the server has one already.
    fn hit_node(&mut self, fault: Fault, down: Duration, repairs: &mut JoinSet<()>) -> bool {
        let number = self.rng.usize(..self.nodes.count());
        if self.nodes.try_take(number).is_none() {
            return false;
        }
        let nodes = self.nodes.clone();
        repairs.spawn(async move {
            let Some(mut node) = nodes.try_take(number) else { return };
            match fault {
                Fault::Kill => node.process.kill(),
                Fault::Terminate => node.process.terminate(),
                Fault::Suspend | Fault::CrashDatabase => {
                    node.process.suspend();
                    sleep(Duration::from_millis(LEASE_MS + 500) + down).await;
                    node.process.wake();
                    return;
                }
            }
            sleep(down).await;
            nodes.restart(&mut node).await;
        });
        true
    }
}
