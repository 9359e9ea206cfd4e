//! Matching a patch to files that differ slightly from what the model expects.

use crate::support::Workspace;

/// Updates one file and checks its content.
fn check(before: &str, sections: &str, after: &str) {
    let workspace = Workspace::new(&[("f", before)]);
    let result = workspace.apply(&format!("*** Update File: f\n{sections}"));
    assert_eq!(result.as_deref(), Ok("Success. Updated the following files:\nM f\n"), "{sections:?}");
    assert_eq!(workspace.read("f"), after, "{sections:?}");
}

fn refused(before: &str, sections: &str, why: &str) {
    let workspace = Workspace::new(&[("f", before)]);
    let result = workspace.apply(&format!("*** Update File: f\n{sections}")).unwrap_err();
    assert!(result.contains(why), "{sections:?}: {result}");
    assert_eq!(workspace.read("f"), before);
}

#[test]
fn lines_are_replaced_inserted_and_removed() {
    check("a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n");
    check("a\nb\nc\n", "@@\n-b", "a\nc\n");
    check("a\nc\n", " a\n+b\n c", "a\nb\nc\n");
    check("a\n", "-a", "");
    check("", "+a", "a\n");
    check("a\nb\n", "@@\n-a\n+A\n@@\n-b\n+B", "A\nB\n");
}

#[test]
fn lines_without_context_go_after_the_anchor_or_to_the_end() {
    check("a\nb\n", "@@\n+c", "a\nb\nc\n");
    check("a\nb\n", "@@ a\n+x", "a\nx\nb\n");
    check("a\nb\n", "@@ a\n+x\n*** End of File", "a\nb\nx\n");
}

#[test]
fn sections_are_first_searched_in_order() {
    check("x\na\nx\nb\n", "@@\n-a\n+A\n@@\n-x\n+X", "x\nA\nX\nb\n");
    check("x\na\n", "@@\n-a\n+A\n@@\n-x\n+X", "X\nA\n");
}

#[test]
fn anchors_select_one_of_several_matches() {
    let file = "fn a\n  x\nfn b\n  x\n";
    check(file, "@@ fn b\n-  x\n+  y", "fn a\n  x\nfn b\n  y\n");
    check(
        "class A\n def f\n  x\nclass B\n def f\n  x\n",
        "@@ class B\n@@  def f\n-  x",
        "class A\n def f\n  x\nclass B\n def f\n",
    );
    check(file, "@@ fn b\n fn b\n-  x\n+  y", "fn a\n  x\nfn b\n  y\n");
    refused(file, "@@ fn c\n-  x", "has no line `fn c`");
    refused(file, "@@ -1,2 +1,2 @@\n-  x", "line numbers mean nothing");
}

#[test]
fn end_of_file_matches_the_last_lines() {
    check("x\ny\nx\n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n");
    refused("x\ny\n", "@@\n-x\n+z\n*** End of File", "does not have these lines");
}

#[test]
fn context_lines_keep_the_bytes_of_the_file() {
    check("a  \nb\nc\t\n", " a\n-b\n+B\n c", "a  \nB\nc\t\n");
    check("“a”\nb\n", " \"a\"\n-b\n+B", "“a”\nB\n");
    check("\tif x:\nb\n", "   if x:\n-b\n+B", "\tif x:\nB\n");
}

#[test]
fn line_endings_are_those_of_the_file() {
    check("a\r\nb\r\nc\r\n", " a\n-b\n+B\n+b2", "a\r\nB\r\nb2\r\nc\r\n");
    check("a\nb", " a\n+x", "a\nx\nb");
    check("a\nb", " b\n+c", "a\nb\nc\n");
    check("a\nb", "-b\n+c", "a\nc\n");
    check("a\nb", "-a", "b");
}

#[test]
fn an_extra_blank_line_is_tolerated() {
    check("a\nb\n", "-a\n+A\n\n@@\n-b\n+B\n\n", "A\nB\n");
    check("a\n\nb\n", "-a\n+A\n\n-b", "A\n\n");
}

#[test]
fn mismatches_are_reported_with_the_expected_lines() {
    refused("a\n", "@@\n a\n-zzz\n+y", "section at patch line 3");
    refused("a\n", "@@\n a\n-zzz\n+y", "\na\nzzz");
    refused("a\n", "@@\n-a\n@@\n-a", "does not have these lines");
}

#[test]
fn files_that_cannot_be_patched() {
    let workspace = Workspace::new(&[("dir/f", "x\n"), ("g", "y\n")]);
    let check = |body: &str, why: &str| {
        let before = workspace.tree();
        let result = workspace.apply(body).unwrap_err();
        assert!(result.contains(why), "{body}: {result}");
        assert_eq!(workspace.tree(), before);
    };
    check("*** Update File: none\n-a", "`none` does not exist; to create it use `*** Add File: none`");
    check("*** Delete File: none", "`none` does not exist");
    check("*** Delete File: dir", "`dir` is a directory");
    check("*** Update File: dir\n-a", "`dir` is a directory");
    check("*** Add File: dir\n+a", "`dir` is a directory");
    check("*** Update File: g\n*** Move to: dir/f\n", "cannot move `g` to `dir/f`");
    check("*** Update File: g\n*** Move to: dir\n", "`dir` is a directory");
    check("*** Delete File: g\n*** Delete File: g", "`g` does not exist");
    check("*** Add File: new\n+a\n*** Update File: none\n-a", "`none` does not exist");
}

#[test]
fn operations_on_one_file_are_merged() {
    let workspace = Workspace::new(&[("f", "a\nb\n"), ("g", "x\n")]);
    let result = workspace.apply(
        "*** Update File: f\n-a\n+A\n*** Update File: f\n A\n-b\n+B\n*** Add File: n\n+1\n\
         *** Update File: n\n-1\n+2\n*** Delete File: g\n*** Add File: g\n+y",
    );
    assert_eq!(result.as_deref(), Ok("Success. Updated the following files:\nA n\nM f\nM g\n"));
    assert_eq!([workspace.read("f"), workspace.read("n"), workspace.read("g")], ["A\nB\n", "2\n", "y\n"]);
}

#[test]
fn moves_chain_and_free_their_paths() {
    let workspace = Workspace::new(&[("a", "1\n"), ("b", "2\n")]);
    let result = workspace.apply(
        "*** Update File: b\n*** Move to: c\n*** Update File: a\n*** Move to: b\n-1\n+one\n*** Add File: a\n+new",
    );
    assert_eq!(result.as_deref(), Ok("Success. Updated the following files:\nA a\nM c\nM b\n"));
    assert_eq!([workspace.read("a"), workspace.read("b"), workspace.read("c")], ["new\n", "one\n", "2\n"]);
}

#[test]
fn a_file_created_and_deleted_again_leaves_no_change() {
    let workspace = Workspace::new(&[]);
    workspace.apply("*** Add File: a\n+x\n*** Delete File: a").unwrap();
    assert!(workspace.tree().is_empty());
}
