//! Opens the thread of a run: a new or a stored one, with the settings of the command line.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use codicil_client::{Client, resume, user_thread_sources};
use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, TrustLevel};
use codicil_protocol::{
    AbsolutePathBuf, AskForApproval, ReasoningEffort, SandboxMode, SandboxPolicy, Thread, ThreadId,
    ThreadList, ThreadListCwdFilter, ThreadListParams, ThreadResume, ThreadSortKey, ThreadStart,
    ThreadStartParams,
};

use super::args::{ExecOptions, ThreadChoice};
use crate::args::OverrideArgs;

/// A loaded thread with its effective settings.
#[derive(Debug)]
pub struct ExecThread {
    pub thread: Thread,
    pub model: String,
    pub provider: String,
    pub effort: Option<ReasoningEffort>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub sandbox: SandboxPolicy,
    /// Whether the turn must set its sandbox policy, because directories were added to it.
    pub has_added_roots: bool,
}

/// Converts the responses of `thread/start` and `thread/resume`, which are two types with the same fields.
macro_rules! exec_thread {
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
            has_added_roots: false,
        }
    }};
}

/// Returns the configuration of this run, including what environment variables set for OpenAI.
pub fn config(
    overrides: &mut OverrideArgs,
    options: &ExecOptions,
    cwd: &Path,
) -> anyhow::Result<ConfigStore> {
    if let Some(profile) = &options.profile {
        overrides.config.push(format!("profile={}", quoted(profile)));
    }
    let config = overrides.config_store()?;
    let effective = config.load(&ConfigQuery::at(cwd))?;
    check_directory(options, &effective, cwd)?;
    let flags = openai_flags(&effective, options.provider.as_deref(), env::var("CODEX_API_KEY").ok());
    if flags.is_empty() {
        return Ok(config);
    }
    overrides.config.extend(flags);
    overrides.config_store()
}

/// Returns `CODEX_API_KEY` and `openai_base_url` as settings of the `openai` provider, if that is used
/// and not configured.
fn openai_flags(effective: &EffectiveConfig, provider: Option<&str>, key: Option<String>) -> Vec<String> {
    const OPENAI: &str = "openai";
    let chosen = provider.or(effective.settings.model_provider.as_deref()).unwrap_or(OPENAI);
    let is_configured = effective.model_providers().any(|(name, _)| name == OPENAI);
    let key = key.filter(|key| !key.trim().is_empty());
    let url = effective.settings.openai_base_url.as_ref();
    if chosen != OPENAI || is_configured || (key.is_none() && url.is_none()) {
        return Vec::new();
    }
    let set = |name: &str, value: String| format!("model_providers.openai.{name}={value}");
    // A key in the environment is meant for this run, so it overrides a login.
    let variable = if key.is_some() { "CODEX_API_KEY" } else { "OPENAI_API_KEY" };
    let mut flags = vec![
        set("name", quoted("OpenAI")),
        set("env_key", quoted(variable)),
        set("requires_openai_auth", key.is_none().to_string()),
    ];
    flags.extend(url.map(|url| set("base_url", quoted(url))));
    flags
}

/// Returns a TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Refuses to run where changes cannot be undone (outside a repository), unless that is allowed explicitly.
fn check_directory(options: &ExecOptions, effective: &EffectiveConfig, cwd: &Path) -> anyhow::Result<()> {
    let mode = options.sandbox_mode().or_else(|| effective.settings.sandbox_mode.clone());
    let has_full_access = mode == Some(SandboxMode::DangerFullAccess);
    let is_repository = cwd.ancestors().any(|folder| folder.join(".git").exists());
    let is_trusted = effective.trust == Some(TrustLevel::Trusted);
    if !(options.skip_git_repo_check || has_full_access || is_repository || is_trusted) {
        bail!("Not inside a trusted directory and --skip-git-repo-check was not specified.");
    }
    Ok(())
}

/// Returns the working directory, which must exist.
pub fn directory(options: &ExecOptions) -> anyhow::Result<PathBuf> {
    let current = env::current_dir().context("the current directory is gone")?;
    let Some(given) = &options.cd else { return Ok(current) };
    let path = current.join(given);
    ensure!(path.is_dir(), "no such directory: {}", path.display());
    path.canonicalize().with_context(|| format!("cannot enter {}", path.display()))
}

impl ExecThread {
    /// Opens the thread. Approvals are disabled unless `-c approval_policy=…` is given, because exec cannot
    /// ask for them.
    pub async fn open(
        client: &Client,
        choice: &ThreadChoice,
        options: &ExecOptions,
        overrides: &OverrideArgs,
        cwd: &Path,
    ) -> anyhow::Result<Self> {
        let is_set = overrides.config.iter().any(|flag| flag.trim_start().starts_with("approval_policy"));
        let keeps_config = is_set && !options.dangerously_bypass_approvals_and_sandbox;
        let approval_policy = (!keeps_config).then_some(AskForApproval::Never);
        let mut thread = match choice {
            ThreadChoice::New => start(client, options, approval_policy, cwd).await?,
            ThreadChoice::Named(name) => {
                let id = find_by_id_or_name(client, name).await?;
                resume_thread(client, &id, options, approval_policy, cwd).await?
            }
            ThreadChoice::Last => {
                let id = most_recent(client, options, cwd).await?;
                resume_thread(client, &id, options, approval_policy, cwd).await?
            }
        };
        thread.add_writable_roots(&options.add_dir, cwd);
        Ok(thread)
    }

    /// Lets commands write to further directories.
    fn add_writable_roots(&mut self, folders: &[PathBuf], cwd: &Path) {
        if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut self.sandbox {
            let added = folders.iter().filter_map(|folder| AbsolutePathBuf::new(cwd.join(folder)));
            writable_roots.extend(added);
            self.has_added_roots = !folders.is_empty();
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
        sandbox: options.sandbox_mode().map(Into::into),
        ephemeral: options.ephemeral.then_some(true),
        service_name: options.thread_source.clone(),
        ..ThreadStartParams::default()
    };
    Ok(exec_thread!(client.call::<ThreadStart>(params).await?))
}

async fn resume_thread(
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
    params.sandbox = options.sandbox_mode().map(Into::into);
    Ok(exec_thread!(client.call::<ThreadResume>(params).await?))
}

/// Finds a thread by its id, or else by its name.
async fn find_by_id_or_name(client: &Client, name: &str) -> anyhow::Result<ThreadId> {
    let id = ThreadId::from(name);
    let Err(error) = client.read_thread(&id, codicil_client::IncludeTurns::No).await else {
        return Ok(id);
    };
    let search_term = Some(name.to_owned());
    let listed = client.call::<ThreadList>(ThreadListParams { search_term, ..user_threads() }).await?;
    let found = listed.data.into_iter().find(|thread| thread.name.as_deref() == Some(name));
    match found {
        Some(thread) => Ok(thread.id),
        None if error.response_error().is_some() => bail!("there is no thread with the id or name {name}"),
        None => Err(error.into()),
    }
}

async fn most_recent(client: &Client, options: &ExecOptions, cwd: &Path) -> anyhow::Result<ThreadId> {
    let directory = (!options.all).then(|| ThreadListCwdFilter::One(cwd.to_string_lossy().into_owned()));
    let params = ThreadListParams { cwd: directory, limit: Some(1), ..user_threads() };
    let listed = client.call::<ThreadList>(params).await?;
    let Some(thread) = listed.data.into_iter().next() else {
        if options.all {
            bail!("there is no thread to resume");
        }
        bail!("there is no thread of this directory to resume (--all includes other directories)");
    };
    Ok(thread.id)
}

/// Selects the threads that users started, the most recently used first.
fn user_threads() -> ThreadListParams {
    ThreadListParams {
        sort_key: Some(ThreadSortKey::UpdatedAt),
        source_kinds: Some(user_thread_sources()),
        ..ThreadListParams::default()
    }
}
