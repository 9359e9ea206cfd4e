//! Two servers that share a home and write to it concurrently: nothing is lost and no file is torn.

use std::{fs, path::Path};

use codicil_testkit::TestIssuer;
use serde_json::{Value, json};

use crate::raw_server::RawServer;

const WRITES: usize = 30;

/// Writes its own keys, and refreshes tokens between the writes.
async fn work(server: &mut RawServer, name: &str) {
    for number in 0..WRITES {
        let edit = json!({ "keyPath": format!("notes.{name}.key{number}"), "value": number, "mergeStrategy": "replace" });
        let written = server.call("config/value/write", edit).await;
        assert_eq!(written["result"]["status"], "ok", "{written}");
        if number % 3 == 0 {
            let read = server.call("account/read", json!({ "refreshToken": true })).await;
            assert_eq!(read["result"]["account"]["email"], "user@example.com", "{read}");
        }
        let shared = json!({ "edits": [
            { "keyPath": "notes.shared.by", "value": name, "mergeStrategy": "replace" },
            { "keyPath": "notes.shared.number", "value": number, "mergeStrategy": "replace" },
        ] });
        let written = server.call("config/batchWrite", shared).await;
        assert_eq!(written["result"]["status"], "ok", "{written}");
    }
}

/// Reads both files continuously, as other programs do.
async fn watch(home: &Path) {
    loop {
        let config = fs::read_to_string(home.join("config.toml")).unwrap();
        assert!(config.starts_with("# kept\n") && config.contains("[codicil.login]"), "{config}");
        let auth = fs::read_to_string(home.join("auth.json")).unwrap();
        let auth: Value =
            serde_json::from_str(&auth).unwrap_or_else(|_| panic!("torn: {} bytes", auth.len()));
        assert!(auth["tokens"]["refresh_token"].as_str().unwrap().starts_with("refresh-"));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_write_configuration_and_refresh_tokens_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let issuer = TestIssuer::start().await;
    fs::write(home.join("config.toml"), format!("# kept\n{}", issuer.config())).unwrap();
    fs::write(home.join("auth.json"), issuer.auth_json().to_string()).unwrap();
    let mut first = RawServer::start(home, |_| {}).await;
    let mut second = RawServer::start(home, |_| {}).await;

    tokio::select! {
        _ = async { tokio::join!(work(&mut first, "first"), work(&mut second, "second")) } => {}
        () = watch(home) => unreachable!("it goes on for ever"),
    }

    let config: toml::Table = fs::read_to_string(home.join("config.toml")).unwrap().parse().unwrap();
    for name in ["first", "second"] {
        for number in 0..WRITES {
            let value = config["notes"][name][&format!("key{number}")].as_integer();
            assert_eq!(value, Some(number as i64), "{name} {number}");
        }
    }
    let last = (config["notes"]["shared"]["by"].as_str(), config["notes"]["shared"]["number"].as_integer());
    assert!(matches!(last, (Some("first" | "second"), Some(29))), "{last:?}");
    // A token that is used twice would have ended the sign-in. The one in the file is still valid.
    let auth: Value = serde_json::from_str(&fs::read_to_string(home.join("auth.json")).unwrap()).unwrap();
    assert!(issuer.takes(auth["tokens"]["refresh_token"].as_str().unwrap()));
    for server in [&mut first, &mut second] {
        server.close();
        server.process.expect_success().await;
    }
}
