//! Information about the git repository of a directory.
//!
//! Commit, branch and origin are read from its files by hand: starting `git` three times would cost more than a
//! turn does. Everything else goes through [`read_command`], the only place where the server starts `git`. The
//! configuration of a repository can name programs to run, a model may have written it, and the server is not
//! confined.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use codicil_exec::SERVER_CREDENTIALS;
use codicil_protocol::GitInfo;
use tokio::{process::Command, time::timeout};

/// The largest file that is read. The packed references of a large repository fit.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// Time that a `git` command has.
const GIT_TIME: Duration = Duration::from_secs(5);

/// Settings that replace those of a repository which name programs to run. External diff programs and textconv
/// filters are switched off by options of the commands that would run them (`--no-ext-diff --no-textconv`), and
/// clean and smudge filters cannot be: commands that compare the working tree are not for the server.
const NEUTRAL_SETTINGS: [&str; 11] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.askPass=",
    "core.alternateRefsCommand=",
    "credential.helper=",
    "gpg.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Prepares a git command that reads the repository around `cwd` and runs nothing that the repository's
/// configuration names. It fetches nothing, takes no locks and asks for no password.
///
/// The person's own configuration and the machine's stay in force: they say which repositories of other users
/// may be read (`safe.directory`).
fn read_command(cwd: &Path) -> Command {
    let mut command = Command::new("git");
    command.args(["--no-pager", "--no-optional-locks", "--no-replace-objects"]);
    command.args(NEUTRAL_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"]
    {
        command.env_remove(name);
    }
    for name in SERVER_CREDENTIALS {
        command.env_remove(name);
    }
    command
        .env("GIT_PAGER", "cat")
        .env("GIT_TERMINAL_PROMPT", "0")
        // A clone without all of its objects fetches those it misses; the second line is for versions that do
        // not know the first, and overrules what the repository allows.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .current_dir(cwd)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Returns the commit where the work in `cwd` left a branch.
pub async fn merge_base(cwd: &Path, branch: &str) -> Option<String> {
    let branch = branch.trim();
    // Branch names do not start with a dash; git would take it for an option.
    if branch.starts_with('-') {
        return None;
    }
    let output = read_command(cwd).args(["merge-base", "HEAD", branch]).output();
    let output = timeout(GIT_TIME, output).await.ok()?.ok()?;
    let sha = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !sha.is_empty()).then_some(sha)
}

/// Returns the commit, branch and origin of the repository that contains `dir`. Blocks on files.
pub fn info(dir: &Path) -> Option<GitInfo> {
    let git_dir = dir.ancestors().find_map(git_dir)?;
    let common = common_dir(&git_dir);
    let head = read_text(&git_dir.join("HEAD")).ok()?;
    let (branch, sha) = match head.trim().strip_prefix("ref: ") {
        Some(reference) => (
            reference.strip_prefix("refs/heads/").map(str::to_owned),
            resolve(&git_dir, reference).or_else(|| resolve(&common, reference)),
        ),
        None => (None, commit(&head)),
    };
    let origin_url = read_text(&common.join("config")).ok().and_then(|config| origin(&config));
    Some(GitInfo { sha, branch, origin_url })
}

/// Reads a file of a repository, which a command may have replaced by something else: a pipe is not waited for.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    codicil_store::open_regular(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the text if it is a commit hash. Anything else may be the content of an unrelated file behind a link.
fn commit(text: &str) -> Option<String> {
    let name = text.trim();
    let is_commit = matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| name.to_owned())
}

/// Returns the git directory of `dir`. `.git` is a directory, or a file that names one (worktrees and submodules).
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let dot_git = dir.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let pointer = read_text(&dot_git).ok()?;
    Some(dir.join(pointer.trim().strip_prefix("gitdir: ")?))
}

/// Returns the directory with the references and configuration that worktrees share.
fn common_dir(git_dir: &Path) -> PathBuf {
    match read_text(&git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common.trim()),
        Err(_) => git_dir.to_owned(),
    }
}

fn resolve(git_dir: &Path, reference: &str) -> Option<String> {
    if let Ok(sha) = read_text(&git_dir.join(reference)) {
        return commit(&sha);
    }
    let packed = read_text(&git_dir.join("packed-refs")).ok()?;
    let line =
        packed.lines().find(|line| line.ends_with(reference) && line.split(' ').nth(1) == Some(reference))?;
    line.split(' ').next().and_then(commit)
}

fn origin(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim);
    lines.find(|line| *line == r#"[remote "origin"]"#)?;
    let section = lines.take_while(|line| !line.starts_with('['));
    let url = section.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "url")?.1;
    Some(url.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use tempfile::TempDir;

    use super::*;

    /// A repository whose configuration names a program for everything that git runs programs for. The program
    /// leaves a mark.
    struct TrappedRepository(TempDir);

    impl TrappedRepository {
        fn new() -> Self {
            let repository = Self(TempDir::new().unwrap());
            repository.git(&["init", "-q", "-b", "main"]);
            repository.git(&["config", "user.name", "me"]);
            repository.git(&["config", "user.email", "me@example.com"]);
            repository.write("a", "one");
            repository.write(".gitattributes", "* diff=trap\n");
            repository.git(&["add", "."]);
            repository.git(&["commit", "-qm", "one"]);
            repository.git(&["checkout", "-qb", "work"]);
            repository.write("a", "two");
            repository.git(&["commit", "-qam", "two"]);
            repository.write("a", "three");
            repository.set_traps();
            repository
        }

        fn set_traps(&self) {
            let trap = self.0.path().join("trap.sh");
            self.write("trap.sh", &format!("#!/bin/sh\necho \"$@\" >> '{}'\n", self.mark().display()));
            fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
            let hooks = self.0.path().join("hooks");
            fs::create_dir(&hooks).unwrap();
            for hook in ["post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"] {
                fs::copy(&trap, hooks.join(hook)).unwrap();
            }
            let trap = trap.to_str().unwrap();
            for key in [
                "core.fsmonitor",
                "core.sshCommand",
                "core.pager",
                "core.editor",
                "core.askPass",
                "core.alternateRefsCommand",
                "credential.helper",
                "diff.external",
                "diff.trap.textconv",
                "diff.trap.command",
                "gpg.program",
                "alias.merge-base",
            ] {
                self.git(&["config", key, trap]);
            }
            self.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
            self.git(&["config", "core.repositoryFormatVersion", "1"]);
            self.git(&["config", "extensions.partialClone", "origin"]);
            self.git(&["config", "remote.origin.url", &format!("ext::{trap} fetch")]);
            self.git(&["config", "remote.origin.promisor", "true"]);
            self.git(&["config", "protocol.ext.allow", "always"]);
            // A branch whose commit would have to be fetched.
            self.write(".git/refs/heads/missing", &format!("{}\n", "1".repeat(40)));
            let _ = fs::remove_file(self.mark());
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn mark(&self) -> PathBuf {
            self.0.path().join(".git/mark")
        }

        /// Runs git as it is, with everything that is configured.
        fn git(&self, arguments: &[&str]) -> String {
            let mut command = std::process::Command::new("git");
            command.args(arguments).current_dir(self.0.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }

        async fn read(&self, arguments: &[&str]) -> String {
            let output = read_command(self.0.path()).args(arguments).output().await.unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }
    }

    #[tokio::test]
    async fn a_merge_base_is_found_without_running_what_the_repository_configures() {
        let repository = TrappedRepository::new();
        let base = repository.git(&["rev-parse", "main"]);
        assert_eq!(merge_base(repository.0.path(), " main ").await, Some(base));
        assert_eq!(merge_base(repository.0.path(), "missing").await, None);
        assert_eq!(merge_base(repository.0.path(), "--all").await, None);
        assert!(!repository.mark().exists(), "{:?}", fs::read_to_string(repository.mark()));
    }

    #[tokio::test]
    async fn commands_that_read_run_nothing_that_the_repository_configures() {
        let repository = TrappedRepository::new();
        assert!(repository.read(&["status", "--short"]).await.contains("M a"));
        let changes = repository.read(&["diff", "--no-ext-diff", "--no-textconv"]).await;
        assert!(changes.contains("+three"), "{changes}");
        assert!(
            repository
                .read(&["log", "--oneline", "--no-ext-diff", "--no-textconv", "-p"])
                .await
                .contains("+two")
        );
        repository.read(&["cat-file", "-p", "missing"]).await;
        assert!(!repository.mark().exists(), "{:?}", fs::read_to_string(repository.mark()));
    }

    /// The traps would close: otherwise the tests above show nothing.
    #[test]
    fn git_as_it_is_runs_what_the_repository_configures() {
        for arguments in [&["status"][..], &["diff"], &["log", "-p"], &["cat-file", "-p", "missing"]] {
            let repository = TrappedRepository::new();
            repository.git(arguments);
            assert!(repository.mark().exists(), "{arguments:?}");
        }
    }
}
