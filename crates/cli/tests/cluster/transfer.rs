//! `codicil store migrate` and `codicil store export`.

use codicil_protocol::{ThreadArchive, ThreadList, ThreadListParams, TurnStatus};
use codicil_testkit::{App, Reply, Script, TestTransport};
use serde_json::{from_value, json};

use crate::{codicil, database::TestDatabase, server, stdout};

#[tokio::test]
async fn a_home_moves_to_a_database_and_back() {
    let Some(database) = TestDatabase::create().await else { return };
    let large = "word ".repeat(20_000);
    let replies = || Script::new().repeat(Reply::new().say("word ".repeat(20_000)));
    let mut files = App::builder().script(replies()).over(TestTransport::Stdio).start().await;
    let kept = files.start_thread().await;
    files.run_turn(&kept, "kept").await;
    let archived = files.start_thread().await;
    files.run_turn(&archived, "archived").await;
    files.call::<ThreadArchive>(from_value(json!({ "threadId": archived.id })).unwrap()).await;
    files.rest().await;
    files.process().terminate();
    files.process().wait().await;

    let home = files.home().to_owned();
    let migrate = || stdout(&codicil(&home, &["store", "migrate", "--to", &database.address()]));
    assert_eq!(migrate(), "2 threads copied, 0 were there already, 0 were not copied.\n");
    assert_eq!(migrate(), "0 threads copied, 2 were there already, 0 were not copied.\n");
    database.check().await;

    let mut app = server(&database, replies()).start().await;
    let list = |archived| ThreadListParams { archived: Some(archived), ..ThreadListParams::default() };
    let listed = app.call::<ThreadList>(list(false)).await.data;
    assert_eq!(listed.iter().map(|thread| &thread.id).collect::<Vec<_>>(), [&kept.id]);
    assert_eq!(app.call::<ThreadList>(list(true)).await.data.len(), 1);
    let resumed = app.resume(&kept).await;
    assert!(serde_json::to_string(&resumed.turns).unwrap().contains(large.trim_end()));
    assert_eq!(app.run_turn(&kept, "more").await.status, TurnStatus::Completed);
    app.rest().await;
    drop(app);

    let back = tempfile::tempdir().unwrap();
    let export = ["store", "export", "--from", &database.address()];
    let exported = codicil(back.path(), &export);
    assert_eq!(stdout(&exported), "2 threads copied, 0 were there already, 0 were not copied.\n");
    let checked = stdout(&codicil(back.path(), &["store", "check"]));
    assert!(checked.contains("2 threads") && checked.contains("Everything is sound."), "{checked}");
    // A thread that was continued in the database is another one now.
    let again = codicil(&home, &["store", "migrate", "--to", &database.address()]);
    let text = String::from_utf8(again.stdout).unwrap();
    assert!(!again.status.success());
    assert_eq!(text, "0 threads copied, 1 were there already, 1 were not copied.\n");
    files.ignore_rest();
}
