//! What the operating system says about the process, under the names that Prometheus libraries share. Read from `/proc`,
//! so on Linux only; elsewhere these metrics are absent.

use std::fs;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

const MEMORY: &str = "process_resident_memory_bytes";
const OPEN_FILES: &str = "process_open_fds";
const MAX_FILES: &str = "process_max_fds";
const THREADS: &str = "process_threads";
const CPU: &str = "process_cpu_seconds";

pub const NAMES: &[&str] = &[MEMORY, OPEN_FILES, MAX_FILES, THREADS, CPU];

/// Reads the numbers of the process when they are asked for.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: Option<u64>| {
            let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge(MEMORY, "Resident memory of the process.", resident_bytes())?;
        gauge(OPEN_FILES, "Open file descriptors of the process.", open_files())?;
        gauge(MAX_FILES, "The limit of open file descriptors.", max_files())?;
        gauge(THREADS, "Threads of the operating system in the process.", stat_field(THREADS_FIELD))?;
        let Some(seconds) = cpu_seconds() else { return Ok(()) };
        let counter = ConstCounter::new(seconds);
        let encoder = encoder.encode_descriptor(
            CPU,
            "Processor time of the process, user and system.",
            None,
            counter.metric_type(),
        )?;
        counter.encode(encoder)
    }
}

/// Fields of `/proc/self/stat` behind the name of the program, counted from zero (proc_pid_stat(5) counts from 3).
const USER_TIME_FIELD: usize = 11;
const SYSTEM_TIME_FIELD: usize = 12;
const THREADS_FIELD: usize = 17;

fn stat_field(field: usize) -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_ascii_whitespace().nth(field)?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    let ticks = stat_field(USER_TIME_FIELD)? + stat_field(SYSTEM_TIME_FIELD)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn open_files() -> Option<u64> {
    // One descriptor is that of the directory itself.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

fn max_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}
