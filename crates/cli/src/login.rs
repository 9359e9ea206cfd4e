//! `codicil login`, `codicil login status` and `codicil logout`.

use std::{
    env,
    io::{IsTerminal, Read, Write},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, bail};
use codicil_accounts::{Accounts, LoginAttempt as SignIn, LoginInvitation, SignedIn};
use codicil_model::EnvironmentSource;
use codicil_protocol::{Account, AuthMode, Secret};

use crate::{
    app_server::config,
    args::{LoginAction, LoginArgs, OverrideArgs},
    logging,
};

/// A key is a line; more than this is something else.
const MAX_KEY_BYTES: u64 = 64 << 10;

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

pub fn logout(overrides: &OverrideArgs) -> anyhow::Result<()> {
    let accounts = accounts(overrides)?;
    let signed_out = runtime()?.block_on(async {
        let signed_out = accounts.sign_out().await;
        // The issuer is being told; that takes seconds at most.
        accounts.stop().await;
        signed_out
    })?;
    println!("{}", if signed_out { "Signed out" } else { "Nobody was signed in" });
    Ok(())
}

async fn status(accounts: &Accounts) -> anyhow::Result<ExitCode> {
    let current = accounts.current().await;
    println!("{}", describe(current.as_ref()));
    Ok(if current.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// In a sentence, without secrets.
pub fn describe(signed_in: Option<&SignedIn>) -> String {
    let Some(signed_in) = signed_in else { return "Not signed in".to_owned() };
    match (&signed_in.mode, signed_in.account()) {
        (AuthMode::Apikey, _) => "Signed in with an API key".to_owned(),
        (_, Some(Account::Chatgpt { email, plan_type })) => {
            let plan = serde_json::to_value(plan_type).unwrap_or_default();
            format!("Signed in with ChatGPT as {email} ({})", plan.as_str().unwrap_or("unknown"))
        }
        _ => "Signed in with ChatGPT".to_owned(),
    }
}

/// Shows the person where to go and waits until they are done there.
async fn wait(login: SignIn) -> anyhow::Result<()> {
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
            println!("and type this code, which nobody else should see:\n\n  {user_code}\n");
        }
    }
    // Somebody may read it through a pipe.
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
    // Its own words could not name the key, but neither would they help.
    read.ok().context("standard input is not text")?;
    match key.trim() {
        "" => bail!("there was no key on standard input"),
        key => Ok(key.to_owned().into()),
    }
}

/// Asks the desktop to open an address. False when there is no desktop to ask.
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
    // Not waited for: a browser may stay, and this process will end before it.
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

fn accounts(overrides: &OverrideArgs) -> anyhow::Result<Accounts> {
    logging::init();
    Ok(Accounts::new(config(overrides)?, EnvironmentSource::default()))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
