//! The processes below the server, as `/proc` lists them.

use std::{collections::HashMap, fs};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

/// A process below the server.
pub struct ChildProcess {
    id: u32,
    /// The arguments, separated by spaces.
    command_line: String,
}

/// Returns the processes below a process, at any depth.
pub fn descendants(root: u32) -> Result<Vec<ChildProcess>> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        for child in children.remove(&id).unwrap_or_default() {
            waiting.push(child);
            found.push(ChildProcess { id: child, command_line: command_line(child) });
        }
    }
    Ok(found)
}

/// Kills the processes below the server that were started as `program` and have `part` in their arguments.
/// Returns their number.
pub fn kill_matching(root: u32, program: &str, part: &str) -> Result<usize> {
    let mut killed = 0;
    for process in descendants(root)? {
        let first = process.command_line.split(' ').next().unwrap_or_default();
        if first.ends_with(program)
            && process.command_line.contains(part)
            && let Some(pid) = i32::try_from(process.id).ok().and_then(Pid::from_raw)
        {
            // It may have ended since.
            killed += usize::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    Ok(killed)
}

/// Returns the parent of a process that has not ended.
fn parent(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn command_line(id: u32) -> String {
    let bytes = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}
