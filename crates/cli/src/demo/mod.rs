//! `codicil demo`: the main job of this program in half a minute, on any machine, without a network or a key.
//!
//! The server is the real one, in a process of its own, and so are the sandbox, the commands, the patch, the
//! approval and the store. Only the model follows a script. What is claimed at the end has been looked at.

mod checks;
mod place;
mod tour;

use std::process::ExitCode;

use anyhow::Context;
use tracing::level_filters::LevelFilter;

use self::{place::DemoHome, tour::DemoTour};
use crate::{ending::EndSignals, logging};

pub fn run() -> anyhow::Result<ExitCode> {
    logging::init_at(LevelFilter::ERROR);
    let place = DemoHome::new().context("cannot make a temporary directory")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        tokio::select! {
            done = DemoTour::new(&place).run() => done,
            // What was made is removed all the same.
            _ = signals.received() => Ok(ExitCode::from(130)),
        }
    });
    drop(runtime);
    drop(place);
    code
}
