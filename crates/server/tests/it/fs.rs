//! `fs/*`.

use std::{fs, path::Path};

use codicil_protocol::{
    AbsolutePathBuf, FsChanged, FsCopy, FsCopyParams, FsCreateDirectory, FsCreateDirectoryParams,
    FsGetMetadata, FsGetMetadataParams, FsReadDirectory, FsReadDirectoryParams, FsReadFile, FsReadFileParams,
    FsRemove, FsRemoveParams, FsUnwatch, FsUnwatchParams, FsWatch, FsWatchParams, FsWriteFile,
    FsWriteFileParams, rpc::ErrorObject,
};
use codicil_testkit::{App, TestClient};
use serde_json::{Value, json};

fn path(path: impl AsRef<Path>) -> AbsolutePathBuf {
    AbsolutePathBuf::new(path.as_ref()).unwrap()
}

fn write(to: impl AsRef<Path>, data_base64: &str) -> FsWriteFileParams {
    FsWriteFileParams { path: path(to), data_base64: data_base64.to_owned() }
}

/// Returns the code and message of an error response.
async fn refusal(app: &mut App, method: &str, params: Value) -> (i64, String) {
    let answer = app.exchange(json!({ "id": "r", "method": method, "params": params })).await;
    let error: ErrorObject = serde_json::from_value(answer["error"].clone()).unwrap();
    (error.code, error.message)
}

#[tokio::test]
async fn a_file_is_written_read_copied_listed_and_removed() {
    let mut app = App::builder().start().await;
    let folder = app.workspace().join("a/b");
    app.call::<FsCreateDirectory>(FsCreateDirectoryParams { path: path(&folder), recursive: None }).await;
    app.call::<FsWriteFile>(write(folder.join("file"), "aGVsbG8=")).await;
    let read = FsReadFileParams { path: path(folder.join("file")) };
    assert_eq!(app.call::<FsReadFile>(read).await.data_base64, "aGVsbG8=");
    let copy = FsCopyParams {
        source_path: path(app.workspace().join("a")),
        destination_path: path(app.workspace().join("c")),
        recursive: Some(true),
    };
    app.call::<FsCopy>(copy).await;
    assert_eq!(fs::read(app.workspace().join("c/b/file")).unwrap(), b"hello");
    let listed = FsReadDirectoryParams { path: path(app.workspace().join("c")) };
    let listed = app.call::<FsReadDirectory>(listed).await.entries;
    assert_eq!((listed.len(), listed[0].file_name.as_str(), listed[0].is_directory), (1, "b", true));
    let metadata = FsGetMetadataParams { path: path(folder.join("../b/./file")) };
    assert!(app.call::<FsGetMetadata>(metadata).await.is_file);
    let gone = FsRemoveParams { path: path(app.workspace().join("c")), recursive: None, force: None };
    app.call::<FsRemove>(gone).await;
    assert!(!app.workspace().join("c").exists());
}

#[tokio::test]
async fn errors_have_the_codes_and_messages_of_the_reference() {
    let mut app = App::builder().start().await;
    let work = app.workspace().to_str().unwrap().to_owned();
    fs::create_dir(app.workspace().join("folder")).unwrap();
    let folder = format!("{work}/folder");
    let missing = "No such file or directory (os error 2)";
    for (method, params, code, message) in [
        ("fs/readFile", json!({ "path": format!("{work}/none") }), -32603, missing),
        ("fs/readFile", json!({ "path": folder }), -32603, "Is a directory (os error 21)"),
        ("fs/readFile", json!({ "path": "/a\0b" }), -32600, "file name contained an unexpected NUL byte"),
        ("fs/readFile", json!({ "path": "/dev/null" }), -32600, "only regular files can be read and written"),
        (
            "fs/writeFile",
            json!({ "path": format!("{work}/x"), "dataBase64": "***" }),
            -32600,
            "fs/writeFile requires valid base64 dataBase64: Invalid symbol 42, offset 0.",
        ),
        (
            "fs/copy",
            json!({ "sourcePath": folder, "destinationPath": format!("{work}/x") }),
            -32600,
            "fs/copy requires recursive: true when sourcePath is a directory",
        ),
        (
            "fs/copy",
            json!({ "sourcePath": folder, "destinationPath": format!("{folder}/in"), "recursive": true }),
            -32600,
            "fs/copy cannot copy a directory to itself or one of its descendants",
        ),
        ("fs/remove", json!({ "path": format!("{work}/none"), "force": false }), -32603, missing),
        ("fs/remove", json!({ "path": "/.." }), -32600, "fs/remove cannot remove the root directory"),
    ] {
        assert_eq!(refusal(&mut app, method, params).await, (code, message.to_owned()), "{method}");
    }
    assert!(!app.workspace().join("x").exists(), "invalid data is not written");
}

#[tokio::test]
async fn file_requests_sent_in_one_write_run_in_order() {
    let mut app = App::builder().start().await;
    let folder = app.workspace().join("folder");
    for _ in 0..50 {
        let make = FsCreateDirectoryParams { path: path(&folder), recursive: Some(false) };
        let make = app.send::<FsCreateDirectory>(make).await;
        let wrote = app.send::<FsWriteFile>(write(folder.join("file"), "eA==")).await;
        let read = app.send::<FsReadFile>(FsReadFileParams { path: path(folder.join("file")) }).await;
        let removal = FsRemoveParams { path: path(&folder), recursive: None, force: Some(false) };
        let removed = app.send::<FsRemove>(removal).await;
        app.answer(make).await.unwrap();
        app.answer(wrote).await.unwrap();
        assert_eq!(app.answer(read).await.unwrap().data_base64, "eA==");
        app.answer(removed).await.unwrap();
    }
}

/// The files together exceed the limit of unread bytes.
#[tokio::test]
async fn reading_several_large_files_does_not_disconnect_the_client() {
    let mut app = App::builder().start().await;
    let file = app.workspace().join("large");
    fs::write(&file, vec![7; 30 << 20]).unwrap();
    let mut pending = Vec::new();
    for _ in 0..4 {
        pending.push(app.send::<FsReadFile>(FsReadFileParams { path: path(&file) }).await);
    }
    for pending in pending {
        assert_eq!(app.answer(pending).await.unwrap().data_base64.len(), 40 << 20);
    }
    fs::File::options().write(true).open(&file).unwrap().set_len((32 << 20) + 1).unwrap();
    let error = app.try_call::<FsReadFile>(FsReadFileParams { path: path(&file) }).await.unwrap_err();
    let expected = "file is too large to read: limit is 33554432 bytes";
    assert_eq!((error.code, error.message.as_str()), (-32600, expected));
}

/// A client that has read a whole response is not too slow, even if the server's writer has not returned yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_large_files_one_after_another_is_never_refused() {
    let mut app = App::builder().start().await;
    let file = app.workspace().join("large");
    fs::write(&file, vec![7; 2 << 20]).unwrap();
    for _ in 0..50 {
        app.call::<FsReadFile>(FsReadFileParams { path: path(&file) }).await;
    }
}

async fn watch(client: &mut TestClient, watched: impl AsRef<Path>) -> String {
    client.call::<FsWatch>(FsWatchParams { path: path(watched), watch_id: None }).await.watch_id
}

#[tokio::test]
async fn changes_are_reported_with_the_watch_id_until_unwatch() {
    let mut app = App::builder().start().await;
    let file = app.workspace().join("file");
    let params = FsWatchParams { path: path(app.workspace().join("x/../file/")), watch_id: None };
    let watched = app.call::<FsWatch>(params).await;
    assert_eq!(watched.path, path(&file), "in its normal form");
    let folder = app.workspace().join("folder");
    fs::create_dir(&folder).unwrap();
    let of_folder = watch(&mut app, &folder).await;

    fs::write(&file, "one").unwrap();
    let changed = app.until::<FsChanged>().await;
    assert_eq!((changed.watch_id, changed.changed_paths), (watched.watch_id.clone(), vec![path(&file)]));

    app.call::<FsUnwatch>(FsUnwatchParams { watch_id: watched.watch_id.clone() }).await;
    app.call::<FsUnwatch>(FsUnwatchParams { watch_id: watched.watch_id }).await;
    fs::write(&file, "two").unwrap();
    let other = folder.join("other");
    fs::write(&other, "").unwrap();
    // The next notification is about the other watch, so there was none about the file in between.
    let changed = app.until::<FsChanged>().await;
    assert_eq!((changed.watch_id, changed.changed_paths), (of_folder, vec![path(other)]));
}

#[tokio::test]
async fn a_watch_has_the_id_that_the_client_chose() {
    let mut app = App::builder().start().await;
    let mut other = app.another_client().await;
    let file = app.workspace().join("file");
    let params = || FsWatchParams { path: path(&file), watch_id: Some("mine".to_owned()) };
    assert_eq!(app.call::<FsWatch>(params()).await.watch_id, "mine");
    let error = app.try_call::<FsWatch>(params()).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "watchId already exists: mine"));
    assert_eq!(other.call::<FsWatch>(params()).await.watch_id, "mine", "ids belong to a connection");

    fs::write(&file, "one").unwrap();
    assert_eq!(app.until::<FsChanged>().await.watch_id, "mine");
    app.call::<FsUnwatch>(FsUnwatchParams { watch_id: "mine".to_owned() }).await;
    assert_eq!(app.call::<FsWatch>(params()).await.watch_id, "mine", "free again");
    other.ignore_rest();
    app.ignore_rest();
}

#[tokio::test]
async fn links_are_distinguished_from_their_targets() {
    let mut app = App::builder().start().await;
    fs::write(app.workspace().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", app.workspace().join("link")).unwrap();
    for (name, expected) in [("file", false), ("link", true)] {
        let params = FsGetMetadataParams { path: path(app.workspace().join(name)) };
        let found = app.call::<FsGetMetadata>(params).await;
        assert_eq!((found.is_file, found.is_symlink), (true, expected), "{name}");
    }
}

#[tokio::test]
async fn a_watch_belongs_to_its_connection() {
    let mut app = App::builder().start().await;
    let mut other = app.another_client().await;
    let file = app.workspace().join("file");
    let id = watch(&mut app, &file).await;
    // Another client can neither end the watch nor see its notifications.
    other.call::<FsUnwatch>(FsUnwatchParams { watch_id: id.clone() }).await;
    let own = watch(&mut other, &file).await;
    assert_ne!(id, own);
    fs::write(&file, "x").unwrap();
    assert_eq!(app.until::<FsChanged>().await.watch_id, id);
    assert_eq!(other.until::<FsChanged>().await.watch_id, own);

    app.disconnect();
    app.ended().await;
    fs::write(&file, "y").unwrap();
    assert_eq!(other.until::<FsChanged>().await.watch_id, own);
}

#[tokio::test]
async fn the_number_of_watches_is_limited() {
    let mut app = App::builder().start().await;
    let file = app.workspace().join("file");
    let mut first = None;
    for _ in 0..1024 {
        first.get_or_insert(watch(&mut app, &file).await);
    }
    let error =
        app.try_call::<FsWatch>(FsWatchParams { path: path(&file), watch_id: None }).await.unwrap_err();
    assert_eq!(error.message, "too many watches: limit is 1024");
    app.call::<FsUnwatch>(FsUnwatchParams { watch_id: first.unwrap() }).await;
    watch(&mut app, &file).await;
}
