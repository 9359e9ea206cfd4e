//! Runs the demo: a server, a thread, a turn, the end of the server, a second server, and the thread again.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use codicil_client::{
    Client, ClientEvent, CompletedTurn, HandlerAnswer, IncludeTurns, RequestHandler,
    protocol::{
        CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, ServerNotification, Thread,
        ThreadStart, ThreadStartParams,
    },
    resume, turn,
};
use codicil_sandbox::MachineProbe;
use tokio::sync::{mpsc, oneshot};

use super::{
    checks::{self, CheckVerdict, DemoCheck, TurnEvidence},
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

/// An approval request, and the channel for its answer.
struct TourQuestion {
    command: String,
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
        let question = TourQuestion {
            command: params.command.unwrap_or_default(),
            reason: params.reason.unwrap_or_default(),
            answer,
        };
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
        let builder = Client::builder().name("codicil-demo", env!("CARGO_PKG_VERSION"));
        let client =
            builder.clone().handler(QuestionForwarder(questions)).connect(self.home.server()?).await?;
        let took = started_at.elapsed().as_millis();
        self.print(&format!("`codicil app-server` was started and answered after {took} ms."))?;

        self.heading("2. A thread")?;
        let params = ThreadStartParams::default();
        let started = client.call::<ThreadStart>(params).await?;
        let thread = started.thread;
        self.print(&format!("{} works in {}.", thread.id, started.cwd))?;
        let sandbox = tokio::task::spawn_blocking(|| MachineProbe::cached().kind()).await?;
        self.print(&match &sandbox {
            Ok(kind) => format!("Its commands can read everything and write only there, confined by {kind}."),
            Err(reason) => {
                format!("Its commands cannot be confined on this machine and are refused: {reason}")
            }
        })?;

        self.heading("3. A turn")?;
        let (done, deltas, approved) = self.turn(&client, &thread, asked).await?;
        let no_sandbox = sandbox.as_ref().err().map(String::as_str);
        let evidence = TurnEvidence { items: &done.items, deltas, asked: &approved, no_sandbox };
        let mut checks = checks::check_turn(&evidence, self.home);

        self.heading("4. Another server")?;
        client.close().await;
        let client = builder.connect(self.home.server()?).await?;
        let stored = client.resume_thread(resume(&thread.id)).await?;
        checks.push(checks::check_history(&stored, &done.items));
        self.print("The first server has ended. A second one has loaded the thread.")?;
        let question = "What did you do?";
        self.print(&self.palette.bold(&format!("> {question}")))?;
        let again = client.run_turn(turn(&thread.id, question)).await?;
        self.print(&again.agent_message)?;
        let turns = client.read_thread(&thread.id, IncludeTurns::Yes).await?.turns.len();
        client.close().await;

        self.heading("What was shown")?;
        let is_good = self.print_verdicts(&checks)?;
        self.print(
            &self.palette.dim(&format!("{turns} turns, {:.1} s", started_at.elapsed().as_secs_f64())),
        )?;
        self.print("\nNext: `codicil exec \"…\"` runs one turn with a model of yours; `codicil app-server` serves clients.")?;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Runs and shows the first turn. Returns it with the number of message deltas and the approved commands.
    async fn turn(
        &self,
        client: &Client,
        thread: &Thread,
        mut questions: mpsc::Receiver<TourQuestion>,
    ) -> anyhow::Result<(CompletedTurn, usize, Vec<String>)> {
        let task = "Please fix the greeting in this directory.";
        self.print(&self.palette.bold(&format!("> {task}")))?;
        let screen = ReportScreen::to(Box::new(io::stdout()), Box::new(io::stdout()), self.palette);
        let mut report = HumanReport::on(screen, &thread.cwd);
        let mut running = client.turn(turn(&thread.id, task)).await?;
        let mut deltas = 0;
        let mut approved = Vec::new();
        loop {
            tokio::select! {
                biased;
                event = running.next() => match event {
                    Some(ClientEvent::Notification(event)) => {
                        deltas += usize::from(matches!(event, ServerNotification::AgentMessageDelta(_)));
                        report.event(&event)?;
                    }
                    Some(ClientEvent::Missed(_) | ClientEvent::Snapshot(_)) => {}
                    None => break,
                },
                Some(question) = questions.recv() => {
                    report.line(&self.palette.yellow(&format!("? {}", question.reason)))?;
                    report.line(&self.palette.yellow("  You would decide here. The demo approves it once."))?;
                    approved.push(question.command);
                    // The server may have cancelled the request.
                    let _ = question.answer.send(CommandExecutionApprovalDecision::Accept);
                }
            }
        }
        Ok((running.finish().await?, deltas, approved))
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
