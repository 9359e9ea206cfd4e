//! Copies of git repositories.
//!
//! The user names a repository, and its content is not trusted: no hooks run, symbolic links are checked out as plain files,
//! and its size is limited. Git gets no terminal and no program to ask for passwords; credential helpers of the user work.
//! Each `git` runs behind a minder, so that the programs it starts end with it.

use std::{ffi::OsString, path::Path, time::Duration};

use codicil_exec::{
    CaptureLimit, Process, ProcessEnvironment, ProcessExit, ProcessSpec, inherited_environment,
};

use super::{MarketplaceError, source::GitSource};

/// Time that a `git` command has. Repositories of plugins are small; networks may be slow.
const GIT_TIME: Duration = Duration::from_secs(300);

/// The largest file that git may write: a pack with the history, or a file of the copy.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// The largest copy without its history.
const MAX_COPY_BYTES: u64 = 512 << 20;

/// The most files of a copy.
const MAX_COPY_FILES: usize = 50_000;

/// The output that is read of a `git` command: a list of [`MAX_COPY_FILES`] files fits.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The end of git's messages that an error quotes.
const QUOTED_BYTES: usize = 4 << 10;

/// Settings that override those of the user where they would run programs of a repository or follow its links.
const SAFE_SETTINGS: [&str; 4] =
    ["core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false", "gc.auto=0"];

/// The transports that git may use. `ext`, which runs commands, is not among them. Requests cannot name a `file` source.
const PROTOCOLS: &str = "https:http:ssh:file";

/// Variables of the server that would change what git does, or let it ask for a password.
const REMOVED_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_TEMPLATE_DIR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
];

/// Limits the size of files and runs git. The first argument is the limit in blocks of 512 bytes.
const LIMITED_GIT: &str = "ulimit -f \"$1\" || exit 1; shift; exec git \"$@\"";

/// Clones a repository into `target`, which does not exist yet, and returns its commit.
pub(super) async fn clone(source: &GitSource, target: &Path) -> Result<String, MarketplaceError> {
    let is_sparse = !source.sparse_paths.is_empty();
    let reference = source.reference.as_deref().unwrap_or("HEAD");
    // Git would take it for an option.
    if reference.starts_with('-') {
        return Err(MarketplaceError::Reference(reference.to_owned()));
    }
    let folder = target.to_string_lossy();
    let parent = target.parent().unwrap_or(target);
    let mut clone = vec!["clone", "--quiet", "--no-checkout", "--no-recurse-submodules"];
    if is_sparse {
        clone.push("--filter=blob:none");
    }
    clone.extend(["--", &source.url, &folder]);
    let hidden = user_info(&source.url);
    run(&clone, parent, hidden).await?;
    if is_sparse {
        let mut sparse = vec!["sparse-checkout", "set", "--no-cone", "--"];
        sparse.extend(source.sparse_paths.iter().map(String::as_str));
        run(&sparse, target, hidden).await?;
    } else {
        check_size(reference, target).await?;
    }
    run(&["checkout", "--quiet", reference, "--"], target, hidden).await?;
    head(target).await
}

/// Returns the commit that is checked out in a copy.
pub(super) async fn head(folder: &Path) -> Result<String, MarketplaceError> {
    Ok(run(&["rev-parse", "HEAD"], folder, None).await?.trim().to_owned())
}

/// Refuses a copy with too many files or bytes, before they are written.
async fn check_size(reference: &str, folder: &Path) -> Result<(), MarketplaceError> {
    let files = run(&["ls-tree", "-r", "-l", "--full-tree", reference, "--"], folder, None).await;
    // A remote branch has no local name before its checkout, which finds it or fails.
    let Ok(files) = files else {
        let remote = format!("origin/{reference}");
        let files = run(&["ls-tree", "-r", "-l", "--full-tree", &remote, "--"], folder, None).await?;
        return check_listed_size(&files);
    };
    check_listed_size(&files)
}

/// Checks the output of `ls-tree`: mode, type, object and size of a file, a tab, and its path.
fn check_listed_size(files: &str) -> Result<(), MarketplaceError> {
    let sizes = files.lines().map(|line| {
        let size = line.split('\t').next().and_then(|facts| facts.split_whitespace().nth(3));
        size.and_then(|size| size.parse::<u64>().ok()).unwrap_or(0)
    });
    let mut count = 0_usize;
    let mut total = 0_u64;
    for size in sizes {
        count += 1;
        total = total.saturating_add(size);
    }
    let is_cut = files.len() >= MAX_OUTPUT_BYTES;
    if is_cut || count > MAX_COPY_FILES || total > MAX_COPY_BYTES {
        return Err(MarketplaceError::TooLarge { files: count, bytes: total });
    }
    Ok(())
}

/// Runs git and returns its output. Errors do not contain `hidden`.
async fn run(arguments: &[&str], folder: &Path, hidden: Option<&str>) -> Result<String, MarketplaceError> {
    let limit = (MAX_FILE_BYTES / 512).to_string();
    let mut argv = vec!["/bin/sh", "-c", LIMITED_GIT, "git", &limit];
    argv.extend(SAFE_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    argv.extend(arguments);
    let mut spec = ProcessSpec::new(&argv, folder, environment());
    spec.timeout = Some(GIT_TIME);
    let command = arguments.first().copied().unwrap_or_default();
    let failed = |reason: String| MarketplaceError::Git { command: command.to_owned(), reason };
    let process = Process::spawn(spec).await.map_err(|error| failed(error.to_string()))?;
    let output = process.capture(CaptureLimit::Head(MAX_OUTPUT_BYTES)).await;
    match output.exit {
        ProcessExit::Code(0) => return Ok(String::from_utf8_lossy(&output.stdout.into_bytes()).into_owned()),
        ProcessExit::TimedOut => {
            return Err(failed(format!("timed out after {} seconds", GIT_TIME.as_secs())));
        }
        ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Unknown => {}
    }
    let text = String::from_utf8_lossy(&output.stderr.into_bytes()).into_owned();
    let text = hidden.map_or(text.clone(), |hidden| text.replace(hidden, "***@"));
    let start = text.floor_char_boundary(text.len().saturating_sub(QUOTED_BYTES));
    let message = text.get(start..).unwrap_or_default().trim();
    Err(failed(format!("exit code {}: {message}", output.exit.code())))
}

fn environment() -> ProcessEnvironment {
    let mut variables = inherited_environment();
    for name in REMOVED_VARIABLES {
        variables.remove(&OsString::from(name));
    }
    let mut set = |name: &str, value: &str| variables.insert(name.into(), value.into());
    set("GIT_TERMINAL_PROMPT", "0");
    set("GIT_ALLOW_PROTOCOL", PROTOCOLS);
    variables.entry("GIT_SSH_COMMAND".into()).or_insert_with(|| "ssh -o BatchMode=yes".into());
    variables
}

/// Returns the part of a URL such as `https://user:password@` or `https://token@` that errors must not show, up to
/// and including the `@`. The user of SSH is no secret without a password.
fn user_info(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let user_info = authority.get(..=authority.rfind('@')?)?;
    let is_http = scheme.to_ascii_lowercase().starts_with("http");
    (is_http || user_info.contains(':')).then_some(user_info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_url_is_found() {
        assert_eq!(user_info("https://ada:secret@example.com/a.git"), Some("ada:secret@"));
        assert_eq!(user_info("https://token@example.com/a@b.git"), Some("token@"));
        assert_eq!(user_info("ssh://git:secret@example.com/a"), Some("git:secret@"));
        assert_eq!(user_info("ssh://git@example.com/a"), None);
        assert_eq!(user_info("git@example.com:a/b"), None);
    }

    #[test]
    fn copies_that_are_too_large_are_refused() {
        let line = |size: &str, name: &str| format!("100644 blob 0123456789abcdef {size:>7}\t{name}\n");
        assert!(check_listed_size(&(line("12", "a") + &line("-", "module"))).is_ok());
        assert!(check_listed_size(&line(&(MAX_COPY_BYTES + 1).to_string(), "a")).is_err());
        assert!(check_listed_size(&line("1", "a").repeat(MAX_COPY_FILES + 1)).is_err());
    }
}
