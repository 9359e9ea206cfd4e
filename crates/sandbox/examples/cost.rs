//! Measures what confinement costs: the time to run `true`, unconfined and with every confinement of this machine.
//!
//! `cargo run --release -p codicil-sandbox --example cost [DIRECTORY]` uses the directory, or the current one, as the
//! workspace. The runs are interleaved, so that other load affects all of them alike.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};
use codicil_sandbox::{AccessRequest, Confinement, MachineProbe, RootCache, SandboxGrants, ServerPlaces};

const ROUNDS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let cwd =
        std::env::args_os().nth(1).map_or_else(std::env::current_dir, |path| Ok(PathBuf::from(path)))?;
    let probe = MachineProbe::run();
    println!("{}\n", probe.report());
    let home = tempfile::tempdir()?;
    measure(&cwd, home.path(), &confinements(probe))
}

/// Returns the best confinement, and those that would be used without it.
#[cfg(target_os = "linux")]
fn confinements(best: MachineProbe) -> Vec<MachineProbe> {
    let built_in = best.clone().without_bubblewrap("not asked for");
    let bare = built_in.clone().without_namespaces("not asked for");
    let mut found: Vec<MachineProbe> = Vec::new();
    for probe in [best, built_in, bare] {
        if probe.kind().is_ok() && !found.iter().any(|known| known.kind() == probe.kind()) {
            found.push(probe);
        }
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn confinements(best: MachineProbe) -> Vec<MachineProbe> {
    vec![best]
}

fn measure(cwd: &Path, home: &Path, probes: &[MachineProbe]) -> Result<(), Box<dyn Error>> {
    let mut plain = Vec::new();
    let mut prepared = vec![Vec::new(); probes.len()];
    let mut run = vec![Vec::new(); probes.len()];
    for _ in 0..ROUNDS {
        plain.push(time(|| Ok(Command::new("true").status()?.success()))?);
        for ((probe, prepared), run) in probes.iter().zip(&mut prepared).zip(&mut run) {
            let started = Instant::now();
            let request = AccessRequest {
                policy: &policy(),
                workspace: cwd,
                grants: &SandboxGrants::default(),
                roots: &RootCache::default(),
                server: &ServerPlaces::new(home),
            };
            let mut command = Confinement::new(&request, probe)?.command("true")?;
            prepared.push(started.elapsed());
            run.push(time(|| Ok(command.status()?.success()))?);
        }
    }
    let plain = median(plain);
    println!("{:52} {:>9.2?}", "true, plain", plain);
    for ((probe, prepared), run) in probes.iter().zip(prepared).zip(run) {
        let prepared = median(prepared);
        let run = median(run);
        let more = (prepared + run).saturating_sub(plain);
        println!(
            "{:52} {run:>9.2?}, prepared in {prepared:>9.2?}, {more:>9.2?} more",
            probe.kind()?.to_string()
        );
    }
    Ok(())
}

fn policy() -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: Vec::new(),
        read_only_access: ReadOnlyAccess::FullAccess,
        network_access: false,
        exclude_tmpdir_env_var: false,
        exclude_slash_tmp: false,
    }
}

fn time(work: impl FnOnce() -> Result<bool, Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    if !work()? {
        return Err("true failed".into());
    }
    Ok(started.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
