//! Apps of an account, from a backend on loopback.

use std::sync::Arc;

use codicil_extensions::{ChatgptAccount, RefetchApps};
use codicil_model::ProviderCredentials;
use codicil_protocol::AppInfo;
use parking_lot::Mutex;

use crate::{
    backend::{Backend, Received, two_apps},
    support::TestHomes,
};

const TOKEN: &str = "canary-token-123";

fn signed_in(backend: &Backend) -> TestHomes {
    let account = ChatgptAccount {
        access_token: TOKEN.to_owned().into(),
        account_id: Some("acc-1".to_owned()),
        is_workspace: false,
    };
    let auth = ProviderCredentials { token: TOKEN.to_owned().into(), account_id: Some("acc-1".to_owned()) };
    let homes = TestHomes::with_auth(Arc::new(account), Some(auth), || {});
    homes.write("home/config.toml", &format!("chatgpt_base_url = '{}'\n", backend.address()));
    homes
}

impl TestHomes {
    async fn apps(&self, refetch: RefetchApps) -> Option<Vec<AppInfo>> {
        self.extensions.apps.list(&self.load(), refetch, |_| {}).await
    }
}

fn names(apps: Option<Vec<AppInfo>>) -> Vec<String> {
    apps.expect("there are apps").into_iter().map(|app| app.name).collect()
}

#[tokio::test]
async fn the_directory_and_the_connected_apps_are_one_list() {
    let backend = Backend::start(two_apps).await;
    let homes = signed_in(&backend);
    let updates = Mutex::new(Vec::new());

    let config = homes.load();
    let listed = homes.extensions.apps.list(&config, RefetchApps::IfNeeded, |apps| {
        updates.lock().push(apps);
    });
    let apps = listed.await.unwrap();

    assert_eq!(updates.lock().last(), Some(&apps), "the last update is the answer");
    let shown: Vec<_> = apps.iter().map(|app| (app.id.as_str(), app.is_accessible, app.is_enabled)).collect();
    assert_eq!(shown, [("demo-app", true, true), ("other", false, true)]);
    assert_eq!(apps[0].install_url.as_deref(), Some("https://chatgpt.com/apps/demo-app/demo-app"));
    for request in backend.received() {
        assert_eq!(request.headers["authorization"], format!("Bearer {TOKEN}"));
        assert_eq!(request.headers["chatgpt-account-id"], "acc-1");
    }
}

#[tokio::test]
async fn sources_are_asked_again_only_on_demand_and_failure_takes_nothing_away() {
    let backend = Backend::start(two_apps).await;
    let homes = signed_in(&backend);
    assert_eq!(names(homes.apps(RefetchApps::IfNeeded).await), ["Demo App", "Other Thing"]);
    assert_eq!(lists(&backend), 2);

    homes.apps(RefetchApps::IfNeeded).await;
    assert_eq!(lists(&backend), 2);

    backend.answer_with(|_| (500, "down".to_owned()));
    assert_eq!(names(homes.apps(RefetchApps::Always).await), ["Demo App", "Other Thing"]);
    assert!(lists(&backend) > 2);
}

/// Returns the number of requests for the directory or for tools.
fn lists(backend: &Backend) -> usize {
    let is_list =
        |request: &Received| request.path.contains("/directory/") || request.body["method"] == "tools/list";
    backend.received().iter().filter(|request| is_list(request)).count()
}

#[tokio::test]
async fn a_backend_that_is_down_makes_an_empty_list() {
    let backend = Backend::start(two_apps).await;
    let homes = signed_in(&backend);
    for answer in [(500, ""), (200, "not json"), (401, "{}"), (302, "")] {
        backend.answer_with(move |_| (answer.0, answer.1.to_owned()));
        assert_eq!(names(homes.apps(RefetchApps::Always).await), Vec::<String>::new(), "{answer:?}");
    }
    drop(backend);
    assert_eq!(names(homes.apps(RefetchApps::Always).await), Vec::<String>::new());
}

#[tokio::test]
async fn pages_of_the_directory_are_read_to_the_end() {
    let backend = Backend::start(|request| match (request.path.ends_with("/list"), request.query.as_str()) {
        (true, query) if query.contains("token=two") => {
            (200, r#"{"apps":[{"id":"b","name":"B"}]}"#.to_owned())
        }
        (true, _) => (200, r#"{"apps":[{"id":"a","name":"A"}],"next_token":"two"}"#.to_owned()),
        _ => two_apps(request),
    })
    .await;
    let homes = signed_in(&backend);
    assert_eq!(names(homes.apps(RefetchApps::IfNeeded).await), ["Demo App", "A", "B"]);
}

#[tokio::test]
async fn there_are_no_apps_without_a_sign_in_or_the_feature() {
    let signed_out = TestHomes::new();
    assert_eq!(signed_out.apps(RefetchApps::Always).await, None);
    assert!(!signed_out.extensions.apps.has_account().await);

    let backend = Backend::start(two_apps).await;
    let homes = signed_in(&backend);
    let text = homes.config_text();
    homes.write("home/config.toml", &format!("{text}\n[features]\napps = false\n"));
    assert_eq!(homes.apps(RefetchApps::Always).await, None);
    assert!(backend.received().is_empty());
}

#[tokio::test]
async fn the_configuration_turns_apps_off() {
    let backend = Backend::start(two_apps).await;
    let homes = signed_in(&backend);
    let text = homes.config_text();
    homes.write("home/config.toml", &format!("{text}\n[apps.other]\nenabled = false\n"));
    let apps = homes.apps(RefetchApps::IfNeeded).await.unwrap();
    assert_eq!(apps.iter().map(|app| app.is_enabled).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn a_plugins_apps_say_whether_they_want_a_sign_in() {
    let ids = ["demo-app", "other", "unknown"].map(str::to_owned);
    let backend = Backend::start(two_apps).await;
    let known = signed_in(&backend).extensions.apps.summaries(&ids).await;
    let shown: Vec<_> = known.iter().map(|app| (app.name.as_str(), app.needs_auth)).collect();
    assert_eq!(shown, [("Demo App", false), ("Other Thing", true), ("unknown", true)]);

    let unknown = TestHomes::new().extensions.apps.summaries(&ids).await;
    assert!(unknown.iter().all(|app| !app.needs_auth && app.name == app.id));
    assert!(TestHomes::new().extensions.apps.summaries(&[]).await.is_empty());
}
