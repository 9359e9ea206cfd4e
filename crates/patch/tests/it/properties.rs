//! Properties of every text and every file.

use codicil_patch::{Patch, find_in_command};
use proptest::{collection::vec, prelude::*};

use crate::support::{Workspace, patch};

/// Generates distinct lines, so that a section matches at one position only.
fn distinct_lines() -> impl Strategy<Value = Vec<String>> {
    vec("[a-z “é\t]{0,6}", 0..24)
        .prop_map(|lines| lines.into_iter().enumerate().map(|(n, line)| format!("{line}{n}")).collect())
}

#[derive(Clone, Debug)]
enum Edit {
    Keep,
    Remove,
    Replace(String),
    Insert(String),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        4 => Just(Edit::Keep),
        1 => Just(Edit::Remove),
        1 => "[A-Z ]{0,5}".prop_map(Edit::Replace),
        1 => "[A-Z ]{0,5}".prop_map(Edit::Insert),
    ];
    vec(edit, 24)
}

/// Returns the marked lines of a patch and the lines that it results in.
fn edited(old: &[String], edits: &[Edit]) -> (Vec<(char, String)>, Vec<String>) {
    let mut marked = Vec::new();
    let mut new = Vec::new();
    for (line, edit) in old.iter().zip(edits) {
        if let Edit::Insert(text) | Edit::Replace(text) = edit {
            marked.push(('+', text.clone()));
            new.push(text.clone());
        }
        match edit {
            Edit::Remove | Edit::Replace(_) => marked.push(('-', line.clone())),
            Edit::Keep | Edit::Insert(_) => {
                marked.push((' ', line.clone()));
                new.push(line.clone());
            }
        }
    }
    (marked, new)
}

/// Returns sections with up to `context` unchanged lines around the changes.
fn sections(marked: &[(char, String)], context: usize) -> String {
    let is_near = |at: usize| {
        let range = at.saturating_sub(context)..(at + context + 1).min(marked.len());
        marked[range].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut is_open = false;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if is_near(at) {
            if !is_open {
                text.push_str("@@\n");
            }
            text.push_str(&format!("{mark}{line}\n"));
        }
        is_open = is_near(at);
    }
    text
}

fn content(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn applying_a_generated_patch_gives_the_target(
        old in distinct_lines(), edits in edits(), context in 1usize..4,
    ) {
        let (marked, new) = edited(&old, &edits);
        prop_assume!(marked.iter().any(|(mark, _)| *mark != ' '));
        let workspace = Workspace::new(&[("f", &content(&old))]);
        let body = format!("*** Update File: f\n{}", sections(&marked, context));
        prop_assert!(workspace.apply(&body).is_ok(), "{body}");
        prop_assert_eq!(workspace.read("f"), content(&new));
    }

    #[test]
    fn a_patch_of_the_whole_file_works_for_any_lines(
        old in vec("[ab ]{0,2}", 1..12), new in vec("[ab ]{0,2}", 0..12),
    ) {
        let lines = old.iter().map(|line| format!("-{line}\n")).chain(new.iter().map(|line| format!("+{line}\n")));
        let body = format!("*** Update File: f\n@@\n{}", lines.collect::<String>());
        let workspace = Workspace::new(&[("f", &content(&old))]);
        prop_assert!(workspace.apply(&body).is_ok(), "{body}");
        prop_assert_eq!(workspace.read("f"), content(&new));
    }

    #[test]
    fn a_refused_patch_changes_nothing(
        good in "[A-Z]{1,5}", path in "(a|b|dir/c|dir|new)", old in "[xyz]", kind in 0..3,
    ) {
        let workspace = Workspace::new(&[("a", "x\n"), ("b", "y\n"), ("dir/c", "z\n")]);
        let before = workspace.tree();
        let second = match kind {
            0 => format!("*** Update File: {path}\n-{old}\n+{good}"),
            1 => format!("*** Delete File: {path}"),
            _ => format!("*** Update File: {path}\n*** Move to: b\n-{old}\n+{good}"),
        };
        if workspace.apply(&format!("*** Add File: made/up\n+{good}\n{second}")).is_err() {
            prop_assert_eq!(workspace.tree(), before);
        }
    }

    #[test]
    fn parsing_never_panics(text in "(?s).{0,200}") {
        let _ = Patch::parse(&text);
        let _ = Patch::parse(&patch(&text));
        let _ = find_in_command(&["bash".to_owned(), "-lc".to_owned(), text]);
    }

    #[test]
    fn parsing_and_planning_near_patches_never_panics(
        lines in vec(prop_oneof![
            Just("*** Add File: a"), Just("*** Update File: f"), Just("*** Delete File: f"), Just("*** Move to: g"),
            Just("*** End of File"), Just("@@"), Just("@@ x"), Just(" x"), Just("-y"), Just("+z"), Just(""), Just("q"),
            Just("*** End Patch"), Just("\r"), Just(" "),
        ], 0..12),
    ) {
        let workspace = Workspace::new(&[("f", "x\n\ny\nx")]);
        let _ = workspace.apply(&lines.join("\n"));
    }
}
