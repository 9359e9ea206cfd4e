//! How processes end: by themselves, by a signal, by a timeout, or terminated.

use std::time::Duration;

use codicil_exec::{CaptureLimit, CapturedOutput, ProcessExit, ProcessSpec, TerminalSize};

use crate::support::{PATIENCE, pids, read_until, rest, run, sh, start, until_dead, within};

/// Runs a command with a timeout that is doubled until the command has had the time to write, so that a loaded machine
/// makes no difference.
async fn run_until_timeout(line: &str) -> CapturedOutput {
    let mut timeout = Duration::from_millis(200);
    loop {
        let done = run(ProcessSpec { timeout: Some(timeout), ..sh(line) }).await;
        assert_eq!((done.exit, done.exit.code()), (ProcessExit::TimedOut, 124));
        if !done.stdout.is_empty() {
            return done;
        }
        timeout *= 2;
    }
}

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    let check = async |line: &str, exit: ProcessExit, code: i32| {
        let done = run(sh(line)).await;
        assert_eq!((done.exit, done.exit.code()), (exit, code), "{line}");
    };
    check("true", ProcessExit::Code(0), 0).await;
    check("exit 7", ProcessExit::Code(7), 7).await;
    check("exit 255", ProcessExit::Code(255), 255).await;
    check("kill -TERM $$", ProcessExit::Signal(15), 143).await;
    check("kill -KILL $$", ProcessExit::Signal(9), 137).await;
    check("kill -SEGV $$", ProcessExit::Signal(11), 139).await;
}

#[tokio::test]
async fn signals_that_the_server_ignores_are_not_ignored_by_commands() {
    // The test's own process ignores this one, as every Rust program does.
    let done = run(sh("kill -PIPE $$; echo ignored")).await;
    assert_eq!(done.exit, ProcessExit::Signal(13));
}

#[tokio::test]
async fn a_timeout_kills_everything_and_reports_124() {
    let done = run_until_timeout("sleep 1000 & echo $$ $!; trap '' TERM INT HUP; sleep 1000").await;
    until_dead(&pids(&done.stdout.to_text(|_| String::new()))).await;
}

#[tokio::test]
async fn a_timeout_ends_a_process_whose_output_is_not_read() {
    let process = start(ProcessSpec { timeout: Some(Duration::from_millis(100)), ..sh("yes") }).await;
    assert_eq!(within(process.exit()).await, ProcessExit::TimedOut);
}

#[tokio::test]
async fn a_process_that_exits_in_time_does_not_time_out() {
    let done = run(ProcessSpec { timeout: Some(PATIENCE), ..sh("exit 3") }).await;
    assert_eq!(done.exit, ProcessExit::Code(3));
}

#[tokio::test]
async fn a_timeout_keeps_the_output_so_far() {
    let done = run_until_timeout("echo before; sleep 1000").await;
    assert_eq!(done.stdout.into_bytes(), b"before\n");
}

#[tokio::test]
async fn terminating_kills_once_and_may_be_repeated() {
    for tty in [None, Some(TerminalSize::default())] {
        let mut process = start(ProcessSpec { tty, ..sh("sleep 1000 & echo $$ $! up; sleep 1000") }).await;
        let seen = read_until(&mut process.output, "up").await;
        let handle = process.handle();

        handle.terminate();
        handle.terminate();
        assert_eq!(within(handle.exit()).await, ProcessExit::Signal(9));
        handle.terminate();
        rest(&mut process.output).await;
        drop(process);
        until_dead(&pids(&seen)).await;
        handle.terminate();
        assert_eq!(handle.try_exit().map(ProcessExit::code), Some(137));
    }
}

#[tokio::test]
async fn terminating_kills_what_an_exited_process_left_running() {
    let mut process = start(sh("sleep 1000 & echo $!")).await;
    let seen = read_until(&mut process.output, "\n").await;
    assert_eq!(within(process.exit()).await, ProcessExit::Code(0));

    process.terminate();
    until_dead(&pids(&seen)).await;
    assert_eq!(within(process.exit()).await, ProcessExit::Code(0), "its own exit does not change");
}

#[tokio::test]
async fn every_waiting_handle_gets_the_exit() {
    let process = start(sh("sleep 1000")).await;
    let first = process.handle();
    let second = process.handle();
    let waiting = tokio::spawn(async move { (first.exit().await, second.exit().await) });

    process.terminate();
    assert_eq!(within(waiting).await.unwrap(), (ProcessExit::Signal(9), ProcessExit::Signal(9)));
    assert_eq!(within(process.capture(CaptureLimit::Unlimited)).await.exit, ProcessExit::Signal(9));
}
