//! The subcommands, and the options that all of them share.
//!
//! Flags have the names of the reference's, so that scripts written for it work.

use std::env;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use codicil_config::{CommandLineFlags, ConfigQuery, ConfigSources, ConfigStore, HomeDirectory, Strictness};

use crate::{
    app_server::AppServerArgs, completion::CompletionArgs, console::ConsoleArgs, debug::DebugArgs,
    demo::DemoArgs, doctor::DoctorArgs, exec::ExecArgs, import::ImportArgs, login::LoginArgs, man::ManArgs,
    mock_model::MockModelArgs, nodes::NodesArgs, sandbox::SandboxArgs, store::StoreArgs, trust::TrustArgs,
    version,
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
    /// Serve the app-server protocol, by default on standard input and output.
    AppServer(AppServerArgs),
    /// Run one turn without interaction, and print the agent's answer.
    #[command(visible_alias = "e")]
    Exec(Box<ExecArgs>),
    /// Show the threads of a server in a browser, and talk to them there.
    Console(ConsoleArgs),
    /// Show what this program does, in a few seconds, without a network or a key.
    Demo(DemoArgs),
    /// Sign in, by default with a browser.
    Login(LoginArgs),
    /// Sign out and delete the stored credentials.
    Logout,
    /// Import the threads of a codex home.
    Import(ImportArgs),
    /// Serve a model that follows a script, for tests of programs that use an app-server.
    MockModel(MockModelArgs),
    /// Show the servers that share a database.
    Nodes(NodesArgs),
    /// Rebuild the index of stored threads from their files.
    Reindex,
    /// Look after the stored threads.
    Store(StoreArgs),
    /// Run a command in the sandbox that agents' commands run in.
    Sandbox(SandboxArgs),
    /// Trust a project: use its configuration, including files that appeared while an agent was working in
    /// it.
    Trust(TrustArgs),
    /// Check the installation, and explain what does not work.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    Completion(CompletionArgs),
    /// Print the manual page, or write those of all subcommands.
    Man(ManArgs),
    /// Print the messages of a connection.
    Debug(DebugArgs),
}

/// Changes to the configuration for this process only.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct OverrideArgs {
    /// Set a configuration value: a dotted key, and a value that is parsed as TOML or else used as a string.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    pub config: Vec<String>,
    /// Turn a feature on (the same as -c features.NAME=true).
    #[arg(long, value_name = "FEATURE", global = true)]
    pub enable: Vec<String>,
    /// Turn a feature off (the same as -c features.NAME=false).
    #[arg(long, value_name = "FEATURE", global = true)]
    pub disable: Vec<String>,
    /// Refuse to start if the configuration has an unknown key.
    #[arg(long, global = true)]
    pub strict_config: bool,
}

impl OverrideArgs {
    /// Refuses overrides for a command that does not read the configuration, on which they would have no effect.
    pub fn check_used_by(&self, command: &CliCommand) -> anyhow::Result<()> {
        let unaffected = match command {
            CliCommand::Demo(_) => "demo",
            CliCommand::Import(_) => "import",
            CliCommand::MockModel(_) => "mock-model",
            CliCommand::Reindex => "reindex",
            CliCommand::Completion(_) => "completion",
            CliCommand::Man(_) => "man",
            _ => return Ok(()),
        };
        match self.to_arguments().first() {
            Some(flag) => {
                anyhow::bail!(
                    "`codicil {unaffected}` does not read the configuration, so {flag} has no effect on it"
                )
            }
            None => Ok(()),
        }
    }

    /// Returns the arguments that make the same changes, for another process of this program.
    pub fn to_arguments(&self) -> Vec<&str> {
        let named = [("--config", &self.config), ("--enable", &self.enable), ("--disable", &self.disable)];
        let named = named
            .into_iter()
            .flat_map(|(flag, values)| values.iter().flat_map(move |value| [flag, value.as_str()]));
        named.chain(self.strict_config.then_some("--strict-config")).collect()
    }

    /// Returns the configuration with these overrides. Files are read when they are first needed, except with
    /// `--strict-config`, which checks them now.
    pub fn config_store(&self) -> anyhow::Result<ConfigStore> {
        let cwd = env::current_dir().context("the current directory is gone")?;
        let mut flags = CommandLineFlags::parse(&self.config, &cwd)?;
        for (names, on) in [(&self.enable, true), (&self.disable, false)] {
            for name in names {
                flags.switch_feature(name, on)?;
            }
        }
        let strictness = if self.strict_config { Strictness::Strict } else { Strictness::Lenient };
        let config = ConfigStore::new(ConfigSources {
            flags,
            strictness,
            ..ConfigSources::of(HomeDirectory::from_env()?)
        });
        if self.strict_config {
            config.load(&ConfigQuery::at(cwd))?;
        }
        Ok(config)
    }
}
