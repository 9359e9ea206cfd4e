//! `fuzzyFileSearch` and its sessions.

use std::{fs, path::Path};

use codicil_protocol::{
    FuzzyFileSearch, FuzzyFileSearchParams, FuzzyFileSearchSessionCompleted, FuzzyFileSearchSessionStart,
    FuzzyFileSearchSessionStartParams, FuzzyFileSearchSessionStop, FuzzyFileSearchSessionStopParams,
    FuzzyFileSearchSessionUpdate, FuzzyFileSearchSessionUpdateParams, FuzzyFileSearchSessionUpdated,
};
use codicil_testkit::{App, TestClient};
use serde_json::json;

fn params(root: &Path, query: &str, token: Option<&str>) -> FuzzyFileSearchParams {
    FuzzyFileSearchParams {
        query: query.to_owned(),
        roots: vec![root.to_str().unwrap().to_owned()],
        cancellation_token: token.map(str::to_owned),
    }
}

fn fill(root: &Path, count: usize) {
    for number in 0..count {
        fs::write(root.join(format!("file_{number}.txt")), "").unwrap();
    }
}

#[tokio::test]
async fn the_best_matches_have_the_form_of_the_reference() {
    let mut app = App::builder().start().await;
    let root = app.workspace().to_owned();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/alpha.rs"), "").unwrap();
    let request =
        json!({ "id": 1, "method": "fuzzyFileSearch", "params": { "query": "alph", "roots": [root] } });
    let answer = app.exchange(request).await;
    let expected = json!({ "root": root, "path": "src/alpha.rs", "match_type": "file",
        "file_name": "alpha.rs", "score": 109, "indices": [4, 5, 6, 7] });
    assert_eq!(answer["result"]["files"], json!([expected]));
    // A relative root is below the server's working directory.
    let mut relative = params(&root, "alph", None);
    relative.roots = vec![".".to_owned()];
    assert_eq!(app.call::<FuzzyFileSearch>(relative).await.files[0].root, ".");
}

#[tokio::test]
async fn a_newer_search_with_the_same_token_cancels_the_older_one() {
    let mut app = App::builder().start().await;
    let root = app.workspace().to_owned();
    fill(&root, 300);
    let older = app.send::<FuzzyFileSearch>(params(&root, "file", Some("t"))).await;
    let other = app.send::<FuzzyFileSearch>(params(&root, "file", Some("u"))).await;
    let newer = app.send::<FuzzyFileSearch>(params(&root, "file", Some("t"))).await;
    // The first search may have ended before. It never returns a part of its result.
    let older = app.answer(older).await.unwrap().files.len();
    assert!(older == 0 || older == 50, "{older}");
    assert_eq!(app.answer(other).await.unwrap().files.len(), 50);
    assert_eq!(app.answer(newer).await.unwrap().files.len(), 50);
    // A token can be used again.
    assert_eq!(app.call::<FuzzyFileSearch>(params(&root, "file_299", Some("t"))).await.files.len(), 1);
}

async fn start(client: &mut TestClient, id: &str) {
    let roots = vec![client.workspace().to_str().unwrap().to_owned()];
    let params = FuzzyFileSearchSessionStartParams { session_id: id.to_owned(), roots };
    client.call::<FuzzyFileSearchSessionStart>(params).await;
}

async fn update(client: &mut TestClient, id: &str, query: &str) {
    let params = FuzzyFileSearchSessionUpdateParams { session_id: id.to_owned(), query: query.to_owned() };
    client.call::<FuzzyFileSearchSessionUpdate>(params).await;
}

/// Waits until the session has completed a query, and returns the number of files in its last list.
async fn complete(client: &mut TestClient, id: &str, query: &str) -> usize {
    let found = loop {
        let updated = client.until::<FuzzyFileSearchSessionUpdated>().await;
        if updated.query == query && updated.session_id == id {
            break updated.files.len();
        }
    };
    let completed = client.until_where::<FuzzyFileSearchSessionCompleted>(|it| it.session_id == id).await;
    assert_eq!(completed.query, query);
    found
}

#[tokio::test]
async fn a_session_reports_the_files_of_each_query() {
    let mut app = App::builder().experimental().start().await;
    fill(app.workspace(), 20);
    start(&mut app, "s").await;
    for (query, found) in [("file", 20), ("file_1", 11), ("file_19", 1), ("nothing", 0), ("", 0)] {
        update(&mut app, "s", query).await;
        assert_eq!(complete(&mut app, "s", query).await, found, "{query:?}");
    }
    // A restarted session finds new files.
    fill(app.workspace(), 30);
    start(&mut app, "s").await;
    update(&mut app, "s", "file").await;
    assert_eq!(complete(&mut app, "s", "file").await, 30);
    app.ignore_rest();
}

#[tokio::test]
async fn stopped_sessions_and_sessions_of_other_clients_are_not_found() {
    let mut app = App::builder().experimental().start().await;
    let mut other = app.another_client().await;
    start(&mut app, "s").await;
    let unknown = |id: &str, query: &str| FuzzyFileSearchSessionUpdateParams {
        session_id: id.to_owned(),
        query: query.to_owned(),
    };
    let error = other.try_call::<FuzzyFileSearchSessionUpdate>(unknown("s", "x")).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "fuzzy file search session not found: s"));
    for _ in 0..2 {
        let stop = FuzzyFileSearchSessionStopParams { session_id: "s".to_owned() };
        app.call::<FuzzyFileSearchSessionStop>(stop).await;
    }
    let error = app.try_call::<FuzzyFileSearchSessionUpdate>(unknown("s", "x")).await.unwrap_err();
    assert_eq!(error.message, "fuzzy file search session not found: s");
    app.ignore_rest();
}

#[tokio::test]
async fn sessions_need_an_id_and_a_root_and_are_limited() {
    let mut app = App::builder().experimental().start().await;
    let params = |id: &str, roots: &[&str]| FuzzyFileSearchSessionStartParams {
        session_id: id.to_owned(),
        roots: roots.iter().map(|root| (*root).to_owned()).collect(),
    };
    let error = app.try_call::<FuzzyFileSearchSessionStart>(params("", &["/"])).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "sessionId must not be empty"));
    let error = app.try_call::<FuzzyFileSearchSessionStart>(params("s", &[])).await.unwrap_err();
    let expected = "failed to start fuzzy file search session: at least one search directory is required";
    assert_eq!((error.code, error.message.as_str()), (-32603, expected));
    for number in 0..16 {
        start(&mut app, &number.to_string()).await;
    }
    start(&mut app, "3").await;
    let error = app.try_call::<FuzzyFileSearchSessionStart>(params("17", &["."])).await.unwrap_err();
    assert_eq!(error.message, "too many search sessions: limit is 16");
    app.ignore_rest();
}
