//! `codicil app-server`.

use std::env;

use anyhow::{Context, bail};
use codicil_config::{CommandLineFlags, ConfigQuery, ConfigSources, ConfigStore, HomeDirectory, Strictness};
use codicil_sandbox::MachineProbe;
use codicil_server::{ListenAddress, Server, ServerSetup, WsAuth};
use codicil_store::Store;

use crate::{
    args::{AppServerArgs, OverrideArgs, WsAuthArgs, WsAuthMode},
    descriptors,
    ending::{EndSignals, ParentProcess},
    export, logging, version,
};

/// Clocks may be this far apart when signed tokens are checked, unless said otherwise.
const DEFAULT_CLOCK_SKEW_SECONDS: u64 = 30;

pub fn run(overrides: OverrideArgs, args: AppServerArgs) -> anyhow::Result<()> {
    if let Some(export) = args.export {
        return export::run(export);
    }
    let parent = ParentProcess::now();
    logging::init();
    descriptors::raise_limit();
    log_confinement();
    let auth = ws_auth(&args.auth)?;
    let config = config(&overrides)?;
    codicil_config::remove_leftovers(config.home().path());
    let setup = ServerSetup {
        cwd: env::current_dir().context("the current directory is gone")?,
        store: Store::open(config.home().path().to_path_buf())?,
        config,
        announced_version: version::announced(),
        allow_unauthenticated: args.auth.ws_allow_unauthenticated,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(Server::new(setup), args.listen, auth, parent));
    // A thread may still be blocked in a read of standard input; it ends with the process.
    runtime.shutdown_background();
    result
}

async fn serve(
    server: Server,
    listen: ListenAddress,
    auth: WsAuth,
    parent: ParentProcess,
) -> anyhow::Result<()> {
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    let over_stdio = listen == ListenAddress::Stdio;
    let stop = async {
        tokio::select! {
            _ = signals.received() => {}
            () = parent.gone(), if over_stdio => {}
        }
    };
    let serving = server.serve(listen, auth);
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => Ok(result?),
        () = stop => {
            server.begin_stop();
            Ok(serving.await?)
        }
    }
}

fn ws_auth(args: &WsAuthArgs) -> anyhow::Result<WsAuth> {
    let signed_only = [
        ("--ws-shared-secret-file", args.ws_shared_secret_file.is_some()),
        ("--ws-issuer", args.ws_issuer.is_some()),
        ("--ws-audience", args.ws_audience.is_some()),
        ("--ws-max-clock-skew-seconds", args.ws_max_clock_skew_seconds.is_some()),
    ];
    let stray =
        |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
    match args.ws_auth {
        None => match stray(&[("--ws-token-file", args.ws_token_file.is_some())]).or(stray(&signed_only)) {
            Some(flag) => bail!("{flag} needs --ws-auth"),
            None => Ok(WsAuth::None),
        },
        Some(WsAuthMode::CapabilityToken) => {
            if let Some(flag) = stray(&signed_only) {
                bail!("{flag} is for --ws-auth signed-bearer-token");
            }
            let file =
                args.ws_token_file.as_ref().context("--ws-auth capability-token needs --ws-token-file")?;
            Ok(WsAuth::capability(file)?)
        }
        Some(WsAuthMode::SignedBearerToken) => {
            if args.ws_token_file.is_some() {
                bail!("--ws-token-file is for --ws-auth capability-token");
            }
            let file = (args.ws_shared_secret_file.as_ref())
                .context("--ws-auth signed-bearer-token needs --ws-shared-secret-file")?;
            let skew = args.ws_max_clock_skew_seconds.unwrap_or(DEFAULT_CLOCK_SKEW_SECONDS);
            Ok(WsAuth::signed(file, args.ws_issuer.clone(), args.ws_audience.clone(), skew)?)
        }
    }
}

/// Says how commands will be confined, if anybody listens: finding out starts processes. The thread ends by
/// itself.
fn log_confinement() {
    let say = || match MachineProbe::cached().kind() {
        Ok(_) => tracing::info!("commands are confined by {}", MachineProbe::cached().summary()),
        Err(_) => tracing::warn!("confinement of commands: {}", MachineProbe::cached().summary()),
    };
    if tracing::enabled!(tracing::Level::INFO) {
        // Without it the server works just as well.
        let _ = std::thread::Builder::new().name("probe".into()).spawn(say);
    }
}

/// The configuration is read when it is first needed, except that a strict start checks it.
pub fn config(overrides: &OverrideArgs) -> anyhow::Result<ConfigStore> {
    let cwd = env::current_dir().context("the current directory is gone")?;
    let mut flags = CommandLineFlags::parse(&overrides.config, &cwd)?;
    for (names, on) in [(&overrides.enable, true), (&overrides.disable, false)] {
        for name in names {
            flags.switch_feature(name, on)?;
        }
    }
    let strictness = if overrides.strict_config { Strictness::Strict } else { Strictness::Lenient };
    let config = ConfigStore::new(ConfigSources {
        flags,
        strictness,
        ..ConfigSources::of(HomeDirectory::from_env()?)
    });
    if overrides.strict_config {
        config.load(&ConfigQuery::at(cwd))?;
    }
    Ok(config)
}
