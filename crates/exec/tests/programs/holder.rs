//! A program that owns processes through this crate, for the tests to kill.
//!
//! `hold MARK` starts some trees of processes, prints `ready` and waits. `storm MARK` starts them without end and prints
//! a line for each. `crowd` runs 200 commands at once and prints how many were right and how many descriptors are left
//! open. `once CODE` runs one command and prints its exit code. Every process started here has MARK in its environment.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    time::Duration,
};

use codicil_exec::{CaptureLimit, InputSource, Process, ProcessEnvironment, ProcessSpec, TerminalSize};
use tokio::task::JoinSet;

type Outcome = Result<(), Box<dyn Error>>;

/// Time for the descriptors of commands that have ended to be closed.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// Children, grandchildren in the background, and a pipeline.
const TREE: &str = "sleep 1000 & (sleep 1000 & sleep 1000) & sleep 1000 | cat & echo up; wait";

/// Own process groups within the session.
const JOBS: &str = "timeout 1000 sleep 1000 & timeout 1000 sh -c 'sleep 1000 | cat' & echo up; wait";

/// Daemons: own sessions, without a parent.
const DAEMONS: &str =
    "setsid -f sleep 1000; setsid sh -c 'setsid sleep 1000 & setsid -f sleep 1000'; echo up; wait";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hold", mark] => hold(mark).await,
        ["storm", mark] => storm(mark).await,
        ["crowd"] => crowd().await,
        ["once", code] => once(code).await,
        _ => Err("hold MARK | storm MARK | crowd | once CODE".into()),
    }
}

fn spec(line: &str, mark: &str) -> ProcessSpec {
    let path = env::var_os("PATH").unwrap_or_default();
    let env = ProcessEnvironment::from([("PATH".into(), path), ("EXEC_TEST_MARK".into(), mark.into())]);
    ProcessSpec::new(["sh", "-c", line], "/", env)
}

fn print_line(line: &str) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

async fn hold(mark: &str) -> Outcome {
    let piped = ProcessSpec { stdin: InputSource::Piped, ..spec(TREE, mark) };
    let in_terminal = ProcessSpec { tty: Some(TerminalSize::default()), ..spec(TREE, mark) };
    let jobs = spec(JOBS, mark);
    let daemons = spec(DAEMONS, mark);
    let mut held = Vec::new();
    for spec in [spec(TREE, mark), piped, in_terminal, jobs, daemons] {
        let mut process = Process::spawn(spec).await?;
        process.output.next().await.ok_or("the command did not start")?;
        held.push(process);
    }
    print_line("ready")?;
    std::future::pending().await
}

async fn storm(mark: &str) -> Outcome {
    let mut held = Vec::new();
    loop {
        held.push(Process::spawn(spec(TREE, mark)).await?);
        // Some are killed while others start.
        if held.len() > 10 {
            held.remove(0);
        }
        print_line("started")?;
    }
}

async fn crowd() -> Outcome {
    // The first spawn opens descriptors that stay open.
    Process::spawn(spec("true", "")).await?.capture(CaptureLimit::Unlimited).await;
    let open = || fs::read_dir("/proc/self/fd").map(Iterator::count);
    let before = open()?;
    let mut tasks = JoinSet::new();
    for i in 0..200 {
        tasks.spawn(async move {
            let process =
                Process::spawn(spec(&format!("echo {i}; echo {i} >&2; exit {i}"), "")).await.ok()?;
            let done = process.capture(CaptureLimit::HeadTail(1024)).await;
            let expected = format!("{i}\n").into_bytes();
            let right = done.exit.code() == i && done.stdout.into_bytes() == expected;
            Some(right && done.stderr.into_bytes() == expected)
        });
    }
    let right = tasks.join_all().await.into_iter().filter(|right| *right == Some(true)).count();
    // The reaper of a child closes its last descriptors after the output has been read.
    let all_closed = async {
        while open()? > before {
            tokio::task::yield_now().await;
        }
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(CLOSE_TIME, all_closed).await;
    print_line(&format!("right {right} descriptors {}", open()?.saturating_sub(before)))?;
    std::future::pending().await
}

async fn once(code: &str) -> Outcome {
    let done =
        Process::spawn(spec(&format!("exit {code}"), "")).await?.capture(CaptureLimit::Unlimited).await;
    print_line(&done.exit.code().to_string())
}
