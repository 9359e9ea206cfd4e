//! Commands that outlive the call that started them.

use std::time::Duration;

use codicil_exec::{
    ProcessExit, ProcessSpec, SessionEnding, SessionError, SessionEvent, SessionId, SessionLimits,
    SessionOwner, SessionReport, TerminalSessions, TerminalSize,
};
use tokio::sync::mpsc;

use crate::support::{PATIENCE, pids, sh, until_dead, until_reaped, with_stdin, within};

/// Too short for any command to end.
const MOMENT: Duration = Duration::from_millis(1);

fn owner() -> SessionOwner {
    SessionOwner::from("thread")
}

fn text(report: &SessionReport) -> String {
    report.output.to_text(|count| format!("[{count}]"))
}

/// Waits until the output so far contains `end`.
async fn wait_until(sessions: &TerminalSessions, id: SessionId, end: &str) -> String {
    let mut seen = String::new();
    let reading = async {
        while !seen.contains(end) {
            let report = sessions.wait(&owner(), id, Duration::from_millis(10)).await.unwrap();
            seen.push_str(&text(&report));
            assert!(report.exit.is_none() || seen.contains(end), "{seen}");
        }
    };
    within(reading).await;
    seen
}

async fn open(sessions: &TerminalSessions, line: &str) -> SessionId {
    sessions.open(&owner(), sh(line), None).await.unwrap()
}

/// Opens a session and waits until it has ended, without taking its report.
async fn open_ended(sessions: &TerminalSessions) -> SessionId {
    let (sender, mut events) = mpsc::channel(8);
    let id = sessions.open(&owner(), sh("true"), Some(sender)).await.unwrap();
    while let Some(event) = within(events.recv()).await {
        assert!(matches!(event, SessionEvent::Ended { .. }));
    }
    id
}

async fn is_known(sessions: &TerminalSessions, id: SessionId) -> bool {
    !matches!(sessions.wait(&owner(), id, MOMENT).await, Err(SessionError::Unknown(_)))
}

#[tokio::test]
async fn a_short_command_is_reported_completely() {
    let sessions = TerminalSessions::default();
    let report =
        sessions.start(&owner(), sh("echo out; echo err >&2; exit 3"), None, PATIENCE).await.unwrap();

    let mut lines: Vec<String> = text(&report).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["err", "out"]);
    assert_eq!(report.exit, Some(ProcessExit::Code(3)));
    assert!(report.waited < PATIENCE);
    assert!(!is_known(&sessions, report.id).await, "a reported session is removed");
}

#[tokio::test]
async fn a_long_command_keeps_running_and_takes_input() {
    let sessions = TerminalSessions::default();
    let spec = ProcessSpec {
        tty: Some(TerminalSize::default()),
        ..sh("echo ready; read line; echo got:$line; exit 6")
    };
    let report = sessions.start(&owner(), spec, None, MOMENT).await.unwrap();
    assert_eq!(report.exit, None);
    assert_eq!(sessions.running(&owner()), [report.id]);
    let mut seen = text(&report);
    if !seen.contains("ready\r\n") {
        seen.push_str(&wait_until(&sessions, report.id, "\n").await);
    }
    assert_eq!(seen, "ready\r\n");

    let report = sessions.write(&owner(), report.id, "hello\n", PATIENCE).await.unwrap();
    assert_eq!(report.exit, Some(ProcessExit::Code(6)));
    assert_eq!(text(&report), "hello\r\ngot:hello\r\n");
    assert_eq!(sessions.running(&owner()), []);
}

#[tokio::test]
async fn input_needs_a_pipe_or_terminal() {
    let sessions = TerminalSessions::default();
    let line = "read line; echo got:$line";
    let piped = sessions.open(&owner(), with_stdin(sh(line)), None).await.unwrap();
    let report = sessions.write(&owner(), piped, "x\n", PATIENCE).await.unwrap();
    assert_eq!((text(&report).as_str(), report.exit), ("got:x\n", Some(ProcessExit::Code(0))));

    let none = open(&sessions, "sleep 1000").await;
    let error = sessions.write(&owner(), none, "x\n", PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), format!("stdin of session {none} is closed"));
    assert!(is_known(&sessions, none).await, "it keeps running");
}

#[tokio::test]
async fn input_that_is_not_read_in_time_stays_queued() {
    let sessions = TerminalSessions::default();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let line = format!("read go < {}; head -c 300001 | wc -c", fifo.display());
    let id = sessions.open(&owner(), with_stdin(sh(&line)), None).await.unwrap();

    // More than a pipe holds, while the command waits for something else.
    let report = sessions.write(&owner(), id, vec![b'x'; 300_000], Duration::from_millis(20)).await.unwrap();
    assert_eq!(report.exit, None);
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "\n")).await.unwrap().unwrap();
    let report = sessions.write(&owner(), id, "y", PATIENCE).await.unwrap();
    assert_eq!((text(&report).trim(), report.exit), ("300001", Some(ProcessExit::Code(0))));
}

#[tokio::test]
async fn input_for_a_command_that_never_reads_is_bounded() {
    let sessions = TerminalSessions::default();
    let id = sessions.open(&owner(), with_stdin(sh("sleep 1000")), None).await.unwrap();

    let mut refused = None;
    for _ in 0..100 {
        refused = sessions.write(&owner(), id, vec![b'x'; 100_000], MOMENT).await.err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused.unwrap().to_string(), format!("session {id} does not read its input"));
    assert!(within(sessions.end(&owner(), id)).await);
}

#[tokio::test]
async fn writing_to_an_ended_command_returns_its_report() {
    let sessions = TerminalSessions::default();
    let (sender, mut events) = mpsc::channel(8);
    let id = sessions.open(&owner(), with_stdin(sh("exit 2")), Some(sender)).await.unwrap();
    within(events.recv()).await.unwrap();

    let report = sessions.write(&owner(), id, "late\n", PATIENCE).await.unwrap();
    assert_eq!(report.exit, Some(ProcessExit::Code(2)));
}

#[tokio::test]
async fn each_report_has_the_new_output_only() {
    let sessions = TerminalSessions::default();
    let id = sessions.open(&owner(), with_stdin(sh("cat")), None).await.unwrap();
    let mut seen = String::new();
    for word in ["one\n", "two\n", "three\n"] {
        seen.push_str(&text(&sessions.write(&owner(), id, word, MOMENT).await.unwrap()));
    }
    if !seen.ends_with("three\n") {
        seen.push_str(&wait_until(&sessions, id, "three\n").await);
    }
    assert_eq!(seen, "one\ntwo\nthree\n", "everything once");
}

#[tokio::test]
async fn unread_output_is_bounded_to_head_and_tail() {
    let sessions = TerminalSessions::new(SessionLimits { buffer: 1000, ..SessionLimits::default() });
    let report = sessions.start(&owner(), sh("seq 1 100000"), None, PATIENCE).await.unwrap();

    assert_eq!((report.output.len(), report.output.total()), (1000, 588_895));
    assert!(text(&report).starts_with("1\n2\n") && text(&report).ends_with("99999\n100000\n"));
}

#[tokio::test]
async fn events_have_all_output_and_the_end() {
    let sessions = TerminalSessions::default();
    let (sender, mut events) = mpsc::channel(1);
    let id = sessions.open(&owner(), sh("seq 1 100000; exit 5"), Some(sender)).await.unwrap();

    let mut seen = Vec::new();
    let mut ended = None;
    while let Some(event) = within(events.recv()).await {
        assert!(ended.is_none(), "the end is last");
        match event {
            SessionEvent::Output { id: of, chunk } => {
                assert_eq!(of, id);
                seen.extend_from_slice(&chunk.bytes);
            }
            SessionEvent::Ended { id: of, exit, ending, .. } => ended = Some((of, exit, ending)),
        }
    }
    assert_eq!(ended, Some((id, ProcessExit::Code(5), SessionEnding::Exited)));
    let report = sessions.wait(&owner(), id, PATIENCE).await.unwrap();
    assert_eq!(report.output.into_bytes(), seen, "the report agrees with the events");
}

#[tokio::test]
async fn a_dropped_event_receiver_does_not_stop_a_session() {
    let sessions = TerminalSessions::default();
    let (sender, events) = mpsc::channel(1);
    drop(events);
    let report = sessions.start(&owner(), sh("seq 1 100000"), Some(sender), PATIENCE).await.unwrap();
    assert_eq!((report.exit, report.output.total()), (Some(ProcessExit::Code(0)), 588_895));
}

#[tokio::test]
async fn ending_a_session_kills_it_and_sends_an_event() {
    let sessions = TerminalSessions::default();
    let (sender, mut events) = mpsc::channel(8);
    let id = sessions.open(&owner(), sh("sleep 1000"), Some(sender)).await.unwrap();

    assert!(within(sessions.end(&owner(), id)).await);
    let event = within(events.recv()).await.unwrap();
    assert!(
        matches!(
            event,
            SessionEvent::Ended { exit: ProcessExit::Signal(9), ending: SessionEnding::Requested, .. }
        ),
        "{event:?}"
    );
    assert!(!sessions.end(&owner(), id).await, "it is gone");
    assert!(!is_known(&sessions, id).await);
}

#[tokio::test]
async fn ending_all_sessions_of_an_owner_keeps_those_of_others() {
    let sessions = TerminalSessions::default();
    let other = SessionOwner::from("other");
    let theirs = sessions.open(&other, sh("sleep 1000"), None).await.unwrap();
    let mut children = Vec::new();
    for _ in 0..5 {
        let id = open(&sessions, "sleep 1000 & echo $$ $! up; wait").await;
        children.extend(pids(&wait_until(&sessions, id, "up").await));
    }
    open_ended(&sessions).await;

    assert_eq!(within(sessions.end_all(&owner())).await, 5);
    until_dead(&children).await;
    assert_eq!(sessions.running(&owner()), []);
    assert_eq!(sessions.running(&other), [theirs]);
    assert_eq!(within(sessions.end_all(&owner())).await, 0);
}

#[tokio::test]
async fn an_owner_cannot_reach_the_sessions_of_another() {
    let sessions = TerminalSessions::default();
    let other = SessionOwner::from("other");
    let id = open(&sessions, "sleep 1000").await;

    assert!(
        matches!(sessions.wait(&other, id, MOMENT).await, Err(SessionError::Unknown(unknown)) if unknown == id)
    );
    assert!(!sessions.end(&other, id).await);
    assert_eq!(sessions.running(&owner()), [id]);
    assert_eq!(sessions.running(&other), []);
}

#[tokio::test]
async fn ids_count_from_one_and_are_not_reused() {
    let sessions = TerminalSessions::default();
    for number in 1..=5 {
        let report = sessions.start(&owner(), sh("true"), None, PATIENCE).await.unwrap();
        assert_eq!(report.id, SessionId(number));
        assert_eq!(report.id.to_string(), number.to_string());
    }
}

#[tokio::test]
async fn ended_then_least_recently_used_sessions_are_evicted() {
    let sessions = TerminalSessions::new(SessionLimits { per_owner: 3, ..SessionLimits::default() });
    let oldest = open(&sessions, "sleep 1000").await;
    let ended = open_ended(&sessions).await;
    let third = open(&sessions, "sleep 1000").await;

    let fourth = open(&sessions, "sleep 1000").await;
    assert!(!is_known(&sessions, ended).await, "the ended one is evicted first");
    // Using a session makes it the most recent one.
    assert!(is_known(&sessions, oldest).await);
    open(&sessions, "sleep 1000").await;
    assert!(!is_known(&sessions, third).await, "then the least recently used one");
    assert!(is_known(&sessions, oldest).await && is_known(&sessions, fourth).await);
}

#[tokio::test]
async fn an_evicted_session_sends_its_reason() {
    let sessions = TerminalSessions::new(SessionLimits { per_owner: 1, ..SessionLimits::default() });
    let (sender, mut events) = mpsc::channel(8);
    sessions.open(&owner(), sh("sleep 1000"), Some(sender)).await.unwrap();
    open(&sessions, "true").await;

    let event = within(events.recv()).await.unwrap();
    assert!(matches!(event, SessionEvent::Ended { ending: SessionEnding::Evicted, .. }), "{event:?}");
}

#[tokio::test]
async fn sessions_in_use_are_not_evicted_and_nothing_is_started() {
    let sessions = TerminalSessions::new(SessionLimits { per_owner: 1, ..SessionLimits::default() });
    let id = open(&sessions, "sleep 1000").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("started");

    let mine = owner();
    let waiting = sessions.wait(&mine, id, PATIENCE);
    let opening = async {
        let error = sessions.open(&mine, sh(&format!("touch {}", file.display())), None).await.unwrap_err();
        assert_eq!(error.to_string(), "all 1 sessions are in use");
        sessions.end(&mine, id).await
    };
    let (report, ended) = tokio::join!(waiting, opening);
    assert_eq!((report.unwrap().exit, ended), (Some(ProcessExit::Signal(9)), true));
    assert!(!file.exists());
    open(&sessions, "true").await;
}

#[tokio::test]
async fn a_failed_start_releases_its_slot() {
    let sessions = TerminalSessions::new(SessionLimits { per_owner: 1, ..SessionLimits::default() });
    for _ in 0..3 {
        let spec = ProcessSpec { argv: vec!["no-such-program".into()], ..sh("") };
        assert!(matches!(sessions.open(&owner(), spec, None).await, Err(SessionError::Spawn(_))));
    }
    open(&sessions, "true").await;
}

#[tokio::test]
async fn a_call_for_an_ended_session_does_not_remove_its_successor() {
    let sessions = TerminalSessions::default();
    let id = sessions.reserve();
    let mine = owner();
    let (sender, mut events) = mpsc::channel(8);
    sessions.open_as(id, &mine, with_stdin(sh("read line")), Some(sender)).await.unwrap();
    let mut waiting = std::pin::pin!(sessions.wait(&mine, id, PATIENCE));
    tokio::select! {
        biased;
        report = &mut waiting => panic!("{report:?}"),
        () = tokio::task::yield_now() => {}
    }

    // The wait is not polled until the first command has ended and the second one has its id.
    sessions.write(&mine, id, "\n", MOMENT).await.unwrap();
    assert!(matches!(within(events.recv()).await, Some(SessionEvent::Ended { .. })));
    sessions.open_as(id, &mine, sh("sleep 1000"), None).await.unwrap();
    assert_eq!(waiting.await.unwrap().exit, Some(ProcessExit::Code(0)));
    assert_eq!(sessions.running(&mine), [id]);
    assert!(is_known(&sessions, id).await);
}

#[tokio::test]
async fn dropping_the_sessions_ends_them() {
    let sessions = TerminalSessions::default();
    let id = open(&sessions, "sleep 1000 & echo $$ $! up; wait").await;
    let children = pids(&wait_until(&sessions, id, "up").await);

    drop(sessions);
    until_dead(&children).await;
}

#[tokio::test]
async fn an_ended_session_leaves_nothing_running() {
    let sessions = TerminalSessions::default();
    let (sender, mut events) = mpsc::channel(8);
    sessions.open(&owner(), sh("sleep 1000 & echo $$ $!"), Some(sender)).await.unwrap();
    let SessionEvent::Output { chunk, .. } = within(events.recv()).await.unwrap() else {
        panic!("output first")
    };
    assert!(matches!(within(events.recv()).await, Some(SessionEvent::Ended { .. })));

    until_reaped(&pids(std::str::from_utf8(&chunk.bytes).unwrap())[..1]).await;
    until_dead(&pids(std::str::from_utf8(&chunk.bytes).unwrap())).await;
}
