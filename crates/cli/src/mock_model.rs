//! `codicil mock-model`: a model provider on loopback that follows a script, for the tests of programs that
//! use an app-server.
//!
//! It prints its base address as the first line, which is all that a test needs to configure a provider, and
//! serves until it is told to end or its parent is gone.

use std::{
    fs::File,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use codicil_model::Script;
use codicil_testkit::{ModelServer, RecordedRequest, follow};
use serde_json::json;

use crate::ending::{EndSignals, ParentProcess};

/// How the mock is started.
#[derive(Debug, Args)]
pub struct MockModelArgs {
    /// The script to follow, in the format of the scripted provider. Without it, the built-in one.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Where to listen. Port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    pub listen: SocketAddr,
    /// Write each request to this file, one JSON object a line. Headers are left out: they hold keys.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

pub fn run(args: &MockModelArgs) -> anyhow::Result<()> {
    let script = match &args.script {
        Some(path) => Script::load(path)?,
        None => Script::builtin(),
    };
    let log = args
        .log
        .as_deref()
        .map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let log = log.transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args.listen, script, log))
}

async fn serve(listen: SocketAddr, script: Script, mut log: Option<File>) -> anyhow::Result<()> {
    let (parent, mut signals) = (ParentProcess::now(), EndSignals::listen()?);
    let answer = follow(script);
    let script = codicil_testkit::Script::new().respond_with(move |request| {
        // Before the answer begins, so that whoever has the answer finds the line.
        if let Some(log) = &mut log {
            write(log, request);
        }
        answer(request)
    });
    let server =
        ModelServer::bind(listen, script).await.with_context(|| format!("cannot listen on {listen}"))?;
    println!("{}", server.base_url());
    std::io::stdout().flush()?;
    tokio::select! {
        _ = signals.received() => {}
        () = parent.gone() => {}
    }
    Ok(())
}

/// A line that cannot be written is said once a request, and costs no answer.
fn write(log: &mut File, request: &RecordedRequest) {
    let line = json!({
        "number": request.number(),
        "method": request.method(),
        "path": request.path(),
        "body": request.body(),
    });
    if let Err(error) = log.write_all(format!("{line}\n").as_bytes()) {
        eprintln!("codicil: the log of requests: {error}");
    }
}
