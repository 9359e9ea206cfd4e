//! The arguments of `codicil exec`. Flags have the names of the reference's.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use codicil_protocol::SandboxMode;

use crate::{database::OwnServerArgs, style::ColorChoice};

/// Runs one turn without interaction. The agent's answer goes to standard output, everything else to standard
/// error.
#[derive(Debug, Args)]
pub struct ExecArgs {
    #[command(subcommand)]
    pub command: Option<ExecCommand>,
    #[command(flatten)]
    pub options: ExecOptions,
    /// The prompt. `-` or no argument reads it from standard input; if both are given, standard input is
    /// appended.
    pub prompt: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ExecCommand {
    /// Resume a stored thread (the same as --resume and --last).
    Resume {
        /// The thread's id or name; with --last, the prompt.
        thread: Option<String>,
        /// The prompt; `-` reads it from standard input.
        prompt: Option<String>,
    },
}

/// Flags that may come before and after the subcommand.
#[derive(Debug, Default, Args)]
pub struct ExecOptions {
    /// Resume a stored thread by its id or name.
    #[arg(long, value_name = "THREAD", global = true)]
    pub resume: Option<String>,
    /// Resume the most recently used thread of this directory.
    #[arg(long, global = true, conflicts_with = "resume")]
    pub last: bool,
    /// With --last, consider the threads of all directories.
    #[arg(long, global = true)]
    pub all: bool,
    /// Print events as JSON, one per line.
    #[arg(long, visible_alias = "experimental-json", global = true)]
    pub json: bool,
    /// A file with a JSON Schema that the last message must match.
    #[arg(long, value_name = "FILE", global = true)]
    pub output_schema: Option<PathBuf>,
    /// Write the agent's last message to a file.
    #[arg(short = 'o', long, value_name = "FILE", global = true)]
    pub output_last_message: Option<PathBuf>,
    /// The model to use.
    #[arg(short, long, global = true)]
    pub model: Option<String>,
    /// The model's provider (the same as -c model_provider=NAME).
    #[arg(long, value_name = "NAME", global = true)]
    pub provider: Option<String>,
    /// The configuration profile to use.
    #[arg(short, long, value_name = "NAME", global = true)]
    pub profile: Option<String>,
    /// What commands may access.
    #[arg(short, long, value_name = "MODE", value_enum, global = true)]
    pub sandbox: Option<SandboxFlag>,
    /// Let commands write in the working directory (the same as --sandbox workspace-write).
    #[arg(long, global = true)]
    pub full_auto: bool,
    /// Run without a sandbox and without approvals. Only for environments that are sandboxed otherwise.
    #[arg(long, visible_alias = "yolo", global = true, conflicts_with_all = ["sandbox", "full_auto"])]
    pub dangerously_bypass_approvals_and_sandbox: bool,
    /// The directory to work in.
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
    /// An additional directory that commands may write to; may be repeated.
    #[arg(long, value_name = "DIR", global = true)]
    pub add_dir: Vec<PathBuf>,
    /// An image for the prompt; may be repeated.
    #[arg(short, long, value_name = "FILE", value_delimiter = ',', global = true)]
    pub image: Vec<PathBuf>,
    /// Keep the thread in memory only.
    #[arg(long, global = true)]
    pub ephemeral: bool,
    /// Allow running outside a git repository.
    #[arg(long, global = true)]
    pub skip_git_repo_check: bool,
    /// When to use colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", global = true)]
    pub color: ColorChoice,
    /// A label for the thread, for metrics.
    #[arg(long, value_name = "LABEL", hide = true, global = true)]
    pub thread_source: Option<String>,
    #[command(flatten)]
    pub database: OwnServerArgs,
}

/// A sandbox mode on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxFlag {
    /// Commands can read everything and write nothing.
    ReadOnly,
    /// Commands can write in the working directory and in temporary directories.
    WorkspaceWrite,
    /// Commands are not confined.
    DangerFullAccess,
}

impl From<SandboxFlag> for SandboxMode {
    fn from(sandbox: SandboxFlag) -> Self {
        match sandbox {
            SandboxFlag::ReadOnly => Self::ReadOnly,
            SandboxFlag::WorkspaceWrite => Self::WorkspaceWrite,
            SandboxFlag::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

/// The thread to run the turn on.
#[derive(Debug, PartialEq, Eq)]
pub enum ThreadChoice {
    New,
    /// By id or name.
    Named(String),
    Last,
}

impl ExecArgs {
    /// Returns the thread and the prompt, which flags or the subcommand may name.
    pub fn thread_and_prompt(&mut self) -> anyhow::Result<(ThreadChoice, Option<String>)> {
        let named = self.options.resume.take();
        let (thread, prompt) = match self.command.take() {
            Some(ExecCommand::Resume { thread, prompt }) if self.options.last => {
                anyhow::ensure!(prompt.is_none(), "--last and a thread exclude each other");
                return Ok((ThreadChoice::Last, thread));
            }
            Some(ExecCommand::Resume { thread, prompt }) => {
                let thread =
                    thread.or(named).ok_or_else(|| anyhow::anyhow!("name a thread, or use --last"))?;
                (Some(thread), prompt)
            }
            None => (named, self.prompt.take()),
        };
        Ok(match thread {
            Some(thread) => (ThreadChoice::Named(thread), prompt),
            None if self.options.last => (ThreadChoice::Last, prompt),
            None => (ThreadChoice::New, prompt),
        })
    }
}

impl ExecOptions {
    /// Returns the mode that the flags select; `None` leaves it to the configuration.
    pub fn sandbox_mode(&self) -> Option<SandboxMode> {
        match self.sandbox {
            _ if self.dangerously_bypass_approvals_and_sandbox => Some(SandboxMode::DangerFullAccess),
            Some(sandbox) => Some(sandbox.into()),
            None => self.full_auto.then_some(SandboxMode::WorkspaceWrite),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn parse(words: &[&str]) -> ExecArgs {
        let words = ["codicil", "exec"].iter().chain(words);
        match Cli::parse_from(words).command {
            CliCommand::Exec(exec) => *exec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_thread_is_selected_by_a_flag_or_the_subcommand() {
        let check = |words: &[&str], thread_and_prompt: ThreadChoice, prompt: Option<&str>| {
            let expected = (thread_and_prompt, prompt.map(str::to_owned));
            assert_eq!(parse(words).thread_and_prompt().unwrap(), expected, "{words:?}");
        };
        check(&["do it"], ThreadChoice::New, Some("do it"));
        check(&[], ThreadChoice::New, None);
        check(&["--resume", "t", "go on"], ThreadChoice::Named("t".into()), Some("go on"));
        check(&["--last", "go on"], ThreadChoice::Last, Some("go on"));
        check(&["resume", "t", "go on"], ThreadChoice::Named("t".into()), Some("go on"));
        check(&["resume", "t"], ThreadChoice::Named("t".into()), None);
        check(&["resume", "--last", "go on"], ThreadChoice::Last, Some("go on"));
        check(&["resume", "--last"], ThreadChoice::Last, None);
        check(&["--last", "resume", "go on"], ThreadChoice::Last, Some("go on"));
        assert!(parse(&["resume"]).thread_and_prompt().is_err());
    }

    #[test]
    fn flags_are_accepted_before_and_after_the_subcommand() {
        let exec = parse(&[
            "--experimental-json",
            "--config",
            "a=1",
            "--model",
            "m",
            "--sandbox",
            "read-only",
            "--cd",
            "/d",
            "--add-dir",
            "/e",
            "--skip-git-repo-check",
            "--output-schema",
            "/s",
            "resume",
            "t",
            "--image",
            "/i",
        ]);
        let options = &exec.options;
        assert!(options.json && options.skip_git_repo_check);
        assert_eq!(options.model.as_deref(), Some("m"));
        assert_eq!(options.sandbox_mode(), Some(SandboxMode::ReadOnly));
        assert_eq!(options.image, [PathBuf::from("/i")]);
        assert_eq!(options.add_dir, [PathBuf::from("/e")]);
        assert!(exec.command.is_some());
    }

    #[test]
    fn the_flags_for_sandboxes_agree() {
        let check = |words: &[&str], expected: Option<SandboxMode>| {
            assert_eq!(parse(words).options.sandbox_mode(), expected, "{words:?}");
        };
        check(&["x"], None);
        check(&["--full-auto", "x"], Some(SandboxMode::WorkspaceWrite));
        check(&["--yolo", "x"], Some(SandboxMode::DangerFullAccess));
        check(&["--full-auto", "-s", "read-only", "x"], Some(SandboxMode::ReadOnly));
    }
}
