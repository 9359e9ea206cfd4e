//! `codicil demo`: shows the main functions in a few seconds, on any machine, without a network or a key.
//!
//! The demo runs a real server in a process of its own, with the real sandbox, commands, patches, approvals
//! and store. Only the model is scripted. Every claim at the end has been checked.

mod checks;
mod console;
mod home;
mod tour;

use std::{net::SocketAddr, process::ExitCode};

use anyhow::Context;
use clap::Args;
use tracing::level_filters::LevelFilter;

use self::{home::DemoHome, tour::DemoTour};
use crate::{logging, shutdown::EndSignals};

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Show the demo's thread in a browser. You answer its question there.
    #[arg(long)]
    console: bool,
    /// Where the browser reaches the console.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4510", requires = "console")]
    listen: SocketAddr,
}

pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    logging::init_at(LevelFilter::ERROR);
    let home = DemoHome::new().context("cannot create a temporary directory")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        if args.console {
            return console::show(&home, args.listen, &mut signals).await;
        }
        tokio::select! {
            done = DemoTour::new(&home).run() => done,
            // The temporary directory is removed in this case too.
            _ = signals.received() => Ok(ExitCode::from(130)),
        }
    });
    drop(runtime);
    drop(home);
    code
}
