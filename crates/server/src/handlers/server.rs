//! `server/*`: figures of the running process.

use codicil_protocol::{
    ServerDiagnosticsGauge, ServerDiagnosticsParams, ServerDiagnosticsProcess, ServerDiagnosticsResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Returns the memory of the process and gauges of its work. Gauges of threads appear once there has been a thread.
pub async fn diagnostics(
    cx: Cx,
    _params: ServerDiagnosticsParams,
) -> Result<ServerDiagnosticsResponse, RpcError> {
    let mut gauges = vec![gauge("app.requests.in_flight", cx.requests_in_flight())];
    if let Some(counts) = cx.thread_counts().filter(|counts| counts.ever_loaded) {
        gauges.push(gauge("core.threads.live", counts.loaded));
        gauges.push(gauge("core.turns.active", counts.active));
    }
    let process = ServerDiagnosticsProcess {
        id: std::process::id(),
        physical_footprint_bytes: None,
        resident_memory_bytes: resident_memory_bytes(),
    };
    Ok(ServerDiagnosticsResponse { process, gauges })
}

fn gauge(name: &str, value: usize) -> ServerDiagnosticsGauge {
    ServerDiagnosticsGauge { name: name.to_owned(), value: value as u64 }
}

/// Reads `VmRSS` of the kernel's report. `None` on systems without one.
fn resident_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
