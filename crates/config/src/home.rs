//! The home directory with all files of one user, and the system-wide files.
//!
//! Determining the directory does not access the disk. It is created with the first write.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use codicil_protocol::AbsolutePathBuf;

use crate::error::ConfigError;

/// The environment variables for the home. The first that is set and not empty is used.
const VARIABLES: [&str; 2] = ["CODICIL_HOME", "CODEX_HOME"];

/// The home of a user: `CODICIL_HOME`, `CODEX_HOME` or `~/.codicil`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeDirectory(AbsolutePathBuf);

impl HomeDirectory {
    /// Reads the environment. A relative path is resolved against the current directory.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(|name| env::var_os(name), env::home_dir())
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        user_home: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let named = VARIABLES.into_iter().filter_map(variable).find(|value| !value.is_empty());
        match (named, user_home) {
            (Some(path), _) => Self::new(path),
            (None, Some(user_home)) => Self::new(user_home.join(".codicil")),
            (None, None) => Err(ConfigError::NoHome),
        }
    }

    pub fn new(path: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.into();
        let absolute = std::path::absolute(&path).ok().and_then(AbsolutePathBuf::new);
        absolute.map(Self).ok_or(ConfigError::NoHome)
    }

    pub fn path(&self) -> &AbsolutePathBuf {
        &self.0
    }

    /// Returns the user's configuration file, the only one that clients can write.
    pub fn config_file(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    pub fn requirements_file(&self) -> PathBuf {
        self.0.join("requirements.toml")
    }

    /// Returns the directory of the user's rules about commands and hosts.
    pub fn rules_dir(&self) -> PathBuf {
        self.0.join("rules")
    }

    /// Creates the directory with mode 0700. An existing directory keeps its mode.
    pub fn ensure(&self) -> io::Result<()> {
        create_private_dir(&self.0)
    }
}

#[cfg(unix)]
fn create_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The paths of the administrator's files.
///
/// Of each kind, the first candidate that exists is used. So a machine that is set up for the reference server works unchanged,
/// and `/etc/codicil` can override it.
#[derive(Clone, Debug)]
pub struct SystemFiles {
    pub config: Vec<PathBuf>,
    pub requirements: Vec<PathBuf>,
}

impl Default for SystemFiles {
    fn default() -> Self {
        let candidates = |name| ["/etc/codicil", "/etc/codex"].map(|dir| Path::new(dir).join(name)).to_vec();
        Self { config: candidates("config.toml"), requirements: candidates("requirements.toml") }
    }
}

impl SystemFiles {
    /// Returns the file of the system layer. The layer exists even if no file does; it then has the last candidate as its name,
    /// which clients of the reference server know.
    pub fn config_file(&self) -> Option<&Path> {
        first_existing(&self.config).or(self.config.last().map(PathBuf::as_path))
    }

    pub fn requirements_file(&self) -> Option<&Path> {
        first_existing(&self.requirements)
    }
}

fn first_existing(candidates: &[PathBuf]) -> Option<&Path> {
    candidates.iter().map(PathBuf::as_path).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &[(&str, &str)], expected: &str) {
        let variable = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let home = HomeDirectory::from_variables(variable, Some("/home/me".into())).unwrap();
        assert_eq!(&**home.path(), Path::new(expected));
    }

    #[test]
    fn codicil_home_takes_precedence_over_codex_home_and_the_default() {
        check(&[("CODICIL_HOME", "/a"), ("CODEX_HOME", "/b")], "/a");
        check(&[("CODEX_HOME", "/b")], "/b");
        check(&[("CODICIL_HOME", ""), ("CODEX_HOME", "/b")], "/b");
        check(&[], "/home/me/.codicil");
    }

    #[test]
    fn the_first_existing_system_file_is_used_and_the_last_one_is_the_default_name() {
        let missing = PathBuf::from("/no/such/place/config.toml");
        let here = env::current_exe().unwrap();
        let files = |config: &[&PathBuf]| SystemFiles {
            config: config.iter().map(|path| (*path).clone()).collect(),
            requirements: vec![missing.clone()],
        };
        assert_eq!(files(&[&here, &missing]).config_file(), Some(here.as_path()));
        assert_eq!(files(&[&missing]).config_file(), Some(missing.as_path()));
        assert_eq!(files(&[]).config_file(), None);
        assert_eq!(files(&[]).requirements_file(), None);
        assert_eq!(SystemFiles::default().config.last().unwrap(), Path::new("/etc/codex/config.toml"));
    }

    #[test]
    fn a_missing_home_is_an_error() {
        assert_eq!(HomeDirectory::from_variables(|_| None, None), Err(ConfigError::NoHome));
    }
}
