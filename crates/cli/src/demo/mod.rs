//! `codicil demo`: shows the main functions in half a minute, on any machine, without a network or a key.
//!
//! The demo runs a real server in a process of its own, with the real sandbox, commands, patches, approvals
//! and store. Only the model is scripted. Every claim at the end has been checked.

mod checks;
mod home;
mod tour;

use std::process::ExitCode;

use anyhow::Context;
use tracing::level_filters::LevelFilter;

use self::{home::DemoHome, tour::DemoTour};
use crate::{logging, shutdown::EndSignals};

pub fn run() -> anyhow::Result<ExitCode> {
    logging::init_at(LevelFilter::ERROR);
    let home = DemoHome::new().context("cannot create a temporary directory")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
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
