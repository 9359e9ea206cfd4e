//! `codicil exec`: runs one turn on a server within this process, and reports it as text or as JSON.

mod args;
mod decline;
mod human;
mod in_process;
mod json;
mod json_events;
mod prompt;
mod report;
mod run;
mod screen;
mod thread;
mod usage;

use std::{env, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use codicil_client::{Client, ClientLimits, ClientTimeouts};
use codicil_config::ConfigQuery;
use codicil_server::Server;
use tracing::level_filters::LevelFilter;

pub use self::{
    args::{ExecArgs, SandboxFlag},
    human::HumanReport,
    screen::ReportScreen,
};
use self::{
    args::{ExecOptions, ThreadChoice},
    decline::DeclineHandler,
    report::ExecReport,
    run::{ExecRun, ExecTask, ReasoningOutput},
    thread::ExecThread,
};
use crate::{args::OverrideArgs, logging};

/// What the command line says about a run.
struct ExecSettings<'a> {
    choice: &'a ThreadChoice,
    options: &'a ExecOptions,
    overrides: &'a OverrideArgs,
    cwd: &'a Path,
    reasoning: ReasoningOutput,
}

/// How a run ended, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecOutcome {
    Completed,
    Failed,
    /// Ended by a signal.
    Interrupted,
}

impl From<ExecOutcome> for ExitCode {
    fn from(outcome: ExecOutcome) -> Self {
        match outcome {
            ExecOutcome::Completed => Self::SUCCESS,
            ExecOutcome::Failed => Self::FAILURE,
            ExecOutcome::Interrupted => Self::from(130),
        }
    }
}

pub fn run(mut overrides: OverrideArgs, mut exec: ExecArgs) -> anyhow::Result<ExitCode> {
    logging::init_at(LevelFilter::ERROR);
    let (choice, argument) = exec.thread_and_prompt()?;
    let options = exec.options;
    let cwd = thread::directory(&options)?;
    let config = thread::config(&mut overrides, &options, &cwd)?;
    let hides_reasoning = config.load(&ConfigQuery::at(&cwd))?.settings.hide_agent_reasoning == Some(true);
    let reasoning = if hides_reasoning { ReasoningOutput::Hidden } else { ReasoningOutput::Shown };
    let schema = options.output_schema.as_deref().map(prompt::schema).transpose()?;
    let input = prompt::input(prompt::read(argument)?, &options.image, &env::current_dir()?)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let server = in_process::serve(config, &options.database, cwd.clone()).await?;
        let task = ExecTask { input, output_schema: schema };
        let settings =
            ExecSettings { choice: &choice, options: &options, overrides: &overrides, cwd: &cwd, reasoning };
        let ran = run_turn(&server, &settings, task).await;
        // Also after a failure: a server over a database frees the thread when it stops.
        server.stop().await;
        let (outcome, message) = ran?;
        if let Some(path) = &options.output_last_message {
            std::fs::write(path, message)
                .with_context(|| format!("cannot write the last message to {}", path.display()))?;
        }
        Ok(outcome)
    });
    // Threads that still block end with the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map(ExitCode::from)
}

/// Runs the turn on a client of the server. Returns how it ended, and the agent's last message.
async fn run_turn(
    server: &Server,
    run: &ExecSettings<'_>,
    task: ExecTask,
) -> anyhow::Result<(ExecOutcome, String)> {
    let ExecSettings { choice, options, overrides, cwd, reasoning } = run;
    let (declining, declined) = DeclineHandler::new();
    let (client, events) = in_process::client(server, builder(options.json, declining)).await?;
    let mut report = ExecReport::new(options);
    let thread = match ExecThread::open(&client, choice, options, overrides, cwd).await {
        Ok(thread) => thread,
        Err(error) => {
            report.thread_failed(&error)?;
            return Err(error);
        }
    };
    let run = ExecRun::new(&client, &thread, (events, declined), &mut report);
    run.with_reasoning(*reasoning).turn(task).await
}

/// Returns the builder of the client. It drops no events, and opts out of deltas where only whole items are
/// printed.
fn builder(is_json: bool, declining: DeclineHandler) -> codicil_client::ClientBuilder {
    const DELTAS: [&str; 4] = [
        "item/agentMessage/delta",
        "item/commandExecution/outputDelta",
        "item/reasoning/summaryTextDelta",
        "item/reasoning/textDelta",
    ];
    let name = env::var("CODEX_INTERNAL_ORIGINATOR_OVERRIDE").ok().filter(|name| !name.is_empty());
    let builder = Client::builder()
        .name(name.unwrap_or_else(|| "codicil_exec".to_owned()), env!("CARGO_PKG_VERSION"))
        .title("codicil exec")
        .handler(declining)
        .timeouts(ClientTimeouts { turn: None, ..ClientTimeouts::default() })
        .limits(ClientLimits { events: 100_000, event_bytes: 256 << 20, ..ClientLimits::default() });
    if is_json { builder.opt_out(DELTAS) } else { builder }
}
