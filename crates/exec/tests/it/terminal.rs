//! Commands with their own terminal.

use codicil_exec::{
    CaptureLimit, OutputSource, Process, ProcessExit, ProcessSpec, ResizeError, TerminalSize,
};

use crate::support::{read_until, rest, run, sh, start, within};

async fn at_terminal(line: &str) -> Process {
    start(ProcessSpec { tty: Some(TerminalSize { rows: 30, cols: 100 }), ..sh(line) }).await
}

async fn write(process: &mut Process, bytes: &[u8]) {
    within(process.stdin.as_mut().unwrap().write(bytes)).await.unwrap();
}

#[tokio::test]
async fn it_is_the_controlling_terminal_of_the_process() {
    let process = at_terminal("test -t 0 && test -t 1 && test -t 2 && tty < /dev/tty && echo err >&2").await;
    let done = within(process.capture(CaptureLimit::Unlimited)).await;

    let text = done.stdout.to_text(|_| String::new());
    assert!(text.starts_with("/dev/") && text.ends_with("\r\nerr\r\n"), "{text:?}");
    assert!(done.stderr.is_empty(), "a terminal has one output stream");
    assert_eq!(done.exit, ProcessExit::Code(0));
}

#[tokio::test]
async fn input_is_echoed_and_read() {
    let mut process = at_terminal("read line; echo got:$line").await;
    write(&mut process, b"hello\n").await;

    let first = within(process.output.next()).await.unwrap();
    assert_eq!(first.source, OutputSource::Terminal);
    let mut seen = first.bytes.to_vec();
    seen.extend(rest(&mut process.output).await);
    assert_eq!(String::from_utf8(seen).unwrap(), "hello\r\ngot:hello\r\n");
    assert_eq!(within(process.exit()).await, ProcessExit::Code(0));
}

#[tokio::test]
async fn programs_see_the_size() {
    let mut process = at_terminal("stty size; read line; stty size").await;
    assert_eq!(read_until(&mut process.output, "\n").await, "30 100\r\n");

    process.handle().resize(TerminalSize { rows: 48, cols: 160 }).unwrap();
    write(&mut process, b"\n").await;
    assert_eq!(read_until(&mut process.output, "160\r\n").await, "\r\n48 160\r\n");
}

#[tokio::test]
async fn programs_are_notified_of_a_new_size() {
    let mut process =
        at_terminal("trap 'stty size; exit 9' WINCH; echo ready; while :; do sleep 0.01; done").await;
    read_until(&mut process.output, "ready\r\n").await;

    process.handle().resize(TerminalSize { rows: 11, cols: 22 }).unwrap();
    assert_eq!(read_until(&mut process.output, "\n").await, "11 22\r\n");
    assert_eq!(within(process.exit()).await, ProcessExit::Code(9));
}

#[tokio::test]
async fn without_a_terminal_there_is_nothing_to_resize() {
    let piped = start(sh("sleep 1000")).await;
    let error = piped.handle().resize(TerminalSize::default()).unwrap_err();
    assert!(matches!(error, ResizeError::NoTerminal));
    assert_eq!(error.to_string(), "process is not attached to a PTY");

    let process = at_terminal("sleep 1000").await;
    let handle = process.handle();
    drop(process);
    assert!(matches!(handle.resize(TerminalSize::default()), Err(ResizeError::Ended)));
}

#[tokio::test]
async fn closing_the_input_ends_it_even_within_a_line() {
    for (typed, seen) in [(&b"line\n"[..], "line\r\nline\r\n"), (b"half", "halfhalf"), (b"", "")] {
        let mut process = at_terminal("cat; exit 5").await;
        write(&mut process, typed).await;
        process.stdin.take().unwrap().close().await.unwrap();

        let output = String::from_utf8(rest(&mut process.output).await).unwrap();
        assert_eq!(output.replace("^D\u{8}\u{8}", ""), seen);
        assert_eq!(within(process.exit()).await, ProcessExit::Code(5));
    }
}

#[tokio::test]
async fn control_characters_send_signals() {
    let mut process = at_terminal("echo ready; exec cat").await;
    read_until(&mut process.output, "ready").await;

    write(&mut process, b"\x03").await;
    assert_eq!(within(process.exit()).await, ProcessExit::Signal(2));
}

#[tokio::test]
async fn long_output_is_complete() {
    let done = run(ProcessSpec { tty: Some(TerminalSize::default()), ..sh("seq 1 300000") }).await;

    let expected: String = (1..=300_000).map(|i| format!("{i}\r\n")).collect();
    assert!(done.stdout.into_bytes() == expected.as_bytes());
}

#[tokio::test]
async fn the_last_output_of_many_short_commands_is_complete() {
    for i in 0..100 {
        let done = run(ProcessSpec {
            tty: Some(TerminalSize::default()),
            ..sh(&format!("printf {i}; printf +%s {i}"))
        })
        .await;
        assert_eq!(done.stdout.to_text(|_| String::new()), format!("{i}+{i}"));
    }
}

#[tokio::test]
async fn long_input_is_complete() {
    let mut process = at_terminal("stty raw -echo; echo ready; head -c 500000 | wc -c").await;
    read_until(&mut process.output, "ready").await;
    let mut stdin = process.stdin.take().unwrap();

    let data = vec![b'x'; 500_000];
    let (written, seen) = tokio::join!(within(stdin.write(&data)), read_until(&mut process.output, "500000"));
    written.unwrap();
    assert_eq!(seen.trim(), "500000");
}

#[tokio::test]
async fn a_command_with_pipes_has_no_controlling_terminal() {
    let done = run(sh("test -t 1 || (: < /dev/tty) 2>/dev/null || echo none")).await;
    assert_eq!(done.stdout.into_bytes(), b"none\n");
}
