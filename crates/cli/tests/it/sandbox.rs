//! `codicil sandbox`.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Output, Stdio},
};

use codicil_sandbox::MachineProbe;
use codicil_testkit::skipped;

use crate::text;

/// Returns whether commands can be confined. If not, reports the test as skipped.
pub fn can_confine() -> bool {
    let kind = MachineProbe::cached().kind();
    if let Err(reason) = &kind {
        skipped(format!("commands cannot be confined here: {reason}"));
    }
    kind.is_ok()
}

struct Machine {
    home: tempfile::TempDir,
    /// Not below a temporary directory, which policies make writable.
    work: tempfile::TempDir,
}

impl Machine {
    fn new(config: &str) -> Self {
        let machine =
            Self { home: tempfile::tempdir().unwrap(), work: tempfile::tempdir_in("/var/tmp").unwrap() };
        std::fs::write(machine.home.path().join("config.toml"), config).unwrap();
        machine
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.arg("sandbox").args(arguments).current_dir(self.work.path()).stdin(Stdio::null());
        command.env("CODICIL_HOME", self.home.path()).env_remove("RUST_LOG");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn code(&self, arguments: &[&str]) -> i32 {
        let output = self.run(arguments);
        output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {output:?}"))
    }
}

#[test]
fn the_mode_decides_what_can_be_written() {
    if !can_confine() {
        return;
    }
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = outside.path().to_str().unwrap();
    let file = outside.path().join("file");
    let file = file.to_str().unwrap();
    let check = |machine: &Machine, mode: &[&str], inside: bool, outside: bool| {
        for (path, expected) in [("file", inside), (file, outside)] {
            let arguments = [mode, &["--", "sh", "-c", "touch $1 2>/dev/null", "sh", path]].concat();
            assert_eq!(machine.code(&arguments) == 0, expected, "{mode:?} {path}");
        }
    };
    let machine = Machine::new("");
    check(&machine, &[], false, false);
    check(&machine, &["--mode", "read-only"], false, false);
    check(&machine, &["--mode", "workspace-write"], true, false);
    check(&machine, &["--mode", "workspace-write", "--writable-root", root], true, true);
    check(&machine, &["--mode", "workspace-write", "--cwd", root], true, true);
    check(&machine, &["--mode", "danger-full-access"], true, true);

    let machine = Machine::new("sandbox_mode = \"workspace-write\"");
    check(&machine, &[], true, false);
    check(&machine, &["--writable-root", root], true, true);
    check(&machine, &["--mode", "read-only"], false, false);
}

#[test]
fn the_network_is_off_unless_it_is_enabled() {
    if !can_confine() {
        return;
    }
    let machine = Machine::new("");
    let is_disabled = ["--", "sh", "-c", "test \"$CODEX_SANDBOX_NETWORK_DISABLED\" = 1"];
    for mode in ["read-only", "workspace-write"] {
        let flags = ["--mode", mode];
        assert_eq!(machine.code(&[&flags[..], &is_disabled].concat()), 0, "{mode}");
        assert_eq!(machine.code(&[&flags[..], &["--network"], &is_disabled].concat()), 1, "{mode}");
    }
}

#[test]
fn streams_and_exit_codes_are_those_of_the_command() {
    let machine = Machine::new("");
    let full = ["--mode", "danger-full-access"];
    let run = |line: &str| machine.run(&[&full[..], &["--", "sh", "-c", line]].concat());
    let output = run("echo out; echo err >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".into(), "err\n".into()));
    assert_eq!(run("kill -KILL $$").status.code(), Some(137));
    assert_eq!(run("kill -TERM $$").status.code(), Some(143));

    let mut command = machine.command(&[&full[..], &["cat"]].concat());
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut process.stdin.take().unwrap(), b"through").unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "through".into()));
}

#[test]
fn a_command_that_is_not_run_says_why() {
    let machine = Machine::new("");
    let check = |arguments: &[&str], code: i32, reason: &str| {
        let output = machine.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(reason), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    };
    let full = "danger-full-access";
    check(&["--mode", full, "--", "/no/such/program"], 127, "codicil: /no/such/program: No such file");
    let plain = machine.home.path().join("config.toml");
    check(&["--mode", full, "--", plain.to_str().unwrap()], 126, "config.toml: Permission denied");
    check(&["--mode", full, "--cwd", "/no/such/place", "--", "true"], 125, "/no/such/place is no directory");
    check(&["--writable-root", "/tmp", "--", "true"], 125, "--writable-root needs --mode workspace-write");
    check(&["--mode", "none", "--", "true"], 2, "invalid value 'none' for '--mode <MODE>'");
    check(&[], 2, "required");
    check(&["--mode", "workspace-write", "--writable-root", "/proc", "--", "true"], 125, {
        "not allowed as a writable root: /proc"
    });

    let rules = "allowed_sandbox_modes = [\"read-only\"]\n";
    std::fs::write(machine.home.path().join("requirements.toml"), rules).unwrap();
    check(&["--mode", full, "--", "true"], 125, "`sandbox_mode` may not be `danger-full-access`");

    let broken = Machine::new("sandbox_mode = 5");
    let output = broken.run(&["--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("config.toml:1:16: "), "{output:?}");
}

#[test]
fn configured_limits_apply() {
    let machine = Machine::new("[sandbox_limits]\nfile_size_bytes = 65536\n");
    let line = "ulimit -f; dd if=/dev/zero of=large bs=4096 count=100 2>/dev/null";
    let output = machine.run(&["--mode", "danger-full-access", "--", "sh", "-c", line]);
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(std::fs::metadata(machine.work.path().join("large")).unwrap().len(), 65_536);
}

#[test]
fn the_command_ends_with_codicil() {
    let machine = Machine::new("");
    let line = "echo $$; exec sleep 1000";
    let mut command = machine.command(&["--mode", "danger-full-access", "--", "sh", "-c", line]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut pid = String::new();
    output.read_line(&mut pid).unwrap();

    process.kill().unwrap();
    process.wait().unwrap();
    // The command held the other end of the pipe.
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "{pid}");
}

#[test]
fn sigterm_is_forwarded_to_the_command() {
    use rustix::process::{Pid, Signal, kill_process};

    let machine = Machine::new("");
    let line = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done";
    let mut command = machine.command(&["--mode", "danger-full-access", "--", "sh", "-c", line]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(9));
}
