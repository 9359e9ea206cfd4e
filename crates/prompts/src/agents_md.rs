//! Project instructions: finding AGENTS.md files and formatting them for the model.
//!
//! The user's own file comes first, then one per directory from the root of the project down to the working directory; later
//! files take precedence. If they exceed the limit, the user's file and then the nearest files are included first, because
//! they decide when instructions conflict.
//!
//! Reads files and blocks.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::context_tags;

/// The usual name, preceded by the name of a local override.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The default limit for all files together.
pub const DEFAULT_MAX_DOC_BYTES: u64 = 32 * 1024;

/// The settings of a search for project instructions.
#[derive(Clone, Debug)]
pub struct DocSearch {
    /// The directory of the user's own file.
    pub home: Option<PathBuf>,
    /// The files and directories that mark the root of a project.
    pub root_markers: Vec<String>,
    /// Names to try in a directory without the usual ones.
    pub fallback_names: Vec<String>,
    /// The limit for all files together. 0 disables the search.
    pub max_bytes: u64,
    /// Whether the model is asked to look for files below the working directory itself.
    pub mentions_children: bool,
}

impl Default for DocSearch {
    fn default() -> Self {
        Self {
            home: None,
            root_markers: vec![".git".to_owned()],
            fallback_names: Vec::new(),
            max_bytes: DEFAULT_MAX_DOC_BYTES,
            mentions_children: false,
        }
    }
}

/// Opens a file if it may be read.
pub type OpenFile<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

/// The files that were found, in order of increasing precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectDocs {
    pub docs: Vec<ProjectDoc>,
    /// Messages for the user about files that could not be read or were truncated.
    pub warnings: Vec<String>,
    /// Whether the text asks the model to look for further files below the working directory.
    pub mentions_children: bool,
}

/// A file with project instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDoc {
    pub path: PathBuf,
    pub text: String,
    /// Whether the text is truncated.
    pub is_cut: bool,
}

impl DocSearch {
    /// Finds and reads the files for a working directory. `open` checks whether a file may be read, because it can be a link
    /// that a command has created. Never fails; see [`ProjectDocs::warnings`].
    pub fn run(&self, cwd: Option<&Path>, open: OpenFile<'_>) -> ProjectDocs {
        let mut found = ProjectDocs::default();
        if self.max_bytes == 0 {
            return found;
        }
        let mut remaining = self.max_bytes;
        let warnings = &mut found.warnings;
        let own =
            self.home.as_deref().and_then(|home| self.read_folder(home, open, &mut remaining, warnings));
        let folders = cwd.map(|cwd| self.folders(cwd)).unwrap_or_default();
        // The home may be a directory of the project; its file is included once.
        let is_new = |folder: &&&Path| self.home.as_deref() != Some(**folder);
        let nearest_first = folders.iter().filter(is_new);
        let mut docs: Vec<_> = nearest_first
            .filter_map(|folder| self.read_folder(folder, open, &mut remaining, warnings))
            .collect();
        docs.extend(own);
        docs.reverse();
        found.docs = docs;
        found.mentions_children = self.mentions_children;
        found
    }

    /// Returns the directories from the working directory up to the root of its project; only itself without a marker.
    fn folders<'p>(&self, cwd: &'p Path) -> Vec<&'p Path> {
        let has_marker = |folder: &Path| self.root_markers.iter().any(|name| folder.join(name).exists());
        let root = cwd.ancestors().position(has_marker).unwrap_or(0);
        cwd.ancestors().take(root + 1).collect()
    }

    /// Reads the first readable file of a directory. A blank file hides the others and yields nothing.
    fn read_folder(
        &self,
        folder: &Path,
        open: OpenFile<'_>,
        remaining: &mut u64,
        warnings: &mut Vec<String>,
    ) -> Option<ProjectDoc> {
        // Only names: a path would let the configuration of a project include files from elsewhere.
        let is_name = |name: &&str| Path::new(name).file_name() == Some(name.as_ref());
        let fallbacks = self.fallback_names.iter().map(String::as_str).filter(is_name);
        let names = NAMES.into_iter().chain(fallbacks);
        for path in names.map(|name| folder.join(name)).filter(|path| path.is_file()) {
            match open(&path).and_then(|file| read(&path, file, *remaining)) {
                Ok(doc) if doc.text.trim().is_empty() && !doc.is_cut => return None,
                Ok(doc) => {
                    *remaining -= (doc.text.len() as u64).min(*remaining);
                    if doc.is_cut {
                        let limit = self.max_bytes;
                        warnings.push(format!(
                            "{} exceeds the limit of {limit} bytes for project instructions and was cut",
                            path.display()
                        ));
                    }
                    return Some(doc);
                }
                Err(error) => warnings.push(format!("cannot read {}: {error}", path.display())),
            }
        }
        None
    }
}

fn read(path: &Path, file: File, limit: u64) -> io::Result<ProjectDoc> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 > limit;
    if is_cut {
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        drop_broken_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
    Ok(ProjectDoc { path: path.to_owned(), text, is_cut })
}

/// Removes a truncated character from the end.
fn drop_broken_end(bytes: &mut Vec<u8>) {
    let broken = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
    bytes.truncate(bytes.len() - broken);
}

impl ProjectDocs {
    /// Returns the message part with the instructions; `None` without any.
    pub fn text(&self) -> Option<String> {
        if self.docs.is_empty() && !self.mentions_children {
            return None;
        }
        let mut text = context_tags::AGENTS_MD.to_owned();
        if !self.docs.is_empty() {
            text.push_str(&format!("\n\n{EXPLANATION}"));
        }
        for doc in &self.docs {
            let path = context_tags::escape(&doc.path.to_string_lossy());
            let note = if doc.is_cut { CUT } else { "" };
            text.push_str(&format!("\n\n<file path=\"{path}\">\n{}{note}\n</file>", doc.text.trim()));
        }
        if self.mentions_children {
            text.push_str(&format!("\n\n{CHILDREN}"));
        }
        Some(text)
    }
}

const EXPLANATION: &str = "\
    Rules for working here, from the most general to the most specific. Where two disagree, the later one \
    holds.";

const CHILDREN: &str = "\
    Directories below the working directory may have an AGENTS.md of their own, which is not shown here. Before you \
    work on files in a directory, look for an AGENTS.md in it and in the directories above it up to the working \
    directory, and read what you find. Such a file holds for everything below its directory, and where two \
    disagree, the one nearest to the file you work on holds. What the user asks for comes before all of them.";

const CUT: &str = "\n[The rest of this file did not fit. Read it yourself if you need it.]";

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A home and a project in `repo` with these files; `repo/.git` marks its root.
    struct Tree(TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let tree = Self(TempDir::new().unwrap());
            fs::create_dir_all(tree.path("repo/.git")).unwrap();
            fs::create_dir_all(tree.path("repo/a/b")).unwrap();
            fs::create_dir_all(tree.path("home")).unwrap();
            for (path, text) in files {
                fs::write(tree.path(path), text).unwrap();
            }
            tree
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn search(&self) -> DocSearch {
            DocSearch { home: Some(self.path("home")), ..DocSearch::default() }
        }

        /// `path: text` of what was found, paths from the top of the tree.
        fn show(&self, found: &ProjectDocs) -> Vec<String> {
            let show = |doc: &ProjectDoc| {
                let path = doc.path.strip_prefix(self.0.path()).unwrap().display();
                format!("{path}: {}{}", doc.text, if doc.is_cut { "…" } else { "" })
            };
            found.docs.iter().map(show).collect()
        }
    }

    #[test]
    fn the_home_comes_first_and_the_nearest_last() {
        let tree = Tree::new(&[
            ("AGENTS.md", "outside"),
            ("home/AGENTS.md", "own"),
            ("repo/AGENTS.md", "root"),
            ("repo/a/AGENTS.md", "middle"),
            ("repo/a/b/AGENTS.md", "near"),
        ]);
        let check = |cwd: &str, expected: &[&str]| {
            assert_eq!(
                tree.show(&tree.search().run(Some(&*tree.path(cwd)), &|path| File::open(path))),
                expected,
                "{cwd}"
            );
        };
        check(
            "repo/a/b",
            &[
                "home/AGENTS.md: own",
                "repo/AGENTS.md: root",
                "repo/a/AGENTS.md: middle",
                "repo/a/b/AGENTS.md: near",
            ],
        );
        check("repo", &["home/AGENTS.md: own", "repo/AGENTS.md: root"]);
        check("home", &["home/AGENTS.md: own"]);
        check("", &["home/AGENTS.md: own", "AGENTS.md: outside"]);
        check("missing", &["home/AGENTS.md: own"]);
    }

    #[test]
    fn one_file_per_directory_by_the_order_of_names() {
        let tree = Tree::new(&[
            ("repo/AGENTS.override.md", "mine"),
            ("repo/AGENTS.md", "theirs"),
            ("repo/a/CLAUDE.md", "fallback"),
            ("repo/a/b/AGENTS.override.md", " \n"),
            ("repo/a/b/AGENTS.md", "switched off"),
        ]);
        let mut search = tree.search();
        search.fallback_names = ["../AGENTS.md", "", "RULES.md", "CLAUDE.md"].map(str::to_owned).into();
        let found = search.run(Some(&*tree.path("repo/a/b")), &|path| File::open(path));
        assert_eq!(tree.show(&found), ["repo/AGENTS.override.md: mine", "repo/a/CLAUDE.md: fallback"]);
        assert!(found.warnings.is_empty());
    }

    #[test]
    fn markers_determine_the_root() {
        let tree =
            Tree::new(&[("repo/AGENTS.md", "root"), ("repo/a/AGENTS.md", "middle"), ("repo/a/.hg", "")]);
        let mut search = tree.search();
        search.root_markers = vec![".hg".to_owned()];
        assert_eq!(
            tree.show(&search.run(Some(&*tree.path("repo/a/b")), &|path| File::open(path))),
            ["repo/a/AGENTS.md: middle"]
        );
        search.root_markers = Vec::new();
        assert!(search.run(Some(&*tree.path("repo/a/b")), &|path| File::open(path)).docs.is_empty());
    }

    #[test]
    fn the_nearest_files_are_kept() {
        let tree = Tree::new(&[
            ("home/AGENTS.md", "0123"),
            ("repo/AGENTS.md", "root rules"),
            ("repo/a/AGENTS.md", "ab€f"),
        ]);
        let check = |max_bytes: u64, expected: &[&str], warnings: usize| {
            let found = DocSearch { max_bytes, ..tree.search() }
                .run(Some(&*tree.path("repo/a")), &|path| File::open(path));
            assert_eq!(tree.show(&found), expected, "{max_bytes}");
            assert_eq!(found.warnings.len(), warnings, "{:?}", found.warnings);
        };
        check(100, &["home/AGENTS.md: 0123", "repo/AGENTS.md: root rules", "repo/a/AGENTS.md: ab€f"], 0);
        check(14, &["home/AGENTS.md: 0123", "repo/AGENTS.md: root…", "repo/a/AGENTS.md: ab€f"], 1);
        // Characters are not split, and a file that does not fit at all is still listed.
        check(8, &["home/AGENTS.md: 0123", "repo/AGENTS.md: ro…", "repo/a/AGENTS.md: ab…"], 2);
        check(4, &["home/AGENTS.md: 0123", "repo/AGENTS.md: …", "repo/a/AGENTS.md: …"], 2);
        check(0, &[], 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn unreadable_files_are_skipped_with_a_warning() {
        use std::os::unix::fs::symlink;

        let tree = Tree::new(&[("repo/rules", "linked"), ("repo/a/AGENTS.md", "a")]);
        // A file that fails when read, even for root.
        symlink("/proc/self/mem", tree.path("repo/AGENTS.override.md")).unwrap();
        symlink(tree.path("repo/rules"), tree.path("repo/AGENTS.md")).unwrap();
        symlink("nowhere", tree.path("repo/a/b/AGENTS.md")).unwrap();
        let found = tree.search().run(Some(&*tree.path("repo/a/b")), &|path| File::open(path));
        assert_eq!(tree.show(&found), ["repo/AGENTS.md: linked", "repo/a/AGENTS.md: a"]);
        assert_eq!(found.warnings.len(), 1);
        assert!(found.warnings[0].contains("AGENTS.override.md"), "{:?}", found.warnings);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let tree = Tree::new(&[]);
        fs::write(tree.path("repo/AGENTS.md"), b"\xef\xbb\xbfgood \xff bad").unwrap();
        fs::create_dir(tree.path("repo/a/AGENTS.md")).unwrap();
        assert_eq!(
            tree.show(&tree.search().run(Some(&*tree.path("repo/a")), &|path| File::open(path))),
            ["repo/AGENTS.md: good \u{fffd} bad"]
        );
    }

    #[test]
    fn without_files_there_is_no_text() {
        assert_eq!(ProjectDocs::default().text(), None);
    }
}
