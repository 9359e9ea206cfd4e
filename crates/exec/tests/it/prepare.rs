//! What a sandbox may do to a command before it is spawned.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use codicil_exec::{Exit, Prepare, Process, Spec};

use crate::support::{environment, run, sh, start, until_reaped};

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
async fn a_replaced_command_keeps_directory_environment_and_ownership_and_inherits_nothing() {
    // This one is in the environment of the test, and so of whatever inherits it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let line = "echo \"$0 $KEPT|$ADDED|$CARGO_MANIFEST_DIR|$(pwd)\"; sleep 1000 & echo $!";
    let mut spec = prepared(sh(line), |command| {
        let arguments: Vec<OsString> = command.get_args().map(OsString::from).collect();
        let program = command.get_program().to_owned();
        *command = Command::new("env");
        command.arg("--").arg(program).args(arguments).arg("wrapped").env("ADDED", "new");
    });
    spec.env.insert("KEPT".into(), "kept".into());
    spec.cwd = "/usr".into();

    let mut process = start(spec).await;
    let text = crate::support::read_until(&mut process.output, "\n").await;
    assert_eq!(text.lines().next(), Some("wrapped kept|new||/usr"));
    let leader = rustix::process::Pid::from_raw(process.id() as i32);
    assert_eq!(rustix::process::getsid(leader).ok(), leader);
    drop(process);
    until_reaped(&[leader.unwrap().as_raw_pid() as u32]).await;
}

#[tokio::test]
async fn steps_of_the_preparation_run_in_a_process_that_leads_its_session() {
    let spec = prepared(sh("true"), |command| {
        let step = || {
            let leads = rustix::process::getsid(None)? == rustix::process::getpid();
            // Seen from outside as the exit code.
            unsafe { libc::_exit(if leads { 42 } else { 43 }) }
        };
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
        unsafe { command.pre_exec(step) };
    });
    assert_eq!(run(spec).await.stdout.into_bytes(), b"fine\n");
}

#[tokio::test]
async fn a_failing_step_fails_the_spawn() {
    let spec = prepared(sh("true"), |command| {
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
