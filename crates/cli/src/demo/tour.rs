//! The tour: a server, a thread, a turn, the end of the server, another one, and the thread again.

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
    turn,
};
use codicil_sandbox::MachineProbe;
use tokio::sync::{mpsc, oneshot};

use super::{
    checks::{self, CheckVerdict, DemoCheck, TurnEvidence},
    place::DemoHome,
};
use crate::{
    exec::{HumanReport, ReportScreen},
    style::{ColorChoice, Palette},
};

pub struct DemoTour<'a> {
    place: &'a DemoHome,
    palette: Palette,
}

/// A question, and where its answer goes.
struct TourQuestion {
    command: String,
    reason: String,
    answer: oneshot::Sender<CommandExecutionApprovalDecision>,
}

/// Passes questions on to the tour, which puts them on the screen in their place.
struct QuestionForwarder(mpsc::Sender<TourQuestion>);

impl RequestHandler for QuestionForwarder {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        let (answer, decided) = oneshot::channel();
        let question = TourQuestion {
            command: asked.command.unwrap_or_default(),
            reason: asked.reason.unwrap_or_default(),
            answer,
        };
        let passed_on = self.0.send(question).await.is_ok();
        // Without anybody to decide, the answer is no.
        match passed_on {
            true => Ok(decided.await.unwrap_or(CommandExecutionApprovalDecision::Decline)),
            false => Ok(CommandExecutionApprovalDecision::Decline),
        }
    }
}

impl<'a> DemoTour<'a> {
    pub fn new(place: &'a DemoHome) -> Self {
        Self { place, palette: Palette::of_stdout(ColorChoice::Auto) }
    }

    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.say("Everything below really happens on this machine; only the model follows a script.")?;
        self.say("It needs no network and no key, and leaves nothing behind.")?;

        self.heading("1. A server")?;
        let began = Instant::now();
        let (questions, asked) = mpsc::channel(8);
        let builder = Client::builder().name("codicil-demo", env!("CARGO_PKG_VERSION"));
        let client =
            builder.clone().handler(QuestionForwarder(questions)).connect(self.place.server()?).await?;
        let took = began.elapsed().as_millis();
        self.say(&format!("`codicil app-server` was started and answered after {took} ms."))?;

        self.heading("2. A thread")?;
        let params = ThreadStartParams::default();
        let started = client.call::<ThreadStart>(params).await?;
        let thread = started.thread;
        self.say(&format!("{} works in {}.", thread.id, started.cwd))?;
        let sandbox = tokio::task::spawn_blocking(|| MachineProbe::cached().kind()).await?;
        self.say(&match &sandbox {
            Ok(kind) => format!("Its commands may read everything and write there only, confined by {kind}."),
            Err(reason) => {
                format!("Its commands cannot be confined on this machine and are refused: {reason}")
            }
        })?;

        self.heading("3. A turn")?;
        let (done, pieces, allowed) = self.turn(&client, &thread, asked).await?;
        let no_sandbox = sandbox.as_ref().err().map(String::as_str);
        let seen = TurnEvidence { items: &done.items, pieces, asked: &allowed, no_sandbox };
        let mut checks = checks::of_turn(&seen, self.place);

        self.heading("4. Another server")?;
        client.close().await;
        let client = builder.connect(self.place.server()?).await?;
        let stored = client.resume_thread(&thread.id).await?;
        checks.push(checks::of_history(&stored, &done.items));
        self.say("The first server has ended. A second one was started and given the thread's id.")?;
        let question = "What did you do?";
        self.say(&self.palette.bold(&format!("> {question}")))?;
        let again = client.run_turn(turn(&thread.id, question)).await?;
        self.say(&again.agent_message)?;
        let turns = client.read_thread(&thread.id, IncludeTurns::Yes).await?.turns.len();
        client.close().await;

        self.heading("What was shown")?;
        let is_good = self.verdict(&checks)?;
        self.say(&self.palette.dim(&format!("{turns} turns, {:.1} s", began.elapsed().as_secs_f64())))?;
        self.say("\nNext: `codicil exec \"…\"` runs one turn with a model of yours; `codicil app-server` serves clients.")?;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Runs the first turn in front of whoever watches. Returns it, the pieces its messages came in, and the
    /// commands that were allowed.
    async fn turn(
        &self,
        client: &Client,
        thread: &Thread,
        mut questions: mpsc::Receiver<TourQuestion>,
    ) -> anyhow::Result<(CompletedTurn, usize, Vec<String>)> {
        let task = "Please mend the greeting in this directory.";
        self.say(&self.palette.bold(&format!("> {task}")))?;
        let on = ReportScreen::to(Box::new(io::stdout()), Box::new(io::stdout()), self.palette);
        let mut screen = HumanReport::on(on, &thread.cwd);
        let mut running = client.turn(turn(&thread.id, task)).await?;
        let (mut pieces, mut allowed) = (0, Vec::new());
        loop {
            tokio::select! {
                biased;
                event = running.next() => match event {
                    Some(ClientEvent::Notification(event)) => {
                        pieces += usize::from(matches!(event, ServerNotification::AgentMessageDelta(_)));
                        screen.event(&event)?;
                    }
                    Some(ClientEvent::Missed(_)) => {}
                    None => break,
                },
                Some(question) = questions.recv() => {
                    screen.line(&self.palette.yellow(&format!("? {}", question.reason)))?;
                    screen.line(&self.palette.yellow("  A person would decide here. The demo says: yes, this time."))?;
                    allowed.push(question.command);
                    // The server may have gone on without an answer.
                    let _ = question.answer.send(CommandExecutionApprovalDecision::Accept);
                }
            }
        }
        Ok((running.finish().await?, pieces, allowed))
    }

    fn verdict(&self, checks: &[DemoCheck]) -> io::Result<bool> {
        for DemoCheck { claim, verdict } in checks {
            let (sign, detail) = match verdict {
                CheckVerdict::True(detail) => (self.palette.green("ok"), detail),
                CheckVerdict::False(detail) => (self.palette.red("NO"), detail),
                CheckVerdict::NotHere(detail) => (self.palette.yellow("--"), detail),
            };
            self.say(&format!("{sign}  {claim}: {}", self.palette.dim(detail)))?;
        }
        Ok(!checks.iter().any(|check| matches!(check.verdict, CheckVerdict::False(_))))
    }

    fn heading(&self, text: &str) -> io::Result<()> {
        self.say(&format!("\n{}", self.palette.bold(text)))
    }

    fn say(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}
