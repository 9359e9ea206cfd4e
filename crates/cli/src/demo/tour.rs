//! Runs the demo: a server, a thread, a turn, a kill of the server while it waits for an answer, and the rest of the
//! turn on the next server.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use codicil_client::{
    Client, ClientEvent, HandlerAnswer, IncludeTurns, ReconnectOptions, RequestHandler,
    protocol::{
        CodicilRequestList, CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams,
        ServerNotification, Thread, ThreadItem, ThreadStart, ThreadStartParams,
    },
    turn,
};
use codicil_sandbox::MachineProbe;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    checks::{self, CheckVerdict, DemoCheck, QuestionEvidence, TurnEvidence},
    home::DemoHome,
};
use crate::{
    exec::{HumanReport, ReportScreen},
    style::{ColorChoice, Palette},
};

pub struct DemoTour<'a> {
    home: &'a DemoHome,
    palette: Palette,
}

/// Longest time for a new server after a kill.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// What was seen of the first turn.
#[derive(Default)]
struct ObservedTurn {
    /// Items in the order in which they were completed.
    items: Vec<ThreadItem>,
    /// Number of message deltas.
    deltas: usize,
    questions: Vec<QuestionEvidence>,
}

impl ObservedTurn {
    fn note(&mut self, event: &ServerNotification) {
        match event {
            ServerNotification::AgentMessageDelta(_) => self.deltas += 1,
            ServerNotification::ItemCompleted(completed) => self.items.push(completed.item.clone()),
            _ => {}
        }
    }
}

/// An approval request, and the channel for its answer.
struct TourQuestion {
    reason: String,
    answer: oneshot::Sender<CommandExecutionApprovalDecision>,
}

/// Forwards approval requests to the tour, which shows them between the other events.
struct QuestionForwarder(mpsc::Sender<TourQuestion>);

impl RequestHandler for QuestionForwarder {
    async fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        let (answer, decided) = oneshot::channel();
        let question = TourQuestion { reason: params.reason.unwrap_or_default(), answer };
        // Declined if the tour has ended.
        if self.0.send(question).await.is_err() {
            return Ok(CommandExecutionApprovalDecision::Decline);
        }
        Ok(decided.await.unwrap_or(CommandExecutionApprovalDecision::Decline))
    }
}

impl<'a> DemoTour<'a> {
    pub fn new(home: &'a DemoHome) -> Self {
        Self { home, palette: Palette::of_stdout(ColorChoice::Auto) }
    }

    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.print("Everything below really happens on this machine; only the model is scripted.")?;
        self.print("It needs no network and no key, and leaves nothing behind.")?;

        self.heading("1. A server")?;
        let started_at = Instant::now();
        let (questions, asked) = mpsc::channel(8);
        let reconnect =
            ReconnectOptions { first_delay: Duration::from_millis(20), ..ReconnectOptions::default() };
        let builder = Client::builder().name("codicil-demo", env!("CARGO_PKG_VERSION")).resilient(reconnect);
        let client = builder.handler(QuestionForwarder(questions)).connect(self.home.server()?).await?;
        let took = started_at.elapsed().as_millis();
        self.print(&format!("`codicil app-server` was started and answered after {took} ms."))?;

        self.heading("2. A thread")?;
        let started = client.call::<ThreadStart>(ThreadStartParams::default()).await?;
        let thread = started.thread;
        self.print(&format!("{} works in {}.", thread.id, started.cwd))?;
        let sandbox = tokio::task::spawn_blocking(|| MachineProbe::cached().kind()).await?;
        self.print(&match &sandbox {
            Ok(kind) => format!("Its commands can read everything and write only there, confined by {kind}."),
            Err(reason) => {
                format!("Its commands cannot be confined on this machine and are refused: {reason}")
            }
        })?;

        self.heading("3. A turn, and a crash")?;
        let observed = self.turn(&client, &thread, asked).await?;
        let stored = client.read_thread(&thread.id, IncludeTurns::Yes).await?;
        let no_sandbox = sandbox.as_ref().err().map(String::as_str);
        let ObservedTurn { items, deltas, questions } = &observed;
        let evidence = TurnEvidence { items, deltas: *deltas, questions, no_sandbox };
        let mut checks = checks::check_turn(&evidence, self.home);
        checks.push(checks::check_history(&stored, items));

        self.heading("4. Another turn")?;
        let question = "What did you do?";
        self.print(&self.palette.bold(&format!("> {question}")))?;
        self.print(&client.run_turn(turn(&thread.id, question)).await?.agent_message)?;
        let turns = client.read_thread(&thread.id, IncludeTurns::Yes).await?.turns.len();
        client.close().await;

        self.heading("What was shown")?;
        let is_good = self.print_verdicts(&checks)?;
        let seconds = started_at.elapsed().as_secs_f64();
        self.print(&self.palette.dim(&format!("2 servers, {turns} turns, {seconds:.1} s")))?;
        self.print(
            "\nNext: `codicil demo --console` shows this in your browser, and you decide; `codicil exec \"…\"` runs one turn with a \
             model of yours; `codicil app-server` serves clients.",
        )?;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Runs and shows the first turn.
    async fn turn(
        &self,
        client: &Client,
        thread: &Thread,
        mut questions: mpsc::Receiver<TourQuestion>,
    ) -> anyhow::Result<ObservedTurn> {
        let task = "Please fix the greeting in this directory.";
        self.print(&self.palette.bold(&format!("> {task}")))?;
        let screen = ReportScreen::to(Box::new(io::stdout()), Box::new(io::stdout()), self.palette);
        let mut report = HumanReport::on(screen, &thread.cwd);
        let mut running = client.turn(turn(&thread.id, task)).await?;
        let mut observed = ObservedTurn::default();
        loop {
            tokio::select! {
                biased;
                event = running.next() => match event {
                    Some(ClientEvent::Notification(event)) => {
                        observed.note(&event);
                        report.event(&event)?;
                    }
                    Some(ClientEvent::Missed(_) | ClientEvent::Snapshot(_)) => {}
                    None => break,
                },
                Some(question) = questions.recv() => {
                    observed.questions.push(self.crash(client, &question, &mut report).await?);
                    // The server may have cancelled the request.
                    let _ = question.answer.send(CommandExecutionApprovalDecision::Accept);
                }
            }
        }
        running.finish().await?;
        Ok(observed)
    }

    /// Kills the server while a question is open, and waits until the client has reached the next one.
    async fn crash(
        &self,
        client: &Client,
        question: &TourQuestion,
        report: &mut HumanReport,
    ) -> anyhow::Result<QuestionEvidence> {
        let shown = self.palette.yellow(&format!("? {}", question.reason));
        report.line(&shown)?;
        let before = open_questions(client).await?;
        let mut connections = client.connections();
        connections.mark_unchanged();
        let killed_at = Instant::now();
        self.home.kill_server().context("cannot kill the server")?;
        report.line(&self.palette.red("  Before you can answer, the server is killed (SIGKILL)."))?;
        timeout(RECONNECT_TIMEOUT, connections.changed()).await.context("there is no new server")??;
        let after = open_questions(client).await?;
        let took = killed_at.elapsed().as_millis();
        report.line(&self.palette.green(&format!(
            "  {took} ms later, another server has the thread. The client goes on at its cursor, and the question is still open:"
        )))?;
        report.line(&shown)?;
        report.line(&self.palette.yellow("  You would decide here. The demo approves it once."))?;
        Ok(QuestionEvidence { before, after })
    }

    fn print_verdicts(&self, checks: &[DemoCheck]) -> io::Result<bool> {
        for DemoCheck { claim, verdict } in checks {
            let (sign, detail) = match verdict {
                CheckVerdict::True(detail) => (self.palette.green("ok"), detail),
                CheckVerdict::False(detail) => (self.palette.red("NO"), detail),
                CheckVerdict::Unavailable(detail) => (self.palette.yellow("--"), detail),
            };
            self.print(&format!("{sign}  {claim}: {}", self.palette.dim(detail)))?;
        }
        Ok(!checks.iter().any(|check| matches!(check.verdict, CheckVerdict::False(_))))
    }

    fn heading(&self, text: &str) -> io::Result<()> {
        self.print(&format!("\n{}", self.palette.bold(text)))
    }

    fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// Returns the identities of the open questions. They stay the same when another server asks.
async fn open_questions(client: &Client) -> anyhow::Result<Vec<String>> {
    let open = client.call::<CodicilRequestList>(Default::default()).await?;
    Ok(open.data.into_iter().map(|request| request.request).collect())
}
