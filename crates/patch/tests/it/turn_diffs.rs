//! The diff of a whole turn, checked by its text and by git.

use std::{fs, io::Write, os::unix::fs::PermissionsExt, path::Path, process::Command};

use codicil_patch::{DiskFiles, Durability, TurnDiff, apply, git_root};

use crate::support::Workspace;

struct Turn {
    workspace: Workspace,
    diff: TurnDiff,
}

impl Turn {
    fn new(files: &[(&str, &str)]) -> Self {
        let workspace = Workspace::new(files);
        let diff = TurnDiff::new(workspace.path());
        Self { workspace, diff }
    }

    fn patch(&mut self, body: &str) {
        let plan = self.workspace.plan(body).unwrap();
        apply(&plan, &DiskFiles, Durability::Cached).unwrap();
        self.diff.record(&plan);
    }

    fn diff(&self) -> Option<String> {
        self.diff.diff(&DiskFiles).unwrap()
    }
}

#[test]
fn the_recorded_example() {
    let mut turn = Turn::new(&[("old.txt", "line one\nline two\nline three\n"), ("gone.txt", "bye\n")]);
    turn.patch(
        "*** Add File: new.txt\n+fresh\n+lines\n*** Update File: old.txt\n@@\n line one\n-line two\n+line 2\n \
         line three\n*** Delete File: gone.txt",
    );
    let expected = "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n\
        index b023018cabc396e7692c70bbf5784a93d3f738ab..0000000000000000000000000000000000000000\n\
        --- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n\
        diff --git a/new.txt b/new.txt\nnew file mode 100644\n\
        index 0000000000000000000000000000000000000000..928e18532cb8e380417250a8e390ff927bc6e9ee\n\
        --- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+fresh\n+lines\n\
        diff --git a/old.txt b/old.txt\n\
        index 0c2aa38e0600e0d2df09c2f84664d8a14f899879..66d7f366884e472636eac412840c3a09403e9fa1\n\
        --- a/old.txt\n+++ b/old.txt\n@@ -1,3 +1,3 @@\n line one\n-line two\n+line 2\n line three\n";
    assert_eq!(turn.diff().as_deref(), Some(expected));
}

#[test]
fn changes_that_cancel_each_other_disappear() {
    let mut turn = Turn::new(&[("a", "1\n")]);
    assert_eq!(turn.diff(), None);
    turn.patch("*** Update File: a\n-1\n+2\n*** Add File: b\n+x");
    assert!(turn.diff().is_some());
    turn.patch("*** Update File: a\n-2\n+1\n*** Delete File: b");
    assert_eq!(turn.diff(), None);
}

#[test]
fn renames_are_recognised_through_a_chain() {
    let mut turn = Turn::new(&[("a", "1\n2\n3\n4\n")]);
    turn.patch("*** Update File: a\n*** Move to: b\n");
    let pure = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n";
    assert_eq!(turn.diff().as_deref(), Some(pure));
    turn.patch("*** Update File: b\n*** Move to: sub/c\n-4\n+four");
    let diff = turn.diff().unwrap();
    assert!(diff.starts_with("diff --git a/a b/sub/c\nindex "), "{diff}");
    assert!(diff.contains("\n--- a/a\n+++ b/sub/c\n"), "{diff}");
    turn.patch("*** Update File: sub/c\n*** Move to: a\n-four\n+4");
    assert_eq!(turn.diff(), None);
}

#[test]
fn a_move_with_changes_is_one_diff() {
    let mut turn = Turn::new(&[("a", "1\n2\n")]);
    turn.patch("*** Update File: a\n*** Move to: b\n-1\n-2\n+x\n+y");
    let diff = turn.diff().unwrap();
    assert!(diff.starts_with("diff --git a/a b/b\nindex "), "{diff}");
    assert!(!diff.contains("file mode"), "{diff}");
}

#[test]
fn changes_by_commands_to_the_same_files_are_included() {
    let mut turn = Turn::new(&[("a", "1\n")]);
    turn.patch("*** Update File: a\n-1\n+2");
    turn.workspace.write("a", "3\n");
    assert!(turn.diff().unwrap().ends_with("@@ -1 +1 @@\n-1\n+3\n"));
    let path = turn.workspace.path().join("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(turn.diff().unwrap().contains("old mode 100644\nnew mode 100755\n"));
    fs::remove_file(path).unwrap();
    assert!(turn.diff().unwrap().contains("deleted file mode 100644"));
}

#[test]
fn binary_files_are_named_only() {
    let mut turn = Turn::new(&[]);
    turn.workspace.write("bin", b"a\0b\nx\n");
    turn.patch("*** Update File: bin\n-x\n+y");
    assert!(turn.diff().unwrap().ends_with("\nBinary files a/bin and b/bin differ\n"));
}

#[test]
fn unusual_names_are_quoted_as_by_git() {
    let mut turn = Turn::new(&[]);
    turn.patch("*** Add File: with space\n+x\n*** Add File: qu\"ote\n+x\n*** Add File: ünicode\n+x");
    let diff = turn.diff().unwrap();
    assert!(diff.contains("diff --git \"a/qu\\\"ote\" \"b/qu\\\"ote\"\n"), "{diff}");
    assert!(diff.contains("+++ b/with space\t\n"), "{diff}");
    assert!(diff.contains("+++ b/ünicode\n"), "{diff}");
}

#[test]
fn paths_outside_begin_with_two_dots() {
    let workspace = Workspace::new(&[("ws/keep", ""), ("outside/keep", "")]);
    let root = workspace.path().join("ws");
    let mut diff = TurnDiff::new(&root);
    let plan = workspace.plan("*** Add File: outside/o.txt\n+x").unwrap();
    apply(&plan, &DiskFiles, Durability::Cached).unwrap();
    diff.record(&plan);
    let text = diff.diff(&DiskFiles).unwrap().unwrap();
    assert!(text.starts_with("diff --git a/../outside/o.txt b/../outside/o.txt\n"), "{text}");
}

#[test]
fn the_git_root_is_found_from_below_also_when_git_is_a_file() {
    let workspace =
        Workspace::new(&[("repo/.git", "gitdir: elsewhere\n"), ("repo/a/b/f", ""), ("other/f", "")]);
    let path = |name| workspace.path().join(name);
    assert_eq!(git_root(&path("repo/a/b")), Some(path("repo")));
    assert_eq!(git_root(&path("repo")), Some(path("repo")));
    assert_ne!(git_root(&path("other")), Some(path("repo")));
}

fn git(directory: &Path, arguments: &[&str], input: &str) {
    let mut child = (Command::new("git").args(arguments).current_dir(directory))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "git {arguments:?}");
}

/// Applies the diff with git to the old files, which must give the new ones.
#[test]
fn git_applies_the_diff() {
    if Command::new("git").arg("--version").output().is_err() {
        // Written to standard error directly, because the harness hides what a test prints.
        let _ = writeln!(std::io::stderr(), "skipped: git_applies_the_diff: git is not installed");
        return;
    }
    let files = [
        ("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        ("no newline", "x\ny"),
        ("gone", "bye\n"),
        ("moved", "m1\nm2\nm3\n"),
        ("empty", ""),
    ];
    let mut turn = Turn::new(&files);
    turn.patch(
        "*** Update File: a\n-1\n+one\n@@\n-9\n+nine\n+ten\n*** Update File: no newline\n-x\n+X\n*** Delete File: \
         gone\n*** Update File: moved\n*** Move to: sub/moved to\n-m2\n+M2\n*** Delete File: empty\n*** Add File: \
         q\"\\t\n+new\n*** Add File: blank\n",
    );
    let diff = turn.diff().unwrap();
    let original = Workspace::new(&files);
    git(original.path(), &["init", "-q"], "");
    git(original.path(), &["apply", "--check", "-"], &diff);
    git(original.path(), &["apply", "-"], &diff);
    fs::remove_dir_all(original.path().join(".git")).unwrap();
    assert_eq!(original.tree(), turn.workspace.tree(), "{diff}");
}
