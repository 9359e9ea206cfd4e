//! Methods of 0.166 beside threads: what is answered without an account, and what is refused in which words.

use std::fs;

use codicil_testkit::App;
use serde_json::{Value, json};

use crate::NO_THREAD;

async fn app() -> App {
    App::builder().experimental().start().await
}

/// Returns the result, or the code and message of the error.
async fn request(app: &mut App, method: &str, params: Value) -> Result<Value, String> {
    let answer = app.exchange(json!({ "id": method, "method": method, "params": params })).await;
    match answer.get("error") {
        Some(error) => Err(format!("{} {}", error["code"], error["message"].as_str().unwrap())),
        None => Ok(answer["result"].clone()),
    }
}

async fn refused(app: &mut App, cases: &[(&str, Value, &str)]) {
    for (method, params, expected) in cases {
        let error = request(app, method, params.clone()).await.expect_err(method);
        assert_eq!(error, *expected, "{method} {params}");
    }
}

#[tokio::test]
async fn services_of_an_account_are_refused_without_one() {
    let mut app = app().await;
    let needs = |purpose: &str| format!("-32600 codex account authentication required {purpose}");
    let (usage, messages) = (needs("to read token usage"), needs("to read workspace messages"));
    let (credits, owner) = (needs("for rate limit reset credits"), needs("to notify workspace owner"));
    let remote = "-32600 remote control requires ChatGPT authentication";
    refused(
        &mut app,
        &[
            ("account/usage/read", json!(null), &usage),
            ("account/workspaceMessages/read", json!(null), &messages),
            ("account/rateLimitResetCredit/consume", json!({ "idempotencyKey": "k" }), &credits),
            ("account/rateLimitResetCredit/consume", json!({ "idempotencyKey": "" }), {
                "-32600 idempotencyKey must not be empty"
            }),
            ("account/sendAddCreditsNudgeEmail", json!({ "creditType": "credits" }), &owner),
            ("accountSession/switch", json!({ "accountId": "a", "sessionId": "s" }), {
                "-32600 Workspace switching requires a managed ChatGPT login"
            }),
            ("remoteControl/enable", json!(null), remote),
            ("remoteControl/client/list", json!({ "environmentId": "e" }), remote),
            ("remoteControl/pairing/start", json!({}), {
                "-32600 remote control pairing requires remote control to be enabled"
            }),
            ("remoteControl/pairing/status", json!({}), {
                "-32600 remoteControl/pairing/status requires pairingCode or manualPairingCode"
            }),
            ("plugin/share/list", json!({}), {
                "-32600 list remote plugin shares: chatgpt authentication required for remote plugin catalog"
            }),
            ("account/gatewayOAuth/login", json!(null), {
                "-32600 The current provider does not use gateway OAuth"
            }),
            ("userVerification/enroll", json!({}), {
                "-32603 User verification is not available in this build or account."
            }),
            ("thread/prediction/request", json!({ "threadId": NO_THREAD, "sourceTurnId": "x" }), {
                "-32601 thread/prediction/request is not implemented yet"
            }),
        ],
    )
    .await;
    app.rest().await;
}

#[tokio::test]
async fn an_api_key_is_not_enough_for_services_of_an_account() {
    let mut app = app().await;
    request(&mut app, "account/login/start", json!({ "type": "apiKey", "apiKey": "sk-x" })).await.unwrap();
    refused(
        &mut app,
        &[
            ("account/usage/read", json!({}), "-32600 chatgpt authentication required to read token usage"),
            ("remoteControl/enable", json!(null), {
                "-32600 remote control requires ChatGPT authentication; API key auth is not supported"
            }),
            ("plugin/share/delete", json!({ "remotePluginId": "p" }), {
                "-32600 delete remote plugin share: chatgpt authentication required for remote plugin \
                 catalog; api key auth is not supported"
            }),
        ],
    )
    .await;
    app.ignore_rest();
}

#[tokio::test]
async fn the_local_machine_is_the_only_environment() {
    let mut app = app().await;
    let id = |id: &str| json!({ "environmentId": id });
    let local = request(&mut app, "environment/status", id("local")).await.unwrap();
    assert_eq!(local["status"], "ready");
    let info = request(&mut app, "environment/info", id("local")).await.unwrap();
    assert!(info["cwd"].as_str().unwrap().starts_with("file:///"), "{info}");
    assert!(info["shell"]["path"].as_str().unwrap().starts_with('/'), "{info}");
    let unknown = request(&mut app, "environment/status", id("x")).await.unwrap();
    assert_eq!(
        (&unknown["status"], &unknown["error"]),
        (&"unknown".into(), &"unknown environment id `x`".into())
    );
    let add = |id: &str, url: &str| json!({ "environmentId": id, "execServerUrl": url });
    let reserved =
        "-32600 exec-server protocol error: environment id `local` is reserved for EnvironmentManager";
    refused(
        &mut app,
        &[
            ("environment/info", id("x"), "-32600 unknown environment id `x`"),
            ("environment/add", add("", "ws://h"), {
                "-32600 exec-server protocol error: environment id cannot be empty"
            }),
            ("environment/add", add("local", "ws://h"), reserved),
            ("environment/add", add("e", ""), {
                "-32600 exec-server protocol error: remote environment requires an exec-server url"
            }),
            ("environment/add", add("e", "ws://h"), {
                "-32600 remote environments are not supported by this server; commands run in `local`"
            }),
        ],
    )
    .await;
    app.rest().await;
}

#[tokio::test]
async fn memories_are_off_and_their_methods_answer() {
    let mut app = app().await;
    let thread = request(&mut app, "thread/start", json!({})).await.unwrap()["thread"]["id"].clone();
    let status = request(&mut app, "memory/status", json!({})).await.unwrap();
    assert_eq!(status, json!({ "v2ConsolidatedThreads": 0, "v2Ready": true }));
    assert_eq!(request(&mut app, "memory/reset", json!(null)).await, Ok(json!({})));
    let mode = |thread: &Value| json!({ "threadId": thread, "mode": "disabled" });
    assert_eq!(request(&mut app, "thread/memoryMode/set", mode(&thread)).await, Ok(json!({})));
    let read = request(&mut app, "thread/memory/read", json!({ "threadId": thread })).await;
    assert_eq!(read, Ok(json!({ "summary": null })));
    let no_thread = json!(NO_THREAD);
    let missing = format!("-32600 no rollout found for thread id {NO_THREAD}");
    let not_loaded = format!("-32600 thread not found: {NO_THREAD}");
    refused(
        &mut app,
        &[
            ("thread/memoryMode/set", mode(&no_thread), &missing),
            ("thread/memory/read", json!({ "threadId": NO_THREAD }), &not_loaded),
        ],
    )
    .await;
    app.ignore_rest();
}

#[tokio::test]
async fn figures_of_the_server_appear_once_there_is_a_thread() {
    let mut app = app().await;
    let names = |answer: &Value| -> Vec<String> {
        answer["gauges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gauge| gauge["name"].as_str().unwrap().into())
            .collect()
    };
    let before = request(&mut app, "server/diagnostics", json!({})).await.unwrap();
    assert_eq!(names(&before), ["app.requests.in_flight"]);
    assert_eq!(before["gauges"][0]["value"], 1);
    request(&mut app, "thread/start", json!({})).await.unwrap();
    let after = request(&mut app, "server/diagnostics", json!({})).await.unwrap();
    assert_eq!(names(&after)[1..], ["core.threads.live", "core.turns.active"]);
    assert_eq!((&after["gauges"][1]["value"], &after["gauges"][2]["value"]), (&1.into(), &0.into()));
    #[cfg(target_os = "linux")]
    assert!(after["process"]["residentMemoryBytes"].as_u64().unwrap() > 1 << 20);
    app.ignore_rest();
}

#[tokio::test]
async fn extra_skill_roots_are_replaced_by_the_next_call() {
    let mut app = app().await;
    for name in ["one", "two"] {
        let folder = app.workspace().join(format!("extra-{name}/{name}"));
        fs::create_dir_all(&folder).unwrap();
        let skill = format!("---\nname: {name}\ndescription: Skill {name}\n---\nBODY\n");
        fs::write(folder.join("SKILL.md"), skill).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    for (roots, expected) in
        [(vec!["extra-one"], vec!["one"]), (vec!["extra-two", "missing"], vec!["two"]), (vec![], vec![])]
    {
        let roots: Vec<_> = roots.into_iter().map(|root| app.workspace().join(root)).collect();
        let set = request(&mut app, "skills/extraRoots/set", json!({ "extraRoots": roots })).await;
        assert_eq!(set, Ok(json!({})));
        let listed = request(&mut app, "skills/list", json!({ "cwds": [elsewhere.path()] })).await.unwrap();
        let skills = listed["data"][0]["skills"].as_array().unwrap().clone();
        let own = skills.iter().filter(|skill| skill["scope"] == "user");
        let names: Vec<_> = own.map(|skill| skill["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, expected);
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_marketplace_is_added_searched_and_removed() {
    let mut app = app().await;
    let root = fs::canonicalize(app.workspace()).unwrap();
    fs::create_dir_all(root.join(".agents/plugins")).unwrap();
    fs::create_dir_all(root.join("plugins/sample/.codex-plugin")).unwrap();
    let plugin = json!({ "name": "sample", "source": { "source": "local", "path": "./plugins/sample" } });
    let market = json!({ "name": "market", "plugins": [plugin] });
    fs::write(root.join(".agents/plugins/marketplace.json"), market.to_string()).unwrap();
    let manifest = json!({ "name": "sample", "version": "1.2.3", "keywords": ["k"] });
    fs::write(root.join("plugins/sample/.codex-plugin/plugin.json"), manifest.to_string()).unwrap();

    let added = request(&mut app, "marketplace/add", json!({ "source": root })).await.unwrap();
    assert_eq!(added, json!({ "marketplaceName": "market", "installedRoot": root, "alreadyAdded": false }));
    let found = request(&mut app, "plugin/search", json!({ "searchTerm": "SAMP" })).await.unwrap();
    assert_eq!(found["data"][0]["marketplaceName"], "market");
    assert_eq!(found["data"][0]["plugin"]["localVersion"], "1.2.3");
    let installed = request(&mut app, "plugin/installed", json!({})).await.unwrap();
    assert_eq!(installed["marketplaces"], json!([]));
    let file = root.join(".agents/plugins/marketplace.json");
    let params = json!({ "marketplacePath": file, "pluginName": "sample" });
    request(&mut app, "plugin/install", params).await.unwrap();
    let installed = request(&mut app, "plugin/installed", json!({})).await.unwrap();
    assert_eq!(installed["marketplaces"][0]["plugins"][0]["id"], "sample@market");

    let name = json!({ "marketplaceName": "market" });
    let removed = request(&mut app, "marketplace/remove", name.clone()).await.unwrap();
    assert_eq!(removed, json!({ "marketplaceName": "market", "installedRoot": null }));
    refused(
        &mut app,
        &[
            ("marketplace/remove", name, "-32600 marketplace `market` is not configured or installed"),
            ("marketplace/add", json!({ "source": "" }), "-32600 marketplace source must not be empty"),
        ],
    )
    .await;
    app.ignore_rest();
}

#[tokio::test]
async fn a_report_is_saved_to_a_new_file() {
    let mut app = app().await;
    let path = app.workspace().join("report.json");
    let params = json!({ "classification": "bug", "reason": "r", "savePath": path, "tags": { "a": "b" } });
    let saved = request(&mut app, "feedback/save", params.clone()).await.unwrap();
    assert_eq!(saved["savedPath"], json!(path));
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&report["classification"], &report["tags"]["a"]), (&"bug".into(), &"b".into()));
    let relative = json!({ "classification": "bug", "savePath": "report.json" });
    refused(
        &mut app,
        &[
            ("feedback/save", params, "-32603 failed to save feedback: feedback save path already exists"),
            ("feedback/save", relative, "-32600 feedback savePath must be an absolute host path"),
        ],
    )
    .await;
    app.rest().await;
}

#[tokio::test]
async fn records_of_imports_are_kept() {
    let mut app = app().await;
    let success = json!({ "itemType": "SKILLS", "source": "/a" });
    let results = json!([{ "itemType": "SKILLS", "successes": [success], "failures": [] }]);
    let params = json!({ "providerId": "other", "itemTypeResults": results });
    let recorded = request(&mut app, "externalAgentConfig/import/recordHistory", params).await.unwrap();
    let read = request(&mut app, "externalAgentConfig/import/readHistories", json!(null)).await.unwrap();
    assert_eq!(read["data"][0]["importId"], recorded["importId"]);
    assert_eq!(read["data"][0]["successes"][0]["source"], "/a");
    app.rest().await;
}

#[tokio::test]
async fn an_allowed_denial_reaches_the_model() {
    let mut app =
        App::builder().experimental().script(codicil_testkit::Script::new().say("Ok")).start().await;
    let thread = request(&mut app, "thread/start", json!({})).await.unwrap()["thread"]["id"].clone();
    let event = json!({ "id": "r1", "status": "denied", "action": { "command": "make release" } });
    let params = json!({ "threadId": thread, "event": event });
    assert_eq!(request(&mut app, "thread/approveGuardianDeniedAction", params).await, Ok(json!({})));
    let empty = json!({ "threadId": thread, "event": {} });
    let error = "-32600 invalid Guardian denial event: missing field `id`";
    refused(&mut app, &[("thread/approveGuardianDeniedAction", empty, error)]).await;
    app.ignore_rest();
}
