//! `externalAgentConfig/*`, `feedback/*` and `windowsSandbox/*`.

use std::fs;

use codicil_protocol::{
    ExternalAgentConfigDetect, ExternalAgentConfigDetectParams, ExternalAgentConfigImport,
    ExternalAgentConfigImportParams, ExternalAgentConfigMigrationItemType, FeedbackUpload,
    FeedbackUploadParams, ThreadId, WindowsSandboxSetupCompleted, WindowsSandboxSetupMode,
    WindowsSandboxSetupStart, WindowsSandboxSetupStartParams,
};
use codicil_testkit::App;
use serde_json::Value;

use crate::NO_THREAD;

#[tokio::test]
async fn the_configuration_of_another_agent_is_detected_and_imported_once() {
    let mut app = App::builder().start().await;
    fs::write(app.workspace().join("CLAUDE.md"), "Rules for Claude\n").unwrap();
    let cwds = Some(vec![app.workspace().to_str().unwrap().to_owned()]);
    let params = ExternalAgentConfigDetectParams { cwds, ..Default::default() };
    let items = app.call::<ExternalAgentConfigDetect>(params.clone()).await.items;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].item_type, ExternalAgentConfigMigrationItemType::AgentsMd);
    let import = ExternalAgentConfigImportParams {
        migration_items: items,
        migration_source: None,
        provider_id: None,
        source: None,
    };
    app.call::<ExternalAgentConfigImport>(import).await;
    assert_eq!(fs::read_to_string(app.workspace().join("AGENTS.md")).unwrap(), "Rules for Codex\n");
    assert!(app.call::<ExternalAgentConfigDetect>(params).await.items.is_empty());
}

fn report(thread_id: Option<&str>, include_logs: bool) -> FeedbackUploadParams {
    FeedbackUploadParams {
        classification: "bug".to_owned(),
        reason: None,
        thread_id: thread_id.map(ThreadId::from),
        include_logs: Some(include_logs),
        extra_log_files: None,
        tags: None,
    }
}

#[tokio::test]
async fn a_report_is_written_to_the_home_with_the_thread_on_request() {
    let mut app = App::start(codicil_testkit::Script::new().say("Hello")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    let answer = app.call::<FeedbackUpload>(report(Some(&thread.id), true)).await;
    assert_eq!(answer.thread_id, thread.id);
    let unknown = app.call::<FeedbackUpload>(report(Some(NO_THREAD), true)).await;
    assert_eq!(*unknown.thread_id, *NO_THREAD);
    let none = app.call::<FeedbackUpload>(report(None, false)).await;
    assert!(none.thread_id.starts_with("no-active-thread-"));
    let folder = app.home().join("feedback");
    let reports = fs::read_dir(folder).unwrap().map(|entry| {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    });
    let reports: Vec<_> = reports.collect();
    assert_eq!(reports.len(), 3);
    let of_thread = reports.iter().find(|report| report["threadId"] == *thread.id).unwrap();
    let attached = of_thread["attachments"].as_array().unwrap();
    let attached = attached.iter().find(|attachment| attachment["name"] == "thread.json").unwrap();
    assert!(attached["text"].as_str().unwrap().contains("Hello"));
    app.rest().await;
}

#[tokio::test]
async fn feedback_can_be_disabled_and_needs_a_valid_thread_id() {
    let mut app = App::builder().config("[feedback]\nenabled = false").start().await;
    let error = app.try_call::<FeedbackUpload>(report(None, false)).await.unwrap_err();
    let expected = "sending feedback is disabled by configuration";
    assert_eq!((error.code, error.message.as_str()), (-32600, expected));
    assert!(!app.home().join("feedback").exists());
    let mut app = App::builder().start().await;
    let error = app.try_call::<FeedbackUpload>(report(Some("nope"), false)).await.unwrap_err();
    assert!(error.message.starts_with("invalid thread id: "), "{}", error.message);
}

#[tokio::test]
async fn the_setup_of_the_windows_sandbox_fails_on_other_systems() {
    let mut app = App::builder().start().await;
    for (mode, kind) in
        [(WindowsSandboxSetupMode::Elevated, "elevated"), (WindowsSandboxSetupMode::Unelevated, "legacy")]
    {
        let params = WindowsSandboxSetupStartParams { mode: mode.clone(), cwd: None };
        assert!(app.call::<WindowsSandboxSetupStart>(params).await.started);
        let ended = app.until::<WindowsSandboxSetupCompleted>().await;
        assert_eq!((ended.mode, ended.success), (mode, false));
        let expected = format!("{kind} Windows sandbox setup is only supported on Windows");
        assert_eq!(ended.error, Some(expected));
    }
}
