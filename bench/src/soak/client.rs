//! A client of the soak, and what it does in each round.

use std::{
    fmt, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::sleep};

use super::{processes, script::TurnKind};
use crate::wire::{Wire, text, turn};

/// Errors that are kept.
const MAX_ERRORS: usize = 20;

/// Deltas that are read before a connection is cut.
const DELTAS_BEFORE_CUT: usize = 5;

/// The server to work with.
#[derive(Clone)]
pub struct SoakTarget {
    pub port: u16,
    /// The id of its process.
    pub server: u32,
    pub workspace: String,
    /// Time between two turns.
    pub pause: Duration,
}

/// Work of all clients so far.
#[derive(Default)]
pub struct WorkCount {
    rounds: AtomicU64,
    turns: AtomicU64,
    approvals: AtomicU64,
    commands: AtomicU64,
    mcp_calls: AtomicU64,
    kills: AtomicU64,
    connections: AtomicU64,
    errors: parking_lot::Mutex<Vec<String>>,
    /// Held while an MCP server is called, so that no other client kills it meanwhile.
    mcp_server: Mutex<()>,
}

impl WorkCount {
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().clone()
    }

    fn note(&self, error: &anyhow::Error) {
        let mut errors = self.errors.lock();
        if errors.len() < MAX_ERRORS {
            errors.push(format!("{error:#}"));
        }
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Display for WorkCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            (&self.rounds, "rounds"),
            (&self.turns, "turns"),
            (&self.approvals, "approvals"),
            (&self.commands, "commands"),
            (&self.mcp_calls, "MCP calls"),
            (&self.kills, "kills"),
            (&self.connections, "connections"),
        ];
        let parts: Vec<_> =
            numbers.iter().map(|(count, name)| format!("{} {name}", count.load(Ordering::Relaxed))).collect();
        f.write_str(&parts.join(", "))
    }
}

pub struct SoakClient {
    target: SoakTarget,
    count: Arc<WorkCount>,
    /// The thread of an earlier round, which is unloaded by then.
    earlier: Option<String>,
}

/// Something that a turn needs from its client.
enum TurnEvent {
    Asked(Value),
    CommandStarted,
    Ended(Value),
}

impl SoakClient {
    pub fn new(target: SoakTarget, count: Arc<WorkCount>) -> Self {
        Self { target, count, earlier: None }
    }

    /// Works until it is aborted.
    pub async fn work(mut self) {
        loop {
            if let Err(error) = self.round().await {
                self.count.note(&error);
                sleep(Duration::from_secs(1)).await;
            }
            add_one(&self.count.rounds);
        }
    }

    /// Runs a thread with a turn of each kind, on two connections.
    async fn round(&mut self) -> Result<()> {
        let mut wire = self.connect().await?;
        let params = json!({ "cwd": self.target.workspace, "approvalPolicy": "on-request" });
        let started = wire.call("thread/start", params).await?;
        let thread = text(&started["thread"], "id");
        for kind in [TurnKind::Text, TurnKind::Command, TurnKind::Asking, TurnKind::Endless] {
            self.turn(&mut wire, &thread, kind).await.with_context(|| format!("{kind:?}"))?;
        }
        self.patch(&mut wire, &thread).await.context("patch")?;
        self.mcp_call(&mut wire, &thread).await.context("MCP call")?;
        self.interrupted_turn(&mut wire, &thread).await.context("interrupted turn")?;
        wire = self.cut_turn(wire, &thread).await.context("turn over two connections")?;
        self.other_requests(&mut wire).await.context("requests")?;
        self.turn(&mut wire, &thread, TurnKind::Text).await?;
        if let Some(earlier) = self.earlier.replace(thread) {
            wire.call("thread/archive", json!({ "threadId": earlier })).await?;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Wire> {
        let mut wire = Wire::connect(self.target.port).await?;
        wire.initialize_with_cursor().await?;
        add_one(&self.count.connections);
        Ok(wire)
    }

    /// Runs a turn, which must complete. Its questions are answered; a command that does not end is killed.
    async fn turn(&self, wire: &mut Wire, thread: &str, kind: TurnKind) -> Result<()> {
        let tag = format!("tag-{thread}");
        let id = wire.post("turn/start", turn(thread, &kind.prompt(&tag))).await?;
        loop {
            match next_event(wire, id).await? {
                TurnEvent::Asked(request) => {
                    let decision = if self.count.rounds().is_multiple_of(2) { "accept" } else { "decline" };
                    wire.answer(&request, json!({ "decision": decision })).await?;
                    add_one(&self.count.approvals);
                }
                TurnEvent::CommandStarted if kind == TurnKind::Endless => self.kill_command(&tag).await?,
                TurnEvent::CommandStarted => add_one(&self.count.commands),
                TurnEvent::Ended(turn) => {
                    ensure!(turn["status"] == "completed", "the turn ended as {turn}");
                    break;
                }
            }
        }
        self.end_turn().await;
        Ok(())
    }

    /// Kills a command as soon as it runs.
    async fn kill_command(&self, tag: &str) -> Result<()> {
        for _ in 0..1000 {
            if processes::kill_matching(self.target.server, "sh", tag)? > 0 {
                add_one(&self.count.kills);
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        anyhow::bail!("the command did not start")
    }

    async fn patch(&self, wire: &mut Wire, thread: &str) -> Result<()> {
        self.turn(wire, thread, TurnKind::Patch).await?;
        let file = Path::new(&self.target.workspace).join(format!("tag-{thread}"));
        fs::remove_file(file).context("the patch has no effect")
    }

    /// Calls the tool of an MCP server. Every third time, the server is killed afterwards.
    async fn mcp_call(&self, wire: &mut Wire, thread: &str) -> Result<()> {
        let _alone = self.count.mcp_server.lock().await;
        self.turn(wire, thread, TurnKind::Mcp).await?;
        add_one(&self.count.mcp_calls);
        if self.count.rounds().is_multiple_of(3) {
            processes::kill_matching(self.target.server, "codicil-bench", "mcp-server")?;
            add_one(&self.count.kills);
        }
        Ok(())
    }

    /// Interrupts a turn whose model does not answer.
    async fn interrupted_turn(&self, wire: &mut Wire, thread: &str) -> Result<()> {
        let started = wire.call("turn/start", turn(thread, &TurnKind::Hanging.prompt("none"))).await?;
        let id = wire
            .post("turn/interrupt", json!({ "threadId": thread, "turnId": started["turn"]["id"] }))
            .await?;
        loop {
            if let TurnEvent::Ended(turn) = next_event(wire, id).await? {
                ensure!(turn["status"] == "interrupted", "the turn ended as {turn}");
                break;
            }
        }
        self.end_turn().await;
        Ok(())
    }

    /// Cuts the connection in the middle of an answer and receives the rest on another one, by the cursor. Returns that.
    async fn cut_turn(&self, mut wire: Wire, thread: &str) -> Result<Wire> {
        let id = wire.post("turn/start", turn(thread, &TurnKind::Slow.prompt("none"))).await?;
        let mut position = Value::Null;
        let mut deltas = 0;
        wire.until(|message| {
            if let Some(seq) = message.seq {
                position = seq.into();
            }
            deltas += usize::from(message.is("item/agentMessage/delta"));
            (deltas == DELTAS_BEFORE_CUT).then_some(())
        })
        .await?;
        drop(wire);
        let mut wire = self.connect().await?;
        wire.post("codicil/subscribe", json!({ "threadId": thread, "after": position })).await?;
        loop {
            if let TurnEvent::Ended(turn) = next_event(&mut wire, id).await? {
                ensure!(turn["status"] == "completed", "the turn ended as {turn}");
                break;
            }
        }
        self.end_turn().await;
        Ok(wire)
    }

    /// Lists threads, runs a command of the client, and loads and leaves an earlier thread.
    async fn other_requests(&self, wire: &mut Wire) -> Result<()> {
        wire.call("thread/list", json!({ "limit": 20 })).await?;
        let params = json!({ "command": ["seq", "1", "100"], "cwd": self.target.workspace });
        wire.call("command/exec", params).await?;
        add_one(&self.count.commands);
        if let Some(earlier) = &self.earlier {
            wire.call("thread/resume", json!({ "threadId": earlier })).await?;
            wire.call("thread/unsubscribe", json!({ "threadId": earlier })).await?;
        }
        Ok(())
    }

    async fn end_turn(&self) {
        add_one(&self.count.turns);
        sleep(self.target.pause).await;
    }
}

/// Reads up to the next event of a turn. `id` is a request that must not fail.
async fn next_event(wire: &mut Wire, id: i64) -> Result<TurnEvent> {
    wire.until(|message| {
        if message.answers() == Some(id) {
            return message.result().err().map(Err);
        }
        if message.is("turn/completed") {
            return Some(Ok(TurnEvent::Ended(message.params()["turn"].take())));
        }
        if let Some(request) = message.request_id() {
            return Some(Ok(TurnEvent::Asked(request)));
        }
        let starts_command =
            message.is("item/started") && message.params()["item"]["type"] == "commandExecution";
        starts_command.then_some(Ok(TurnEvent::CommandStarted))
    })
    .await?
}
