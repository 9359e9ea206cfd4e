//! What is known of the repository around a directory, read from its files.
//!
//! By hand because it is three small files: starting `git` three times would cost more than a turn does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use codicil_protocol::GitInfo;

/// The commit, branch and origin of the repository that holds `dir`. Reads files: not for the runtime.
pub fn info(dir: &Path) -> Option<GitInfo> {
    let git_dir = dir.ancestors().find_map(git_dir)?;
    let common = common_dir(&git_dir);
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let (branch, sha) = match head.trim().strip_prefix("ref: ") {
        Some(reference) => (
            reference.strip_prefix("refs/heads/").map(str::to_owned),
            resolve(&git_dir, reference).or_else(|| resolve(&common, reference)),
        ),
        None => (None, Some(head.trim().to_owned())),
    };
    let origin_url = fs::read_to_string(common.join("config")).ok().and_then(|config| origin(&config));
    Some(GitInfo { sha, branch, origin_url })
}

/// `.git` is a directory, or a file that names one (worktrees and submodules).
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let dot_git = dir.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let pointer = fs::read_to_string(&dot_git).ok()?;
    Some(dir.join(pointer.trim().strip_prefix("gitdir: ")?))
}

/// Where a worktree shares its references and configuration with the others.
fn common_dir(git_dir: &Path) -> PathBuf {
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common.trim()),
        Err(_) => git_dir.to_owned(),
    }
}

fn resolve(git_dir: &Path, reference: &str) -> Option<String> {
    if let Ok(sha) = fs::read_to_string(git_dir.join(reference)) {
        return Some(sha.trim().to_owned());
    }
    let packed = fs::read_to_string(git_dir.join("packed-refs")).ok()?;
    let line =
        packed.lines().find(|line| line.ends_with(reference) && line.split(' ').nth(1) == Some(reference))?;
    line.split(' ').next().map(str::to_owned)
}

fn origin(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim);
    lines.find(|line| *line == r#"[remote "origin"]"#)?;
    let section = lines.take_while(|line| !line.starts_with('['));
    let url = section.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "url")?.1;
    Some(url.trim().to_owned())
}
