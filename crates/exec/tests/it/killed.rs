//! Nothing is left when the program that uses this crate is killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal};

use crate::support::{eventually, marked, until_dead, until_no_mark};

struct Holder {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Holder {
    fn start(arguments: &[&str]) -> Holder {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exec-holder"));
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Holder { process, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn children(parent: u32) -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn killing_the_server_ends_every_process_it_started() {
    let mark = mark("hold");
    let mut holder = Holder::start(&["hold", &mark]);
    assert_eq!(holder.line(), "ready");
    let all = || Some(marked(&mark)).filter(|marked| marked.len() >= 23).ok_or_else(|| marked(&mark));
    eventually("everything is up", all).await;

    let minders = children(holder.process.id());
    assert_eq!(minders.len(), 5);

    holder.kill();
    until_no_mark(&mark).await;
    until_dead(&minders).await;
}

#[tokio::test]
async fn commands_end_also_when_their_minders_are_killed() {
    let mark = mark("unminded");
    let mut holder = Holder::start(&["hold", &mark]);
    assert_eq!(holder.line(), "ready");
    let minders = children(holder.process.id());
    let commands: Vec<u32> = minders.iter().flat_map(|minder| children(*minder)).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    minders.iter().for_each(|minder| kill(*minder));
    let leaders: Vec<u32> = commands.into_iter().filter(|pid| parent_of(*pid).is_some()).collect();

    holder.kill();
    // What the commands had started has only this test left to end it.
    let none_left = || {
        let left = marked(&mark);
        left.iter().for_each(|pid| kill(*pid));
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    eventually("marked processes still run", none_left).await;
    until_dead(&leaders).await;
}

fn kill(pid: u32) {
    let _ = rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
}

#[tokio::test]
async fn killing_the_server_while_it_starts_processes_leaves_none() {
    for round in 0..20 {
        let mark = mark(&format!("storm{round}"));
        let mut holder = Holder::start(&["storm", &mark]);
        for _ in 0..=round {
            assert_eq!(holder.line(), "started");
        }

        holder.kill();
        until_no_mark(&mark).await;
    }
}

#[tokio::test]
async fn nothing_keeps_the_servers_output_open() {
    let mark = mark("output");
    let mut holder = Holder::start(&["hold", &mark]);
    assert_eq!(holder.line(), "ready");

    holder.kill();
    let mut rest = String::new();
    holder.output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    until_no_mark(&mark).await;
}

#[test]
fn a_server_that_was_started_with_children_ignored_still_learns_exit_codes() {
    let holder = env!("CARGO_BIN_EXE_exec-holder");
    let output =
        Command::new("sh").args(["-c", "trap '' CHLD; exec \"$0\" once 7", holder]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
}

#[tokio::test]
async fn a_crowd_of_commands_leaves_neither_zombies_nor_descriptors() {
    let mut holder = Holder::start(&["crowd"]);
    assert_eq!(holder.line(), "right 200 descriptors 0");
    let parent = holder.process.id();
    let none = || Some(children(parent)).filter(Vec::is_empty).map(drop).ok_or_else(|| children(parent));
    eventually("minders are left", none).await;
}
