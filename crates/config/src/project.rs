//! The project of a working directory: its root and its configuration directories.

use std::path::{Path, PathBuf};

use crate::HomeDirectory;

/// The names of configuration directories, in order of increasing precedence.
pub(crate) const DOT_FOLDERS: [&str; 2] = [".codex", ".codicil"];

/// A working directory and the project it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDirectory {
    /// The nearest directory, from the working directory upwards, that contains a marker; otherwise the working directory.
    pub root: PathBuf,
    /// The directories from the root down to the working directory.
    folders: Vec<PathBuf>,
}

impl ProjectDirectory {
    pub(crate) fn around(cwd: &Path, markers: &[String]) -> Self {
        let has_marker = |folder: &Path| markers.iter().any(|marker| folder.join(marker).exists());
        let root = cwd.ancestors().find(|folder| has_marker(folder)).unwrap_or(cwd).to_owned();
        let above_or_at = |folder: &&Path| folder.starts_with(&root);
        let mut folders: Vec<_> = cwd.ancestors().take_while(above_or_at).map(Path::to_owned).collect();
        folders.reverse();
        Self { root, folders }
    }

    /// Returns the possible configuration directories in order of increasing precedence, each with its parent. Excludes the
    /// user's home, which is the user layer.
    pub(crate) fn dot_folders<'p>(
        &'p self,
        home: &'p HomeDirectory,
    ) -> impl Iterator<Item = (PathBuf, &'p Path)> {
        let all = self
            .folders
            .iter()
            .flat_map(|folder| DOT_FOLDERS.iter().map(move |name| (folder.join(name), folder.as_path())));
        all.filter(|(dot_folder, _)| !is_same_folder(dot_folder, home.path()))
    }

    /// Returns the directories whose trust applies to `folder`: itself and its parents up to the root.
    pub(crate) fn upwards_from<'p>(&'p self, folder: &'p Path) -> impl Iterator<Item = &'p Path> {
        self.folders.iter().rev().map(PathBuf::as_path).filter(move |above| folder.starts_with(above))
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
