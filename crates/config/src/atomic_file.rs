//! Replacing files atomically: readers see the old content or the new one, never a part of it.
//!
//! The content is written to a temporary file in the same directory, readable by its owner only, synced and renamed.
//! `tempfile` does the work; this module adds what it leaves open: symbolic links, the mode of the new file, syncing the
//! directory, and cleaning up. A process that is killed during a write leaves its temporary file behind. The next write
//! of the same file removes it, and so does the next start of a server.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;

/// Links that are followed before a loop is assumed.
const MAX_LINKS: usize = 32;

/// The age at which a temporary file counts as left behind. No write takes a second. The writing process is not looked
/// for: servers in several containers may share a home without seeing each other's processes.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Random characters in the name of a temporary file.
const RANDOM_CHARS: usize = 6;

/// Follows symbolic links to the file that they lead to, which need not exist. Replacing that file keeps the link.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Replaces a file unless it has changed meanwhile. It keeps its mode; a new file is readable by its owner only.
///
/// Calls `is_unchanged` right before the file is renamed, and returns its result. If it is `false` the file is left
/// alone.
pub(crate) fn replace_if(path: &Path, text: &str, is_unchanged: impl FnOnce() -> bool) -> io::Result<bool> {
    let temporary = write_beside(path, text.as_bytes())?;
    if !is_unchanged() {
        return Ok(false);
    }
    let mode = fs::metadata(path).ok().map(|found| found.permissions());
    rename_to(temporary, path, mode)?;
    Ok(true)
}

/// Replaces a file that holds credentials: the new one is readable by its owner only, whatever the mode of the old one.
/// The target of a symbolic link is replaced, not the link.
pub fn replace_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = follow_links(path)?;
    rename_to(write_beside(&path, text)?, &path, None)
}

/// Replaces a file that others may read too: it keeps its mode, and a new one gets `new_mode`. The target of a symbolic
/// link is replaced, not the link.
pub fn replace_shared(path: &Path, text: &[u8], new_mode: Permissions) -> io::Result<()> {
    let path = follow_links(path)?;
    let temporary = write_beside(&path, text)?;
    let mode = fs::metadata(&path).map_or(new_mode, |found| found.permissions());
    rename_to(temporary, &path, Some(mode))
}

/// Removes the temporary files that killed processes left in a directory.
pub fn remove_leftovers(directory: &Path) {
    remove_leftovers_where(directory, |_| true);
}

fn remove_leftovers_where(directory: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let replaced = name.to_str().and_then(replaced_file);
        if replaced.is_some_and(&is_wanted) && is_leftover(&entry) {
            // Another process may have removed it already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the name of the file that a temporary file was to replace, given `.<name>.<process>.<random>.tmp`. `None` for
/// other files. Earlier versions had a number in the place of the random characters.
fn replaced_file(name: &str) -> Option<&str> {
    let (rest, unique) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (replaced, process) = rest.rsplit_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = unique.len() == RANDOM_CHARS && unique.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ((is_number(unique) || is_random) && is_number(process) && !replaced.is_empty()).then_some(replaced)
}

fn is_leftover(entry: &fs::DirEntry) -> bool {
    let Ok(found) = entry.metadata() else { return false };
    let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    found.is_file() && age.is_some_and(|age| age > LEFTOVER_AGE)
}

/// Writes and syncs a temporary file in the directory of `path`. It is removed unless it is renamed.
fn write_beside(path: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let directory = path.parent().unwrap_or(Path::new("/"));
    remove_leftovers_where(directory, |replaced| replaced == name);
    // Created with mode 0600.
    let mut temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}.{}.", std::process::id()))
        .rand_bytes(RANDOM_CHARS)
        .suffix(".tmp")
        .tempfile_in(directory)?;
    temporary.write_all(text)?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// Sets the mode only after the rename: under its temporary name the file is readable by its owner only, also if the
/// process is killed in between.
fn rename_to(temporary: NamedTempFile, path: &Path, mode: Option<Permissions>) -> io::Result<()> {
    let file = temporary.persist(path)?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    sync_directory(path)
}

#[cfg(unix)]
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Syncs the directory of `path`, so that the rename survives a power cut. Not every system can sync a directory.
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent().map(File::open) {
        Some(Ok(directory)) if cfg!(unix) => directory.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path, by: Duration) {
        File::open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
    }

    #[test]
    fn leftovers_of_killed_processes_are_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let ours = [".config.toml.1.0.tmp", ".config.toml.4711.aB3xY9.tmp", ".auth.json.9.3.tmp"];
        let others = [
            ".config.toml.tmp",
            "config.toml.1.0.tmp",
            ".config.toml.x.0.tmp",
            ".config.backup.tmp",
            ".config.1.backups.tmp",
            ".1.0.tmp",
            ".a.1.0.tmp.bak",
        ];
        for name in ours.iter().chain(&others) {
            fs::write(at(name), "secret").unwrap();
            age(&at(name), LEFTOVER_AGE * 2);
        }
        let young = ".config.toml.2.0.tmp";
        fs::write(at(young), "secret").unwrap();
        fs::create_dir(at(".config.toml.3.0.tmp")).unwrap();

        replace_private(&at("config.toml"), b"text").unwrap();
        let is_there = |name: &&str| at(name).exists();
        assert!(!ours[..2].iter().any(is_there), "of writers of the same file");
        assert!(is_there(&ours[2]), "of a writer of another file");
        remove_leftovers(home.path());
        assert!(!ours.iter().any(is_there));
        assert!(others.iter().all(is_there) && is_there(&young));
        assert!(at(".config.toml.3.0.tmp").exists(), "not a file");
    }

    #[cfg(unix)]
    #[test]
    fn a_temporary_file_is_readable_by_its_owner_only_whatever_it_replaces() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let seen = std::cell::Cell::new(0);
        let replaced = replace_if(&path, "new", || {
            let mut entries = fs::read_dir(home.path()).unwrap().flatten();
            let temporary = entries.find(|entry| entry.file_name() != "config.toml").unwrap();
            seen.set(mode(&temporary.path()));
            true
        });
        assert!(replaced.unwrap());
        assert_eq!((seen.get(), mode(&path)), (0o600, 0o644), "and the file keeps its mode");
        replace_shared(&home.path().join("new"), b"text", Permissions::from_mode(0o640)).unwrap();
        assert_eq!(mode(&home.path().join("new")), 0o640);
        replace_private(&path, b"secret").unwrap();
        assert_eq!((mode(&path), fs::read_dir(home.path()).unwrap().count()), (0o600, 2));
    }
}
