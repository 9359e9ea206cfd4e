//! The thread of a run: started or found again, with the settings of the command line.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use codicil_client::{Client, resume};
use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, TrustLevel};
use codicil_protocol::{
    AbsolutePathBuf, AskForApproval, ReasoningEffort, SandboxMode, SandboxPolicy, Thread, ThreadId,
    ThreadList, ThreadListParams, ThreadResume, ThreadSortKey, ThreadSourceKind, ThreadStart,
    ThreadStartParams,
};

use super::args::{ExecOptions, ThreadChoice};
use crate::{app_server, args::OverrideArgs};

/// A thread that is ready for its turn.
#[derive(Debug)]
pub struct ExecThread {
    pub thread: Thread,
    pub model: String,
    pub provider: String,
    pub effort: Option<ReasoningEffort>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub sandbox: SandboxPolicy,
    /// Whether the turn has to say its sandbox, because directories were added to it.
    pub is_widened: bool,
}

/// A session of what `thread/start` or `thread/resume` answered: two types of one shape.
macro_rules! session {
    ($opened:expr) => {{
        let opened = $opened;
        ExecThread {
            thread: opened.thread,
            model: opened.model,
            provider: opened.model_provider,
            effort: opened.reasoning_effort,
            cwd: opened.cwd,
            approval_policy: opened.approval_policy,
            sandbox: opened.sandbox,
            is_widened: false,
        }
    }};
}

/// The configuration of this run. What the environment says of OpenAI becomes part of it.
pub fn config(
    overrides: &mut OverrideArgs,
    options: &ExecOptions,
    cwd: &Path,
) -> anyhow::Result<ConfigStore> {
    if let Some(profile) = &options.profile {
        overrides.config.push(format!("profile={}", quoted(profile)));
    }
    let config = app_server::config(overrides)?;
    let effective = config.load(&ConfigQuery::at(cwd))?;
    check_place(options, &effective, cwd)?;
    let flags = openai(&effective, options.provider.as_deref(), env::var("CODEX_API_KEY").ok());
    if flags.is_empty() {
        return Ok(config);
    }
    overrides.config.extend(flags);
    app_server::config(overrides)
}

/// `CODEX_API_KEY` and `openai_base_url`, as settings of the provider they are meant for.
fn openai(effective: &EffectiveConfig, provider: Option<&str>, key: Option<String>) -> Vec<String> {
    const OPENAI: &str = "openai";
    let chosen = provider.or(effective.settings.model_provider.as_deref()).unwrap_or(OPENAI);
    let is_configured = effective.model_providers().any(|(name, _)| name == OPENAI);
    let (key, url) = (key.filter(|key| !key.trim().is_empty()), effective.settings.openai_base_url.as_ref());
    if chosen != OPENAI || is_configured || (key.is_none() && url.is_none()) {
        return Vec::new();
    }
    let set = |name: &str, value: String| format!("model_providers.openai.{name}={value}");
    // A key in the environment is meant for this run, a login for all of them.
    let variable = if key.is_some() { "CODEX_API_KEY" } else { "OPENAI_API_KEY" };
    let mut flags = vec![
        set("name", quoted("OpenAI")),
        set("env_key", quoted(variable)),
        set("requires_openai_auth", key.is_none().to_string()),
    ];
    flags.extend(url.map(|url| set("base_url", quoted(url))));
    flags
}

/// A TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An agent without a person works where its changes can be undone, or where somebody said that it may.
fn check_place(options: &ExecOptions, effective: &EffectiveConfig, cwd: &Path) -> anyhow::Result<()> {
    let mode = options.sandbox_mode().or_else(|| effective.settings.sandbox_mode.clone());
    let may_everything = mode == Some(SandboxMode::DangerFullAccess);
    let is_repository = cwd.ancestors().any(|folder| folder.join(".git").exists());
    let is_trusted = effective.trust == Some(TrustLevel::Trusted);
    if !(options.skip_git_repo_check || may_everything || is_repository || is_trusted) {
        bail!("Not inside a trusted directory and --skip-git-repo-check was not specified.");
    }
    Ok(())
}

/// The directory to work in, which must be there.
pub fn directory(options: &ExecOptions) -> anyhow::Result<PathBuf> {
    let current = env::current_dir().context("the current directory is gone")?;
    let Some(given) = &options.cd else { return Ok(current) };
    let path = current.join(given);
    ensure!(path.is_dir(), "no such directory: {}", path.display());
    path.canonicalize().with_context(|| format!("cannot enter {}", path.display()))
}

impl ExecThread {
    /// Approvals are not asked for unless the command line says so: nobody is there to give them.
    pub async fn open(
        client: &Client,
        which: &ThreadChoice,
        options: &ExecOptions,
        overrides: &OverrideArgs,
        cwd: &Path,
    ) -> anyhow::Result<Self> {
        let is_set = overrides.config.iter().any(|flag| flag.trim_start().starts_with("approval_policy"));
        let keeps_config = is_set && !options.dangerously_bypass_approvals_and_sandbox;
        let approval_policy = (!keeps_config).then_some(AskForApproval::Never);
        let mut session = match which {
            ThreadChoice::New => start(client, options, approval_policy, cwd).await?,
            ThreadChoice::Named(name) => {
                let id = find(client, name).await?;
                reopen(client, &id, options, approval_policy, cwd).await?
            }
            ThreadChoice::Last => {
                let id = last(client, options, cwd).await?;
                reopen(client, &id, options, approval_policy, cwd).await?
            }
        };
        session.widen(&options.add_dir, cwd);
        Ok(session)
    }

    /// Lets commands write to further directories.
    fn widen(&mut self, folders: &[PathBuf], cwd: &Path) {
        if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut self.sandbox {
            let added = folders.iter().filter_map(|folder| AbsolutePathBuf::new(cwd.join(folder)));
            writable_roots.extend(added);
            self.is_widened = !folders.is_empty();
        }
    }
}

async fn start(
    client: &Client,
    options: &ExecOptions,
    approval_policy: Option<AskForApproval>,
    cwd: &Path,
) -> anyhow::Result<ExecThread> {
    let params = ThreadStartParams {
        model: options.model.clone(),
        model_provider: options.provider.clone(),
        cwd: Some(cwd.to_string_lossy().into_owned()),
        approval_policy,
        sandbox: options.sandbox_mode(),
        ephemeral: options.ephemeral.then_some(true),
        service_name: options.thread_source.clone(),
        ..ThreadStartParams::default()
    };
    Ok(session!(client.call::<ThreadStart>(params).await?))
}

async fn reopen(
    client: &Client,
    id: &ThreadId,
    options: &ExecOptions,
    approval_policy: Option<AskForApproval>,
    cwd: &Path,
) -> anyhow::Result<ExecThread> {
    let mut params = resume(id);
    params.model = options.model.clone();
    params.model_provider = options.provider.clone();
    params.cwd = Some(cwd.to_string_lossy().into_owned());
    params.approval_policy = approval_policy;
    params.sandbox = options.sandbox_mode();
    Ok(session!(client.call::<ThreadResume>(params).await?))
}

/// A thread by its id, or else by its name.
async fn find(client: &Client, name: &str) -> anyhow::Result<ThreadId> {
    let id = ThreadId::from(name);
    let Err(error) = client.read_thread(&id, codicil_client::IncludeTurns::No).await else {
        return Ok(id);
    };
    let search_term = Some(name.to_owned());
    let listed = client.call::<ThreadList>(ThreadListParams { search_term, ..everything() }).await?;
    let found = listed.data.into_iter().find(|thread| thread.name.as_deref() == Some(name));
    match found {
        Some(thread) => Ok(thread.id),
        None if error.response_error().is_some() => bail!("there is no thread with the id or name {name}"),
        None => Err(error.into()),
    }
}

async fn last(client: &Client, options: &ExecOptions, cwd: &Path) -> anyhow::Result<ThreadId> {
    let place = (!options.all).then(|| cwd.to_string_lossy().into_owned());
    let params = ThreadListParams { cwd: place, limit: Some(1), ..everything() };
    let listed = client.call::<ThreadList>(params).await?;
    let Some(thread) = listed.data.into_iter().next() else {
        match options.all {
            true => bail!("there is no thread to go on with"),
            false => bail!("there is no thread of this directory to go on with (--all looks at the others)"),
        }
    };
    Ok(thread.id)
}

/// All threads that somebody started, the last used first.
fn everything() -> ThreadListParams {
    ThreadListParams {
        sort_key: Some(ThreadSortKey::UpdatedAt),
        source_kinds: Some(somebodys()),
        ..ThreadListParams::default()
    }
}

/// The sources of threads that somebody started, and not an agent.
pub fn somebodys() -> Vec<ThreadSourceKind> {
    use ThreadSourceKind::{AppServer, Cli, Exec, Unknown, Vscode};
    vec![Cli, Vscode, Exec, AppServer, Unknown]
}
