//! `codicil demo --console`: the demo's turn in a browser, where a person answers its question.

use std::{future::pending, net::SocketAddr, process::ExitCode};

use codicil_client::{
    Client, ask,
    protocol::{ThreadStart, ThreadStartParams},
    turn,
};
use codicil_config::{ConfigSources, ConfigStore, HomeDirectory};
use codicil_store::Store;

use super::home::DemoHome;
use crate::{
    console::{self, RunningConsole},
    shutdown::EndSignals,
};

pub async fn show(home: &DemoHome, listen: SocketAddr, signals: &mut EndSignals) -> anyhow::Result<ExitCode> {
    let sources = ConfigSources::of(HomeDirectory::new(home.home())?);
    // Never in a database: the demo leaves nothing behind.
    let server = console::server(ConfigStore::new(sources), Store::open(home.home())?)?;
    let options = console::console_options(listen, None, &Default::default(), &home.home())?;
    let console = RunningConsole::start(console::in_process(&server), options).await?;
    // The question is left to the person in the browser.
    let builder =
        Client::builder().name("codicil-demo", env!("CARGO_PKG_VERSION")).handler(ask(|_| pending()));
    let client = builder.connect(console::in_process(&server)).await?;
    let cwd = Some(home.work().to_string_lossy().into_owned());
    let thread = client.call::<ThreadStart>(ThreadStartParams { cwd, ..Default::default() }).await?.thread;
    client.start_turn(turn(&thread.id, "Please fix the greeting in this directory.")).await?;
    println!("An agent with a scripted model is working on a thread, and is going to ask you something.");
    console.announce(None)?;
    signals.received().await;
    let stopped = console.stop().await;
    client.close().await;
    server.stop().await;
    stopped.map(|()| ExitCode::SUCCESS)
}
