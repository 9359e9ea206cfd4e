//! `codicil/usage/read`: the tokens that threads have used.

use codicil_protocol::{
    CodicilUsageRead, CodicilUsageReadParams, Thread, ThreadRollback, ThreadRollbackParams,
};
use codicil_testkit::{App, Script};

fn params(threads: &[&Thread], since: Option<i64>) -> CodicilUsageReadParams {
    CodicilUsageReadParams { thread_ids: threads.iter().map(|thread| thread.id.clone()).collect(), since }
}

#[tokio::test]
async fn the_usage_of_stored_threads_is_read_response_by_response() {
    let script = Script::new()
        .say("one")
        .usage(100, 40, 10, 0)
        .then()
        .say("two")
        .usage(200, 0, 20, 5)
        .then()
        .say("three")
        .usage(300, 0, 30, 0);
    let mut app = App::builder().experimental().extension().script(script).start().await;
    let thread = app.start_thread().await;
    let unused = app.start_thread().await;
    for text in ["first", "second"] {
        app.run_turn(&thread, text).await;
    }
    app.rest().await;
    let read = app.call::<CodicilUsageRead>(params(&[&unused, &thread], Some(0))).await.data;
    assert_eq!(read.len(), 1, "a thread without responses is left out");
    assert_eq!(read[0].thread_id, thread.id);
    assert_eq!((read[0].usage.total.total_tokens, read[0].usage.last.total_tokens), (330, 220));
    let tokens: Vec<_> = read[0].responses.iter().map(|response| response.usage.total_tokens).collect();
    assert_eq!(tokens, [110, 220]);

    // A removed turn has used tokens. Its removal is not a response.
    let rollback = ThreadRollbackParams { thread_id: thread.id.clone(), num_turns: 1 };
    app.call::<ThreadRollback>(rollback).await;
    app.rest().await;
    app.run_turn(&thread, "third").await;
    app.rest().await;
    let app = app.restart().await;
    let read = app.call::<CodicilUsageRead>(params(&[&thread], Some(0))).await.data;
    let tokens: Vec<_> = read[0].responses.iter().map(|response| response.usage.total_tokens).collect();
    assert_eq!(tokens, [110, 220, 330]);
    let read = app.call::<CodicilUsageRead>(params(&[&thread], None)).await.data;
    assert!(read[0].responses.is_empty());
    let read = app.call::<CodicilUsageRead>(params(&[&thread], Some(i64::MAX))).await.data;
    assert!(read[0].responses.is_empty());
}
