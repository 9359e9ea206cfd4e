//! Large outputs and many commands: output is complete and comes in bounded chunks, and a process whose output is not
//! read blocks instead of filling the server's memory.

use codicil_exec::{CaptureLimit, ProcessSpec};
use tokio::task::JoinSet;

use crate::support::{environment, pids, poll_until, read_until, sh, start, state, until_reaped, within};

const SIZE: usize = 64_000_000;
const MAX_CHUNK: usize = 256 * 1024;

#[tokio::test]
async fn large_output_is_complete_and_comes_in_bounded_chunks() {
    let mut process =
        start(ProcessSpec::new(["head", "-c", &SIZE.to_string(), "/dev/zero"], "/", environment())).await;
    let mut bytes = 0;
    while let Some(chunk) = within(process.output.next()).await {
        assert!(chunk.bytes.len() <= MAX_CHUNK, "{} bytes at once", chunk.bytes.len());
        bytes += chunk.bytes.len();
    }
    assert_eq!(bytes, SIZE);
}

#[tokio::test]
async fn capturing_large_output_respects_the_limit() {
    let spec = ProcessSpec::new(["seq", "1", "2000000"], "/", environment());
    let done = within(start(spec).await.capture(CaptureLimit::HeadTail(1000))).await;

    assert_eq!(done.stdout.len(), 1000);
    assert_eq!(done.stdout.total(), 14_888_896);
    assert_eq!(done.stdout.omitted(), 14_887_896);
    assert!(done.stdout.head().starts_with(b"1\n2\n3\n"));
    assert!(done.stdout.tail().ends_with(b"1999999\n2000000\n"));
}

#[tokio::test]
async fn a_process_whose_output_is_not_read_blocks() {
    let mut process = start(sh("echo $$; exec yes")).await;
    let pid = pids(&read_until(&mut process.output, "\n").await)[0];

    // It sleeps in the kernel until there is room in the pipe.
    poll_until("the process does not block", || state(pid), |state| *state == Some('S')).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_commands_at_once_complete_and_are_reaped() {
    let mut tasks = JoinSet::new();
    for i in 0..200 {
        tasks.spawn(async move {
            let process = start(sh(&format!("echo {i}; exit {}", i % 100))).await;
            let id = process.id();
            let done = process.capture(CaptureLimit::HeadTail(64)).await;
            assert_eq!(done.stdout.into_bytes(), format!("{i}\n").into_bytes());
            assert_eq!(done.exit.code(), i % 100);
            id
        });
    }
    let ids = within(tasks.join_all()).await;

    assert_eq!(ids.len(), 200);
    until_reaped(&ids).await;
}
