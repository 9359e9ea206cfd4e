//! Reads the resource usage of a process from `/proc`.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Clock ticks in `/proc/PID/stat`; 100 on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns processor time in milliseconds: of the process and of the children it has waited for.
pub fn cpu_ms(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    // The name in parentheses may contain spaces. The third field follows it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks * 1000.0 / TICKS_PER_SECOND)
}

/// Returns memory in use, in KiB.
pub fn resident_kib(pid: u32) -> Result<f64> {
    read_number(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Returns the bytes that the process has written to disk.
pub fn written_bytes(pid: u32) -> Result<f64> {
    read_number(&format!("/proc/{pid}/io"), "write_bytes:")
}

/// Returns the size of the binary in MB of 2^20 bytes, as everywhere here.
pub fn megabytes(binary: &Path) -> Result<f64> {
    Ok(fs::metadata(binary)?.len() as f64 / f64::from(1 << 20))
}

/// Returns the median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn read_number(file: &str, key: &str) -> Result<f64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).context("the value is missing")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
