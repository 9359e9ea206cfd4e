//! Large outputs come whole, in bounded pieces, and slow readers hold the process back instead of filling memory.

use std::time::Duration;

use codicil_exec::{CaptureLimit, ProcessSpec};

use crate::support::{environment, start, within};

const SIZE: usize = 64_000_000;
const LARGEST_PIECE: usize = 256 * 1024;

#[tokio::test]
async fn large_output_comes_whole_and_in_bounded_pieces() {
    let mut process =
        start(ProcessSpec::new(["head", "-c", &SIZE.to_string(), "/dev/zero"], "/", environment())).await;
    let mut bytes = 0;
    while let Some(chunk) = within(process.output.next()).await {
        assert!(chunk.bytes.len() <= LARGEST_PIECE, "{} bytes at once", chunk.bytes.len());
        bytes += chunk.bytes.len();
    }
    assert_eq!(bytes, SIZE);
}

#[tokio::test]
async fn capture_of_large_output_keeps_to_its_cap() {
    let spec = ProcessSpec::new(["seq", "1", "2000000"], "/", environment());
    let done = within(start(spec).await.capture(CaptureLimit::HeadTail(1000))).await;

    assert_eq!(done.stdout.len(), 1000);
    assert_eq!(done.stdout.total(), 14_888_896);
    assert_eq!(done.stdout.omitted(), 14_887_896);
    assert!(done.stdout.head().starts_with(b"1\n2\n3\n"));
    assert!(done.stdout.tail().ends_with(b"1999999\n2000000\n"));
}

#[tokio::test]
async fn an_unread_process_is_held_back() {
    let mut process = start(ProcessSpec::new(["yes"], "/", environment())).await;
    within(process.output.next()).await.unwrap();

    // It sleeps in the kernel, waiting for room in the pipe.
    let waiting = async {
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
            if stat.contains(") S ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(waiting).await;
}
