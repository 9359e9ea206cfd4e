//! Finds and runs programs that cargo has built next to the test, and reports tests that cannot run.

use std::{
    env,
    fmt::Display,
    io::{Read, Write, stderr},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Maximum time for an example on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Returns the path of `codicil` or `examples/NAME`; `None` if cargo has not built it, because neither is
/// part of every test's build.
pub fn built_program(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let beside = test.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    beside.into_iter().find(|path| path.is_file())
}

/// Runs an example with the path of `codicil` as its argument and a home of its own, and returns its output.
/// Reports the test as skipped and returns `None` if a program is not built. Panics if the example fails or
/// hangs.
pub fn run_example(name: &str) -> Option<String> {
    let found = built_program(&format!("examples/{name}")).zip(built_program("codicil"));
    let Some((example, codicil)) = found else {
        skipped(format!("the example {name} or the codicil binary is not built"));
        return None;
    };
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(example);
    command.arg(codicil).current_dir(home.path()).env("HOME", home.path()).env("CODICIL_HOME", home.path());
    command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example starts");
    let mut stdout = child.stdout.take().expect("it is piped");
    let mut stderr = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || text(&mut stderr));
    let (sender, output) = mpsc::channel();
    // Both threads end with the example, which is killed if it does not end by itself.
    thread::spawn(move || sender.send(text(&mut stdout)));
    let printed = output.recv_timeout(MAX_WAIT).ok();
    if printed.is_none() {
        child.kill().expect("a child can be killed");
    }
    let status = child.wait().expect("a child can be waited for");
    let errors = errors.join().unwrap_or_default();
    assert!(printed.is_some() && status.success(), "{name} ended with {status}: {printed:?}\n{errors}");
    printed
}

fn text(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // On an error, a failing test shows what was read so far.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Prints which test is skipped and why. It bypasses the test harness, which hides the output of tests that
/// pass: what was not tested must be visible.
pub fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // In one write, because tests run in parallel.
    let _ = stderr().write_all(line.as_bytes());
}
