//! Deadlines and budgets.

use std::time::Duration;

use codicil_agents::evaluate::{
    Budget, ClientConfig, EvaluationCause, EvaluationEvent, EvaluationPhase, Prompt, Tool, ToolContext,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Recording, fake::evaluator, soon};

const MINUTE: Duration = Duration::from_secs(60);

/// Unit test: `turn/interrupt` on deadline expiry.
#[tokio::test(start_paused = true)]
async fn turn_interrupt_on_deadline_expiry() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let recording = Recording::new();
    let prompt = Prompt::text("Hi");
    let began = Instant::now();
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).timeout(MINUTE).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        fake.usage([100, 10], [100, 10]).await;
        // The paused clock has advanced by more than a minute.
        let interrupt = tokio::time::timeout(2 * MINUTE, fake.expect_late("turn/interrupt")).await.unwrap();
        assert_eq!(interrupt["params"], json!({ "threadId": "t", "turnId": "u" }));
        fake.reply(&interrupt, json!({})).await;
        fake.item(json!({ "type": "webSearch", "id": "late", "query": "last" })).await;
        fake.end("interrupted", Value::Null).await;
        assert_eq!(fake.next().await, None);
    };
    let (answer, ()) = tokio::join!(evaluating, serving);
    let error = answer.unwrap_err();
    assert!(error.is_deadline(), "{error}");
    assert_eq!((error.phase(), began.elapsed()), (Some(EvaluationPhase::Request), MINUTE));
    let failed = error.failed().unwrap();
    assert_eq!((failed.thread_id.as_deref(), failed.turn_id.as_deref()), (Some("t"), Some("u")));
    assert_eq!(failed.usage.unwrap().total_tokens, 110, "the usage is reported anyway");
    assert_eq!(recording.names(), ["PromptRendered", "ToolInvoked"], "the work until then is reported");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_interrupt_delays_the_end_by_the_stop_timeout() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let began = Instant::now();
    let evaluating = evaluator.evaluate(&prompt).timeout(MINUTE).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        fake
    };
    // The server stays connected and silent.
    let (answer, _fake) = tokio::join!(evaluating, serving);
    assert!(answer.unwrap_err().is_deadline());
    let config = ClientConfig::default();
    assert!(began.elapsed() <= MINUTE + 2 * config.stop_timeout, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_applies_to_every_step() {
    // Before the evaluation starts.
    let (evaluator, _servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let recording = Recording::new();
    let late = evaluator.evaluate(&prompt).session(&recording.session).deadline(Instant::now()).text().await;
    let error = late.unwrap_err();
    assert!(error.is_deadline() && error.phase() == Some(EvaluationPhase::Request), "{error}");
    assert_eq!(recording.events(), [], "nothing was rendered");
    // During the handshake, `thread/start` and `turn/start`.
    for step in 0..3 {
        let config = ClientConfig { startup_timeout: 10 * MINUTE, ..ClientConfig::default() };
        let (evaluator, mut servers) = super::fake::evaluator(config);
        let serving = async {
            if step == 0 {
                return servers.next().await;
            }
            let mut fake = servers.accept().await;
            if step == 2 {
                fake.start_thread().await;
            }
            fake
        };
        let (answer, _fake) =
            tokio::join!(evaluator.evaluate(&prompt).timeout(Duration::from_secs(20)).text(), serving);
        let error = answer.unwrap_err();
        assert!(error.is_deadline(), "{step}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_fails_after_the_startup_timeout() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let began = Instant::now();
    let (answer, _fake) = tokio::join!(evaluator.evaluate(&prompt).text(), servers.next());
    let error = answer.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Request));
    assert!(error.to_string().contains("initialize was not answered within 10s"), "{error}");
    assert!(began.elapsed() <= Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_exceeds_the_deadline_is_cancelled() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let recording = Recording::new();
    let tool = Tool::new("slow", "", |_: (), cx: ToolContext| async move {
        assert!(cx.deadline().is_some());
        cx.set(1_u32);
        std::future::pending::<()>().await;
        Ok("never")
    });
    let prompt = Prompt::text("Hi").tool(tool);
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).timeout(MINUTE).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        let params =
            json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "slow", "arguments": {} });
        fake.send(json!({ "id": 1, "method": "item/tool/call", "params": params })).await;
        fake
    };
    let (answer, _fake) = tokio::join!(evaluating, serving);
    assert!(answer.unwrap_err().is_deadline());
    let reported = &recording.tools()[0];
    assert_eq!(
        (reported.success, &*reported.output, recording.session.get::<u32>()),
        (false, "the deadline has passed", None)
    );
}

#[tokio::test]
async fn a_turn_that_exceeds_the_budget_is_interrupted() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let budget = Budget::new().max_total_tokens(1000);
    let evaluating = evaluator.evaluate(&prompt).budget(&budget).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        // The thread had a high usage before; only this turn counts.
        fake.usage([50_600, 5000], [600, 0]).await;
        fake.usage([51_050, 5000], [450, 0]).await;
        let interrupt = fake.expect("turn/interrupt").await;
        fake.reply(&interrupt, json!({})).await;
        fake.end("interrupted", Value::Null).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    let error = answer.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Budget));
    assert_eq!(error.to_string(), "budget: the budget of 1000 total tokens is used up: 1050");
    assert!(matches!(error.failed().unwrap().cause, EvaluationCause::Budget(_)));
    assert_eq!(budget.spent().total_tokens, 1050);

    // The next evaluation does not start.
    let recording = Recording::new();
    let error = soon(evaluator.evaluate(&prompt).budget(&budget).session(&recording.session).text())
        .await
        .unwrap_err();
    assert_eq!((error.phase(), recording.names().len()), (Some(EvaluationPhase::Budget), 0));
}

#[tokio::test]
async fn a_budget_is_shared_by_the_evaluations_that_have_it() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let budget = Budget::new().max_total_tokens(1000).max_completion_tokens(500).timeout(10 * MINUTE);
    for round in 1..=2 {
        let recording = Recording::new();
        let evaluating = evaluator.evaluate(&prompt).budget(&budget).session(&recording.session).text();
        let serving = async {
            let mut fake = servers.accept().await;
            fake.start_thread().await;
            fake.start_turn().await;
            fake.usage([200, 10], [200, 10]).await;
            fake.usage([350, 30], [150, 20]).await;
            fake.complete().await;
        };
        let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
        assert_eq!(answer.unwrap().usage.unwrap().total_tokens, 380);
        assert_eq!(budget.spent().total_tokens, round * 380);
        assert!(
            matches!(recording.events().last(), Some(EvaluationEvent::PromptExecuted(done)) if done.usage.is_some())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_budget_applies() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let budget = Budget::new().timeout(MINUTE / 3);
    let began = Instant::now();
    let evaluating = evaluator.evaluate(&prompt).budget(&budget).timeout(10 * MINUTE).text();
    let (answer, _fake) = tokio::join!(evaluating, servers.accept());
    assert!(answer.unwrap_err().is_deadline());
    assert!(began.elapsed() < 2 * MINUTE);
}
