//! Reading configuration files, at most once per change.
//!
//! A file is read again when its modification time, size or identity has changed. The resolution of file times is limited, so a
//! file that was read right after a change is read again the next time.

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
    KeyPath,
    catalogue::unknown_keys,
    error::{ConfigError, ConfigProblem, FileProblem},
    key_location,
    paths::resolve_relative_paths,
    settings::ConfigSettings,
    version::version,
};

/// The maximum size of a file. No real configuration comes near it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The resolution of file times.
const CLOCK_STEP: Duration = Duration::from_millis(50);
/// The maximum number of cached files. Beyond it the cache is cleared.
const MAX_ENTRIES: usize = 256;

/// The character with which some editors begin files.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// A configuration file whose values have the right types.
pub(crate) struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    pub version: String,
    pub written: Arc<Table>,
    pub table: Arc<Table>,
    /// The keys that are not in the catalogue.
    pub unknown: Vec<KeyPath>,
}

/// Whether unknown keys are an error.
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
        let unknown = unknown_keys(&written);
        if strictness == Strictness::Strict {
            check_keys(path, &text, &unknown)?;
        }
        let mut table = written.clone();
        if let Some(folder) = path.parent() {
            resolve_relative_paths(&mut table, folder);
        }
        let version = version(&written);
        Ok(Self {
            path: path.to_owned(),
            text,
            version,
            written: Arc::new(written),
            table: Arc::new(table),
            unknown,
        })
    }

    /// Returns the content of a missing file.
    pub(crate) fn empty(path: &Path) -> Self {
        let table = Arc::new(Table::new());
        Self {
            path: path.to_owned(),
            text: String::new(),
            version: version(&table),
            written: Arc::clone(&table),
            table,
            unknown: Vec::new(),
        }
    }
}

/// Parses a file without checking its values.
pub(crate) fn parse_table(path: &Path, text: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        let problem = ConfigProblem { reason: error.message().to_owned(), key: None };
        ConfigError::InFile(FileProblem::new(path, text, error.span(), problem))
    })
}

fn check_values(path: &Path, text: &str, table: &Table) -> Result<(), ConfigError> {
    let Err(problem) = ConfigSettings::read(table) else { return Ok(()) };
    // Parsed again from the text, which yields the location.
    let spanned = toml::Deserializer::parse(text).and_then(ConfigSettings::deserialize);
    let span = spanned.err().and_then(|error| error.span());
    let span = span.or_else(|| key_location::of_joined_key(text, problem.key.as_deref()?));
    Err(ConfigError::InFile(FileProblem::new(path, text, span, problem)))
}

fn check_keys(path: &Path, text: &str, unknown: &[KeyPath]) -> Result<(), ConfigError> {
    let Some(unknown) = unknown.first() else { return Ok(()) };
    let span = key_location::of_value(text, unknown);
    let problem = ConfigProblem::new(unknown.to_string(), "unknown configuration key");
    Err(ConfigError::InFile(FileProblem::new(path, text, span, problem)))
}

/// The identity of the state of a file, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    modified: Option<SystemTime>,
    size: u64,
    identity: (u64, u64),
}

impl FileFingerprint {
    /// Returns `None` for a missing file.
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

    /// Returns whether a later change would change the fingerprint.
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

/// Opens a regular file for reading. Anything else, such as a named pipe or a device, is an error and never blocks: a command
/// may have created it in a project.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Reads a regular file, up to the maximum size.
pub(crate) fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a file and its fingerprint; `None` if it is missing.
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

/// A cache of parsed files.
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
    /// Returns the parsed file; `None` if it is missing. Errors are cached too.
    pub(crate) fn get(
        &self,
        path: &Path,
        parse: impl FnOnce(&Path, String) -> Result<T, ConfigError>,
    ) -> Result<Option<Arc<T>>, ConfigError> {
        let now = FileFingerprint::of(path).map_err(|error| ConfigError::unreadable(path, error))?;
        let Some(now) = now else { return Ok(None) };
        if let Some(cached) = self.cached(path, now) {
            return cached.map(Some);
        }
        let read_at = SystemTime::now();
        let Some((text, fingerprint)) = read_text(path)? else { return Ok(None) };
        let parsed = parse(path, text).map(Arc::new);
        let settled = fingerprint.is_settled(read_at);
        self.insert(path, CachedFile { fingerprint, settled, parsed: parsed.clone() });
        parsed.map(Some)
    }

    fn cached(&self, path: &Path, now: FileFingerprint) -> Option<Result<Arc<T>, ConfigError>> {
        let entries = self.0.lock();
        let entry = entries.get(path)?;
        (entry.settled && entry.fingerprint == now).then(|| entry.parsed.clone())
    }

    fn insert(&self, path: &Path, entry: CachedFile<T>) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(path) {
            entries.clear();
        }
        entries.insert(path.to_owned(), entry);
    }
}
