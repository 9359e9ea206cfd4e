//! The command line, with the reference's flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use codicil_server::ListenAddress;

use crate::{
    doctor::DoctorArgs, exec::ExecArgs, import::ImportArgs, mock_model::MockModelArgs, sandbox::SandboxArgs,
    trust::TrustArgs, version,
};

/// A little codex: an app-server for agents that works with any model.
#[derive(Debug, Parser)]
#[command(name = "codicil", version = version::LINE.as_str(), propagate_version = false)]
pub struct Cli {
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve the app-server protocol, over standard input and output unless told otherwise.
    AppServer(AppServerArgs),
    /// Run one turn without a person, and print the agent's answer.
    #[command(visible_alias = "e")]
    Exec(Box<ExecArgs>),
    /// Show what this program does, in half a minute, without a network or a key.
    Demo,
    /// Sign in: in a browser unless told otherwise.
    Login(LoginArgs),
    /// Sign out: forget the credentials that are stored.
    Logout,
    /// Take over the threads of a codex home.
    Import(ImportArgs),
    /// Serve a model that follows a script, for the tests of programs that use an app-server.
    MockModel(MockModelArgs),
    /// Make the index of stored threads anew from their files.
    Reindex,
    /// Run a command as confined as an agent's commands are.
    Sandbox(SandboxArgs),
    /// Trust a project: use its configuration, also what appeared while an agent was working in it.
    Trust(TrustArgs),
    /// Say what works here, what does not, and why.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    Completion {
        /// The shell that will read it.
        #[arg(value_enum, default_value = "bash")]
        shell: Shell,
    },
}

/// How somebody signs in.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LoginArgs {
    #[command(subcommand)]
    pub action: Option<LoginAction>,
    /// Sign in by typing a code in any browser, for a machine that has none.
    #[arg(long, conflicts_with = "with_api_key")]
    pub device_auth: bool,
    /// Read an API key from standard input, as in `printenv OPENAI_API_KEY | codicil login --with-api-key`.
    #[arg(long)]
    pub with_api_key: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum LoginAction {
    /// Say who is signed in. Exits with 1 when nobody is.
    Status,
}

/// Changes to the configuration for this process only.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct OverrideArgs {
    /// Set a configuration value: a dotted key, and a value that is read as TOML or else as a string.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    pub config: Vec<String>,
    /// Turn a feature on (the same as -c features.NAME=true).
    #[arg(long, value_name = "FEATURE", global = true)]
    pub enable: Vec<String>,
    /// Turn a feature off (the same as -c features.NAME=false).
    #[arg(long, value_name = "FEATURE", global = true)]
    pub disable: Vec<String>,
    /// Refuse to start when the configuration has a key that is not known.
    #[arg(long, global = true)]
    pub strict_config: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AppServerArgs {
    #[command(subcommand)]
    pub export: Option<ExportCommand>,
    /// Where to listen: stdio://, ws://IP:PORT or unix://PATH.
    #[arg(long, value_name = "URL", default_value = "stdio://")]
    pub listen: ListenAddress,
    /// Listen on standard input and output (the same as --listen stdio://).
    #[arg(long, conflicts_with = "listen")]
    pub stdio: bool,
    #[command(flatten)]
    pub auth: WsAuthArgs,
    /// Accepted for clients that pass it. Codicil sends no analytics.
    #[arg(long, hide = true)]
    pub analytics_default_enabled: bool,
}

/// How websocket clients prove that they may connect.
#[derive(Debug, Args)]
pub struct WsAuthArgs {
    /// How websocket clients authenticate. They send `Authorization: Bearer TOKEN` with the handshake.
    #[arg(long, value_name = "MODE", value_enum)]
    pub ws_auth: Option<WsAuthMode>,
    /// The file with the token, for --ws-auth capability-token.
    #[arg(long, value_name = "PATH")]
    pub ws_token_file: Option<PathBuf>,
    /// The file with the secret (at least 32 bytes) that signs HS256 tokens, for --ws-auth signed-bearer-token.
    #[arg(long, value_name = "PATH")]
    pub ws_shared_secret_file: Option<PathBuf>,
    /// The issuer that signed tokens must name.
    #[arg(long, value_name = "ISSUER")]
    pub ws_issuer: Option<String>,
    /// The audience that signed tokens must name.
    #[arg(long, value_name = "AUDIENCE")]
    pub ws_audience: Option<String>,
    /// How far clocks may be apart when signed tokens are checked [default: 30].
    #[arg(long, value_name = "SECONDS")]
    pub ws_max_clock_skew_seconds: Option<u64>,
    /// Let anyone who reaches a listener that is not on loopback in, because something else protects it.
    #[arg(long)]
    pub ws_allow_unauthenticated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WsAuthMode {
    /// Everyone who knows the token.
    CapabilityToken,
    /// Everyone with a token signed by the shared secret.
    SignedBearerToken,
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Write the protocol as TypeScript.
    GenerateTs(ExportArgs),
    /// Write the protocol as JSON Schema.
    GenerateJsonSchema(ExportArgs),
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The directory to write to; it is made if need be.
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Include what clients must opt in to.
    #[arg(long)]
    pub experimental: bool,
    /// Accepted for scripts that pass it. The output is formatted already.
    #[arg(short, long, value_name = "BIN", hide = true)]
    pub prettier: Option<PathBuf>,
}
