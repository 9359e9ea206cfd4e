//! `codicil exec`: one turn on a server within this process, told to people or as JSON.

mod args;
mod declining;
mod human;
mod json;
mod prompt;
mod report;
mod run;
mod screen;
mod session;
mod told;
mod usage;

use std::{env, process::ExitCode, time::Duration};

use anyhow::Context;
use codicil_client::{Client, ClientLimits, ClientTimeouts};
use tracing::level_filters::LevelFilter;

pub use self::{
    args::{ExecArgs, SandboxFlag},
    human::HumanReport,
    screen::ReportScreen,
    session::somebodys,
};
use self::{
    declining::DeclineHandler,
    report::ExecReport,
    run::{ExecRun, ExecTask},
    session::ExecThread,
};
use crate::{args::OverrideArgs, in_process, logging};

/// How a run ended, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecOutcome {
    Completed,
    Failed,
    /// By a signal.
    Interrupted,
}

impl From<ExecOutcome> for ExitCode {
    fn from(ending: ExecOutcome) -> Self {
        match ending {
            ExecOutcome::Completed => Self::SUCCESS,
            ExecOutcome::Failed => Self::FAILURE,
            ExecOutcome::Interrupted => Self::from(130),
        }
    }
}

pub fn run(mut overrides: OverrideArgs, mut exec: ExecArgs) -> anyhow::Result<ExitCode> {
    logging::init_at(LevelFilter::ERROR);
    let (which, argument) = exec.which()?;
    let options = exec.options;
    let cwd = session::directory(&options)?;
    let config = session::config(&mut overrides, &options, &cwd)?;
    let schema = options.output_schema.as_deref().map(prompt::schema).transpose()?;
    let input = prompt::input(prompt::read(argument)?, &options.image, &env::current_dir()?)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ending = runtime.block_on(async {
        let server = in_process::serve(config, cwd.clone())?;
        let (declining, declined) = DeclineHandler::new();
        let (client, events) = in_process::client(&server, builder(options.json, declining)).await?;
        let mut report = ExecReport::new(&options);
        let session = match ExecThread::open(&client, &which, &options, &overrides, &cwd).await {
            Ok(session) => session,
            Err(error) => {
                report.refused(&error)?;
                return Err(error);
            }
        };
        let task = ExecTask { input, output_schema: schema };
        let ending = ExecRun::new(&client, &session, (events, declined), &mut report).turn(task).await;
        drop(client);
        server.stop().await;
        let (ending, message) = ending?;
        if let Some(path) = &options.output_last_message {
            std::fs::write(path, message)
                .with_context(|| format!("cannot write the last message to {}", path.display()))?;
        }
        Ok(ending)
    });
    // What still blocks, such as a second signal's wait, ends with the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ending.map(ExitCode::from)
}

/// A client that reads everything it is told, and needs no deltas where only whole items are printed.
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
