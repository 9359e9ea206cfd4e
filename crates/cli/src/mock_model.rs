//! `codicil mock-model`: a model provider on loopback that follows a script, for tests of programs that use
//! an app-server.
//!
//! It prints its base URL as the first line, which is all that a test needs to configure a provider, and
//! serves until it receives a signal or its parent exits.

use std::{
    fs::File,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use codicil_model::Script;
use codicil_testkit::{ModelServer, RecordedRequest, script_file_replies};
use serde_json::json;

use crate::shutdown::{EndSignals, ParentProcess};

#[derive(Debug, Args)]
pub struct MockModelArgs {
    /// The script to follow, in the format of the scripted provider [default: a built-in script].
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Where to listen. Port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    /// Write each request to this file, one JSON object a line. Headers are omitted, because they hold keys.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub fn run(args: &MockModelArgs) -> anyhow::Result<ExitCode> {
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
    runtime.block_on(serve(args.listen, script, log))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(listen: SocketAddr, script: Script, mut log: Option<File>) -> anyhow::Result<()> {
    let parent = ParentProcess::current();
    let mut signals = EndSignals::listen()?;
    let answer = script_file_replies(script);
    let script = codicil_testkit::Script::new().respond_with(move |request| {
        // Logged before the answer begins, so that a client that has the answer finds the line.
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
        () = parent.exited() => {}
    }
    Ok(())
}

/// Writes a request to the log. A failure is printed and does not affect the answer.
fn write(log: &mut File, request: &RecordedRequest) {
    let line = json!({
        "number": request.number(),
        "method": request.method(),
        "path": request.path(),
        "body": request.body(),
    });
    if let Err(error) = log.write_all(format!("{line}\n").as_bytes()) {
        eprintln!("codicil: cannot write the request log: {error}");
    }
}
