//! `codicil/turn/read`: turns by their ids, with their plans.

use codicil_protocol::{CodicilTurnRead, CodicilTurnReadParams, Thread, TurnId, TurnItemsView, TurnStatus};
use codicil_testkit::{App, Script};
use serde_json::json;

fn params(thread: &Thread, turns: &[&TurnId]) -> CodicilTurnReadParams {
    CodicilTurnReadParams {
        thread_id: thread.id.clone(),
        turn_ids: turns.iter().map(|turn| (*turn).clone()).collect(),
    }
}

#[tokio::test]
async fn turns_are_read_with_their_plans_also_after_a_restart() {
    let plan = |status: &str| json!({ "plan": [{ "step": "Look", "status": status }] });
    let script = Script::new()
        .call("update_plan", plan("pending"))
        .then()
        .call("update_plan", plan("completed"))
        .then()
        .say("Done")
        .then()
        .say("Without a plan");
    let mut app = App::builder().experimental().extension().script(script).start().await;
    let thread = app.start_thread().await;
    let first = app.run_turn(&thread, "First").await.id;
    let second = app.run_turn(&thread, "Second").await.id;
    app.rest().await;
    let unknown = TurnId::from("unknown");
    for _ in 0..2 {
        let read = app.call::<CodicilTurnRead>(params(&thread, &[&second, &unknown, &first])).await.data;
        let ids: Vec<_> = read.iter().map(|entry| &entry.turn.id).collect();
        assert_eq!(ids, [&second, &first], "in the order of the request, without those that are not there");
        for entry in &read {
            assert_eq!(
                (&entry.turn.status, entry.turn.items_view),
                (&TurnStatus::Completed, TurnItemsView::NotLoaded)
            );
            assert!(entry.turn.items.is_empty() && entry.turn.started_at.is_some());
        }
        assert_eq!(read[0].plan, None);
        let plan = serde_json::to_value(&read[1].plan).unwrap();
        assert_eq!((&plan["turnId"], &plan["threadId"]), (&json!(first), &json!(thread.id)));
        assert_eq!(plan["plan"], json!([{ "step": "Look", "status": "completed" }]));
        app.restart().await;
    }
}
