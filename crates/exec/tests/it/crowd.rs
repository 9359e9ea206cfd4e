//! Many processes at a time.

use codicil_exec::CaptureLimit;
use tokio::task::JoinSet;

use crate::support::{sh, start, until_reaped, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_commands_at_once_are_all_answered_and_reaped() {
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
