//! Skills: listed and switched by clients, and used by models.

use std::{fs, path::PathBuf};

use codicil_protocol::{
    SkillMetadata, SkillScope, SkillsChanged, SkillsConfigWrite, SkillsList, SkillsListParams, Thread,
    ThreadStart, TurnCompleted, TurnStart, TurnSteer,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

/// Writes a skill of the user.
fn write(app: &App, name: &str, description: &str) -> PathBuf {
    let folder = app.home().join("skills").join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nBODY OF {name}\n");
    let unfinished = folder.join(".unfinished");
    let path = folder.join("SKILL.md");
    fs::write(&unfinished, text).unwrap();
    fs::rename(&unfinished, &path).unwrap();
    path
}

async fn list(app: &mut App) -> Vec<SkillMetadata> {
    let cwds = Some(vec![app.workspace().to_string_lossy().into_owned()]);
    let params = SkillsListParams { cwds, ..SkillsListParams::default() };
    app.call::<SkillsList>(params).await.data.remove(0).skills
}

async fn named(app: &mut App, name: &str) -> SkillMetadata {
    list(app).await.into_iter().find(|skill| skill.name == name).expect("it is listed")
}

async fn run(app: &mut App, thread: &Thread, input: Value) {
    let turn = app
        .call::<TurnStart>(from_value(json!({ "threadId": thread.id, "input": input })).unwrap())
        .await
        .turn;
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
}

/// Returns the texts of a role in a request.
fn texts_of(app: &App, request: usize, role: &str) -> Vec<String> {
    let requests = app.model().requests();
    let items = requests[request].input().iter().filter(|item| item["role"] == role);
    let parts = items.flat_map(|item| item["content"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_list_of_skills_is_sent_to_the_model_once() {
    let mut app = App::start(Script::new().say("one").then().say("two")).await;
    write(&app, "mine", "Does a thing");
    write(&app, "off", "Is turned off");
    let silent = app.home().join("skills/silent/agents/openai.yaml");
    write(&app, "silent", "Must be named");
    fs::create_dir(silent.parent().unwrap()).unwrap();
    fs::write(silent, "policy:\n  allow_implicit_invocation: false\n").unwrap();
    let off = json!({ "name": "off", "enabled": false });
    app.call::<SkillsConfigWrite>(from_value(off).unwrap()).await;
    let thread = app.start_thread().await;

    app.run_turn(&thread, "hello").await;
    app.run_turn(&thread, "again").await;

    let lists = |request| -> Vec<_> {
        let texts = texts_of(&app, request, "developer").into_iter();
        texts.filter(|text| text.starts_with("<skills_instructions>")).collect()
    };
    let first = lists(0);
    assert_eq!((first.len(), lists(1).len()), (1, 1));
    assert!(first[0].contains("- mine: Does a thing (file: "), "{}", first[0]);
    assert!(first[0].contains("- write-skill: "), "the bundled ones too: {}", first[0]);
    assert!(!first[0].contains("- off:") && !first[0].contains("- silent:"), "{}", first[0]);
    app.rest().await;
}

#[tokio::test]
async fn the_list_of_skills_can_be_left_out() {
    let mut app = App::start(Script::new().say("one")).await;
    write(&app, "mine", "Does a thing");
    let params = json!({ "config": { "skills.include_instructions": false } });
    let thread = app.call::<ThreadStart>(from_value(params).unwrap()).await.thread;
    run(&mut app, &thread, json!([{ "type": "text", "text": "$mine" }])).await;
    assert!(texts_of(&app, 0, "developer").iter().all(|text| !text.contains("Does a thing")));
    assert!(texts_of(&app, 0, "user").iter().any(|text| text.contains("BODY OF mine")), "a mention works");
    app.rest().await;
}

#[tokio::test]
async fn a_mentioned_skill_follows_the_message() {
    let script = Script::new().say("1").then().say("2").then().say("3").then().say("4");
    let mut app = App::start(script).await;
    let path = write(&app, "mine", "Does a thing");
    let thread = app.start_thread().await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let item = |name: &str, path: PathBuf| json!({ "type": "skill", "name": name, "path": path });

    run(&mut app, &thread, json!([text("$mine do it"), item("mine", path.clone())])).await;
    run(&mut app, &thread, json!([text("and $mine, please")])).await;
    let nowhere = app.workspace().join("none/SKILL.md");
    run(&mut app, &thread, json!([text("hi"), item("none", nowhere)])).await;
    let off = json!({ "name": "mine", "enabled": false });
    app.call::<SkillsConfigWrite>(from_value(off).unwrap()).await;
    run(&mut app, &thread, json!([text("$mine"), item("mine", path.clone())])).await;

    let skills = |request| -> Vec<_> {
        let texts = texts_of(&app, request, "user").into_iter();
        texts.filter(|text| text.starts_with("<skill>")).collect()
    };
    let block =
        format!("<skill>\n<name>mine</name>\n<path>{}</path>\nBODY OF mine\n</skill>", path.display());
    assert_eq!(skills(0), [block.as_str()]);
    assert_eq!(texts_of(&app, 0, "user").last(), Some(&block), "after the message that mentions it");
    let counts: Vec<_> = (1..4).map(|request| skills(request).len()).collect();
    assert_eq!(counts, [2, 2, 2], "unknown and disabled skills add nothing");
    let stored = app.read(&thread).await;
    assert_eq!(stored.turns[0].items.len(), 2, "the block is not a message of the user");
    app.rest().await;
}

#[tokio::test]
async fn a_steered_message_can_mention_a_skill() {
    let script = Script::new().say("part").gate("go").say("rest").then().say("after");
    let mut app = App::start(script).await;
    write(&app, "mine", "Does a thing");
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("go").await;

    let input = json!([{ "type": "text", "text": "$mine" }]);
    let steer = json!({ "threadId": thread.id, "input": input, "expectedTurnId": turn.id });
    app.call::<TurnSteer>(from_value(steer).unwrap()).await;
    app.model().release("go");
    app.rest().await;

    assert!(texts_of(&app, 1, "user").last().unwrap().contains("BODY OF mine"));
}

#[tokio::test]
async fn changed_skills_are_announced_while_a_thread_is_loaded() {
    let mut app = App::builder().start().await;
    write(&app, "mine", "Does a thing");
    assert_eq!(named(&mut app, "mine").await.description, "Does a thing");
    let mut other = app.another_client().await;
    app.start_thread().await;

    write(&app, "mine", "Changed");

    app.take::<SkillsChanged>().await;
    other.take::<SkillsChanged>().await;
    assert_eq!(named(&mut app, "mine").await.description, "Changed");
    other.ignore_rest();
    app.ignore_rest();
}

#[tokio::test]
async fn a_skill_can_be_disabled_and_enabled() {
    let mut app = App::builder().start().await;
    let path = write(&app, "mine", "Does a thing");
    assert!(list(&mut app).await.iter().any(|skill| skill.scope == SkillScope::System));
    for enabled in [false, true] {
        let params = json!({ "path": path, "enabled": enabled });
        let written = app.call::<SkillsConfigWrite>(from_value(params).unwrap()).await;
        assert_eq!(written.effective_enabled, enabled);
        assert_eq!(named(&mut app, "mine").await.enabled, enabled);
    }
    let both = json!({ "path": path, "name": "mine", "enabled": true });
    let error = app.try_call::<SkillsConfigWrite>(from_value(both).unwrap()).await.unwrap_err();
    assert_eq!(error.code, -32602);
}
