//! The files after a patch: modes, links, directories, bytes.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_patch::{DiskFiles, Durability, apply};

use crate::support::Workspace;

#[test]
fn files_are_added_updated_and_deleted_together() {
    let workspace = Workspace::new(&[("old.txt", "line one\nline two\nline three\n"), ("gone.txt", "bye\n")]);
    let result = workspace.apply(
        "*** Delete File: gone.txt\n*** Update File: old.txt\n@@\n line one\n-line two\n+line 2\n line three\n\
         *** Add File: dir/deep/new.txt\n+fresh\n+lines",
    );
    assert_eq!(
        result.as_deref(),
        Ok("Success. Updated the following files:\nA dir/deep/new.txt\nM old.txt\nD gone.txt\n")
    );
    let tree = workspace.tree();
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["dir", "dir/deep", "dir/deep/new.txt", "old.txt"]);
    assert_eq!(workspace.read("old.txt"), "line one\nline 2\nline three\n");
    assert_eq!(workspace.read("dir/deep/new.txt"), "fresh\nlines\n");
}

#[test]
fn paths_may_be_absolute_and_lead_upwards() {
    let workspace = Workspace::new(&[("sub/a", "1\n"), ("b", "2\n")]);
    let absolute = workspace.path().join("sub/a");
    workspace.apply(&format!("*** Update File: {}\n-1\n+one", absolute.display())).unwrap();
    workspace.apply("*** Update File: sub/../sub/.././b\n-2\n+two").unwrap();
    assert_eq!([workspace.read("sub/a"), workspace.read("b")], ["one\n", "two\n"]);
}

#[test]
fn modes_survive_updates_and_moves() {
    let workspace = Workspace::new(&[("run.sh", "a\n"), ("tool", "b\n")]);
    let set = |name: &str, mode| {
        fs::set_permissions(workspace.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| fs::metadata(workspace.path().join(name)).unwrap().permissions().mode() & 0o7777;
    set("run.sh", 0o751);
    set("tool", 0o4700);
    workspace
        .apply("*** Update File: run.sh\n-a\n+A\n*** Update File: tool\n*** Move to: bin/tool\n")
        .unwrap();
    assert_eq!(mode("run.sh"), 0o751);
    assert_eq!(mode("bin/tool"), 0o700, "the set-user-ID bit is not kept");
}

#[test]
fn a_link_stays_a_link_and_its_file_changes() {
    let workspace = Workspace::new(&[("real/f", "a\n")]);
    std::os::unix::fs::symlink("real/f", workspace.path().join("link")).unwrap();
    std::os::unix::fs::symlink("real", workspace.path().join("alias")).unwrap();
    let plan = workspace.plan("*** Update File: link\n-a\n+b").unwrap();
    let root = workspace.path().canonicalize().unwrap();
    assert_eq!(plan.places().collect::<Vec<_>>(), [root.join("real/f"), root.join("real/f")]);
    apply(&plan, &DiskFiles, Durability::Synced).unwrap();
    assert_eq!(workspace.read("real/f"), "b\n");
    assert_eq!(fs::read_link(workspace.path().join("link")).unwrap().to_str(), Some("real/f"));

    let plan = workspace.plan("*** Add File: alias/new\n+x").unwrap();
    assert_eq!(plan.places().collect::<Vec<_>>(), [root.join("real/new")]);

    workspace.apply("*** Delete File: link").unwrap();
    assert_eq!(workspace.read("real/f"), "b\n");
    assert!(!workspace.tree().contains_key("link"));
}

#[test]
fn a_link_that_is_deleted_and_added_becomes_a_file() {
    let workspace = Workspace::new(&[("real", "a\n")]);
    std::os::unix::fs::symlink("real", workspace.path().join("link")).unwrap();
    workspace.apply("*** Delete File: link\n*** Add File: link\n+b").unwrap();
    assert_eq!(workspace.read("real"), "a\n");
    assert!(!fs::symlink_metadata(workspace.path().join("link")).unwrap().is_symlink());
    assert_eq!(workspace.read("link"), "b\n");
}

#[test]
fn a_link_through_a_missing_directory_is_refused() {
    let workspace = Workspace::new(&[]);
    std::os::unix::fs::symlink("none/../../escape", workspace.path().join("link")).unwrap();
    let before = workspace.tree();
    assert!(workspace.apply("*** Add File: link\n+x").unwrap_err().contains("leads nowhere"));
    assert_eq!(workspace.tree(), before);
}

#[test]
fn bytes_that_are_not_text_are_kept() {
    let workspace = Workspace::new(&[]);
    workspace.write("f", b"\xff\x00\nline\n\xfe");
    workspace.apply("*** Update File: f\n-line\n+LINE").unwrap();
    assert_eq!(fs::read(workspace.path().join("f")).unwrap(), b"\xff\x00\nLINE\n\xfe");
}

#[test]
fn no_temporary_files_are_left() {
    let workspace = Workspace::new(&[("a", "1\n"), ("b", "2\n"), ("c", "3\n")]);
    workspace
        .apply("*** Update File: a\n-1\n+one\n*** Update File: b\n*** Move to: d/e\n*** Delete File: c\n*** Add File: f\n+6")
        .unwrap();
    assert_eq!(workspace.tree().keys().collect::<Vec<_>>(), ["a", "d", "d/e", "f"]);
}

#[test]
fn readers_never_see_an_incomplete_file() {
    let workspace = Workspace::new(&[("f", "old\n")]);
    let open = fs::File::open(workspace.path().join("f")).unwrap();
    workspace.apply("*** Update File: f\n-old\n+new").unwrap();
    // Replaced by a rename: an open descriptor still refers to the old file.
    assert_eq!(std::io::read_to_string(open).unwrap(), "old\n");
    assert_eq!(workspace.read("f"), "new\n");
}

#[test]
fn new_files_have_the_usual_mode_and_private_ones_stay_private() {
    let workspace = Workspace::new(&[("secret", "a\n"), ("usual", "u\n")]);
    let path = |name: &str| workspace.path().join(name);
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("secret", path("link")).unwrap();
    workspace
        .apply("*** Add File: new\n+x\n*** Update File: link\n*** Move to: moved\n-a\n+b\n*** Update File: secret\n-a\n+c")
        .unwrap();
    assert_eq!(mode("new"), mode("usual"));
    assert_eq!([mode("moved"), mode("secret")], [0o600, 0o600]);
}
