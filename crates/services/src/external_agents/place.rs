//! Where the other agent's things are, and where ours go.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::ImportError;

/// No file of a person's own comes near; more is not read.
const MAX_BYTES: u64 = 1 << 20;

/// A person's home, or a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfigPlace {
    Home { user: PathBuf, server: PathBuf },
    Project(PathBuf),
}

impl ConfigPlace {
    pub fn home(user: &Path, server: &Path) -> Self {
        Self::Home { user: user.to_owned(), server: server.to_owned() }
    }

    /// The repository around a directory, or the directory itself. `None` when it does not exist.
    pub fn project(cwd: &Path) -> Option<Self> {
        if !cwd.is_absolute() || !cwd.is_dir() {
            return None;
        }
        let root = cwd.ancestors().find(|path| path.join(".git").exists()).unwrap_or(cwd);
        Some(Self::Project(root.to_owned()))
    }

    /// How items name it.
    pub fn cwd(&self) -> Option<String> {
        match self {
            Self::Home { .. } => None,
            Self::Project(root) => Some(root.to_string_lossy().into_owned()),
        }
    }

    /// The other agent's directory.
    pub fn agent(&self) -> PathBuf {
        match self {
            Self::Home { user: root, .. } | Self::Project(root) => root.join(".claude"),
        }
    }

    pub fn settings(&self) -> PathBuf {
        self.agent().join("settings.json")
    }

    /// Where it keeps its MCP servers.
    pub fn servers(&self) -> PathBuf {
        match self {
            Self::Home { user, .. } => user.join(".claude.json"),
            Self::Project(root) => root.join(".mcp.json"),
        }
    }

    /// Where its instructions may be; the first that says something counts.
    pub fn sources(&self) -> Vec<PathBuf> {
        let inner = self.agent().join("CLAUDE.md");
        match self {
            Self::Home { .. } => vec![inner],
            Self::Project(root) => vec![root.join("CLAUDE.md"), inner],
        }
    }

    /// Our configuration.
    pub fn config(&self) -> PathBuf {
        match self {
            Self::Home { server, .. } => server.join("config.toml"),
            Self::Project(root) => root.join(".codex").join("config.toml"),
        }
    }

    /// Our instructions.
    pub fn instructions(&self) -> PathBuf {
        match self {
            Self::Home { server: root, .. } | Self::Project(root) => root.join("AGENTS.md"),
        }
    }

    /// Skills, where agents of several makers look.
    pub fn skills(&self) -> PathBuf {
        match self {
            Self::Home { user: root, .. } | Self::Project(root) => root.join(".agents").join("skills"),
        }
    }
}

/// The text of a file; `None` when there is none, or nothing that could be text of a person.
pub(super) fn read(path: &Path) -> Result<Option<String>, ImportError> {
    let file = match codicil_fs::open_regular(path) {
        Ok(file) => file,
        Err(codicil_fs::FileError::Io(error)) if !is_missing(&error) => {
            return Err(ImportError::io(path)(error));
        }
        Err(_) => return Ok(None),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(ImportError::io(path))?;
    Ok(String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= MAX_BYTES))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}

/// Writes a file with the directories above it. Readers see all of it or nothing.
pub(super) fn write(path: &Path, text: &str) -> Result<(), ImportError> {
    let failed = || ImportError::io(path);
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(failed())?;
    codicil_config::replace_shared(path, text.as_bytes(), readable()).map_err(failed())
}

/// The mode of a new file: it is as readable as others of a person's projects.
fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}
