//! Commands with pipes: bytes, streams, input, errors.

use codicil_exec::{CaptureLimit, OutputSource, Process, ProcessEnvironment, ProcessExit, ProcessSpec};

use crate::support::{environment, pids, read_until, rest, run, sh, start, until_dead, with_stdin, within};

#[tokio::test]
async fn bytes_arrive_as_they_were_written() {
    let done = run(sh(r"printf 'a\000\377\r\n'; printf 'no end'")).await;

    assert_eq!(done.stdout.into_bytes(), b"a\0\xff\r\nno end");
    assert!(done.stderr.is_empty());
    assert_eq!(done.exit, ProcessExit::Code(0));
}

#[tokio::test]
async fn both_streams_are_kept_apart_and_in_order() {
    let done = run(sh("for i in $(seq 1 2000); do echo o$i; echo e$i >&2; done")).await;

    let expected = |letter| (1..=2000).map(|i| format!("{letter}{i}\n")).collect::<String>();
    assert_eq!(String::from_utf8(done.stdout.into_bytes()).unwrap(), expected('o'));
    assert_eq!(String::from_utf8(done.stderr.into_bytes()).unwrap(), expected('e'));
}

#[tokio::test]
async fn chunks_name_their_stream() {
    let mut process = start(with_stdin(sh("echo out; read line; echo err >&2"))).await;

    let first = within(process.output.next()).await.unwrap();
    assert_eq!((first.source, first.bytes.as_ref()), (OutputSource::Stdout, &b"out\n"[..]));
    process.stdin.as_mut().unwrap().write(b"\n").await.unwrap();
    let second = within(process.output.next()).await.unwrap();
    assert_eq!((second.source, second.bytes.as_ref()), (OutputSource::Stderr, &b"err\n"[..]));
    assert_eq!(within(process.output.next()).await, None);
}

#[tokio::test]
async fn a_busy_stream_does_not_starve_the_other() {
    let mut process = start(sh("yes & echo here >&2; wait")).await;

    let first_error_output = async {
        loop {
            let chunk = process.output.next().await.unwrap();
            if chunk.source == OutputSource::Stderr {
                return chunk.bytes;
            }
        }
    };
    assert_eq!(within(first_error_output).await.as_ref(), b"here\n");
}

#[tokio::test]
async fn directory_and_environment_are_exactly_those_of_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let env = ProcessEnvironment::from([("ONLY".into(), "this".into()), ("EMPTY".into(), "".into())]);
    let done = run(ProcessSpec::new(["/usr/bin/env"], &folder, env)).await;
    assert_eq!(done.stdout.into_bytes(), b"EMPTY=\nONLY=this\n");

    let done = run(ProcessSpec::new(["/bin/pwd"], &folder, environment())).await;
    assert_eq!(done.stdout.to_text(|_| String::new()).trim_end(), folder.to_str().unwrap());
}

#[tokio::test]
async fn programs_are_looked_up_in_the_path_of_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/echo", folder.path().join("own-echo")).unwrap();
    let env = ProcessEnvironment::from([("PATH".into(), folder.path().into())]);

    let done = run(ProcessSpec::new(["own-echo", "found"], "/", env)).await;
    assert_eq!(done.stdout.into_bytes(), b"found\n");
}

#[tokio::test]
async fn without_input_reading_ends_at_once() {
    let process = start(sh("cat; echo after")).await;

    assert!(process.stdin.is_none());
    assert_eq!(within(process.capture(CaptureLimit::Unlimited)).await.stdout.into_bytes(), b"after\n");
}

#[tokio::test]
async fn input_is_written_until_it_is_closed() {
    let mut process = start(with_stdin(sh("cat; echo closed"))).await;
    let mut stdin = process.stdin.take().unwrap();

    stdin.write(b"one ").await.unwrap();
    stdin.write(b"two ").await.unwrap();
    assert_eq!(read_until(&mut process.output, "two ").await, "one two ");
    stdin.close().await.unwrap();
    assert_eq!(rest(&mut process.output).await, b"closed\n");
}

#[tokio::test]
async fn large_input_and_output_flow_at_the_same_time() {
    let mut process = start(with_stdin(ProcessSpec::new(["cat"], "/", environment()))).await;
    let data: Vec<u8> = (0..8_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stdin = process.stdin.take().unwrap();

    let write = async {
        stdin.write(&data).await.unwrap();
        stdin.close().await.unwrap();
    };
    let ((), seen) = tokio::join!(write, rest(&mut process.output));

    assert!(seen == data, "{} of {} bytes, or others", seen.len(), data.len());
}

#[tokio::test]
async fn writing_to_a_process_that_does_not_read_fails() {
    let mut process = start(with_stdin(sh("exec <&-; echo closed; sleep 1000"))).await;
    read_until(&mut process.output, "closed").await;

    let error = within(process.stdin.as_mut().unwrap().write(b"x")).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn the_output_ends_after_the_process_and_not_before() {
    let mut process = start(with_stdin(sh("echo last; exec >&- 2>&-; read line; exit 3"))).await;
    read_until(&mut process.output, "last").await;
    let handle = process.handle();
    let stdin = process.stdin.take().unwrap();

    tokio::select! {
        biased;
        chunk = process.output.next() => panic!("{chunk:?} before the end"),
        () = tokio::task::yield_now() => stdin.close().await.unwrap(),
    }
    assert_eq!(within(process.output.next()).await, None);
    assert_eq!(handle.try_exit(), Some(ProcessExit::Code(3)));
    assert_eq!(within(process.output.next()).await, None, "the end is final");
}

#[tokio::test]
async fn output_that_is_read_late_is_complete() {
    let mut process = start(sh("head -c 60000 /dev/zero; head -c 50000 /dev/zero >&2")).await;
    within(process.exit()).await;

    assert_eq!(rest(&mut process.output).await.len(), 110_000);
}

#[tokio::test]
async fn a_background_process_does_not_delay_the_end_of_output() {
    let mut process = start(sh("sleep 1000 & echo $!; exit 4")).await;
    let handle = process.handle();
    let seen = rest(&mut process.output).await;

    assert_eq!(handle.try_exit(), Some(ProcessExit::Code(4)));
    drop(process);
    until_dead(&pids(std::str::from_utf8(&seen).unwrap())).await;
}

#[tokio::test]
async fn a_background_process_that_never_stops_writing_does_not_delay_the_end_of_output() {
    let mut process = start(sh("echo first; yes & exit 0")).await;
    let seen = rest(&mut process.output).await;

    assert!(seen.starts_with(b"first\n"));
}

#[tokio::test]
async fn spawn_errors_name_the_cause() {
    let message = |spec| async { Process::spawn(spec).await.err().unwrap().to_string() };
    let missing = "failed to spawn command: No such file or directory (os error 2)";

    assert_eq!(message(ProcessSpec::new([""; 0], "/", environment())).await, "command must not be empty");
    assert_eq!(message(ProcessSpec::new(["no-such-program"], "/", environment())).await, missing);
    assert_eq!(message(ProcessSpec::new(["true"], "/no/such/folder", environment())).await, missing);
    let denied = message(ProcessSpec::new(["/etc/passwd"], "/", environment())).await;
    assert_eq!(denied, "failed to spawn command: Permission denied (os error 13)");
    let zero = message(ProcessSpec::new(["echo", "a\0b"], "/", environment())).await;
    assert!(zero.starts_with("failed to spawn command: "), "{zero}");

    assert_eq!(run(sh("echo works")).await.stdout.into_bytes(), b"works\n", "after failures");
}
