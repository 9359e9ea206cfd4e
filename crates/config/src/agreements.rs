//! The user's agreement to configuration directories that commands could have created.
//!
//! The configuration of a trusted project names programs that the server starts without a sandbox: MCP servers, hooks. An
//! existing directory such as `.codex` is read-only for sandboxed commands, but a command can create one where there is none. So
//! the store records since when commands can write to a directory. Newer configuration below it is not used until the user
//! agrees, by marking the project as trusted again.
//!
//! Times are the `ctime` of files, which a command cannot set.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{HomeDirectory, atomic_file::replace_private, project::DOT_FOLDERS, user_file::lock};

/// The files in a configuration directory that name programs.
const FILES: [&str; 2] = ["config.toml", "hooks.json"];

/// File times can lag behind the clock by a few milliseconds.
const CLOCK_LAG: Duration = Duration::from_secs(1);

/// The directories that this process has added to the record.
#[derive(Debug, Default)]
pub(crate) struct Agreements {
    noted: Mutex<HashSet<PathBuf>>,
}

/// The record in the home.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct AgreementRecord {
    /// The time since which sandboxed commands can write to a directory, in milliseconds.
    writable_since: BTreeMap<PathBuf, i64>,
    /// The time until which all configuration of a project is agreed to, in milliseconds.
    agreed_until: BTreeMap<PathBuf, i64>,
    /// Configuration directories that existed before commands could write, or that were agreed to. They are read-only for
    /// commands, so later changes are made by the user.
    agreed: Vec<AgreedFolder>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AgreedFolder {
    path: PathBuf,
    /// Distinguishes a directory that was removed and created again.
    inode: u64,
    created: i64,
}

impl Agreements {
    /// Records that commands can write to these directories from now on. `existing` are the configuration directories in them.
    /// Must be called before the first such command starts.
    pub(crate) fn note_writable(
        &self,
        home: &HomeDirectory,
        folders: &[PathBuf],
        existing: &[PathBuf],
    ) -> io::Result<()> {
        let mut noted = self.noted.lock();
        if folders.iter().all(|folder| noted.contains(folder)) {
            return Ok(());
        }
        change(home, |record| {
            let new = existing.iter().filter(|folder| record.since(folder).is_none());
            let new: Vec<_> = new.filter_map(|folder| AgreedFolder::of(folder)).collect();
            record.agreed.extend(new);
            let now = millis(SystemTime::now() - CLOCK_LAG);
            for folder in folders {
                record.writable_since.entry(folder.clone()).or_insert(now);
            }
        })?;
        noted.extend(folders.iter().cloned());
        Ok(())
    }

    /// Agrees to the current configuration of a project.
    pub(crate) fn agree(&self, home: &HomeDirectory, project: &Path) -> io::Result<()> {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        change(home, |record| {
            record.agreed_until.insert(project.clone(), millis(SystemTime::now()));
            let folders = DOT_FOLDERS.map(|name| project.join(name));
            record.agreed.extend(folders.iter().filter_map(|folder| AgreedFolder::of(folder)));
        })
    }

    /// Returns the directory to which commands could write when this configuration directory appeared, if the user has not agreed
    /// to it since. If the record cannot be read, commands could have written anywhere.
    pub(crate) fn unagreed(&self, home: &HomeDirectory, folder: &Path) -> Option<PathBuf> {
        let folder = folder.canonicalize().ok()?;
        let record = match read(home) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!("{} is not used: {error}", folder.display());
                return folder.parent().map(Path::to_owned);
            }
        };
        let (root, since) = record.since(&folder)?;
        let changed = changed(&folder);
        let agreed_until = record.agreed_until.iter().filter(|(project, _)| folder.starts_with(project));
        let is_agreed = changed < since
            || agreed_until.into_iter().any(|(_, until)| changed <= *until)
            || AgreedFolder::of(&folder).is_some_and(|folder| record.agreed.contains(&folder));
        (!is_agreed).then(|| root.to_owned())
    }
}

impl AgreementRecord {
    /// Returns the directory in which commands can create a path, and the time since then.
    fn since(&self, path: &Path) -> Option<(&Path, i64)> {
        let around = self.writable_since.iter().filter(|(folder, _)| path.starts_with(folder));
        around.map(|(folder, since)| (folder.as_path(), *since)).min_by_key(|(_, since)| *since)
    }
}

impl AgreedFolder {
    /// Returns `None` if the directory does not exist.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir)?;
        let created = metadata.created().map(millis).unwrap_or_default();
        Some(Self { path: path.to_owned(), inode: metadata.ino(), created })
    }
}

/// Returns the time at which a configuration directory was last created, renamed or changed.
fn changed(folder: &Path) -> i64 {
    let paths = FILES.iter().map(|name| folder.join(name)).chain([folder.to_owned()]);
    let metadata = paths.filter_map(|path| fs::symlink_metadata(path).ok());
    let times = metadata.map(|found| found.ctime().saturating_mul(1_000) + found.ctime_nsec() / 1_000_000);
    times.max().unwrap_or_default()
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn file(home: &HomeDirectory) -> PathBuf {
    home.path().join("project_agreements.json")
}

/// Reads the record. It is empty if there is no file. Errors name the file.
fn read(home: &HomeDirectory) -> io::Result<AgreementRecord> {
    let path = file(home);
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()));
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(AgreementRecord::default()),
        Err(error) => Err(failed(error)),
    }
}

fn change(home: &HomeDirectory, change: impl FnOnce(&mut AgreementRecord)) -> io::Result<()> {
    home.ensure()?;
    // The lock prevents lost updates by other servers with the same home.
    let _lock = lock(home).map_err(io::Error::other)?;
    // A record that cannot be read must not be replaced: commands could write to the directories in it.
    let mut record = read(home)?;
    change(&mut record);
    record.agreed.retain(|folder| AgreedFolder::of(&folder.path).as_ref() == Some(folder));
    let text = serde_json::to_vec_pretty(&record)?;
    replace_private(&file(home), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        home: HomeDirectory,
        workspace: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            let workspace = base.join("w");
            fs::create_dir(&workspace).unwrap();
            Self { home: HomeDirectory::new(base.join("home")).unwrap(), workspace, _dir: dir }
        }

        fn folder(&self, name: &str) -> PathBuf {
            let folder = self.workspace.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.toml"), "").unwrap();
            folder
        }

        /// Asks as a new process would.
        fn unagreed(&self, folder: &Path) -> Option<PathBuf> {
            Agreements::default().unagreed(&self.home, folder)
        }

        fn note(&self, existing: &[PathBuf]) {
            let folders = std::slice::from_ref(&self.workspace);
            Agreements::default().note_writable(&self.home, folders, existing).unwrap();
        }
    }

    #[test]
    fn an_existing_directory_is_used_also_after_changes() {
        let place = Place::new();
        let before = place.folder(".codex");
        assert_eq!(place.unagreed(&before), None);
        place.note(std::slice::from_ref(&before));
        fs::write(before.join("config.toml"), "model = 'x'").unwrap();
        assert_eq!(place.unagreed(&before), None);
    }

    #[test]
    fn a_new_directory_is_not_used_until_the_user_agrees() {
        let place = Place::new();
        place.note(&[]);
        let top = place.folder(".codicil");
        let nested = place.folder("a/b/.codex");
        assert_eq!(place.unagreed(&top), Some(place.workspace.clone()));
        assert_eq!(place.unagreed(&nested), Some(place.workspace.clone()));
        // Recording it again in a later process is not an agreement.
        place.note(&[top.clone(), nested.clone()]);
        assert_eq!(place.unagreed(&top), Some(place.workspace.clone()));

        Agreements::default().agree(&place.home, &place.workspace).unwrap();
        assert_eq!((place.unagreed(&top), place.unagreed(&nested)), (None, None));
        // It is read-only for commands from now on, so later changes are made by the user.
        fs::write(top.join("config.toml"), "model = 'x'").unwrap();
        assert_eq!(place.unagreed(&top), None);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_kept_and_trusts_nothing() {
        let place = Place::new();
        place.note(&[]);
        let folder = place.folder(".codex");
        let record = file(&place.home);
        fs::write(&record, "{ torn").unwrap();
        assert_eq!(place.unagreed(&folder), Some(place.workspace.clone()));
        let error = Agreements::default().agree(&place.home, &place.workspace).unwrap_err().to_string();
        assert!(error.contains(record.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(&record).unwrap(), "{ torn");
    }

    #[test]
    fn a_recreated_or_moved_directory_is_a_new_one() {
        let place = Place::new();
        let before = place.folder(".codex");
        let moved = place.folder("innocent");
        place.note(std::slice::from_ref(&before));
        fs::remove_dir_all(&before).unwrap();
        fs::rename(&moved, &before).unwrap();
        assert_eq!(place.unagreed(&before), Some(place.workspace.clone()));
        assert_eq!(place.unagreed(&place.workspace.with_file_name("elsewhere")), None);
    }
}
