//! Copies of git repositories.
//!
//! Only the person who runs the server names a repository, but nobody vouches for its content: its hooks are never run, and
//! nothing asks for a password.

use std::{path::Path, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};

use super::{MarketplaceError, source::GitSource};

/// Time that a `git` command has. Repositories of plugins are small; networks may be slow.
const GIT_TIME: Duration = Duration::from_secs(300);

/// The end of git's output that an error quotes.
const QUOTED_BYTES: usize = 4 << 10;

/// Clones a repository into `target`, which does not exist yet, and returns its commit.
pub(super) async fn clone(source: &GitSource, target: &Path) -> Result<String, MarketplaceError> {
    let folder = target.to_string_lossy();
    let mut clone = vec!["clone", "--quiet", "--no-checkout", "--no-recurse-submodules"];
    if !source.sparse_paths.is_empty() {
        clone.push("--filter=blob:none");
    }
    clone.extend(["--", &source.url, &folder]);
    run(&clone, None).await?;
    if !source.sparse_paths.is_empty() {
        let mut sparse = vec!["sparse-checkout", "set", "--no-cone", "--"];
        sparse.extend(source.sparse_paths.iter().map(String::as_str));
        run(&sparse, Some(target)).await?;
    }
    match source.reference.as_deref() {
        // Git would take it for an option.
        Some(reference) if reference.starts_with('-') => {
            return Err(MarketplaceError::Reference(reference.to_owned()));
        }
        Some(reference) => run(&["checkout", "--quiet", reference, "--"], Some(target)).await?,
        None => run(&["checkout", "--quiet", "HEAD", "--"], Some(target)).await?,
    };
    head(target).await
}

/// Returns the commit that is checked out in a copy.
pub(super) async fn head(folder: &Path) -> Result<String, MarketplaceError> {
    Ok(run(&["rev-parse", "HEAD"], Some(folder)).await?.trim().to_owned())
}

async fn run(arguments: &[&str], folder: Option<&Path>) -> Result<String, MarketplaceError> {
    let mut command = Command::new("git");
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(arguments);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).kill_on_drop(true);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let failed = |reason: String| MarketplaceError::Git { command: shown(arguments), reason };
    let output = match timeout(GIT_TIME, command.output()).await {
        Ok(output) => output.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed(format!("timed out after {} seconds", GIT_TIME.as_secs()))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let start = text.floor_char_boundary(text.len().saturating_sub(QUOTED_BYTES));
    Err(failed(format!("{}: {}", output.status, text.get(start..).unwrap_or_default().trim())))
}

/// Returns the part of a command that an error names, without the directories of the server.
fn shown(arguments: &[&str]) -> String {
    let words = arguments.iter().filter(|word| !word.starts_with('-') && !word.starts_with('/'));
    words.copied().collect::<Vec<_>>().join(" ")
}
