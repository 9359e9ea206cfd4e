//! Processes end with their owner, with everything they started.

use std::{fs, process::Command, thread};

use codicil_exec::{Process, ProcessExit, ProcessSpec, TerminalSize};
use tokio::{runtime::Builder, sync::oneshot};

use crate::support::{
    alive, environment, pids, read_until, sh, start, until_dead, until_no_mark, until_reaped, with_stdin,
    within,
};

const TREE: &str =
    "sleep 1000 & (sleep 1000 & echo $!; sleep 1000) & echo $$ $!; sleep 1000 | cat & echo up; wait";

#[tokio::test]
async fn dropping_a_process_kills_everything_it_started() {
    for tty in [None, Some(TerminalSize::default())] {
        let mut process = start(ProcessSpec { tty, ..sh(TREE) }).await;
        let seen = pids(&read_until(&mut process.output, "up").await);
        assert!(seen.iter().all(|pid| alive(*pid)), "{seen:?}");
        let leader = process.id();

        drop(process);
        until_dead(&seen).await;
        until_reaped(&[leader]).await;
    }
}

#[tokio::test]
async fn its_streams_do_not_keep_a_process_alive() {
    let process = start(with_stdin(sh("cat"))).await;
    let leader = process.id();
    let handle = process.handle();
    let take = |process: Process| (process.stdin, process.output);
    let (stdin, mut output) = take(process);

    assert_eq!(within(output.next()).await, None);
    assert_eq!(handle.try_exit(), Some(ProcessExit::Signal(9)));
    until_reaped(&[leader]).await;
    drop(stdin);
}

#[tokio::test]
async fn each_process_leads_its_own_session_and_group() {
    let mut process = start(sh("echo $$ up; sleep 1000")).await;
    let leader = pids(&read_until(&mut process.output, "up").await)[0];
    let leader = rustix::process::Pid::from_raw(leader as i32);

    assert_eq!(rustix::process::getsid(leader).ok(), leader);
    assert_eq!(rustix::process::getpgid(leader).ok(), leader);
}

/// Daemons: without a parent, in their own sessions, one of them started by another one.
const DAEMONS: &str = "setsid -f sh -c 'echo $$; sleep 1000'; setsid -f sh -c \"echo \\$\\$; setsid -f sh -c 'echo \\$\\$ up; cat'; sleep 1000\"; wait";

#[tokio::test]
async fn daemons_end_with_their_owner_and_on_terminate() {
    for ends_by_drop in [true, false] {
        let line = format!("{DAEMONS}; cat");
        let mut process = start(with_stdin(sh(&line))).await;
        let seen = pids(&read_until(&mut process.output, "up").await);
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|pid| alive(*pid)), "{seen:?}");

        if ends_by_drop {
            drop(process);
        } else {
            process.terminate();
            assert_eq!(within(process.exit()).await, ProcessExit::Signal(9));
        }
        until_dead(&seen).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_running_lives_until_its_owner_drops_it() {
    let mut process = start(sh("setsid -f sh -c 'echo $$ up; sleep 1000'; exit 3")).await;
    let seen = pids(&read_until(&mut process.output, "up").await);
    assert_eq!(within(process.exit()).await, ProcessExit::Code(3));
    assert!(alive(seen[0]));

    drop(process);
    until_dead(&seen).await;
}

#[tokio::test]
async fn jobs_in_own_groups_end_with_their_owner() {
    // Both create groups: `timeout` always, the shell for its jobs if it has a terminal.
    let jobs = "set -m; sleep 1000 & echo $!; timeout 1000 sleep 1000 & echo $!; echo $$ up; wait";
    for tty in [None, Some(TerminalSize::default())] {
        let mut process = start(ProcessSpec { tty, ..sh(jobs) }).await;
        let seen = pids(&read_until(&mut process.output, "up").await);
        assert_eq!(seen.len(), 3);

        drop(process);
        until_dead(&seen).await;
    }
}

#[tokio::test]
async fn jobs_in_own_groups_end_on_terminate() {
    let mut process = start(sh("timeout 1000 sh -c 'echo $$ up; cat' & wait")).await;
    let seen = pids(&read_until(&mut process.output, "up").await);

    process.terminate();
    until_dead(&seen).await;
}

#[tokio::test]
async fn an_abandoned_spawn_leaves_no_process() {
    let mark = format!("abandoned-{}", std::process::id());
    let mut env = environment();
    env.insert("EXEC_TEST_MARK".into(), mark.clone().into());
    for _ in 0..50 {
        let spec = ProcessSpec { env: env.clone(), ..sh("sleep 1000") };
        tokio::select! {
            biased;
            process = Process::spawn(spec) => drop(process),
            () = tokio::task::yield_now() => {}
        }
    }
    // The spawner handles its queue in order, so all earlier spawns are done when this one is.
    start(sh("true")).await;
    until_no_mark(&mark).await;
}

#[test]
fn a_process_outlives_the_thread_and_runtime_that_spawned_it() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let line = format!("read word < {}; exit $word", fifo.display());
    let spawning = thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async { tokio::spawn(async move { start(sh(&line)).await }).await.unwrap() })
    });
    let process = spawning.join().unwrap();

    fs::write(fifo, "5\n").unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { assert_eq!(within(process.exit()).await, ProcessExit::Code(5)) });
}

#[test]
fn a_process_ends_with_its_runtime_when_a_task_owned_it() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (id_sender, id_receiver) = oneshot::channel();
    runtime.spawn(async move {
        let process = start(sh("sleep 1000")).await;
        id_sender.send(process.id()).unwrap();
        process.exit().await
    });
    let leader = runtime.block_on(id_receiver).unwrap();

    drop(runtime);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until_reaped(&[leader]));
}
