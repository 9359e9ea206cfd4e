//! Properties of every command.

use std::path::Path;

use codicil_policy::{
    CommandDecision, CommandLine, CommandRequest, CommandRules, DecisionPolicies, SandboxPermissions,
    ThreadGrants, command_actions, decide_command, is_dangerous, is_known_safe,
};
use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};
use proptest::{collection::vec, prelude::*};

use crate::support::{bash, cases};

/// Generates pieces of scripts in any order.
fn script() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("ls "),
        Just("cat "),
        Just("rm -rf "),
        Just("git push "),
        Just("sed -n 1,3p "),
        Just("find . "),
        Just("| "),
        Just("&& "),
        Just("; "),
        Just("\n"),
        Just("\\\n"),
        Just("'a b' "),
        Just("\"x"),
        Just("\" "),
        Just("$("),
        Just(") "),
        Just("`"),
        Just("$x "),
        Just("> f "),
        Just("<<E\n"),
        Just("{ "),
        Just("} "),
        Just("# "),
        Just("-exec "),
        Just("--"),
        Just("=\u{e9}"),
        Just("*"),
        Just("\u{0}"),
        Just("\r"),
        Just("bash -c "),
        Just("sudo "),
        Just("xargs "),
        Just("cd "),
        Just("command -v "),
        Just("git branch "),
        Just("-d "),
        Just("uniq "),
        Just("printf "),
        Just("é "),
        Just("\\"),
    ];
    vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn inspect(line: &CommandLine) {
    let actions = command_actions(line);
    assert!(!actions.is_empty());
    let _ = (line.display(), line.is_known_safe(), line.is_dangerous());
    for command in line.mentioned() {
        let _ = (is_known_safe(command), is_dangerous(command));
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn inspecting_a_script_never_panics(script in script()) {
        inspect(&bash(&script));
    }

    #[test]
    fn inspecting_any_text_or_argv_never_panics(text in "(?s).{0,80}", argv in vec("(?s).{0,12}", 0..5)) {
        inspect(&bash(&text));
        inspect(&CommandLine::new(argv));
    }

    #[test]
    fn joined_words_are_parsed_back(argv in vec("[^\u{0}]{1,8}", 1..5)) {
        let line = bash(&codicil_policy::join(argv.iter().map(String::as_str)));
        // With a first word such as `if` or `a=b` the script is not plain.
        if let Some(commands) = line.plain() {
            prop_assert_eq!(commands.len(), 1);
            prop_assert_eq!(&commands[0].words, &argv);
        }
    }

    #[test]
    fn quoted_arguments_are_plain(arguments in vec("[a-zA-Z0-9 ./_'\"$*{},;&|<>()#~!=\\\\é-]{0,8}", 0..5)) {
        let argv: Vec<_> = ["prog".to_owned()].into_iter().chain(arguments).collect();
        let line = bash(&codicil_policy::join(argv.iter().map(String::as_str)));
        prop_assert_eq!(line.plain().map(|commands| commands[0].words.clone()), Some(argv));
    }

    #[test]
    fn a_safe_command_never_runs_anything_else(script in script()) {
        let line = bash(&script);
        if line.is_known_safe() {
            prop_assert!(!line.is_dangerous(), "{}", script);
            let plain = line.plain().unwrap().len();
            prop_assert_eq!(line.mentioned().len(), plain, "{}", script);
        }
    }

    #[test]
    fn never_asks_no_question_and_keeps_the_sandbox(script in script(), escalated: bool) {
        let line = bash(&script);
        let permissions =
            if escalated { SandboxPermissions::RequireEscalated } else { SandboxPermissions::UseDefault };
        let sandbox = SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };
        let request = CommandRequest {
            line: &line, cwd: Path::new("/ws"), permissions: &permissions, justification: None, prefix_rule: None,
            skill_folders: &[],
        };
        let rules = CommandRules::default();
        let grants = ThreadGrants::default();
        let policies =
            DecisionPolicies { approval: &AskForApproval::Never, sandbox: &sandbox, rules: &rules, grants: &grants };
        let decision = decide_command(&request, &policies);
        prop_assert!(matches!(decision, CommandDecision::Run { sandboxed: true } | CommandDecision::Refuse { .. }), "{:?}", decision);
    }

    #[test]
    fn parsing_rules_never_panics(text in "(?s).{0,80}", inner in "[\"'a-c=,\\[\\]() \\\\\n#]{0,40}") {
        let _ = CommandRules::parse(Path::new("x.rules"), &text);
        let _ = CommandRules::parse(Path::new("x.rules"), &format!("prefix_rule(pattern=[{inner}"));
    }
}
