use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    thread,
};

use serde_json::Value;

use super::{
    report::{MAX_ATTACHMENT_BYTES, MAX_REPORTS},
    *,
};

fn params(include_logs: bool) -> FeedbackUploadParams {
    FeedbackUploadParams {
        classification: "bug".to_owned(),
        reason: Some("it ate my key sk-abcdefghijklmnop1234".to_owned()),
        thread_id: None,
        include_logs: Some(include_logs),
        extra_log_files: None,
        tags: None,
    }
}

fn sender() -> FeedbackSender {
    FeedbackSender { user_agent: "test/1".to_owned(), server_version: "0".to_owned() }
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_report_is_written_for_its_owner_only_and_without_secrets() {
    let home = tempfile::tempdir().unwrap();
    let feedback = Feedback::new(home.path());
    let written = feedback.write(params(false), &sender(), Some("not wanted".to_owned())).unwrap();
    assert!(written.thread_id.starts_with("no-active-thread-"), "{:?}", written.thread_id);
    let report = read(&written.path);
    assert_eq!(report["threadId"], *written.thread_id);
    assert_eq!(report["classification"], "bug");
    assert_eq!(report["reason"], "it ate my key [redacted]");
    assert_eq!(report["attachments"], serde_json::json!([]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&written.path), 0o600);
    assert_eq!(mode(written.path.parent().unwrap()), 0o700);
    let about_thread = FeedbackUploadParams { thread_id: Some("thread".into()), ..params(false) };
    assert_eq!(*feedback.write(about_thread, &sender(), None).unwrap().thread_id, *"thread");
}

#[test]
fn logs_are_attached_if_the_client_asks_for_them() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("client.log");
    fs::write(&log, format!("{}\ntoken=abcdefgh\n", "x".repeat(MAX_ATTACHMENT_BYTES))).unwrap();
    let mut params = params(true);
    let missing = home.path().join("missing").to_str().unwrap().to_owned();
    params.extra_log_files =
        Some(vec![log.to_str().unwrap().to_owned(), missing.clone(), "relative".into(), "/dev/zero".into()]);
    let thread = r#"{"text":"Authorization: Bearer abcdefgh1234"}"#.to_owned();
    let written = Feedback::new(home.path()).write(params, &sender(), Some(thread)).unwrap();
    let report = read(&written.path);
    let attachments = report["attachments"].as_array().unwrap();
    let named = |name: &str| attachments.iter().find(|attachment| attachment["name"] == name).unwrap();
    assert_eq!(named("thread.json")["text"], r#"{"text":"Authorization: Bearer [redacted]"}"#);
    let text = named(log.to_str().unwrap())["text"].as_str().unwrap();
    assert!(text.len() <= MAX_ATTACHMENT_BYTES + 32 && text.ends_with("\ntoken=[redacted]\n"));
    assert_eq!(named(log.to_str().unwrap())["isCut"], true);
    assert_eq!(named(&missing)["error"], "No such file or directory (os error 2)");
    assert_eq!(named("relative")["error"], "the path is not absolute");
    assert_eq!(named("/dev/zero")["error"], "only regular files can be read and written");
}

#[test]
fn the_oldest_reports_are_deleted() {
    let home = tempfile::tempdir().unwrap();
    let feedback = Feedback::new(home.path());
    let mut last = None;
    for _ in 0..MAX_REPORTS + 5 {
        last = Some(feedback.write(params(false), &sender(), None).unwrap().path);
    }
    assert_eq!(fs::read_dir(home.path().join("feedback")).unwrap().count(), MAX_REPORTS);
    assert!(last.unwrap().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_posted_to_the_endpoint() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/reports", listener.local_addr().unwrap());
    let receiving = thread::spawn(move || receive(&listener));
    let feedback = Feedback::new(home.path());
    let written = feedback.write(params(false), &sender(), None).unwrap();
    let path = written.path.clone();
    let thread_id = written.thread_id.clone();
    feedback.send(endpoint, written);
    let request = tokio::task::spawn_blocking(move || receiving.join().unwrap()).await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /reports HTTP/1.1"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["threadId"], *thread_id);
    assert_eq!(body, read(&path), "the body is the file");
}

/// Accepts one request, answers it with 200 and returns its text.
fn receive(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        text.extend_from_slice(&piece[..read]);
        let request = String::from_utf8_lossy(&text);
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    String::from_utf8(text).unwrap()
}
