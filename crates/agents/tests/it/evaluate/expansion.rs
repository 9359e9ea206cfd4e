//! Sections that are summarised until a tool asks for them.

use codicil_agents::evaluate::{
    Budget, ClientConfig, EvaluateError, EvaluationEvent, EvaluationPhase, OPEN_SECTIONS, Prompt, Section,
    SectionExpansion, Session, ThreadState, Tool, ToolContext, ToolError,
};
use serde_json::json;

use super::{
    Recording,
    fake::{Fake, Servers, evaluator},
    soon,
};

fn prompt() -> Prompt {
    Prompt::new("demo")
        .section(Section::new("Task", "Do it."))
        .section(Section::new("Rules", "Rule one. Rule two.").summary("There are rules."))
}

/// Plays two turns of one thread: the first asks for the rules, the second answers.
async fn ask_then_answer(servers: &mut Servers, tool: &str, arguments: serde_json::Value) {
    let mut fake = ask_for_rules(servers, tool, arguments).await;
    show_rules(&mut fake).await;
}

async fn ask_for_rules(servers: &mut Servers, tool: &str, arguments: serde_json::Value) -> Fake {
    let mut fake = servers.accept().await;
    let tools = fake.start_thread().await["dynamicTools"].clone();
    assert!(tools.to_string().contains(tool), "{tools}");
    let text = fake.start_turn().await["input"][0]["text"].clone();
    assert!(text.as_str().unwrap().contains("There are rules."), "{text}");
    let answer = fake.call(tool, arguments).await;
    assert_eq!(answer["success"], true, "a request for sections succeeds: {answer}");
    fake.usage([100, 10], [100, 10]).await;
    fake.say("I need to see the rules.").await;
    fake.complete().await;
    fake
}

/// Expects a turn that shows the rules and nothing that the thread has already.
async fn show_rules(fake: &mut Fake) {
    let turn = fake.start_turn().await;
    assert_eq!(turn["threadId"], "t", "the same thread");
    let text = turn["input"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Rule one. Rule two.") && !text.contains("Do it."), "{text}");
    fake.usage([300, 30], [200, 20]).await;
    fake.say("Done by the rules.").await;
    fake.complete().await;
}

#[tokio::test]
async fn the_requested_sections_are_sent_to_the_same_thread() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let recording = Recording::new();
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let arguments = json!({ "section_keys": ["rules"], "reason": "to follow them" });
    let serving = ask_then_answer(&mut servers, OPEN_SECTIONS, arguments);
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    let answer = answer.unwrap();
    assert_eq!(answer.text, "Done by the rules.");
    assert_eq!(answer.usage.unwrap().total_tokens, 330, "of both turns");
    let names = ["PromptRendered", "ToolInvoked", "PromptRendered", "PromptExecuted"];
    assert_eq!(recording.names(), names);
    let tools: Vec<_> = recording.events().iter().filter_map(offered).collect();
    assert_eq!(tools, [[OPEN_SECTIONS], [OPEN_SECTIONS]], "a thread keeps its tools");
}

fn offered(event: &EvaluationEvent) -> Option<Vec<String>> {
    match event {
        EvaluationEvent::PromptRendered(rendered) => Some(rendered.tools.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn any_tool_may_expand_the_prompt_and_its_changes_are_rolled_back() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let tool = Tool::new("lookup", "", |_: (), cx: ToolContext| async move {
        cx.set(7_u32);
        Err::<String, _>(ToolError::expand(SectionExpansion::new(["rules"], "they say how")))
    });
    let prompt = prompt().tool(tool);
    let recording = Recording::new();
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = ask_then_answer(&mut servers, "lookup", json!({}));
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "Done by the rules.");
    assert_eq!(recording.session.get::<u32>(), None);
}

#[tokio::test]
async fn the_caller_may_decide_about_an_expansion() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let recording = Recording::new();
    let session = &recording.session;
    let evaluating = async {
        let outcome = evaluator.evaluate(&prompt).session(session).max_expansions(0).text().await;
        let Err(EvaluateError::ExpansionRequired(expansion)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(
            (expansion.sections.as_slice(), &*expansion.reason),
            (["rules".to_owned()].as_slice(), "why not")
        );
        assert_eq!(recording.names().last(), Some(&"ToolInvoked"), "nothing was executed");
        expansion.open(session);
        evaluator.evaluate(&prompt).session(session).max_expansions(0).text().await
    };
    let arguments = json!({ "section_keys": ["rules"], "reason": "why not" });
    let serving = async {
        drop(ask_for_rules(&mut servers, OPEN_SECTIONS, arguments).await);
        // Another server, the same thread.
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        assert_eq!(request["params"]["threadId"], "t");
        fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
        show_rules(&mut fake).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "Done by the rules.");
    assert_eq!(session.get::<ThreadState>().unwrap().awaited, None, "the thread waits for nothing any more");
}

#[tokio::test]
async fn a_thread_that_is_gone_is_started_over_with_the_whole_prompt() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let session = Session::new();
    let evaluating = async {
        let outcome = evaluator.evaluate(&prompt).session(&session).max_expansions(0).text().await;
        let Err(EvaluateError::ExpansionRequired(expansion)) = outcome else { panic!("{outcome:?}") };
        expansion.open(&session);
        evaluator.evaluate(&prompt).session(&session).text().await
    };
    let arguments = json!({ "section_keys": ["rules"], "reason": "why not" });
    let serving = async {
        drop(ask_for_rules(&mut servers, OPEN_SECTIONS, arguments).await);
        let mut fake = servers.accept().await;
        let request = fake.expect("thread/resume").await;
        fake.refuse(&request, "no rollout found for thread id t").await;
        fake.start_thread().await;
        let text = fake.start_turn().await["input"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("Do it.") && text.contains("Rule one. Rule two."), "{text}");
        fake.say("Done.").await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "Done.");
}

#[tokio::test]
async fn an_open_section_cannot_be_opened_again() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let arguments = json!({ "section_keys": ["rules"], "reason": "to follow them" });
    let serving = async {
        let mut fake = ask_for_rules(&mut servers, OPEN_SECTIONS, arguments.clone()).await;
        fake.start_turn().await;
        let answer = fake.call(OPEN_SECTIONS, arguments.clone()).await;
        assert_eq!(answer["success"], false, "{answer}");
        fake.say("Done.").await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    assert_eq!(answer.unwrap().text, "Done.");
}

#[tokio::test]
async fn an_exceeded_budget_ends_the_expansion() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let budget = Budget::new().max_total_tokens(110);
    let arguments = json!({ "section_keys": ["rules"], "reason": "to follow them" });
    let serving = ask_for_rules(&mut servers, OPEN_SECTIONS, arguments);
    let evaluating = evaluator.evaluate(&prompt).budget(&budget).text();
    let (answer, _fake) = soon(async { tokio::join!(evaluating, serving) }).await;
    let error = answer.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Budget), "{error}");
    assert_eq!(error.failed().unwrap().thread_id.as_deref(), Some("t"), "it can be continued");
}

#[tokio::test]
async fn an_unknown_section_is_a_failed_call() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        let answer = fake.call(OPEN_SECTIONS, json!({ "section_keys": ["none"], "reason": "" })).await;
        let said = r#"no closed section "none"; there are: rules"#;
        assert_eq!((&answer["success"], &answer["contentItems"][0]["text"]), (&json!(false), &json!(said)));
        fake.say("Fine.").await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    assert_eq!(answer.unwrap().text, "Fine.");
}
