//! `codicil mock-model`, as tests of other programs use it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{codicil, text};

#[test]
fn requests_are_answered_by_the_script_and_logged_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    let log = folder.path().join("log.jsonl");
    fs::write(&script, "[[reply]]\nwhen = {}\nsteps = [{ say = 'You said {user}' }]\n").unwrap();
    let mut mock = Command::new(env!("CARGO_BIN_EXE_codicil"))
        .arg("mock-model")
        .args(["--script".as_ref(), script.as_os_str(), "--log".as_ref(), log.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(mock.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let host = address.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/v1")).unwrap();

    let body = r#"{"model":"m","input":"hello"}"#;
    let mut connection = TcpStream::connect(host).unwrap();
    write!(
        connection,
        "POST /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer secret\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    mock.kill().unwrap();
    mock.wait().unwrap();

    assert!(answer.contains("You said hello"), "{answer}");
    let log = fs::read_to_string(log).unwrap();
    let line: Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!((&line["path"], &line["body"]["input"]), (&"/v1/responses".into(), &"hello".into()));
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn an_unreadable_script_is_an_error() {
    let output = codicil(&["mock-model", "--script", "/nonexistent/script.toml"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("failed to read script"), "{}", text(&output.stderr));
}
