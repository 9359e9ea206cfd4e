//! Sections that are summarised until a tool asks for them.

use codicil_agents::evaluate::{
    ClientConfig, EvaluateError, EvaluationEvent, OPEN_SECTIONS, Prompt, Section, SectionExpansion, Tool,
    ToolContext, ToolError,
};
use serde_json::json;

use super::{
    Recording,
    fake::{Servers, evaluator},
    soon,
};

fn prompt() -> Prompt {
    Prompt::new("demo")
        .section(Section::new("Task", "Do it."))
        .section(Section::new("Rules", "Rule one. Rule two.").summary("There are rules."))
}

/// Plays two runs: the first asks for the rules, the second answers.
async fn ask_then_answer(servers: &mut Servers, tool: &str, arguments: serde_json::Value) {
    let mut fake = servers.accept().await;
    let tools = fake.start_thread().await["dynamicTools"].clone();
    assert!(tools.to_string().contains(tool), "{tools}");
    let text = fake.start_turn().await["input"][0]["text"].clone();
    assert!(text.as_str().unwrap().contains("There are rules."), "{text}");
    let answer = fake.call(tool, arguments).await;
    assert_eq!(answer["success"], true, "a request for sections succeeds: {answer}");
    fake.say("I need to see the rules.").await;
    fake.complete().await;
    drop(fake);

    let mut fake = servers.accept().await;
    fake.start_thread().await;
    let text = fake.start_turn().await["input"][0]["text"].clone();
    assert!(text.as_str().unwrap().contains("Rule one. Rule two."), "{text}");
    fake.say("Done by the rules.").await;
    fake.complete().await;
}

#[tokio::test]
async fn the_prompt_is_run_again_with_the_requested_sections() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = prompt();
    let recording = Recording::new();
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let arguments = json!({ "section_keys": ["rules"], "reason": "to follow them" });
    let serving = ask_then_answer(&mut servers, OPEN_SECTIONS, arguments);
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "Done by the rules.");
    let names = ["PromptRendered", "ToolInvoked", "PromptRendered", "PromptExecuted"];
    assert_eq!(recording.names(), names);
    let tools: Vec<_> = recording.events().iter().filter_map(offered).collect();
    assert_eq!(tools, [vec![OPEN_SECTIONS.to_owned()], vec![]], "all sections are open");
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
    let serving = ask_then_answer(&mut servers, OPEN_SECTIONS, arguments);
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    assert_eq!(answer.unwrap().text, "Done by the rules.");
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
