//! What a sandbox may do to a command before it is spawned.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use codicil_exec::{Environment, Exit, Prepare, Process, Spec};

use crate::support::{environment, read_until, run, sh, start, until_reaped};

fn prepared(spec: Spec, prepare: impl FnOnce(&mut Command) + Send + 'static) -> Spec {
    Spec { prepare: Some(Box::new(prepare) as Prepare), ..spec }
}

#[tokio::test]
async fn variables_and_directory_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let place = folder.clone();
    let mut spec = prepared(sh("echo \"$ADDED|$REMOVED|$KEPT|$(pwd)\""), |command| {
        command.env("ADDED", "yes").env_remove("REMOVED").current_dir(place);
    });
    spec.env.extend([("REMOVED".into(), "no".into()), ("KEPT".into(), "yes".into())]);

    let done = run(spec).await;
    assert_eq!(done.stdout.to_text(|_| String::new()), format!("yes||yes|{}\n", folder.display()));
}

#[tokio::test]
async fn a_replaced_command_keeps_directory_and_environment_and_inherits_nothing() {
    let mut spec = prepared(sh("true"), |command| {
        *command = Command::new("env");
        command.env("ADDED", "new").env_remove("HOME");
    });
    spec.env.insert("KEPT".into(), "kept".into());
    let mut expected = spec.env.clone();
    expected.insert("ADDED".into(), "new".into());
    expected.remove(OsStr::new("HOME"));

    let seen = run(spec).await.stdout.to_text(|_| String::new());
    let seen: Vec<(OsString, OsString)> =
        seen.lines().map(|line| line.split_once('=').unwrap()).map(|(a, b)| (a.into(), b.into())).collect();
    assert_eq!(Environment::from_iter(seen), expected);

    let spec = prepared(Spec { cwd: "/usr".into(), ..sh("true") }, |command| *command = Command::new("pwd"));
    assert_eq!(run(spec).await.stdout.into_bytes(), b"/usr\n");
}

#[tokio::test]
async fn a_command_can_be_wrapped_and_is_owned_all_the_same() {
    let spec = prepared(sh("echo \"$0\"; sleep 1000"), |command| {
        let program = command.get_program().to_owned();
        let arguments: Vec<OsString> = command.get_args().map(OsString::from).collect();
        *command = Command::new("env");
        command.arg("--").arg(program).args(arguments).arg("wrapped");
    });
    let mut process = start(spec).await;
    assert_eq!(read_until(&mut process.output, "\n").await, "wrapped\n");

    let leader = rustix::process::Pid::from_raw(process.id() as i32);
    assert_eq!(rustix::process::getsid(leader).ok(), leader);
    let id = process.id();
    drop(process);
    until_reaped(&[id]).await;
}

#[tokio::test]
async fn steps_of_the_preparation_run_in_a_process_that_leads_its_session() {
    let spec = prepared(sh("true"), |command| {
        let step = || {
            let leads = rustix::process::getsid(None)? == rustix::process::getpid();
            // SAFETY: ends the process at once. Seen from outside as the exit code.
            unsafe { libc::_exit(if leads { 42 } else { 43 }) }
        };
        // SAFETY: the step makes only system calls.
        unsafe { command.pre_exec(step) };
    });

    // The spawn reports success, because the process ended without an error to tell.
    assert_eq!(run(spec).await.exit, Exit::Code(42));
}

#[tokio::test]
async fn a_preparation_may_make_the_session_itself() {
    let spec = prepared(sh("echo fine"), |command| {
        *command = Command::new("echo");
        command.arg("fine");
        let step = || Ok(rustix::process::setsid().map(drop)?);
        // SAFETY: the step makes only system calls.
        unsafe { command.pre_exec(step) };
    });
    assert_eq!(run(spec).await.stdout.into_bytes(), b"fine\n");
}

#[tokio::test]
async fn a_failing_step_fails_the_spawn() {
    let spec = prepared(sh("true"), |command| {
        // SAFETY: the step makes a value without allocating.
        unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::EACCES))) };
    });
    let error = Process::spawn(spec).await.err().unwrap();
    assert_eq!(error.to_string(), "failed to spawn command: Permission denied (os error 13)");
}

#[tokio::test]
async fn standard_streams_stay_those_of_the_spec() {
    let spec = prepared(sh("cat; echo seen"), |command| {
        command.stdin(Stdio::inherit()).stdout(Stdio::null()).stderr(Stdio::null());
    });
    assert_eq!(run(spec).await.stdout.into_bytes(), b"seen\n");
}

#[tokio::test]
async fn a_panic_fails_its_own_spawn_only() {
    let before = start(sh("sleep 1000")).await;
    let spec = prepared(Spec::new(["true"], "/", environment()), |_| panic!("no sandbox"));
    let error = Process::spawn(spec).await.err().unwrap();

    assert_eq!(error.to_string(), "failed to spawn command: its preparation panicked: no sandbox");
    assert_eq!(run(sh("exit 6")).await.exit, Exit::Code(6));
    assert_eq!(before.handle().try_exit(), None, "the thread that spawned it still lives");
}
