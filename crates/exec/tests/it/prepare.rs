//! Preparations: the changes that a sandbox makes to a command.

use std::io;

use codicil_exec::{ChildPreparation, Process, ProcessExit, ProcessSpec, become_init};

use crate::support::{read_until, run, sh, start, until_reaped};

/// A preparation that does nothing.
fn nothing() -> ChildPreparation {
    ChildPreparation { launcher: Vec::new(), env: Vec::new(), namespaces: 0, steps: Box::new(|| Ok(())) }
}

fn with_steps(
    spec: ProcessSpec,
    steps: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> ProcessSpec {
    ProcessSpec { preparation: Some(ChildPreparation { steps: Box::new(steps), ..nothing() }), ..spec }
}

#[tokio::test]
async fn variables_are_set_on_top_of_the_environment() {
    let env = vec![("ADDED".into(), "yes".into()), ("CHANGED".into(), "new".into())];
    let mut spec = sh("echo \"$ADDED|$CHANGED|$KEPT\"");
    spec.env.extend([("CHANGED".into(), "old".into()), ("KEPT".into(), "yes".into())]);
    spec.preparation = Some(ChildPreparation { env, ..nothing() });

    assert_eq!(run(spec).await.stdout.into_bytes(), b"yes|new|yes\n");
}

#[tokio::test]
async fn a_command_run_by_a_launcher_is_owned_like_any_other() {
    let mut spec = sh("echo \"$WRAPPED\"; sleep 1000");
    let launcher = ["env", "WRAPPED=yes"].map(Into::into).to_vec();
    spec.preparation = Some(ChildPreparation { launcher, ..nothing() });
    let mut process = start(spec).await;
    assert_eq!(read_until(&mut process.output, "\n").await, "yes\n");

    let id = process.id();
    drop(process);
    until_reaped(&[id]).await;
}

#[tokio::test]
async fn steps_run_in_a_process_that_leads_its_session() {
    let spec = with_steps(sh("true"), || {
        let leads = rustix::process::getsid(None)? == rustix::process::getpid();
        // SAFETY: ends the process at once. The test sees the exit code.
        unsafe { libc::_exit(if leads { 42 } else { 43 }) }
    });

    // The spawn succeeds, because the process ended without reporting an error.
    assert_eq!(run(spec).await.exit, ProcessExit::Code(42));
}

#[tokio::test]
async fn a_failing_step_fails_the_spawn() {
    let spec = with_steps(sh("true"), || Err(io::Error::from_raw_os_error(libc::EACCES)));
    let error = Process::spawn(spec).await.err().unwrap();
    assert_eq!(error.to_string(), "failed to spawn command: Permission denied (os error 13)");
}

/// Returns whether this user may create PID namespaces without a user namespace.
#[cfg(target_os = "linux")]
fn can_create_namespaces() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn exit_codes_signals_and_ownership_work_in_a_pid_namespace() {
    if !can_create_namespaces() {
        eprintln!("skipped: PID namespaces, which need root here");
        return;
    }
    let inside = |line: &str| {
        let namespaces = libc::CLONE_NEWPID;
        let steps = Box::new(become_init);
        ProcessSpec { preparation: Some(ChildPreparation { namespaces, steps, ..nothing() }), ..sh(line) }
    };
    assert_eq!(run(inside("exit 7")).await.exit, ProcessExit::Code(7));
    assert_eq!(run(inside("kill -TERM $$")).await.exit, ProcessExit::Signal(15));
    assert_eq!(run(inside("echo $$")).await.stdout.into_bytes(), b"2\n");

    let mut process =
        start(inside("setsid -f sh -c 'exec sleep 1000 2>&1'; echo up; wait; cat /dev/zero")).await;
    // `cat` may have written before the first read.
    assert!(read_until(&mut process.output, "\n").await.starts_with("up\n"));
    process.terminate();
    assert_eq!(crate::support::rest(&mut process.output).await.iter().filter(|byte| **byte != 0).count(), 0);
    assert_eq!(process.exit().await, ProcessExit::Signal(9));
}
