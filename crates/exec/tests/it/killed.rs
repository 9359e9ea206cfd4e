//! Nothing is left when the program that uses this crate is killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal};

use crate::support::{marked, until_dead, until_no_mark};

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

    /// The guard: the child of the holder that has its name.
    fn guard(&self) -> u32 {
        let id = self.process.id();
        let children = fs::read_dir(format!("/proc/{id}/task")).unwrap().flat_map(|task| {
            let children = fs::read_to_string(task.unwrap().path().join("children")).unwrap();
            children.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
        });
        let named = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default() == "codicil-guard\n"
        };
        let guards: Vec<u32> = children.filter(named).collect();
        assert_eq!(guards.len(), 1);
        guards[0]
    }
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
    let guard = holder.guard();
    assert!(marked(&mark).len() >= 20, "{:?}", marked(&mark));

    holder.kill();
    until_no_mark(&mark).await;
    until_dead(&[guard]).await;
}

#[tokio::test]
async fn the_leaders_end_also_without_the_guard() {
    let mark = mark("unguarded");
    let mut holder = Holder::start(&["hold", &mark]);
    assert_eq!(holder.line(), "ready");
    let guard = holder.guard();
    let parent = holder.process.id();
    let leaders: Vec<u32> = marked(&mark).into_iter().filter(|pid| parent_of(*pid) == Some(parent)).collect();
    let others: Vec<u32> = marked(&mark).into_iter().filter(|pid| !leaders.contains(pid)).collect();
    assert_eq!(leaders.len(), 4);
    rustix::process::kill_process(Pid::from_raw(guard as i32).unwrap(), Signal::KILL).unwrap();
    until_dead(&[guard]).await;

    holder.kill();
    until_dead(&leaders).await;
    // What the leaders had started has nobody left to end it but this test.
    for pid in others {
        let _ = rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
    }
    until_no_mark(&mark).await;
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
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

#[test]
fn a_crowd_of_commands_leaves_neither_zombies_nor_descriptors() {
    let mut holder = Holder::start(&["crowd"]);
    assert_eq!(holder.line(), "right 200 descriptors 0");
    let (parent, guard) = (holder.process.id(), holder.guard());
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let children = names.filter_map(|name| name.parse().ok()).filter(|pid| parent_of(*pid) == Some(parent));

    assert_eq!(children.collect::<Vec<u32>>(), [guard]);
}
