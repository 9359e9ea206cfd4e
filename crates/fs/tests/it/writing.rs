//! Writing, creating and removing.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use codicil_fs::{
    FileError, ParentDirectories, RemoveOptions, create_directory, decode_contents, remove, write,
};

use crate::support::TestFolder;

const ALL: RemoveOptions = RemoveOptions { recursive: true, force: true };

#[test]
fn a_file_keeps_its_mode_and_its_links_when_it_is_overwritten() {
    let place = TestFolder::new();
    let path = place.file("file", "a longer text than the new one");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    fs::hard_link(&path, place.path("other")).unwrap();
    let link = place.link("link", "file");
    let before = fs::metadata(&path).unwrap().ino();

    write(&link, b"new").unwrap();

    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((place.read("file").as_str(), place.read("other").as_str()), ("new", "new"));
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.ino(), after.permissions().mode() & 0o777), (before, 0o751));
}

#[test]
fn writing_to_a_dangling_link_creates_its_target() {
    let place = TestFolder::new();
    write(&place.link("link", "target"), b"x").unwrap();
    assert_eq!(place.read("target"), "x");
}

#[test]
fn only_regular_files_are_written() {
    let place = TestFolder::new();
    for path in [place.pipe("pipe"), place.socket("socket"), "/dev/null".into()] {
        assert!(matches!(write(&path, b"x"), Err(FileError::NotRegular)), "{}", path.display());
    }
    assert_eq!(write(place.root(), b"").unwrap_err().to_string(), "Is a directory (os error 21)");
    let missing = write(&place.path("no/such/file"), b"").unwrap_err();
    assert_eq!(missing.to_string(), "No such file or directory (os error 2)");
}

#[test]
fn invalid_base64_is_reported() {
    let check = |text: &str, reason: &str| {
        let expected = format!("fs/writeFile requires valid base64 dataBase64: {reason}");
        assert_eq!(decode_contents(text).unwrap_err().to_string(), expected);
    };
    check("***", "Invalid symbol 42, offset 0.");
    check("eA==\n", "Invalid symbol 10, offset 4.");
    check("eA", "Invalid padding");
    check("AAAAA", "Invalid input length: 5");
    check("eB==", "Invalid last symbol 66, offset 1.");
    assert_eq!(decode_contents("eA==").unwrap(), b"x");
}

#[test]
fn a_directory_is_created_with_its_parents_or_must_be_new() {
    let place = TestFolder::new();
    let path = place.path("a/b/c");
    let text = |result: Result<(), FileError>| result.unwrap_err().to_string();
    assert_eq!(
        text(create_directory(&path, ParentDirectories::Required)),
        "No such file or directory (os error 2)"
    );
    create_directory(&path, ParentDirectories::Made).unwrap();
    create_directory(&path, ParentDirectories::Made).unwrap();
    assert_eq!(text(create_directory(&path, ParentDirectories::Required)), "File exists (os error 17)");
    place.file("file", "");
    assert_eq!(
        text(create_directory(&place.path("file"), ParentDirectories::Made)),
        "File exists (os error 17)"
    );
}

#[test]
fn removing_a_link_keeps_its_target() {
    let place = TestFolder::new();
    place.file("folder/file", "x");
    place.file("tree/inner/file", "y");
    place.link("tree/out", "../folder");
    remove(&place.link("link", "folder"), ALL).unwrap();
    remove(&place.path("tree"), ALL).unwrap();
    assert!(!place.path("tree").exists() && fs::symlink_metadata(place.path("link")).is_err());
    assert_eq!(place.read("folder/file"), "x");
}

#[test]
fn without_recursion_only_an_empty_directory_is_removed() {
    let place = TestFolder::new();
    place.file("full/file", "");
    let empty = place.directory("empty");
    let alone = RemoveOptions { recursive: false, force: true };
    remove(&empty, alone).unwrap();
    let error = remove(&place.path("full"), alone).unwrap_err().to_string();
    assert!(error.starts_with("Directory not empty (os error"), "{error}");
}

#[test]
fn a_missing_path_is_an_error_unless_forced() {
    let place = TestFolder::new();
    remove(&place.path("missing"), ALL).unwrap();
    let error = remove(&place.path("missing"), RemoveOptions { recursive: true, force: false }).unwrap_err();
    assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    assert!(matches!(remove(Path::new("/"), ALL), Err(FileError::Root)));
}
