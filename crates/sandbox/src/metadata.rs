//! Finds the folders that stay read-only inside a writable root: repository metadata and agent configuration.
//!
//! A command that could write `.git/hooks` or `.git/config` would run code, outside any sandbox, the next time the user
//! runs git there. `.codex`, `.codicil` and `.agents` do the same for agents. The search is breadth first and limited in
//! depth and in the number of folders, because it precedes every command.

use std::{
    collections::VecDeque,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use crate::access::{RootRole, WritableRoot};

/// The protected names, in every folder that is searched.
pub(crate) const NAMES: [&str; 4] = [".git", ".codex", ".codicil", ".agents"];

/// Folders that are not searched: dependencies and build output, which are large and have no repositories of the user.
const SKIPPED: [&str; 6] = ["node_modules", "target", "__pycache__", ".venv", "venv", ".cache"];

/// How many levels below a root are searched for nested repositories.
const MAX_DEPTH: usize = 4;

/// How many folders are read for all roots together.
const MAX_FOLDERS: usize = 1_000;

/// The size of the largest `.git` file, which holds one line.
const MAX_POINTER_SIZE: u64 = 8 * 1024;

/// The metadata found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectMetadata {
    /// The paths to protect, without symbolic links, none inside another.
    pub paths: Vec<PathBuf>,
    /// Protected names that are symbolic links. Their targets can be protected, the links themselves cannot.
    pub links: Vec<PathBuf>,
    /// Whether folders were left out of the search.
    pub truncated: bool,
}

/// Searches the writable roots.
pub(crate) fn find(roots: &[WritableRoot]) -> ProjectMetadata {
    let mut search = MetadataSearch { roots, found: ProjectMetadata::default(), folders: 0 };
    for root in roots.iter().filter(|root| root.path.is_dir()) {
        search.search_top(&root.path);
        if root.role != RootRole::Scratch {
            search.search_below(&root.path);
        }
    }
    search.finish()
}

struct MetadataSearch<'a> {
    roots: &'a [WritableRoot],
    found: ProjectMetadata,
    folders: usize,
}

impl MetadataSearch<'_> {
    /// Looks the protected names up in a root, without listing it: `/tmp` can be large.
    fn search_top(&mut self, root: &Path) {
        for path in NAMES.map(|name| root.join(name)) {
            if fs::symlink_metadata(&path).is_ok() {
                self.protect(&path);
            }
        }
    }

    fn search_below(&mut self, root: &Path) {
        let mut queue = VecDeque::from([(root.to_path_buf(), 0)]);
        while let Some((folder, depth)) = queue.pop_front() {
            if self.folders == MAX_FOLDERS {
                self.found.truncated = true;
                return;
            }
            self.folders += 1;
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if NAMES.iter().any(|protected| name == *protected) {
                    self.protect(&entry.path());
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && !SKIPPED.iter().any(|skipped| name == *skipped)
                {
                    if depth < MAX_DEPTH {
                        queue.push_back((entry.path(), depth + 1));
                    } else {
                        self.found.truncated = true;
                    }
                }
            }
        }
    }

    /// Protects a path, the target of a symbolic link, and the directories that a `.git` file points to.
    fn protect(&mut self, path: &Path) {
        let is_link = path.is_symlink();
        if is_link {
            // A dangling link as well: it can be replaced, and its target can be created.
            self.found.links.push(path.to_path_buf());
        }
        let Ok(real) = path.canonicalize() else { return };
        if real.is_file()
            && let Some(directory) = git_directory(&real)
        {
            let repository = common_directory(&directory.join("commondir"));
            repository.into_iter().chain([directory]).for_each(|target| self.add_target(&target));
        }
        if is_link {
            self.add_target(&real);
        } else {
            self.add(real);
        }
    }

    /// Adds the target of a link or pointer, unless it contains a root: a pointer must not make a whole workspace
    /// read-only.
    fn add_target(&mut self, path: &Path) {
        let Ok(real) = path.canonicalize() else { return };
        if !self.roots.iter().any(|root| root.path.starts_with(&real)) {
            self.add(real);
        }
    }

    /// Adds a path if it is inside a root. Other paths are not writable anyway.
    fn add(&mut self, path: PathBuf) {
        if self.roots.iter().any(|root| path.starts_with(&root.path)) {
            self.found.paths.push(path);
        }
    }

    fn finish(mut self) -> ProjectMetadata {
        // A protected folder that the policy names as a root is writable.
        let is_named =
            |path: &Path| self.roots.iter().any(|root| root.role == RootRole::Named && root.path == path);
        self.found.paths.retain(|path| !is_named(path));
        self.found.paths.sort();
        self.found.paths.dedup_by(|later, first| covers(self.roots, first, later));
        self.found.links.sort();
        self.found.links.dedup();
        self.found
    }
}

/// Returns whether protecting `outer` also protects `inner`, which it does not if a writable root lies between them.
fn covers(roots: &[WritableRoot], outer: &Path, inner: &Path) -> bool {
    let mut between = roots.iter().filter(|root| root.path.starts_with(outer));
    inner.starts_with(outer) && !between.any(|root| inner.starts_with(&root.path))
}

/// Returns the directory that a `.git` file of a worktree or submodule names.
fn git_directory(file: &Path) -> Option<PathBuf> {
    let text = read_small_file(file)?;
    let target = text.lines().find_map(|line| line.strip_prefix("gitdir:"))?;
    Some(file.parent()?.join(target.trim()))
}

/// Returns the repository that a worktree belongs to, from the `commondir` file in its git directory.
fn common_directory(file: &Path) -> Option<PathBuf> {
    let text = read_small_file(file)?;
    Some(file.parent()?.join(text.trim()))
}

fn read_small_file(file: &Path) -> Option<String> {
    // Without `NONBLOCK`, opening a named pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    let size = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    let mut text = String::new();
    if size > MAX_POINTER_SIZE {
        return None;
    }
    file.take(MAX_POINTER_SIZE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(directories: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            directories.iter().for_each(|name| fs::create_dir_all(dir.path().join(name)).unwrap());
            Self(dir)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn find(&self, roots: &[(&str, RootRole)]) -> ProjectMetadata {
            let roots: Vec<_> = roots
                .iter()
                .map(|(name, role)| WritableRoot { path: self.path(name), role: *role })
                .collect();
            find(&roots)
        }

        fn check(&self, roots: &[(&str, RootRole)], expected: &[&str]) {
            let expected: Vec<_> = expected.iter().map(|name| self.path(name)).collect();
            assert_eq!(self.find(roots).paths, expected);
        }
    }

    #[test]
    fn names_are_found_at_the_root_and_in_nested_repositories() {
        let tree = Tree::new(&["w/.git/hooks", "w/.agents", "w/sub/deep/.git", "w/node_modules/x/.git"]);
        tree.check(&[("w", RootRole::Workspace)], &["w/.agents", "w/.git", "w/sub/deep/.git"]);
        tree.check(&[("w", RootRole::Scratch)], &["w/.agents", "w/.git"]);
    }

    #[test]
    fn a_git_file_protects_itself_and_what_it_points_to_inside_a_root() {
        let tree = Tree::new(&["w/tree", "w/store/worktrees/tree", "elsewhere"]);
        fs::write(tree.path("w/tree/.git"), "gitdir: ../store/worktrees/tree\n").unwrap();
        fs::write(tree.path("w/store/worktrees/tree/commondir"), "../..\n").unwrap();
        tree.check(&[("w", RootRole::Workspace)], &["w/store", "w/tree/.git"]);

        fs::write(tree.path("w/tree/.git"), format!("gitdir: {}\n", tree.path("elsewhere").display()))
            .unwrap();
        tree.check(&[("w", RootRole::Workspace)], &["w/tree/.git"]);
        fs::write(tree.path("w/tree/.git"), "gitdir: ..\n").unwrap();
        tree.check(&[("w", RootRole::Workspace)], &["w/tree/.git"]);
    }

    #[test]
    fn a_link_is_reported_and_its_target_protected() {
        let tree = Tree::new(&["w/real"]);
        symlink("real", tree.path("w/.git")).unwrap();
        tree.check(&[("w", RootRole::Workspace)], &["w/real"]);
        symlink("missing", tree.path("w/.codex")).unwrap();
        let links = tree.find(&[("w", RootRole::Workspace)]).links;
        assert_eq!(links, [tree.path("w/.codex"), tree.path("w/.git")], "a dangling one as well");
    }

    #[test]
    fn a_protected_folder_that_is_named_as_a_root_is_writable() {
        let tree = Tree::new(&["w/.codex/memories", "w/.git"]);
        tree.check(&[("w", RootRole::Workspace), ("w/.git", RootRole::Named)], &["w/.codex"]);
        let roots = [("w", RootRole::Workspace), ("w/.codex/memories", RootRole::Named)];
        tree.check(&roots, &["w/.codex", "w/.git"]);
        fs::create_dir(tree.path("w/.codex/memories/.git")).unwrap();
        tree.check(&roots, &["w/.codex", "w/.codex/memories/.git", "w/.git"]);
    }

    #[test]
    fn the_search_of_a_large_tree_is_limited() {
        let tree = Tree::new(&["w"]);
        for index in 0..MAX_FOLDERS {
            fs::create_dir(tree.path("w").join(index.to_string())).unwrap();
        }
        assert!(tree.find(&[("w", RootRole::Workspace)]).truncated);
        assert!(!tree.find(&[("w", RootRole::Scratch)]).truncated);
    }
}
