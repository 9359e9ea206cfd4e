//! The checks that need no waiting, one function each.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use codicil_config::{ConfigError, ConfigQuery, ConfigStore, EffectiveConfig};
use codicil_engine::{SettingsOverrides as ThreadOverrides, TurnSettings};
use codicil_exec::UserShell;
use codicil_model::ProviderConfig;
use codicil_sandbox::MachineProbe;
use rustix::fs::{Access, access};

use super::{DoctorFinding, FindingStatus, database, timed_checks};
use crate::{args::OverrideArgs, version};

/// Parts of names of files with credentials.
const SECRET_NAMES: [&str; 4] = ["auth", "credential", "secret", "token"];

/// Keys of a provider or MCP server with credentials.
const SECRET_KEYS: [&str; 4] = ["experimental_bearer_token", "http_headers", "query_params", "env"];

pub fn all(overrides: &OverrideArgs, offline: bool) -> anyhow::Result<Vec<DoctorFinding>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut findings = vec![versions(), sandbox(), shell(), git()];
    match overrides.config_store() {
        Ok(store) => {
            let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
            let config = store.load(&ConfigQuery::at(&cwd));
            findings.push(home(&store));
            findings.push(secrets(&store, config.as_ref().ok()));
            findings.push(configuration(&config));
            findings.push(proxy(config.as_ref().ok()));
            findings.push(runtime.block_on(timed_checks::account(&store)));
            findings.push(runtime.block_on(timed_checks::threads(store.home().path())));
            if let Some(url) = database::configured_url(config.as_ref().ok()) {
                findings.push(runtime.block_on(database::database(&url)));
            }
            findings.push(providers(&store, &config, &cwd));
            if let Some(config) = config.ok().filter(|_| !offline) {
                let settings = TurnSettings::resolve(&config, store.home(), cwd, &ThreadOverrides::default());
                findings.push(runtime.block_on(timed_checks::provider(&settings.provider, &config)));
            }
        }
        Err(error) => findings.push(DoctorFinding::new("config", FindingStatus::Error, format!("{error:#}"))),
    }
    Ok(findings)
}

fn versions() -> DoctorFinding {
    let own = env!("CARGO_PKG_VERSION");
    let system = rustix::system::uname();
    let kernel = format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let protocol = version::protocol();
    DoctorFinding::new(
        "versions",
        FindingStatus::Ok,
        format!("codicil {own}, protocol of codex-cli {protocol}, {kernel}"),
    )
}

fn sandbox() -> DoctorFinding {
    let probe = MachineProbe::cached();
    let finding = match probe.verdict() {
        Ok(confinement) => DoctorFinding::new("sandbox", FindingStatus::Ok, confinement),
        Err(refusal) => DoctorFinding::new("sandbox", FindingStatus::Error, refusal),
    };
    finding.with(probe.details())
}

/// Checks the network proxy for sandboxed commands. A missing proxy is an error only if one is configured.
fn proxy(config: Option<&EffectiveConfig>) -> DoctorFinding {
    let is_configured = config.is_some_and(|config| config.network_proxy(None).is_some());
    match (MachineProbe::cached().proxy(), is_configured) {
        (Ok(()), true) => {
            DoctorFinding::new("proxy", FindingStatus::Ok, "configured, and available for commands")
        }
        (Ok(()), false) => {
            DoctorFinding::new("proxy", FindingStatus::Ok, "available for commands, not configured")
        }
        (Err(reason), false) => {
            DoctorFinding::new("proxy", FindingStatus::Ok, format!("not available: {reason}"))
        }
        (Err(reason), true) => {
            let summary = format!("configured and not available, so commands are refused: {reason}");
            DoctorFinding::new("proxy", FindingStatus::Error, summary)
        }
    }
}

fn shell() -> DoctorFinding {
    let shell = UserShell::of_user();
    let path = shell.path().display();
    if access(shell.path(), Access::EXEC_OK).is_ok() {
        DoctorFinding::new("shell", FindingStatus::Ok, path.to_string())
    } else {
        DoctorFinding::new("shell", FindingStatus::Error, format!("{path} cannot be run"))
    }
}

fn git() -> DoctorFinding {
    let output = Command::new("git").arg("--version").output();
    match output {
        Ok(output) if output.status.success() => {
            DoctorFinding::new("git", FindingStatus::Ok, String::from_utf8_lossy(&output.stdout).trim())
        }
        Ok(output) => {
            DoctorFinding::new("git", FindingStatus::Warning, format!("does not work: {}", output.status))
        }
        Err(error) => {
            let summary = format!("not found, so there are no diffs and no branches: {error}");
            DoctorFinding::new("git", FindingStatus::Warning, summary)
        }
    }
}

fn home(store: &ConfigStore) -> DoctorFinding {
    let path: &Path = store.home().path();
    let shown = path.display();
    let existing = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let is_writable = access(existing, Access::WRITE_OK).is_ok();
    match (existing == path, is_writable) {
        _ if !existing.is_dir() => DoctorFinding::new(
            "home",
            FindingStatus::Error,
            format!("{} is not a directory", existing.display()),
        ),
        (true, true) => DoctorFinding::new("home", FindingStatus::Ok, format!("{shown}, writable")),
        (true, false) => DoctorFinding::new(
            "home",
            FindingStatus::Error,
            format!("{shown} is not writable: threads cannot be stored"),
        ),
        (false, true) => {
            DoctorFinding::new("home", FindingStatus::Ok, format!("{shown}, created when it is first needed"))
        }
        (false, false) => {
            let summary = format!("{shown} cannot be created: {} is not writable", existing.display());
            DoctorFinding::new("home", FindingStatus::Error, summary)
        }
    }
}

/// Finds files with credentials that other users can read.
fn secrets(store: &ConfigStore, config: Option<&EffectiveConfig>) -> DoctorFinding {
    let entries = fs::read_dir(&**store.home().path()).into_iter().flatten().flatten();
    let has_secret_name = |name: &str| SECRET_NAMES.iter().any(|part| name.to_lowercase().contains(part));
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(has_secret_name))
        .map(|entry| entry.path())
        .collect();
    files.extend(config.filter(|config| holds_secrets(config)).map(|_| store.home().config_file()));
    files.retain(|path| fs::metadata(path).is_ok_and(|found| found.is_file()));
    files.sort();
    let open =
        |path: &&PathBuf| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    let open: Vec<_> =
        files.iter().filter(open).map(|path| format!("chmod 600 {}", path.display())).collect();
    match (open.is_empty(), files.len()) {
        (false, _) => {
            DoctorFinding::new("secrets", FindingStatus::Warning, "others can read these files:").with(open)
        }
        (true, 0) => DoctorFinding::new("secrets", FindingStatus::Ok, "no files with credentials"),
        (true, 1) => DoctorFinding::new("secrets", FindingStatus::Ok, "one file, for its owner only"),
        (true, count) => {
            DoctorFinding::new("secrets", FindingStatus::Ok, format!("{count} files, for their owner only"))
        }
    }
}

fn holds_secrets(config: &EffectiveConfig) -> bool {
    let tables = config.model_providers().chain(config.mcp_servers());
    tables.into_iter().any(|(_, table)| SECRET_KEYS.iter().any(|key| table.contains_key(*key)))
}

fn configuration(config: &Result<EffectiveConfig, ConfigError>) -> DoctorFinding {
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            return DoctorFinding::new("config", FindingStatus::Error, "cannot be used:")
                .with([error.to_string()]);
        }
    };
    let warnings = config.warnings.iter().map(|warning| match &warning.details {
        Some(details) => format!("{} {details}", warning.summary),
        None => warning.summary.clone(),
    });
    let warnings: Vec<_> = warnings.collect();
    let files = config.layers().enabled().filter_map(|layer| layer.path()).filter(|path| path.exists());
    let files = files.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let summary = if files.is_empty() { "no files, defaults apply".to_owned() } else { files };
    let status = if warnings.is_empty() { FindingStatus::Ok } else { FindingStatus::Warning };
    DoctorFinding::new("config", status, summary).with(warnings)
}

/// Checks the provider in use and the configured ones, and whether their keys are set.
fn providers(
    store: &ConfigStore,
    config: &Result<EffectiveConfig, ConfigError>,
    cwd: &Path,
) -> DoctorFinding {
    let Ok(config) = config else {
        return DoctorFinding::new(
            "providers",
            FindingStatus::Warning,
            "not checked, because there is no valid configuration",
        );
    };
    let settings = TurnSettings::resolve(config, store.home(), cwd.to_owned(), &ThreadOverrides::default());
    let mut details = Vec::new();
    let mut worst = FindingStatus::Ok;
    let others = config.model_providers().map(|(name, _)| name).filter(|name| *name != settings.provider);
    for id in [settings.provider.as_str()].into_iter().chain(others) {
        let (status, text) = provider_status(id, config);
        // Only the provider in use matters for the result.
        worst = worst.max(if id == settings.provider { status } else { FindingStatus::Ok });
        details.push(format!("{id}: {text}"));
    }
    let summary = format!("{} with the model {}", settings.provider, settings.model);
    DoctorFinding::new("providers", worst, summary).with(details)
}

fn provider_status(id: &str, config: &EffectiveConfig) -> (FindingStatus, String) {
    let configured = config.model_providers().find(|(name, _)| *name == id);
    let found = match configured {
        // The parser's error is dropped: it may quote secrets of the file.
        Some((_, table)) => table.clone().try_into().map_err(|_| "its table cannot be read".to_owned()),
        None => ProviderConfig::builtin(id).ok_or_else(|| "neither configured nor built in".to_owned()),
    };
    match found {
        Ok(provider) => key_status(&provider),
        Err(reason) => (FindingStatus::Error, reason),
    }
}

/// Returns where the key comes from. Its value is not read.
fn key_status(provider: &ProviderConfig) -> (FindingStatus, String) {
    let is_set = |name: &String| env::var_os(name).is_some_and(|value| !value.is_empty());
    let headers = provider.env_http_headers.iter().flat_map(|headers| headers.values());
    let missing: Vec<_> = headers.filter(|name| !is_set(name)).cloned().collect();
    if !missing.is_empty() {
        return (FindingStatus::Warning, format!("not set: {}", missing.join(", ")));
    }
    match (&provider.env_key, &provider.experimental_bearer_token) {
        (_, Some(_)) => (FindingStatus::Ok, "a token in the configuration".to_owned()),
        (Some(name), None) if is_set(name) => (FindingStatus::Ok, format!("{name} is set")),
        (Some(name), None) if provider.requires_openai_auth => {
            (FindingStatus::Warning, format!("{name} is not set; a login does as well"))
        }
        (Some(name), None) => (FindingStatus::Warning, format!("{name} is not set")),
        (None, None) if provider.requires_openai_auth => (FindingStatus::Ok, "needs a login".to_owned()),
        (None, None) => (FindingStatus::Ok, "needs no key".to_owned()),
    }
}
