//! Parsing the format: tolerated deviations and errors.

use codicil_patch::{ParseProblem, Patch, PatchLine, PatchOperation, PatchSection};

use crate::support::patch;

fn operations(text: &str) -> Vec<PatchOperation> {
    Patch::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}")).operations
}

fn add(path: &str, content: &str) -> PatchOperation {
    PatchOperation::Add { path: path.to_owned(), content: content.to_owned() }
}

fn keep(text: &str) -> PatchLine {
    PatchLine::Keep(text.to_owned())
}

fn remove(text: &str) -> PatchLine {
    PatchLine::Remove(text.to_owned())
}

fn plus(text: &str) -> PatchLine {
    PatchLine::Add(text.to_owned())
}

#[test]
fn every_kind_of_operation() {
    let text = patch(
        "*** Add File: new.txt\n+one\n+\n+two\n*** Delete File: gone.txt\n*** Update File: a b.txt\n\
         *** Move to: c/d.txt\n@@ fn main\n keep\n-old\n+new\n@@\n+last\n*** End of File",
    );
    let sections = vec![
        PatchSection {
            line: 9,
            anchors: vec!["fn main".to_owned()],
            lines: vec![keep("keep"), remove("old"), plus("new")],
            at_end: false,
        },
        PatchSection { line: 13, anchors: Vec::new(), lines: vec![plus("last")], at_end: true },
    ];
    let update =
        PatchOperation::Update { path: "a b.txt".to_owned(), move_to: Some("c/d.txt".to_owned()), sections };
    let expected =
        vec![add("new.txt", "one\n\ntwo\n"), PatchOperation::Delete { path: "gone.txt".to_owned() }, update];
    assert_eq!(operations(&text), expected);
}

#[test]
fn deviations_that_do_not_change_the_meaning_are_tolerated() {
    let expected = vec![add("a.txt", "x\n")];
    for text in [
        "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch",
        "\n\n  *** Begin Patch  \n*** Add File: a.txt  \n+x\n*** End Patch\n\n",
        "*** Begin Patch\r\n*** Add File: a.txt\r\n+x\r\n*** End Patch\r\n",
        "*** Begin Patch\n\n*** Add File:a.txt\n+x\n\n*** End Patch",
        "<<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nEOF\n",
        "<<EOF\n*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nEOF",
        "apply_patch <<\"PATCH\"\n*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nPATCH",
    ] {
        assert_eq!(operations(text), expected, "{text:?}");
    }
}

#[test]
fn marked_lines_that_look_like_markers_are_lines() {
    let text = patch("*** Update File: a\n *** End Patch\n-*** Delete File: b\n+@@ x");
    let PatchOperation::Update { sections, .. } = operations(&text).remove(0) else { panic!("an update") };
    assert_eq!(sections[0].lines, [keep("*** End Patch"), remove("*** Delete File: b"), plus("@@ x")]);
}

#[test]
fn a_section_may_lack_its_marker_and_have_unmarked_blank_lines() {
    let text = patch("*** Update File: a\n one\n\n-two\n+three\n\n*** Delete File: b");
    let operations = operations(&text);
    let PatchOperation::Update { sections, .. } = &operations[0] else { panic!("an update") };
    assert_eq!(sections[0].lines, [keep("one"), keep(""), remove("two"), plus("three"), keep("")]);
    assert_eq!(operations.len(), 2);
}

#[test]
fn anchors_add_up_and_a_file_may_only_move() {
    let text = patch("*** Update File: a\n@@ class A\n@@ def f\n-x\n*** Update File: b\n*** Move to: c\n");
    let operations = operations(&text);
    let PatchOperation::Update { sections, .. } = &operations[0] else { panic!("an update") };
    assert_eq!(sections[0].anchors, ["class A", "def f"]);
    let only_moved =
        PatchOperation::Update { path: "b".to_owned(), move_to: Some("c".to_owned()), sections: Vec::new() };
    assert_eq!(operations[1], only_moved);
}

fn check(text: &str, line: usize, problem: ParseProblem) {
    let error = Patch::parse(text).expect_err(text);
    assert_eq!((error.line, error.problem), (line, problem), "{text:?}");
}

#[test]
fn errors_name_the_line_and_a_remedy() {
    use ParseProblem::*;
    let own = str::to_owned;
    check("", 1, NoBegin(own("")));
    check("not a patch", 1, NoBegin(own("not a patch")));
    check("*** Begin Patch", 1, NoEnd(own("*** Begin Patch")));
    check("*** Begin Patch\n*** Delete File: a\n", 2, NoEnd(own("*** Delete File: a")));
    check("*** Begin Patch\n*** End Patch", 2, NoOperation);
    check(&patch("--- a/x\n+++ b/x"), 2, NoHeader(own("--- a/x")));
    check(&patch("*** Add File: "), 2, NoPath);
    check(&patch("*** Add File: a\n+x\ny"), 4, NoPlus(own("y")));
    check(&patch("*** Add File: a\n+x\n\ny"), 5, NoPlus(own("y")));
    check(&patch("*** Delete File: a\n-x"), 3, DeleteWithLines(own("-x")));
    check(&patch("*** Update File: a"), 2, EmptyUpdate(own("a")));
    check(&patch("*** Update File: a\n@@ x\n*** Delete File: b"), 3, EmptySection);
    check(&patch("*** Update File: a\n-x\n*** Move to: b"), 4, MisplacedMove);
    check(&patch("*** Update File: a\nx"), 3, NoMark(own("x")));
    check(&patch("*** Update File: a\n-x\n*** End of File\n y"), 5, AfterEndOfFile(own(" y")));
    check("<<'EOF'\n*** Begin Patch\n*** Bogus\n*** End Patch\nEOF", 3, NoHeader(own("*** Bogus")));
    check(
        &patch("*** Delete File: a\n*** End Patch\n*** Begin Patch"),
        3,
        DeleteWithLines(own("*** End Patch")),
    );
}

#[test]
fn an_error_is_displayed_with_its_line() {
    let error = Patch::parse(&patch("*** Add File: a\n+x\ny")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid patch, line 4: every line of a new file starts with `+`, found `y`"
    );
}
