//! Contents, metadata and directories.

use std::{fs, path::Path, time::SystemTime};

use codicil_fs::{FileError, metadata, read_base64, read_directory};

use crate::support::{TestFolder, skipped};

fn read(path: &Path, limit: u64) -> Result<String, FileError> {
    let mut text = String::new();
    read_base64(path, limit, &mut text).map(|()| text)
}

#[test]
fn a_file_of_any_length_is_read_completely() {
    let place = TestFolder::new();
    // Around the size of the buffer.
    for length in [0, 1, 2, 3, 49_151, 49_152, 49_153, 200_000] {
        let bytes: Vec<_> = (0..length).map(|at: usize| (at % 251) as u8).collect();
        let path = place.path("file");
        fs::write(&path, &bytes).unwrap();
        let text = read(&path, 1 << 20).unwrap();
        assert_eq!(codicil_fs::decode_contents(&text).unwrap(), bytes, "{length} bytes");
    }
}

#[test]
fn a_file_beyond_the_limit_is_refused() {
    let place = TestFolder::new();
    let path = place.file("file", "12345");
    assert!(read(&path, 5).is_ok());
    let error = read(&path, 4).unwrap_err();
    assert_eq!(error.to_string(), "file is too large to read: limit is 4 bytes");
}

/// Its metadata has the length 0.
#[test]
fn a_file_of_proc_is_read_and_limited() {
    let path = Path::new("/proc/self/status");
    if !path.exists() {
        return skipped("there is no /proc");
    }
    assert!(read(path, 1 << 20).unwrap().len() > 100);
    assert!(matches!(read(path, 10), Err(FileError::TooLarge { limit: 10 })));
}

#[test]
fn other_than_regular_files_are_refused_without_blocking() {
    let place = TestFolder::new();
    for path in [place.pipe("pipe"), place.socket("socket"), "/dev/zero".into()] {
        assert!(matches!(read(&path, 1 << 20), Err(FileError::NotRegular)), "{}", path.display());
    }
    let error = read(place.root(), 1 << 20).unwrap_err();
    assert_eq!(error.to_string(), "Is a directory (os error 21)");
}

#[test]
fn metadata_follows_links_and_has_times() {
    let place = TestFolder::new();
    place.file("file", "hello");
    let found = metadata(&place.link("link", "file")).unwrap();
    assert!(found.is_file && !found.is_directory);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!((now - found.modified_at_ms).abs() < 60_000);
    // 0 if the system does not store it.
    assert!(found.created_at_ms == 0 || (now - found.created_at_ms).abs() < 60_000);
    let pipe = metadata(&place.pipe("pipe")).unwrap();
    assert!(!pipe.is_file && !pipe.is_directory);
    let error = metadata(&place.link("broken", "nowhere")).unwrap_err();
    assert_eq!(error.to_string(), "No such file or directory (os error 2)");
}

#[test]
fn a_directory_lists_links_as_their_targets() {
    let place = TestFolder::new();
    place.file("file", "");
    place.directory("folder");
    place.link("to_file", "file");
    place.link("to_folder", "folder");
    place.link("broken", "nowhere");
    place.pipe("pipe");
    let mut found: Vec<_> = read_directory(place.root(), 1 << 20)
        .unwrap()
        .into_iter()
        .map(|entry| (entry.file_name, entry.is_directory, entry.is_file))
        .collect();
    found.sort();
    let found: Vec<_> = found.iter().map(|(name, dir, file)| (name.as_str(), *dir, *file)).collect();
    let expected = [
        ("broken", false, false),
        ("file", false, true),
        ("folder", true, false),
        ("pipe", false, false),
        ("to_file", false, true),
        ("to_folder", true, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_directory_beyond_the_limit_is_refused() {
    let place = TestFolder::new();
    for number in 0..20 {
        place.file(&format!("file_{number}"), "");
    }
    assert!(read_directory(place.root(), 20 * 100).is_ok());
    assert!(matches!(read_directory(place.root(), 500), Err(FileError::TooManyEntries { limit: 500 })));
}
