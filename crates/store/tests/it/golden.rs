//! Golden files of every version must load for ever. Never change the expectations of these tests.

use std::{fs, path::Path};

use codicil_protocol::{ABORTED_OUTPUT, ReasoningEffort, ThreadId, TurnStatus};
use codicil_store::{ListQuery, LoadProblem, LoadedThread};

use crate::support::{Home, call, message, output, previews, turn};

const V1_ID: &str = "019a8914-3a00-7000-8000-000000000001";
const BLOB: &str = "35e85f54d5502c7b275655a1104d5fdc1cd94f84b229c136ded22a77d82926b0";

/// Copies the golden file to its place in a home.
async fn v1(home: &Home) -> LoadedThread {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let day = home.path().join("sessions/2025/11/15");
    fs::create_dir_all(&day).unwrap();
    fs::copy(golden.join("v1.jsonl"), day.join(format!("rollout-2025-11-15T20-00-00-{V1_ID}.jsonl")))
        .unwrap();
    let shelf = home.path().join("blobs").join(&BLOB[..2]);
    fs::create_dir_all(&shelf).unwrap();
    fs::write(shelf.join(BLOB), "big ".repeat(10_000)).unwrap();
    home.store.load(&ThreadId::from(V1_ID)).await.unwrap()
}

#[tokio::test]
async fn version_1_loads() {
    let home = Home::new();
    let LoadedThread { thread, history, .. } = v1(&home).await;
    let big = "big ".repeat(10_000);

    assert_eq!(&*thread.meta.id, V1_ID);
    assert_eq!((thread.meta.cwd.as_str(), thread.meta.cli_version.as_str()), ("/work/project", "0.1.0"));
    assert_eq!(thread.meta.forked_from.as_deref(), Some("019a8914-0000-7000-8000-000000000009"));
    assert_eq!(thread.meta.parent_thread_id.as_deref(), Some("019a8914-0000-7000-8000-000000000008"));
    assert_eq!(thread.meta.agent_nickname.as_deref(), Some("Ada"));
    assert_eq!(thread.meta.dynamic_tools[0].tools().next().unwrap().1.name, "lookup");
    assert_eq!(thread.meta.developer_instructions.as_deref(), Some("dev"));
    let settings = thread.settings.as_ref().unwrap();
    assert_eq!((settings.model.as_deref(), &settings.effort), (Some("m-1"), &Some(ReasoningEffort::High)));
    assert_eq!(settings.version, 1);
    assert_eq!(settings.snapshot["approvalPolicy"], "never");
    assert_eq!(thread.usage.as_ref().unwrap().1.total.total_tokens, 100);
    assert_eq!(thread.name.as_deref(), Some("Tidying"));
    assert_eq!(thread.git.as_ref().unwrap().branch.as_deref(), Some("main"));
    assert_eq!(thread.preview.as_deref(), Some("Tidy the repo"));
    assert_eq!((thread.created_at, thread.updated_at), (1_763_236_395, 1_763_236_826));
    assert_eq!(thread.warnings.total, 1);
    assert_eq!(thread.warnings.list[0].problem, LoadProblem::UnknownKind);
    assert_eq!(thread.next_ordinal, 27);

    let turns = thread.turns();
    let ids: Vec<_> = turns.iter().map(|turn| (&*turn.id, turn.status.clone(), turn.items.len())).collect();
    assert_eq!(
        ids,
        [("t1", TurnStatus::Completed, 3), ("t2", TurnStatus::Failed, 1), ("t4", TurnStatus::Interrupted, 0)]
    );
    assert_eq!(turns[1].error.as_ref().unwrap().message, "no such model");
    let json = serde_json::to_value(&turns[0].items[1]).unwrap();
    assert_eq!((json["aggregatedOutput"].as_str(), &json["id"]), (Some(big.as_str()), &"c1".into()));
    assert_eq!(history, [message("user", "summary"), call("c2"), output("c2", ABORTED_OUTPUT)]);
}

#[tokio::test]
async fn version_1_is_listed_and_can_be_appended_to() {
    let home = Home::new();
    let id = v1(&home).await.thread.meta.id;
    let page = home.store.list(ListQuery::default()).await.unwrap();
    assert_eq!(previews(&page), ["Tidy the repo"]);
    assert_eq!(page.threads[0].name.as_deref(), Some("Tidying"));
    assert_eq!(page.threads[0].updated_at, 1_763_236_826);
    let mut log = home.store.open_log(&id).await.unwrap();
    log.append(&turn("t5", "five", "answer")).await.unwrap();
    let loaded = home.store.load(&id).await.unwrap();
    assert_eq!((loaded.thread.turns.len(), loaded.thread.next_ordinal), (4, 34));
}
