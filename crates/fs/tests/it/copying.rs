//! Copies of files and trees.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_fs::{CopyDepth, FileError, copy};

use crate::support::TestFolder;

#[test]
fn a_file_is_copied_with_its_mode_over_an_existing_one() {
    let place = TestFolder::new();
    let from = place.file("from", "new");
    fs::set_permissions(&from, fs::Permissions::from_mode(0o640)).unwrap();
    let to = place.file("to", "something longer");
    copy(&from, &to, CopyDepth::Single).unwrap();
    assert_eq!(place.read("to"), "new");
    assert_eq!(fs::metadata(to).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_is_copied_onto_itself_keeps_its_contents() {
    let place = TestFolder::new();
    let file = place.file("file", "precious");
    fs::hard_link(&file, place.path("same")).unwrap();
    let link = place.link("link", "file");
    for to in [&file, &place.path("same"), &link] {
        copy(&file, to, CopyDepth::Single).unwrap();
        assert_eq!(place.read("file"), "precious");
    }
}

#[test]
fn a_link_stays_a_link() {
    let place = TestFolder::new();
    place.file("folder/file", "");
    for (name, target) in [("to_folder", "folder"), ("broken", "nowhere")] {
        let copied = place.path(&format!("copy_of_{name}"));
        copy(&place.link(name, target), &copied, CopyDepth::Tree).unwrap();
        assert_eq!(fs::read_link(copied).unwrap().to_str(), Some(target));
    }
    let error = copy(&place.path("broken"), &place.file("taken", ""), CopyDepth::Single).unwrap_err();
    assert_eq!(error.to_string(), "File exists (os error 17)");
}

#[test]
fn a_tree_is_merged_with_the_destination_without_pipes_and_sockets() {
    let place = TestFolder::new();
    place.file("from/inner/file", "new");
    place.link("from/link", "inner/file");
    place.pipe("from/pipe");
    place.socket("from/inner/socket");
    place.file("far/to/inner/file", "old");
    place.file("far/to/kept", "kept");
    copy(&place.path("from"), &place.path("far/to"), CopyDepth::Tree).unwrap();
    assert_eq!(
        (place.read("far/to/inner/file").as_str(), place.read("far/to/kept").as_str()),
        ("new", "kept")
    );
    assert_eq!(fs::read_link(place.path("far/to/link")).unwrap().to_str(), Some("inner/file"));
    assert!(!place.path("far/to/pipe").exists() && !place.path("far/to/inner/socket").exists());

    copy(&place.path("from/inner"), &place.path("not/there/yet"), CopyDepth::Tree).unwrap();
    assert_eq!(place.read("not/there/yet/file"), "new");
}

#[test]
fn conflicting_kinds_are_refused() {
    let place = TestFolder::new();
    let file = place.file("file", "x");
    let folder = place.directory("folder");
    let pipe = place.pipe("pipe");
    let text = |result: Result<(), FileError>| result.unwrap_err().to_string();
    let to = place.path("to");
    let recursive = "fs/copy requires recursive: true when sourcePath is a directory";
    assert_eq!(text(copy(&folder, &to, CopyDepth::Single)), recursive);
    let special = "fs/copy only supports regular files, directories, and symlinks";
    assert_eq!(text(copy(&pipe, &to, CopyDepth::Tree)), special);
    assert_eq!(text(copy(&file, &pipe, CopyDepth::Single)), special);
    assert_eq!(text(copy(&file, &folder, CopyDepth::Single)), "Is a directory (os error 21)");
    assert_eq!(text(copy(&folder, &file, CopyDepth::Tree)), "File exists (os error 17)");
    assert_eq!(text(copy(&to, &file, CopyDepth::Tree)), "No such file or directory (os error 2)");
    assert_eq!(
        text(copy(&file, &place.path("a/b"), CopyDepth::Tree)),
        "No such file or directory (os error 2)"
    );
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let place = TestFolder::new();
    place.file("folder/inner/file", "x");
    place.link("link", "folder");
    place.link("inside", "folder/inner");
    place.directory("sibling");
    let folder = place.path("folder");
    for to in ["folder", "folder/new", "folder/a/b", "link", "link/new", "inside/new", "sibling/../link/new"]
    {
        let result = copy(&folder, &place.path(to), CopyDepth::Tree);
        assert!(matches!(result, Err(FileError::IntoItself)), "{to}: {result:?}");
    }
    // Nor through a link at the destination.
    place.link("sibling/inner", "../folder/inner");
    let result = copy(&folder, &place.path("sibling"), CopyDepth::Tree);
    assert!(matches!(result, Err(FileError::IntoItself)), "{result:?}");
    // A path with the same prefix is not inside.
    copy(&folder, &place.path("folder2"), CopyDepth::Tree).unwrap();
    assert_eq!(place.read("folder2/inner/file"), "x");
}
