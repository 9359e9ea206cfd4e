//! Goals, deletion, forks at a turn, and excluded or paged histories.

use codicil_protocol::{
    Thread, ThreadDelete, ThreadDeleted, ThreadFork, ThreadGoalClear, ThreadGoalCleared, ThreadGoalGet,
    ThreadGoalSet, ThreadGoalStatus, ThreadGoalUpdated, ThreadGoalUpdatedNotification, ThreadList,
    ThreadRead, ThreadResume, ThreadStarted, TurnCompleted, TurnStarted, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

use super::tools::thread;

fn of<T: serde::de::DeserializeOwned>(thread: &Thread, mut params: Value) -> T {
    params["threadId"] = json!(thread.id);
    from_value(params).unwrap()
}

#[tokio::test]
async fn a_goal_runs_until_its_budget_is_used_up_and_survives_a_restart() {
    let script = Script::new().say("1").usage(100, 40, 10, 0).then().say("2").usage(100, 40, 10, 0);
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let goal = json!({ "objective": " reach it ", "tokenBudget": 120 });
    let set = app.call::<ThreadGoalSet>(of(&thread, goal)).await.goal;
    assert_eq!((set.objective.as_str(), set.status), ("reach it", ThreadGoalStatus::Active));
    let updated = app.until::<ThreadGoalUpdated>().await;
    assert_eq!((updated.goal, updated.turn_id), (set, None));
    let updated = app.until::<ThreadGoalUpdated>().await;
    let turn = app.until::<TurnCompleted>().await.turn;
    assert_eq!((updated.goal.tokens_used, updated.turn_id), (70, Some(turn.id)));
    let limited = app.until::<ThreadGoalUpdated>().await.goal;
    assert_eq!((limited.tokens_used, limited.status), (140, ThreadGoalStatus::BudgetLimited));
    app.until::<TurnCompleted>().await;
    let requests = app.model().requests();
    let inputs: Vec<_> =
        requests.iter().map(|request| Value::from(request.input().to_vec()).to_string()).collect();
    assert_eq!(inputs.len(), 2);
    assert!(
        inputs
            .iter()
            .all(|input| input.contains("<codex_internal_context source=") && input.contains("reach it"))
    );
    let read = app.read(&thread).await;
    assert_eq!(read.preview, "reach it");
    assert!(read.turns.iter().all(|turn| turn.items.len() == 1), "{:?}", read.turns);

    app.rest().await;
    app.restart().await;
    let get = || of(&thread, json!({}));
    let stored = app.call::<ThreadGoalGet>(get()).await.goal.unwrap();
    assert_eq!((stored.tokens_used, stored.status), (140, ThreadGoalStatus::BudgetLimited));
    app.call::<ThreadResume>(of(&thread, json!({ "excludeTurns": true }))).await;
    assert_eq!(app.until::<ThreadGoalUpdated>().await.goal, stored);
    assert!(app.call::<ThreadGoalClear>(of(&thread, json!({}))).await.cleared);
    app.until::<ThreadGoalCleared>().await;
    assert!(!app.call::<ThreadGoalClear>(of(&thread, json!({}))).await.cleared);
    app.rest().await;
    app.restart().await;
    assert_eq!(app.call::<ThreadGoalGet>(get()).await.goal, None);
}

#[tokio::test]
async fn the_model_ends_its_goal_and_an_interrupt_keeps_it_waiting_for_the_user() {
    let script = Script::new()
        .gate("g")
        .then()
        .say("for the user")
        .then()
        .call("update_goal", json!({ "status": "complete" }))
        .then()
        .say("done");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    app.call::<ThreadGoalSet>(of(&thread, json!({ "objective": "x" }))).await;
    let turn = app.until::<TurnStarted>().await.turn;
    app.model().reached("g").await;
    app.interrupt(&turn).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);
    let goal = app.call::<ThreadGoalGet>(of(&thread, json!({}))).await.goal.unwrap();
    assert_eq!(goal.status, ThreadGoalStatus::Active);
    app.run_turn(&thread, "go on").await;
    let is_complete =
        |updated: &ThreadGoalUpdatedNotification| updated.goal.status == ThreadGoalStatus::Complete;
    app.until_where::<ThreadGoalUpdated>(is_complete).await;
    app.until::<TurnCompleted>().await;
    assert_eq!(app.model().requests().len(), 4);
    app.ignore_rest();
}

#[tokio::test]
async fn an_active_goal_continues_when_its_thread_is_resumed_in_a_new_process() {
    let script = Script::new()
        .gate("g")
        .then()
        .call("update_goal", json!({ "status": "blocked" }))
        .then()
        .say("stuck");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    app.call::<ThreadGoalSet>(of(&thread, json!({ "objective": "x" }))).await;
    let turn = app.until::<TurnStarted>().await.turn;
    app.model().reached("g").await;
    app.interrupt(&turn).await;
    app.until::<TurnCompleted>().await;
    app.rest().await;
    app.restart().await;
    app.call::<ThreadResume>(of(&thread, json!({ "excludeTurns": true }))).await;
    app.until::<TurnCompleted>().await;
    let goal = app.call::<ThreadGoalGet>(of(&thread, json!({}))).await.goal.unwrap();
    assert_eq!(goal.status, ThreadGoalStatus::Blocked);
    app.ignore_rest();
}

#[tokio::test]
async fn a_failed_turn_blocks_the_goal_and_a_complete_one_stays_so_until_it_is_active() {
    let script = Script::new().fail("server_error", "boom").then().say("never asked for");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    app.call::<ThreadGoalSet>(of(&thread, json!({ "objective": "x" }))).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Failed);
    let goal = app.call::<ThreadGoalGet>(of(&thread, json!({}))).await.goal.unwrap();
    assert_eq!(goal.status, ThreadGoalStatus::Blocked);
    app.call::<ThreadGoalSet>(of(&thread, json!({ "status": "complete" }))).await;
    let changed = app.call::<ThreadGoalSet>(of(&thread, json!({ "objective": "y" }))).await.goal;
    assert_eq!((changed.objective.as_str(), changed.status), ("y", ThreadGoalStatus::Complete));
    app.rest().await;
    assert_eq!(app.model().requests().len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn goals_of_unloaded_threads_can_be_read_and_forks_have_none() {
    let mut app = App::start(Script::new().say("1")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.rest().await;
    app.restart().await;
    let goal = json!({ "objective": "a", "status": "paused" });
    app.call::<ThreadGoalSet>(of(&thread, goal)).await;
    let set = app.call::<ThreadGoalSet>(of(&thread, json!({ "status": "blocked" }))).await.goal;
    assert_eq!((set.objective.as_str(), set.status), ("a", ThreadGoalStatus::Blocked));
    app.rest().await;
    let forked = app.call::<ThreadFork>(of(&thread, json!({}))).await.thread;
    assert_eq!(app.call::<ThreadGoalGet>(of(&forked, json!({}))).await.goal, None);
    app.rest().await;
    app.restart().await;
    assert_eq!(app.call::<ThreadGoalGet>(of(&forked, json!({}))).await.goal, None);
    assert!(app.call::<ThreadGoalClear>(of(&thread, json!({}))).await.cleared);
    app.rest().await;
}

#[tokio::test]
async fn invalid_goals_are_refused() {
    let mut app = App::start(Script::new()).await;
    let kept = app.start_thread().await;
    let unkept = thread(&mut app, json!({ "ephemeral": true })).await;
    app.rest().await;
    let none = app.try_call::<ThreadGoalSet>(of(&kept, json!({ "status": "paused" }))).await.unwrap_err();
    assert_eq!(none.message, format!("cannot update goal for thread {}: no goal exists", kept.id));
    let refused = app.try_call::<ThreadGoalGet>(of(&unkept, json!({}))).await.unwrap_err();
    assert_eq!(refused.message, format!("ephemeral thread does not support goals: {}", unkept.id));
    let unknown = json!({ "threadId": "01a1e2fc-62af-7df2-8f62-961e76c889bb" });
    let refused = app.try_call::<ThreadGoalGet>(from_value(unknown).unwrap()).await.unwrap_err();
    assert_eq!(refused.message, "thread not found: 01a1e2fc-62af-7df2-8f62-961e76c889bb");
}

#[tokio::test]
async fn deleting_a_thread_ends_its_turn_and_removes_its_file() {
    let mut app = App::start(Script::new().say("1").then().say("2").gate("never")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.start_turn(&thread, "two").await;
    app.model().reached("never").await;

    app.call::<ThreadDelete>(of(&thread, json!({}))).await;
    let end = app.until::<TurnCompleted>().await.turn;
    assert_eq!(end.status, TurnStatus::Interrupted);
    assert_eq!(app.until::<ThreadDeleted>().await.thread_id, thread.id);
    app.rest().await;
    assert!(!std::path::Path::new(thread.path.as_ref().unwrap()).exists());
    assert_eq!(app.call::<ThreadList>(from_value(json!({})).unwrap()).await.data, []);
    let again = app.try_call::<ThreadDelete>(of(&thread, json!({}))).await.unwrap_err();
    assert_eq!(again.message, format!("no rollout found for thread id {}", thread.id));
    app.try_call::<ThreadRead>(of(&thread, json!({}))).await.unwrap_err();
    app.restart().await;
    app.try_call::<ThreadResume>(of(&thread, json!({}))).await.unwrap_err();
}

#[tokio::test]
async fn a_fork_outlives_its_source_and_archived_threads_can_be_deleted() {
    let mut app = App::start(Script::new().say("1")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let forked = app.call::<ThreadFork>(of(&thread, json!({}))).await.thread;
    app.rest().await;
    app.call::<codicil_protocol::ThreadArchive>(of(&thread, json!({}))).await;
    app.rest().await;
    app.call::<ThreadDelete>(of(&thread, json!({}))).await;
    app.until::<ThreadDeleted>().await;
    assert_eq!(app.read(&forked).await.turns.len(), 1);
    app.rest().await;
}

#[tokio::test]
async fn an_ephemeral_thread_cannot_be_deleted() {
    let mut app = App::start(Script::new()).await;
    let unkept = thread(&mut app, json!({ "ephemeral": true })).await;
    app.rest().await;
    let refused = app.try_call::<ThreadDelete>(of(&unkept, json!({}))).await.unwrap_err();
    assert_eq!(refused.message, format!("thread is not persisted and cannot be deleted: {}", unkept.id));
}

#[tokio::test]
async fn turns_can_be_excluded_or_paged() {
    let script = Script::new().say("1").then().say("2");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.run_turn(&thread, "two").await;
    app.rest().await;
    let lean = json!({ "excludeTurns": true });
    let forked = app.call::<ThreadFork>(of(&thread, lean.clone())).await;
    assert_eq!(forked.thread.turns, []);
    assert_eq!(app.until::<ThreadStarted>().await.thread.turns, []);
    assert_eq!(app.read(&forked.thread).await.turns.len(), 2);
    for _ in 0..2 {
        let resumed = app.call::<ThreadResume>(of(&thread, lean.clone())).await;
        assert_eq!((resumed.thread.turns.len(), resumed.initial_turns_page), (0, None));
        let page = json!({ "excludeTurns": true, "initialTurnsPage": { "limit": 1 } });
        let resumed = app.call::<ThreadResume>(of(&thread, page)).await;
        let page = resumed.initial_turns_page.unwrap();
        assert_eq!((resumed.thread.turns.len(), page.data.len()), (0, 1));
        assert_eq!(page.data[0].items.len(), 2);
        assert!(page.next_cursor.is_some());
        // The thread is loaded in the first round only.
        app.rest().await;
        app.restart().await;
    }
}

#[tokio::test]
async fn a_fork_may_end_after_or_before_a_turn() {
    let script = Script::new().say("1").then().say("2").then().say("3").then().say("4").gate("never");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    for text in ["Oslo", "Turin"] {
        app.run_turn(&thread, text).await;
    }
    app.rest().await;
    let turns = app.read(&thread).await.turns;
    let after = app.call::<ThreadFork>(of(&thread, json!({ "lastTurnId": turns[0].id }))).await.thread;
    assert_eq!(after.turns, turns[..1]);
    let before = app.call::<ThreadFork>(of(&thread, json!({ "beforeTurnId": turns[0].id }))).await.thread;
    assert_eq!(before.turns, []);
    app.rest().await;
    app.run_turn(&after, "Quito").await;
    let input = Value::from(app.model().requests()[2].input().to_vec()).to_string();
    assert!(input.contains("Oslo") && !input.contains("Turin") && input.contains("Quito"), "{input}");
    assert_eq!(app.read(&after).await.turns.len(), 2);

    let running = app.start_turn(&thread, "four").await;
    app.model().reached("never").await;
    let nowhere = json!({ "lastTurnId": "nope" });
    let running = json!({ "lastTurnId": running.id });
    let both = json!({ "lastTurnId": turns[0].id, "beforeTurnId": turns[1].id });
    let unkept = json!({ "lastTurnId": turns[0].id, "ephemeral": true });
    for (params, message) in [
        (nowhere, "turn not found: nope"),
        (running, "identifies an in-progress turn"),
        (both, "`beforeTurnId` cannot be combined with `lastTurnId`"),
        (unkept, "a fork in memory copies everything: it cannot have `lastTurnId` or `beforeTurnId`"),
    ] {
        let refused = app.try_call::<ThreadFork>(of(&thread, params)).await.unwrap_err();
        assert!(refused.code == -32600 && refused.message.ends_with(message), "{refused:?}");
    }
    app.ignore_rest();
}
