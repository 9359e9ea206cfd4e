use std::path::Path;

use super::*;

/// Returns the matching paths, best first.
fn ranked(query: &str, paths: &[&str]) -> Vec<String> {
    let query = SearchQuery::new(query.to_owned());
    let mut scorer = MatchScorer::default();
    let mut best = BestMatches::default();
    for path in paths {
        if let Some(score) = scorer.score(&query, path) {
            best.offer(score, path, 0, PathKind::File);
        }
    }
    let roots = SearchRoots::new(&["/r".to_owned()], Path::new("/"));
    best.results(&query, &roots, &mut scorer).into_iter().map(|result| result.path).collect()
}

#[test]
fn better_matches_come_first_and_equal_ones_by_name() {
    let paths = ["src/foo_bar.rs", "foobar.rs", "FooBar.rs", "foo/bar.rs", "none.rs"];
    assert_eq!(ranked("foobar", &paths), ["FooBar.rs", "foobar.rs", "foo/bar.rs", "src/foo_bar.rs"]);
    assert_eq!(ranked("FooBar", &paths), ["FooBar.rs"]);
    assert_eq!(ranked("bar foo", &paths)[..2], ["foo/bar.rs", "src/foo_bar.rs"]);
    assert_eq!(ranked("^foo rs$ !bar.", &["foo.rs", "foobar.rs", "a/foo.rs"]), ["foo.rs"]);
}

#[test]
fn accents_count_once_the_query_has_some() {
    assert_eq!(ranked("ete", &["été.txt", "ete.txt"]), ["ete.txt", "été.txt"]);
    assert_eq!(ranked("été", &["été.txt", "ete.txt"]), ["été.txt"]);
}

#[test]
fn only_the_best_matches_up_to_the_limit_are_kept() {
    let many: Vec<_> = (0..200).rev().map(|number| format!("many_{number:03}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let found = ranked("many", &many);
    let expected: Vec<_> = (0..MAX_RESULTS).map(|number| format!("many_{number:03}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_query_narrows_another_only_by_adding_letters() {
    let check = |earlier: &str, later: &str, expected: bool| {
        let narrows = SearchQuery::new(later.to_owned()).narrows(&SearchQuery::new(earlier.to_owned()));
        assert_eq!(narrows, expected, "{earlier:?} then {later:?}");
    };
    check("foo", "foob", true);
    check("foo", "fooB", true);
    check("foo", "foo", true);
    check("", "f", false);
    check("foo", "fo", false);
    check("foo", "foo$", false);
    check("foo", "foo !bar", false);
    check("!fo", "!foo", false);
}

#[test]
fn a_path_that_lacks_a_letter_of_the_query_does_not_match() {
    let queries = ["foo", "Fo0", "a b", "'x", "x$", "^a", "!q", "a !q", "é", "a\\ b"];
    let paths = ["foo", "F/o/0", "ab", "x", "aaa", "q", "é", "e", "a b", "Übung/a", ""];
    let mut scorer = MatchScorer::default();
    for query in queries.map(|query| SearchQuery::new(query.to_owned())) {
        for path in paths.iter().filter(|path| scorer.score(&query, path).is_some()) {
            assert_eq!(letters(path) & query.letters(), query.letters(), "{:?} in {path:?}", query.text());
        }
    }
}

#[test]
fn matches_are_counted_in_characters_as_a_person_sees_them() {
    let check = |path: &str, query: &str, expected: &[u32]| {
        let query = SearchQuery::new(query.to_owned());
        assert_eq!(MatchScorer::default().indices(&query, path), expected, "{path}");
    };
    check("src/foo_bar.rs", "foobar", &[4, 5, 6, 8, 9, 10]);
    check("日本語ファイル.txt", "ファ", &[3, 4]);
    check("e\u{301}a_comb.txt", "comb", &[3, 4, 5, 6]);
    check("👩\u{200d}👩\u{200d}👧x.txt", "x.t", &[1, 2, 3]);
}
