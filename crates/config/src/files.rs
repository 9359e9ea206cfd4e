//! Reading configuration files, at most once per change.
//!
//! A file is read again when its modification time, size or identity changed. A time stamp is no proof
//! while it is younger than the clock that made it is fine, so an entry read right after a change is
//! checked again the next time.

use std::{
    collections::HashMap,
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde::Deserialize;
use toml::Table;

use crate::{
    error::{ConfigError, ConfigProblem, FileProblem},
    location,
    paths::resolve_relative_paths,
    settings::ConfigSettings,
    strict::unknown_key,
    version::version,
};

/// No configuration written by people comes near; more is a mistake or an attack.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// File systems stamp times in steps of up to this.
const CLOCK_STEP: Duration = Duration::from_millis(50);
/// Files remembered; beyond it the memory starts afresh.
const MAX_ENTRIES: usize = 256;

/// What some editors begin files with.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// A configuration file that was read and whose values have the right types.
pub(crate) struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    pub version: String,
    pub written: Arc<Table>,
    pub table: Arc<Table>,
}

/// Whether keys that mean nothing are an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    #[default]
    Lenient,
    Strict,
}

impl ConfigFile {
    pub(crate) fn parse(path: &Path, mut text: String, strictness: Strictness) -> Result<Self, ConfigError> {
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        let written = parse_table(path, &text)?;
        check_values(path, &text, &written)?;
        if strictness == Strictness::Strict {
            check_keys(path, &text, &written)?;
        }
        let mut table = written.clone();
        if let Some(folder) = path.parent() {
            resolve_relative_paths(&mut table, folder);
        }
        let version = version(&written);
        Ok(Self { path: path.to_owned(), text, version, written: Arc::new(written), table: Arc::new(table) })
    }

    /// What a file that is not there says.
    pub(crate) fn empty(path: &Path) -> Self {
        let table = Arc::new(Table::new());
        Self {
            path: path.to_owned(),
            text: String::new(),
            version: version(&table),
            written: Arc::clone(&table),
            table,
        }
    }
}

/// Only the syntax; whether the values mean something is another question.
pub(crate) fn parse_table(path: &Path, text: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        let problem = ConfigProblem { reason: error.message().to_owned(), key: None };
        ConfigError::InFile(FileProblem::new(path, text, error.span(), problem))
    })
}

fn check_values(path: &Path, text: &str, table: &Table) -> Result<(), ConfigError> {
    let Err(problem) = ConfigSettings::read(table) else { return Ok(()) };
    // Read once more from the text: that knows where in the file it is.
    let spanned = toml::Deserializer::parse(text).and_then(ConfigSettings::deserialize);
    let span = spanned.err().and_then(|error| error.span());
    let span = span.or_else(|| location::of_joined_key(text, problem.key.as_deref()?));
    Err(ConfigError::InFile(FileProblem::new(path, text, span, problem)))
}

fn check_keys(path: &Path, text: &str, table: &Table) -> Result<(), ConfigError> {
    let Some(unknown) = unknown_key(table) else { return Ok(()) };
    let span = location::of_value(text, &unknown);
    let problem = ConfigProblem::new(unknown.to_string(), "unknown configuration key");
    Err(ConfigError::InFile(FileProblem::new(path, text, span, problem)))
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    modified: Option<SystemTime>,
    size: u64,
    identity: (u64, u64),
}

impl FileFingerprint {
    /// `None` for a file that is not there.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::from(&metadata))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn from(metadata: &Metadata) -> Self {
        Self { modified: metadata.modified().ok(), size: metadata.len(), identity: identity(metadata) }
    }

    /// Whether a later change would certainly show.
    fn is_settled(&self, read_at: SystemTime) -> bool {
        let age = self.modified.and_then(|modified| read_at.duration_since(modified).ok());
        age.is_some_and(|age| age > CLOCK_STEP)
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_metadata: &Metadata) -> (u64, u64) {
    (0, 0)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a file for reading. Something else in its place (a named pipe, a device) is an error, and never waited for:
/// a command may have put it into a project.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// The text of a regular file, at most as much as configuration may have.
pub(crate) fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// The text of a file and the state it was read in; `None` when there is no file.
pub(crate) fn read_text(path: &Path) -> Result<Option<(String, FileFingerprint)>, ConfigError> {
    let unreadable = |error: io::Error| ConfigError::unreadable(path, error);
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() > MAX_BYTES {
        return Err(ConfigError::unreadable(path, format_args!("larger than {MAX_BYTES} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| ConfigError::unreadable(path, "not valid UTF-8"))?;
    Ok(Some((text, FileFingerprint::from(&metadata))))
}

/// Remembers what files say until they change.
pub(crate) struct FileCache<T>(Mutex<HashMap<PathBuf, CachedFile<T>>>);

struct CachedFile<T> {
    fingerprint: FileFingerprint,
    settled: bool,
    parsed: Result<Arc<T>, ConfigError>,
}

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> FileCache<T> {
    /// What the file says now; `None` when there is none. A file that cannot be used is remembered too.
    pub(crate) fn get(
        &self,
        path: &Path,
        parse: impl FnOnce(&Path, String) -> Result<T, ConfigError>,
    ) -> Result<Option<Arc<T>>, ConfigError> {
        let now = FileFingerprint::of(path).map_err(|error| ConfigError::unreadable(path, error))?;
        let Some(now) = now else { return Ok(None) };
        if let Some(known) = self.known(path, now) {
            return known.map(Some);
        }
        let read_at = SystemTime::now();
        let Some((text, fingerprint)) = read_text(path)? else { return Ok(None) };
        let parsed = parse(path, text).map(Arc::new);
        let settled = fingerprint.is_settled(read_at);
        self.remember(path, CachedFile { fingerprint, settled, parsed: parsed.clone() });
        parsed.map(Some)
    }

    fn known(&self, path: &Path, now: FileFingerprint) -> Option<Result<Arc<T>, ConfigError>> {
        let entries = self.0.lock();
        let entry = entries.get(path)?;
        (entry.settled && entry.fingerprint == now).then(|| entry.parsed.clone())
    }

    fn remember(&self, path: &Path, entry: CachedFile<T>) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(path) {
            entries.clear();
        }
        entries.insert(path.to_owned(), entry);
    }
}
