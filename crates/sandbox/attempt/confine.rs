//! Runs a program confined, from a process that may have another user than the test.

use std::{
    fs::OpenOptions,
    io::Write,
    net::TcpListener,
    os::{
        fd::{AsRawFd, IntoRawFd},
        unix::process::ExitStatusExt,
    },
    path::PathBuf,
    process::{Command, ExitCode},
};

use codicil_protocol::{AbsolutePathBuf, ReadOnlyAccess, SandboxPolicy};
use codicil_sandbox::{
    AccessRequest, CommandLifetime, Confinement, ConfinementKind, MachineProbe, ProxyPorts, ResourceLimits,
    RootCache, SandboxError, SandboxGrants, ServerPlaces,
};

use crate::context::path;

/// The exit code if this machine does not have the wanted confinement.
const UNAVAILABLE: u8 = 201;

/// The number of a descriptor of a file outside that is left open, as a careless server might do.
pub const LEFT_OPEN: i32 = 57;

#[derive(Default)]
struct Options {
    with: String,
    read_only: bool,
    network: bool,
    proxy: bool,
    exclude_tmp: bool,
    exclude_tmpdir: bool,
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    readable: Option<Vec<PathBuf>>,
    grants: SandboxGrants,
    limits: ResourceLimits,
    dying: bool,
    home: Option<PathBuf>,
    own_port: Option<u16>,
}

pub fn run(arguments: &[String]) -> ExitCode {
    let end = arguments.iter().position(|word| word == "--").expect("-- before the program");
    let options = parse(&arguments[..end]);
    let program = &arguments[end + 1..];
    let confinement = match confinement(&options) {
        Ok(Some(confinement)) => confinement,
        Ok(None) => return ExitCode::from(UNAVAILABLE),
        Err(error) => panic!("{error}"),
    };
    leave_file_open();
    let mut command = Command::new(&program[0]);
    let mut prepared = confinement.prepare().unwrap();
    let proxy_listener = prepared.take_proxy_listener();
    let lifetime = if options.dying { CommandLifetime::OfCaller } else { CommandLifetime::Own };
    prepared.apply(&mut command, lifetime);
    command
        .args(&program[1..])
        .current_dir(&options.cwd)
        .env("ATTEMPT_SERVER", std::process::id().to_string());
    let spawned = command.spawn();
    drop(command);
    let ended = spawned.and_then(|mut child| {
        if let Some(proxy_listener) = proxy_listener {
            for listener in proxy_listener.open()? {
                std::thread::spawn(move || greet(&listener));
            }
        }
        child.wait()
    });
    match ended {
        Ok(status) => {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
            ExitCode::from(u8::try_from(code).unwrap())
        }
        Err(error) => {
            panic!("{}", SandboxError::from_spawn(&error).map_or(error.to_string(), |e| e.to_string()))
        }
    }
}

/// Acts as the proxy: writes a greeting to each connection.
fn greet(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        let _ = (&stream).write_all(b"proxy");
    }
}

fn parse(words: &[String]) -> Options {
    let mut options = Options { cwd: std::env::current_dir().unwrap(), ..Options::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.as_str() {
            "--with" => options.with = value().clone(),
            "--read-only" => options.read_only = true,
            "--network" => options.network = true,
            "--proxy" => options.proxy = true,
            "--exclude-tmp" => options.exclude_tmp = true,
            "--exclude-tmpdir" => options.exclude_tmpdir = true,
            "--dying" => options.dying = true,
            "--home" => options.home = Some(value().into()),
            "--own-port" => options.own_port = value().parse().ok(),
            "--cwd" => options.cwd = value().into(),
            "--root" => options.roots.push(value().into()),
            "--readable" => options.readable.get_or_insert_default().push(value().into()),
            "--grant-read" => options.grants.readable.push(value().into()),
            "--grant-write" => options.grants.writable.push(value().into()),
            "--grant-network" => options.grants.network = true,
            "--cpu-seconds" => options.limits.cpu_seconds = value().parse().ok(),
            "--address-space" => options.limits.address_space = value().parse().ok(),
            "--processes" => options.limits.processes = value().parse().ok(),
            "--file-size" => options.limits.file_size = value().parse().ok(),
            other => panic!("unknown option {other}"),
        }
    }
    options
}

/// Returns `None` if the machine does not have the wanted confinement, or a better one cannot be disabled.
fn confinement(options: &Options) -> Result<Option<Confinement>, SandboxError> {
    let probe = MachineProbe::run();
    let (probe, wanted) = match options.with.as_str() {
        "none" => (probe, ConfinementKind::Unconfined),
        "bubblewrap" => (probe.preferring_bubblewrap(), ConfinementKind::Bubblewrap),
        "bubblewrap-alone" => (probe.without_namespaces("test"), ConfinementKind::Bubblewrap),
        "view" => (probe.without_bubblewrap("test"), ConfinementKind::LandlockView),
        "landlock" => {
            (probe.without_bubblewrap("test").without_namespaces("test"), ConfinementKind::Landlock)
        }
        other => panic!("unknown confinement {other}"),
    };
    if wanted != ConfinementKind::Unconfined && probe.kind().ok() != Some(wanted) {
        eprintln!("{}", probe.report());
        return Ok(None);
    }
    let server = options.home.as_deref().map_or_else(ServerPlaces::default, ServerPlaces::new);
    options.own_port.into_iter().for_each(|port| server.add_open_port(port));
    let request = AccessRequest {
        policy: &policy(options),
        workspace: &options.cwd,
        grants: &options.grants,
        roots: &RootCache::default(),
        server: &server,
    };
    let confinement = Confinement::new(&request, &probe)?;
    assert_eq!(confinement.kind(), wanted);
    let confinement =
        if options.proxy { confinement.behind_proxy(ProxyPorts::DEFAULT)? } else { confinement };
    Ok(Some(confinement.with_limits(options.limits)))
}

fn policy(options: &Options) -> SandboxPolicy {
    let absolute = |paths: &[PathBuf]| paths.iter().map(|path| AbsolutePathBuf::new(path).unwrap()).collect();
    let access = match &options.readable {
        None => ReadOnlyAccess::FullAccess,
        Some(roots) => {
            ReadOnlyAccess::Restricted { include_platform_defaults: true, readable_roots: absolute(roots) }
        }
    };
    if options.with == "none" {
        return SandboxPolicy::DangerFullAccess;
    }
    if options.read_only {
        return SandboxPolicy::ReadOnly { access, network_access: options.network };
    }
    SandboxPolicy::WorkspaceWrite {
        writable_roots: absolute(&options.roots),
        read_only_access: access,
        network_access: options.network,
        exclude_tmpdir_env_var: options.exclude_tmpdir,
        exclude_slash_tmp: options.exclude_tmp,
    }
}

fn leave_file_open() {
    if std::env::var_os("ATTEMPT_OUTSIDE").is_none() {
        return;
    }
    let file = path("ATTEMPT_OUTSIDE").join("left-open-descriptor/file");
    let Ok(file) = OpenOptions::new().write(true).open(file) else { return };
    // SAFETY: both are plain numbers, and dup2 makes a copy that is not closed on exec.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), LEFT_OPEN) }, LEFT_OPEN);
    // Stays open as long as this process lives, for the attempt that reaches it through /proc.
    let _ = file.into_raw_fd();
}
