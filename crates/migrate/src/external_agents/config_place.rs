//! The paths of the other agent's files and of ours.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::ImportError;

/// Maximum size of a file. Larger ones are ignored.
const MAX_BYTES: u64 = 1 << 20;

/// The user's home, or a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConfigPlace {
    Home { user: PathBuf, server: PathBuf },
    Project(PathBuf),
}

impl ConfigPlace {
    pub fn home(user: &Path, server: &Path) -> Self {
        Self::Home { user: user.to_owned(), server: server.to_owned() }
    }

    /// Returns the repository around a directory, or the directory itself; `None` if it does not exist.
    pub fn project(cwd: &Path) -> Option<Self> {
        if !cwd.is_absolute() || !cwd.is_dir() {
            return None;
        }
        let root = cwd.ancestors().find(|path| path.join(".git").exists()).unwrap_or(cwd);
        Some(Self::Project(root.to_owned()))
    }

    /// Returns the `cwd` of items in this place.
    pub fn cwd(&self) -> Option<String> {
        match self {
            Self::Home { .. } => None,
            Self::Project(root) => Some(root.to_string_lossy().into_owned()),
        }
    }

    /// Returns the other agent's directory.
    pub fn agent_directory(&self) -> PathBuf {
        match self {
            Self::Home { user: root, .. } | Self::Project(root) => root.join(".claude"),
        }
    }

    pub fn settings_file(&self) -> PathBuf {
        self.agent_directory().join("settings.json")
    }

    /// Returns the file that lists the other agent's MCP servers.
    pub fn servers_file(&self) -> PathBuf {
        match self {
            Self::Home { user, .. } => user.join(".claude.json"),
            Self::Project(root) => root.join(".mcp.json"),
        }
    }

    /// Returns the files that may hold the other agent's instructions. The first with text is used.
    pub fn instruction_sources(&self) -> Vec<PathBuf> {
        let inner = self.agent_directory().join("CLAUDE.md");
        match self {
            Self::Home { .. } => vec![inner],
            Self::Project(root) => vec![root.join("CLAUDE.md"), inner],
        }
    }

    /// Returns the file of our configuration.
    pub fn config_file(&self) -> PathBuf {
        match self {
            Self::Home { server, .. } => server.join("config.toml"),
            Self::Project(root) => root.join(".codex").join("config.toml"),
        }
    }

    /// Returns the file of our instructions.
    pub fn instructions_file(&self) -> PathBuf {
        match self {
            Self::Home { server: root, .. } | Self::Project(root) => root.join("AGENTS.md"),
        }
    }

    /// Returns the directory of skills that several agents share.
    pub fn skills_directory(&self) -> PathBuf {
        match self {
            Self::Home { user: root, .. } | Self::Project(root) => root.join(".agents").join("skills"),
        }
    }
}

/// Reads a text file. Returns `None` if it does not exist, is too large, or is not a regular file of UTF-8.
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

/// Writes a file atomically, and creates the directories above it.
pub(super) fn write(path: &Path, text: &str) -> Result<(), ImportError> {
    let failed = || ImportError::io(path);
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(failed())?;
    codicil_config::replace_shared(path, text.as_bytes(), readable()).map_err(failed())
}

/// Returns the mode of a new file, that of ordinary files in a project.
fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}
