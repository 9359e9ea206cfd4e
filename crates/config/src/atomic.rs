//! Replacing a file as a whole: readers see the old text or the new one, never a part.
//!
//! The text is written to a temporary file beside the old one, for its owner only, and renamed. A process that is
//! killed meanwhile leaves the temporary file; the next write removes it, and so does the next start of a server.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

/// Links that are followed before a loop is assumed.
const MAX_LINKS: usize = 32;

/// A temporary file that has not been written to for so long was left behind. No write takes a second. Its process
/// is not looked for: servers in several containers may share a home and not see each other.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// The file a path leads to in the end, which need not exist. A link stays a link when its file is replaced.
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

/// Writes beside the file and renames. The file keeps its mode; a new one is for its owner only.
///
/// `unchanged` is asked at the last moment; the file is left alone when it says no, and the answer returned.
pub(crate) fn replace(path: &Path, text: &str, unchanged: impl FnOnce() -> bool) -> io::Result<bool> {
    let temporary = TemporaryFile::write_beside(path, text.as_bytes())?;
    if !unchanged() {
        return Ok(false);
    }
    let mode = fs::metadata(path).ok().map(|found| found.permissions());
    temporary.rename_to(path, mode)?;
    Ok(true)
}

/// Replaces a file that holds credentials: the new one is for its owner only, whatever the old one was. A link stays
/// a link; its file is replaced.
pub fn replace_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = follow_links(path)?;
    TemporaryFile::write_beside(&path, text)?.rename_to(&path, None)
}

/// Replaces a file that others may read too: it keeps its mode, and a new one has `new`. A link stays a link; its file
/// is replaced.
pub fn replace_shared(path: &Path, text: &[u8], new: Permissions) -> io::Result<()> {
    let path = follow_links(path)?;
    let temporary = TemporaryFile::write_beside(&path, text)?;
    let mode = fs::metadata(&path).map_or(new, |found| found.permissions());
    temporary.rename_to(&path, Some(mode))
}

/// Removes the temporary files in a folder that killed processes left there.
pub fn remove_leftovers(folder: &Path) {
    remove_leftovers_where(folder, |_| true);
}

fn remove_leftovers_where(folder: &Path, is_wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let replaced = name.to_str().and_then(replaced_file);
        if replaced.is_some_and(&is_wanted) && is_left_behind(&entry) {
            // Another process may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The name of the file that a temporary file was to replace. `None` for other files.
fn replaced_file(name: &str) -> Option<&str> {
    let (rest, number) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (replaced, process) = rest.rsplit_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(process) && !replaced.is_empty()).then_some(replaced)
}

fn is_left_behind(entry: &fs::DirEntry) -> bool {
    let Ok(found) = entry.metadata() else { return false };
    let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    found.is_file() && age.is_some_and(|age| age > LEFT_BEHIND)
}

/// A file that goes away unless it is renamed.
struct TemporaryFile {
    path: PathBuf,
    file: File,
}

impl TemporaryFile {
    fn write_beside(path: &Path, text: &[u8]) -> io::Result<Self> {
        let mut temporary = Self::create_beside(path)?;
        temporary.file.write_all(text)?;
        temporary.file.sync_all()?;
        Ok(temporary)
    }

    fn create_beside(path: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(folder) = path.parent() {
            remove_leftovers_where(folder, |replaced| replaced == name);
        }
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = path.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
            match open_private(OpenOptions::new().write(true).create_new(true)).open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the file its mode only when it has its name: under the temporary one it is for its owner only, also if
    /// the process is killed right now.
    fn rename_to(self, path: &Path, mode: Option<Permissions>) -> io::Result<()> {
        // Dropping `self` afterwards finds nothing to remove.
        fs::rename(&self.path, path)?;
        if let Some(mode) = mode {
            self.file.set_permissions(mode)?;
        }
        sync_folder(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
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

/// So that the new name survives a power cut. Not every system can sync a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().map(File::open) {
        Some(Ok(folder)) if cfg!(unix) => folder.sync_all(),
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
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let ours = [".config.toml.1.0.tmp", ".config.toml.4711.12.tmp", ".auth.json.9.3.tmp"];
        let others =
            [".config.toml.tmp", "config.toml.1.0.tmp", ".config.toml.x.0.tmp", ".1.0.tmp", ".a.1.0.tmp.bak"];
        for name in ours.iter().chain(&others) {
            fs::write(at(name), "secret").unwrap();
            age(&at(name), LEFT_BEHIND * 2);
        }
        let young = ".config.toml.2.0.tmp";
        fs::write(at(young), "secret").unwrap();
        fs::create_dir(at(".config.toml.3.0.tmp")).unwrap();

        replace_private(&at("config.toml"), b"text").unwrap();
        let is_there = |name: &&str| at(name).exists();
        assert!(!ours[..2].iter().any(is_there), "left by writers of the same file");
        assert!(is_there(&ours[2]), "another file's");
        remove_leftovers(home.path());
        assert!(!ours.iter().any(is_there));
        assert!(others.iter().all(is_there) && is_there(&young));
        assert!(at(".config.toml.3.0.tmp").exists(), "no file");
    }

    #[cfg(unix)]
    #[test]
    fn a_temporary_file_is_for_its_owner_only_whatever_it_replaces() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let seen = std::cell::Cell::new(0);
        let replaced = replace(&path, "new", || {
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
