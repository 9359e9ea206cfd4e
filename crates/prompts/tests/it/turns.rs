//! Context messages at the start of a thread and later.

use codicil_prompts::{
    ContextSnapshot, ContextTexts, DocSearch, compacted_history, context_messages, fingerprint,
    is_context_message,
};
use codicil_protocol::{
    AskForApproval, CollaborationMode, ContentItem, ModeKind, Personality, ResponseItem, SandboxPolicy,
    Settings,
};
use insta::assert_snapshot;

use crate::show::{full, outline, snapshot};

fn mode(mode: ModeKind, instructions: Option<&str>) -> Option<CollaborationMode> {
    let settings = Settings {
        model: "gpt-5.1-codex".to_owned(),
        reasoning_effort: None,
        developer_instructions: instructions.map(str::to_owned),
    };
    Some(CollaborationMode { mode, settings })
}

const EVERYTHING: ContextTexts<'_> = ContextTexts {
    developer_instructions: Some("DEV"),
    skills: Some("- mine: does it"),
    plugins: Some("- theirs: helps"),
    agents_md: Some("# AGENTS.md instructions\n\nrules"),
};

#[test]
fn a_new_thread_receives_permissions_and_environment() {
    assert_snapshot!(full(&context_messages(None, &snapshot(), &ContextTexts::default())));
}

#[test]
fn messages_have_a_fixed_order() {
    let now = ContextSnapshot { collaboration_mode: mode(ModeKind::Plan, None), ..snapshot() };
    assert_snapshot!(outline(&context_messages(None, &now, &EVERYTHING)), @r"
    [developer]
      <permissions instructions>
      DEV
      <collaboration_mode>
      <skills_instructions>
      <plugins_instructions>
    [user]
      # AGENTS.md instructions
      <environment_context>
    ");
}

#[test]
fn blank_texts_are_omitted() {
    let now = ContextSnapshot { collaboration_mode: mode(ModeKind::Default, Some(" ")), ..snapshot() };
    let blank = ContextTexts {
        developer_instructions: Some(""),
        skills: Some("\n"),
        plugins: Some(" "),
        agents_md: None,
    };
    assert_snapshot!(outline(&context_messages(None, &now, &blank)), @r"
    [developer]
      <permissions instructions>
    [user]
      <environment_context>
    ");
}

#[test]
fn an_unchanged_context_sends_nothing() {
    assert_eq!(context_messages(Some(&snapshot()), &snapshot(), &EVERYTHING), []);
}

/// Returns the messages of a second turn if `change` was made after the first.
fn after(change: impl FnOnce(&mut ContextSnapshot)) -> String {
    let mut now = snapshot();
    change(&mut now);
    outline(&context_messages(Some(&snapshot()), &now, &ContextTexts::default()))
}

#[test]
fn a_changed_policy_or_sandbox_is_sent() {
    assert_snapshot!(after(|now| now.approval_policy = AskForApproval::Never), @r"
    [developer]
      <permissions instructions>
    ");
    assert_snapshot!(after(|now| now.sandbox_policy = SandboxPolicy::DangerFullAccess), @r"
    [developer]
      <permissions instructions>
    ");
}

#[test]
fn a_changed_environment_is_sent() {
    assert_snapshot!(after(|now| now.cwd = "/elsewhere".to_owned()), @r"
    [user]
      <environment_context>
    ");
    assert_snapshot!(after(|now| now.current_date = "2026-11-16".to_owned()), @r"
    [user]
      <environment_context>
    ");
}

#[test]
fn a_mode_is_sent_when_its_text_changes() {
    assert_snapshot!(after(|now| now.collaboration_mode = mode(ModeKind::Plan, None)), @r"
    [developer]
      <collaboration_mode>
    ");
    let planning = ContextSnapshot { collaboration_mode: mode(ModeKind::Plan, None), ..snapshot() };
    let tell = |collaboration_mode| {
        full(&context_messages(
            Some(&planning),
            &ContextSnapshot { collaboration_mode, ..snapshot() },
            &ContextTexts::default(),
        ))
    };
    assert_snapshot!(tell(mode(ModeKind::Plan, Some("MY OWN"))), @r"
    [developer]
    <collaboration_mode>
    MY OWN
    </collaboration_mode>
    ");
    assert!(tell(mode(ModeKind::Default, None)).contains("default mode"));
    assert_eq!(tell(None), "");
    assert_eq!(tell(mode(ModeKind::Unrecognized("party".to_owned()), None)), "");
}

#[test]
fn a_later_change_of_the_personality_is_sent() {
    assert_snapshot!(after(|now| now.personality = Some(Personality::Friendly)), @r"
    [developer]
      <personality_spec>
    ");
    assert_eq!(after(|now| now.personality = Some(Personality::None)), "");
    let friendly = ContextSnapshot { personality: Some(Personality::Friendly), ..snapshot() };
    assert_eq!(context_messages(Some(&friendly), &snapshot(), &ContextTexts::default()), []);
    // Initially it is part of the base instructions.
    let start = outline(&context_messages(None, &friendly, &ContextTexts::default()));
    assert!(!start.contains("personality"), "{start}");
}

#[test]
fn many_changes_are_two_messages() {
    let now = ContextSnapshot {
        model: "gpt-5.2-codex".to_owned(),
        cwd: "/elsewhere".to_owned(),
        approval_policy: AskForApproval::Never,
        sandbox_policy: SandboxPolicy::DangerFullAccess,
        personality: Some(Personality::Pragmatic),
        collaboration_mode: mode(ModeKind::Default, Some("MODE")),
        ..snapshot()
    };
    assert_snapshot!(full(&context_messages(Some(&snapshot()), &now, &EVERYTHING)));
}

#[test]
fn changed_project_instructions_are_sent_again() {
    let text = "# AGENTS.md instructions\n\nother rules";
    let extras = ContextTexts { agents_md: Some(text), ..ContextTexts::default() };
    let ruled = ContextSnapshot { agents_md: Some(fingerprint(text)), ..snapshot() };
    assert_snapshot!(full(&context_messages(Some(&snapshot()), &ruled, &extras)), @r"
    [user]
    # AGENTS.md instructions

    other rules
    ");
    assert_eq!(context_messages(Some(&ruled), &ruled, &extras), []);
    assert_snapshot!(full(&context_messages(Some(&ruled), &snapshot(), &ContextTexts::default())), @r"
    [user]
    # AGENTS.md instructions

    The rules given earlier under this heading no longer apply: the working directory has none.
    ");
}

#[test]
fn project_instructions_are_separated_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("sub/.git")).unwrap();
    std::fs::write(root.join("AGENTS.md"), "Be kind.\n").unwrap();
    std::fs::write(root.join("sub/AGENTS.md"), "Use tabs.\nAnd more words.\n").unwrap();
    let search = DocSearch { home: Some(root.to_owned()), max_bytes: 18, ..DocSearch::default() };
    let text = search.run(Some(&root.join("sub")), &|path| std::fs::File::open(path)).text().unwrap();
    assert_snapshot!(text.replace(&*root.to_string_lossy(), "ROOT"), @r#"
    # AGENTS.md instructions

    Rules for working here, from the most general to the most specific. Where two disagree, the later one holds.

    <file path="ROOT/AGENTS.md">
    Be kind.
    </file>

    <file path="ROOT/sub/AGENTS.md">
    Use tabs.
    [The rest of this file did not fit. Read it yourself if you need it.]
    </file>
    "#);
}

#[test]
fn paths_are_escaped() {
    let now = ContextSnapshot { cwd: "/a&b/</cwd>\nx".to_owned(), ..snapshot() };
    let text = full(&context_messages(None, &now, &ContextTexts::default()));
    assert!(text.contains("  <cwd>/a&b/&lt;/cwd&gt; x</cwd>\n"), "{text}");
}

#[test]
fn context_messages_are_recognised_and_dropped_by_compaction() {
    let now = ContextSnapshot { collaboration_mode: mode(ModeKind::Plan, None), ..snapshot() };
    let context = context_messages(None, &now, &EVERYTHING);
    assert!(context.iter().all(is_context_message));
    let after = compacted_history([], "note", context.clone());
    assert_eq!(after.len(), 3);
    assert_eq!(after[1..], context);
}

#[test]
fn a_snapshot_is_stored_and_read() {
    let now = ContextSnapshot {
        collaboration_mode: mode(ModeKind::Plan, None),
        personality: Some(Personality::Friendly),
        agents_md: Some(fingerprint("x")),
        ..snapshot()
    };
    for context in [now, snapshot()] {
        let stored = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<ContextSnapshot>(&stored).unwrap(), context);
    }
    // The form before a member was added.
    assert_snapshot!(serde_json::to_string(&snapshot()).unwrap());
    let old = r#"{"model":"m","cwd":"/","approvalPolicy":"never","sandboxPolicy":{"type":"dangerFullAccess"},
        "shell":"sh","currentDate":"2026-01-01","timezone":"UTC"}"#;
    assert_eq!(serde_json::from_str::<ContextSnapshot>(old).unwrap().agents_md, None);
}

#[test]
fn messages_have_no_ids() {
    for item in context_messages(None, &snapshot(), &EVERYTHING) {
        let ResponseItem::Message { id, content, .. } = item else { panic!("not a message") };
        assert_eq!(id, None);
        assert!(content.iter().all(|part| matches!(part, ContentItem::InputText { .. })));
    }
}
