//! Samples of what the server uses.

use std::{
    fmt::{self, Write},
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};

use super::processes;
use crate::meter;

/// The head of the printed table.
pub const HEADER: &str = "  minute   memory MB  descriptors  threads  processes  disk MB    turns";

/// What the server uses at one moment.
#[derive(Clone, Debug)]
pub struct ResourceSample {
    pub minute: f64,
    pub memory_mb: f64,
    pub descriptors: f64,
    pub threads: f64,
    /// Processes below the server.
    pub processes: f64,
    /// Allocated space of the home.
    pub disk_mb: f64,
    /// Turns that have ended before.
    pub turns: u64,
}

/// All samples of a run.
pub struct ResourceCurve {
    pub clients: usize,
    pub samples: Vec<ResourceSample>,
}

impl ResourceSample {
    pub fn take(server: u32, home: &Path, time: Duration, turns: u64) -> Result<Self> {
        Ok(Self {
            minute: time.as_secs_f64() / 60.0,
            memory_mb: meter::resident_kib(server)? / 1024.0,
            descriptors: entries(&format!("/proc/{server}/fd"))?,
            threads: entries(&format!("/proc/{server}/task"))?,
            processes: processes::descendants(server)?.len() as f64,
            disk_mb: allocated(home) as f64 / f64::from(1 << 20),
            turns,
        })
    }
}

impl fmt::Display for ResourceSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minute, memory_mb, descriptors, threads, processes, disk_mb, turns } = self;
        write!(
            f,
            "{minute:8.1} {memory_mb:11.1} {descriptors:12} {threads:8} {processes:10} {disk_mb:8.1} {turns:8}"
        )
    }
}

impl ResourceCurve {
    pub fn csv(&self) -> String {
        let mut text = "minute,memory_mb,descriptors,threads,processes,disk_mb,turns\n".to_owned();
        for sample in &self.samples {
            let ResourceSample { minute, memory_mb, descriptors, threads, processes, disk_mb, turns } =
                sample;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{minute:.2},{memory_mb:.2},{descriptors},{threads},{processes},{disk_mb:.2},{turns}"
            );
        }
        text
    }
}

fn entries(folder: &str) -> Result<f64> {
    Ok(fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?.count() as f64)
}

/// Returns the space of a folder on the disk. Files that vanish meanwhile count as nothing.
fn allocated(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => allocated(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}
