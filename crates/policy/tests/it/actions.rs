//! Summaries of commands. The first table is recorded from the reference server.

use codicil_policy::{CommandLine, command_actions};
use codicil_protocol::CommandAction;

use crate::support::bash;

fn read(command: &str, name: &str, path: &str) -> CommandAction {
    CommandAction::Read { command: command.to_owned(), name: name.to_owned(), path: path.to_owned() }
}

fn list(command: &str, path: Option<&str>) -> CommandAction {
    CommandAction::ListFiles { command: command.to_owned(), path: path.map(str::to_owned) }
}

fn search(command: &str, query: &str, path: Option<&str>) -> CommandAction {
    let query = Some(query.to_owned());
    let path = path.map(str::to_owned);
    CommandAction::Search { command: command.to_owned(), query, path }
}

fn unknown(command: &str) -> CommandAction {
    CommandAction::Unknown { command: command.to_owned() }
}

fn check(script: &str, expected: &[CommandAction]) {
    assert_eq!(command_actions(&bash(script)), expected, "{script}");
}

#[test]
fn summaries_are_those_of_the_reference_server() {
    check("cat notes.txt", &[read("cat notes.txt", "notes.txt", "notes.txt")]);
    check("ls -la sub", &[list("ls -la sub", Some("sub"))]);
    check("rg needle sub", &[search("rg needle sub", "needle", Some("sub"))]);
    check("grep -rn needle .", &[search("grep -rn needle .", "needle", Some("."))]);
    check("sed -n '1,3p' notes.txt", &[read("sed -n '1,3p' notes.txt", "notes.txt", "notes.txt")]);
    check("head -n 2 notes.txt", &[read("head -n 2 notes.txt", "notes.txt", "notes.txt")]);
    check("find . -name '*.txt'", &[search("find . -name '*.txt'", "*.txt", Some("."))]);
    check("cat notes.txt | wc -l", &[read("cat notes.txt", "notes.txt", "notes.txt")]);
    check("echo hi", &[unknown("echo hi")]);
    check("cd sub && ls", &[list("ls", None)]);
    check("ls && cat notes.txt", &[list("ls", None), read("cat notes.txt", "notes.txt", "notes.txt")]);
    check("git status", &[unknown("git status")]);
    check("python3 -c 'print(1)'", &[unknown("python3 -c 'print(1)'")]);
    let whole = "nl -ba notes.txt | sed -n '1,2p'";
    check(whole, &[read(whole, "notes.txt", "notes.txt")]);
    check("tail -n +2 notes.txt", &[read("tail -n +2 notes.txt", "notes.txt", "notes.txt")]);
    check("rg --files", &[list("rg --files", None)]);
    check("touch newfile && echo ok", &[unknown("touch newfile && echo ok")]);
}

#[test]
fn lines_of_several_commands() {
    check("cd a && cd b && cat c.txt", &[read("cat c.txt", "c.txt", "a/b/c.txt")]);
    check("cd a && cat /etc/hosts", &[read("cat /etc/hosts", "hosts", "/etc/hosts")]);
    check("ls; echo ---; cat x/y.md || true", &[list("ls", None), read("cat x/y.md", "y.md", "x/y.md")]);
    check("rg --files | rg test | head -5", &[list("rg --files", None), search("rg test", "test", None)]);
    check("cat a b | sort", &[read("cat a b", "a", "a"), read("cat a b", "b", "b")]);
    check("ls && make", &[unknown("ls && make")]);
    check("cat x | python3 -", &[unknown("cat x | python3 -")]);
    check("wc -l", &[unknown("wc -l")]);
}

#[test]
fn lines_that_are_not_plain_are_unknown() {
    check("cat a > b", &[unknown("cat a > b")]);
    check("cat $(ls)", &[unknown("cat $(ls)")]);
    check(" for f in *; do cat $f; done ", &[unknown("for f in *; do cat $f; done")]);
}

#[test]
fn a_program_without_a_shell() {
    let line = CommandLine::new(vec!["cat".to_owned(), "my notes.txt".to_owned()]);
    assert_eq!(command_actions(&line), [read("cat 'my notes.txt'", "my notes.txt", "my notes.txt")]);
    let line = CommandLine::new(vec!["make".to_owned(), "all".to_owned()]);
    assert_eq!(command_actions(&line), [unknown("make all")]);
}
