//! The times that are promised for takeovers, on a machine that may have other work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// The time after which other servers may take over, and what a takeover may take then.
pub const LEASE_TIME: Duration = Duration::from_secs(6);
pub const TAKEOVER_TIME: Duration = Duration::from_secs(2);

/// Measures how much slower programs run because others use the processors.
pub struct MachineLoad {
    is_over: Arc<AtomicBool>,
    measuring: JoinHandle<f64>,
}

impl MachineLoad {
    pub fn measure() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ending = is_over.clone();
        let measuring = thread::spawn(move || {
            let (mut wall, mut own) = (Duration::ZERO, Duration::ZERO);
            while !ending.load(Ordering::Relaxed) || own.is_zero() {
                let (began, used) = (Instant::now(), processor_time());
                while processor_time() < used + Duration::from_millis(5) {}
                wall += began.elapsed();
                own += processor_time() - used;
                thread::sleep(Duration::from_millis(95));
            }
            (wall.as_secs_f64() / own.as_secs_f64()).max(1.0)
        });
        Self { is_over, measuring }
    }

    /// Returns the time that work has taken in relation to that of a machine without other work.
    pub fn slowdown(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.measuring.join().unwrap()
    }
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap(), u32::try_from(used.tv_nsec).unwrap())
}
