//! `codicil login`, `codicil login status` and `codicil logout`.

use std::{
    env,
    io::{IsTerminal, Read, Write},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use codicil_accounts::{Accounts, LoginAttempt, LoginInvitation, SignedIn};
use codicil_model::EnvironmentSource;
use codicil_protocol::{Account, AuthMode, Secret};

use crate::{args::OverrideArgs, logging};

/// Maximum length of what is read as a key.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// How to sign in.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LoginArgs {
    #[command(subcommand)]
    action: Option<LoginAction>,
    /// Sign in by entering a code in a browser on any machine.
    #[arg(long, conflicts_with = "with_api_key")]
    device_auth: bool,
    /// Read an API key from standard input, as in `printenv OPENAI_API_KEY | codicil login --with-api-key`.
    #[arg(long)]
    with_api_key: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum LoginAction {
    /// Show the current account. Exits with 1 if there is none.
    Status,
}

pub fn run(overrides: &OverrideArgs, args: &LoginArgs) -> anyhow::Result<ExitCode> {
    let accounts = accounts(overrides)?;
    runtime()?.block_on(async {
        match args {
            LoginArgs { action: Some(LoginAction::Status), .. } => return status(&accounts).await,
            LoginArgs { with_api_key: true, .. } => accounts.sign_in_with_key(read_key()?).await?,
            LoginArgs { device_auth: true, .. } => wait(accounts.sign_in_with_code().await?).await?,
            _ => wait(accounts.sign_in_with_browser().await?).await?,
        }
        println!("{}", describe(accounts.current().await.as_ref()));
        Ok(ExitCode::SUCCESS)
    })
}

pub fn logout(overrides: &OverrideArgs) -> anyhow::Result<ExitCode> {
    let accounts = accounts(overrides)?;
    let signed_out = runtime()?.block_on(async {
        let signed_out = accounts.sign_out().await;
        // Waits until the issuer has been notified, which takes seconds at most.
        accounts.stop().await;
        signed_out
    })?;
    println!("{}", if signed_out { "Signed out" } else { "Not signed in" });
    Ok(ExitCode::SUCCESS)
}

async fn status(accounts: &Accounts) -> anyhow::Result<ExitCode> {
    let current = accounts.current().await;
    println!("{}", describe(current.as_ref()));
    Ok(if current.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Describes the current account in a sentence, without secrets.
pub fn describe(signed_in: Option<&SignedIn>) -> String {
    let Some(signed_in) = signed_in else { return "Not signed in".to_owned() };
    match (&signed_in.mode, signed_in.account()) {
        (AuthMode::Apikey, _) => "Signed in with an API key".to_owned(),
        (_, Some(Account::Chatgpt { email, plan_type, .. })) => {
            let plan = serde_json::to_value(plan_type).unwrap_or_default();
            format!("Signed in with ChatGPT as {email} ({})", plan.as_str().unwrap_or("unknown"))
        }
        _ => "Signed in with ChatGPT".to_owned(),
    }
}

/// Shows the user where to sign in and waits until they have done so.
async fn wait(login: LoginAttempt) -> anyhow::Result<()> {
    match login.invitation() {
        LoginInvitation::Browser { auth_url } => {
            println!("To sign in, open this address in a browser on this machine:\n\n  {auth_url}\n");
            if open_browser(&auth_url) {
                println!("A browser should be opening. Waiting for you to sign in there.");
            } else {
                println!(
                    "Waiting for you to sign in there. On a machine without a browser, use --device-auth."
                );
            }
        }
        LoginInvitation::Device { verification_url, user_code } => {
            println!("To sign in, open this address in any browser:\n\n  {verification_url}\n");
            println!("and enter this code. Do not share it:\n\n  {user_code}\n");
        }
    }
    // Standard output may be a pipe, which is not flushed at the end of a line.
    std::io::stdout().flush()?;
    login.finish().await.map_err(anyhow::Error::msg)
}

fn read_key() -> anyhow::Result<Secret> {
    let input = std::io::stdin();
    if input.is_terminal() {
        bail!(
            "--with-api-key reads the key from standard input, for example: printenv OPENAI_API_KEY | codicil login --with-api-key"
        );
    }
    let mut key = String::new();
    let read = input.take(MAX_KEY_BYTES).read_to_string(&mut key);
    // The error is dropped: it says nothing that helps.
    read.ok().context("standard input is not text")?;
    match key.trim() {
        "" => bail!("there was no key on standard input"),
        key => Ok(key.to_owned().into()),
    }
}

/// Asks the desktop to open an address. Returns false if there is no desktop.
fn open_browser(url: &str) -> bool {
    let has_display = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].iter().any(|name| env::var_os(name).is_some());
    let chosen = env::var("BROWSER").ok().filter(|program| !program.trim().is_empty());
    let program = match (chosen, has_display) {
        (Some(program), _) => program,
        (None, true) if cfg!(target_os = "macos") => "open".to_owned(),
        (None, true) => "xdg-open".to_owned(),
        (None, false) => return false,
    };
    // Not waited for: the browser may outlive this process.
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

fn accounts(overrides: &OverrideArgs) -> anyhow::Result<Accounts> {
    logging::init();
    Ok(Accounts::new(overrides.config_store()?, EnvironmentSource::default()))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
