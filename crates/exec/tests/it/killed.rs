//! No process is left when the program that uses this crate is killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal};

use crate::support::{all_processes, marked, poll_until, until_dead, until_no_mark};

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
    all_processes().filter(|pid| parent_of(*pid) == Some(parent)).collect()
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
    poll_until("not everything is up", || marked(&mark), |marked| marked.len() >= 23).await;

    let minders = children(holder.process.id());
    assert_eq!(minders.len(), 5);

    holder.kill();
    until_no_mark(&mark).await;
    until_dead(&minders).await;
}

#[tokio::test]
async fn commands_end_when_their_minders_are_killed() {
    let mark = mark("unminded");
    let mut holder = Holder::start(&["hold", &mark]);
    assert_eq!(holder.line(), "ready");
    let minders = children(holder.process.id());
    let commands: Vec<u32> = minders.iter().flat_map(|minder| children(*minder)).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    minders.iter().for_each(|minder| kill(*minder));
    let leaders: Vec<u32> = commands.into_iter().filter(|pid| parent_of(*pid).is_some()).collect();

    holder.kill();
    // The descendants of the commands have no minder any more, so the test kills them.
    loop {
        let remaining = marked(&mark);
        if remaining.is_empty() {
            break;
        }
        remaining.iter().for_each(|pid| kill(*pid));
        until_dead(&remaining).await;
    }
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
async fn no_process_keeps_the_servers_output_open() {
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
fn a_server_started_with_sigchld_ignored_still_gets_exit_codes() {
    let holder = env!("CARGO_BIN_EXE_exec-holder");
    let output =
        Command::new("sh").args(["-c", "trap '' CHLD; exec \"$0\" once 7", holder]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
}

#[tokio::test]
async fn two_hundred_commands_leave_neither_zombies_nor_descriptors() {
    let mut holder = Holder::start(&["crowd"]);
    assert_eq!(holder.line(), "right 200 descriptors 0");
    let parent = holder.process.id();
    poll_until("minders are left", || children(parent), Vec::is_empty).await;
}
