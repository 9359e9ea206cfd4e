//! The changes of a plan as clients see them.

use codicil_protocol::{FileUpdateChange, PatchChangeKind};

use crate::support::Workspace;

fn changes(workspace: &Workspace, body: &str) -> Vec<FileUpdateChange> {
    workspace.plan(body).unwrap().file_changes()
}

fn change(workspace: &Workspace, path: &str, kind: PatchChangeKind, diff: &str) -> FileUpdateChange {
    let path = workspace.path().join(path).to_str().unwrap().to_owned();
    FileUpdateChange { path, kind, diff: diff.to_owned() }
}

#[test]
fn contents_for_new_and_deleted_files_and_hunks_for_updates_in_the_order_of_paths() {
    let workspace = Workspace::new(&[("old.txt", "line one\nline two\nline three\n"), ("gone.txt", "bye\n")]);
    let body = "*** Add File: new.txt\n+fresh\n+lines\n*** Update File: old.txt\n@@\n line one\n-line two\n\
                +line 2\n line three\n*** Delete File: gone.txt";
    let update = PatchChangeKind::Update { move_path: None };
    let hunks = "@@ -1,3 +1,3 @@\n line one\n-line two\n+line 2\n line three\n";
    assert_eq!(
        changes(&workspace, body),
        [
            change(&workspace, "gone.txt", PatchChangeKind::Delete, "bye\n"),
            change(&workspace, "new.txt", PatchChangeKind::Add, "fresh\nlines\n"),
            change(&workspace, "old.txt", update, hunks),
        ]
    );
}

#[test]
fn a_move_has_the_absolute_path_of_its_target() {
    let workspace = Workspace::new(&[("a", "1\n2\n3\n4\n")]);
    let target = workspace.path().join("sub/b").to_str().unwrap().to_owned();
    let body = "*** Update File: a\n*** Move to: sub/b\n-4\n+four";
    let diff = format!("@@ -3,2 +3,2 @@\n 3\n-4\n+four\n\n\nMoved to: {target}");
    let kind = PatchChangeKind::Update { move_path: Some(target) };
    assert_eq!(changes(&workspace, body), [change(&workspace, "a", kind, &diff)]);
}

#[test]
fn adding_an_existing_file_shows_what_is_replaced() {
    let workspace = Workspace::new(&[("a", "precious\n")]);
    let kind = PatchChangeKind::Update { move_path: None };
    let expected = change(&workspace, "a", kind, "@@ -1 +1 @@\n-precious\n+new\n");
    assert_eq!(changes(&workspace, "*** Add File: a\n+new"), [expected]);
}
