//! Blobs are stored once, by their content.

use codicil_store_postgres::{BlobHash, PostgresError};

use crate::database::TestDatabase;

#[tokio::test]
async fn blobs_are_stored_once_and_read_by_their_hash() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let contents: Vec<Vec<u8>> = (0..40_u8).map(|byte| vec![byte; 40_000]).collect();
    let mut hashes = Vec::new();
    for content in contents.iter().chain(&contents) {
        hashes.push(store.put_blob(content).await.unwrap());
    }
    hashes.push(BlobHash::of(b"missing"));
    let found = store.read_blobs(&hashes).await.unwrap();
    assert_eq!(found.len(), 40);
    assert!(contents.iter().all(|content| found[&BlobHash::of(content)] == *content));
    assert_eq!(database.raw().await.row("select count(*) from codicil_blob").await.get::<_, i64>(0), 40);
}

#[tokio::test]
async fn a_text_that_is_too_large_is_refused() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let error = store.put_blob(&vec![0; 64 * 1024 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(error, PostgresError::TooLarge { .. }), "{error}");
}
