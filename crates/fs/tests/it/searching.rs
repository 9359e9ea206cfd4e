//! Single searches.

use std::{process::Command, time::Duration};

use codicil_fs::{FileSearches, SearchRoots, check_query};
use codicil_protocol::{FuzzyFileSearchMatchType, FuzzyFileSearchResult};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::support::{TestFolder, skipped};

async fn find_in(place: &TestFolder, roots: &[&str], query: &str) -> Vec<FuzzyFileSearchResult> {
    let roots: Vec<_> = roots.iter().map(|root| (*root).to_owned()).collect();
    let roots = SearchRoots::new(&roots, place.root());
    FileSearches::default().find(roots, query.to_owned(), CancellationToken::new()).await
}

async fn paths(place: &TestFolder, root: &str, query: &str) -> Vec<String> {
    find_in(place, &[root], query).await.into_iter().map(|found| found.path).collect()
}

#[tokio::test]
async fn files_and_directories_are_found_with_score_and_indices() {
    let place = TestFolder::new();
    place.file("tree/src/alpha.rs", "");
    place.file("tree/alphabet/x", "");
    let root = place.path("tree").to_str().unwrap().to_owned();
    let found = find_in(&place, &[&root], "alph").await;
    let expected = |path: &str, name: &str, match_type, indices: [u32; 4]| FuzzyFileSearchResult {
        root: root.clone(),
        path: path.to_owned(),
        match_type,
        file_name: name.to_owned(),
        score: found[0].score,
        indices: Some(indices.to_vec()),
    };
    let file = FuzzyFileSearchMatchType::File;
    let directory = FuzzyFileSearchMatchType::Directory;
    let all = [
        expected("alphabet", "alphabet", directory, [0, 1, 2, 3]),
        expected("alphabet/x", "x", file.clone(), [0, 1, 2, 3]),
        expected("src/alpha.rs", "alpha.rs", file, [4, 5, 6, 7]),
    ];
    assert_eq!(found, all);
    assert!(find_in(&place, &[&root], "").await.is_empty());
    assert!(find_in(&place, &[&root], "zzz").await.is_empty());
    assert!(find_in(&place, &[], "alph").await.is_empty());
    assert!(find_in(&place, &["missing", "tree/src/alpha.rs"], "alph").await.is_empty());
}

#[tokio::test]
async fn ignored_files_of_a_repository_are_not_found() {
    let place = TestFolder::new();
    place.file("repo/.gitignore", "ignored_foo\n/only_here_foo\nbuild/\n");
    place.file("repo/.ignore", "also_foo\n");
    for name in ["ignored_foo", "only_here_foo", "build/foo", "also_foo", "foo", ".hidden_foo", "sub/foo"] {
        place.file(&format!("repo/{name}"), "");
    }
    place.file("repo/sub/only_here_foo", "");
    place.file("repo/sub/ignored_foo", "");
    // Without a repository, .gitignore has no effect.
    let outside = ["foo", "sub/foo", ".hidden_foo", "build/foo", "ignored_foo", "only_here_foo"];
    let found = paths(&place, "repo", "foo").await;
    assert!(outside.iter().all(|path| found.iter().any(|found| found == path)), "{found:?}");
    assert!(!found.contains(&"also_foo".to_owned()));

    place.file("repo/.git/HEAD", "");
    place.file("repo/.git/info/exclude", "excluded_foo\n");
    place.file("repo/excluded_foo", "");
    place.file("repo/.git/foo", "");
    assert_eq!(
        paths(&place, "repo", "foo").await,
        [".git/foo", "foo", "sub/foo", ".hidden_foo", "sub/only_here_foo"]
    );
    // Ignore files above a root have an effect as well.
    assert_eq!(paths(&place, "repo/sub", "foo").await, ["foo", "only_here_foo"]);
}

#[tokio::test]
async fn links_are_followed_but_not_in_cycles() {
    let place = TestFolder::new();
    place.file("tree/real/foo", "");
    place.link("tree/link", "real");
    place.link("tree/real/up_foo", "..");
    place.link("tree/broken_foo", "nowhere");
    place.link("tree/file_foo", "real/foo");
    let found = timeout(Duration::from_secs(20), paths(&place, "tree", "foo")).await.unwrap();
    assert_eq!(found, ["link/foo", "real/foo", "file_foo"]);
}

#[tokio::test]
async fn links_out_of_the_root_are_found_but_not_followed() {
    let place = TestFolder::new();
    place.file("outside/foo", "");
    place.file("tree/foo", "");
    place.link("tree/out_foo", "../outside");
    place.link("tree/everything_foo", "/");
    place.link("tree/file_foo", "../outside/foo");
    let found = timeout(Duration::from_secs(20), find_in(&place, &["tree"], "foo")).await.unwrap();
    let mut found: Vec<_> = found.into_iter().map(|found| (found.path, found.match_type)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let file = FuzzyFileSearchMatchType::File;
    let directory = FuzzyFileSearchMatchType::Directory;
    let expected = [
        ("everything_foo", directory.clone()),
        ("file_foo", file.clone()),
        ("foo", file),
        ("out_foo", directory),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[tokio::test]
async fn a_root_may_be_a_link_and_lie_below_one() {
    let place = TestFolder::new();
    place.file("real/sub/foo", "");
    place.link("real/within", "sub");
    place.link("root", "real");
    assert_eq!(paths(&place, "root", "foo").await, ["sub/foo", "within/foo"]);
    assert_eq!(paths(&place, "root/sub", "foo").await, ["foo"]);
    assert_eq!(paths(&place, "root/within", "foo").await, ["foo"]);
}

#[tokio::test]
async fn links_below_links_do_not_multiply_results() {
    let place = TestFolder::new();
    for from in 0..12 {
        place.file(&format!("tree/d{from}/foo"), "");
        for to in 0..12 {
            place.link(&format!("tree/d{from}/l{to}"), &format!("../d{to}"));
        }
    }
    let searching = find_in(&place, &["tree"], "foo$ !d0/ !d1/ !d2/ !d3/ !d4/ !d5/ !d6/ !d7/ !d8/ !d9/");
    let found = timeout(Duration::from_secs(20), searching).await.unwrap();
    // In two directories: the file itself and the files behind the links, except for the link to itself.
    assert_eq!(found.len(), 2 * 12);
}

#[tokio::test]
async fn a_query_beyond_the_limits_is_refused() {
    let place = TestFolder::new();
    place.file("tree/a", "");
    let limit = "query is too long: limit is 1024 bytes and 32 words";
    for query in ["!a ".repeat(20_000), "a ".repeat(33), "a".repeat(1025)] {
        assert_eq!(check_query(&query).unwrap_err().to_string(), limit);
        assert!(paths(&place, "tree", &query).await.is_empty());
    }
    for query in ["a ".repeat(32), "a".repeat(1024), String::new()] {
        assert!(check_query(&query).is_ok());
    }
    assert_eq!(paths(&place, "tree", &"a ".repeat(32)).await, ["a"]);
}

#[tokio::test]
async fn with_nested_roots_each_file_is_found_below_the_nearest_one() {
    let place = TestFolder::new();
    place.file("a/inner/foo", "");
    place.file("a/foo", "");
    place.file("b/foo", "");
    let found = find_in(&place, &["a", "a/inner", "b", "a/"], "foo").await;
    let found: Vec<_> = found.iter().map(|found| (found.root.as_str(), found.path.as_str())).collect();
    assert_eq!(found, [("a", "foo"), ("a/inner", "foo"), ("b", "foo")]);
}

#[tokio::test]
async fn names_that_are_not_text_are_skipped() {
    let place = TestFolder::new();
    place.file("tree/name", "");
    let script = "cd \"$0\" && : > \"$(printf 'bad_\\377_name')\"";
    let made = Command::new("sh").args(["-c", script]).arg(place.path("tree")).status().unwrap();
    if !made.success() {
        return skipped("the system takes no such name");
    }
    assert_eq!(paths(&place, "tree", "name").await, ["name"]);
}

#[tokio::test]
async fn a_cancelled_search_finds_nothing_even_while_it_waits() {
    let place = TestFolder::new();
    place.file("tree/foo", "");
    let searches = FileSearches::default();
    let roots = || SearchRoots::new(&["tree".to_owned()], place.root());
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert!(searches.find(roots(), "foo".to_owned(), cancelled).await.is_empty());
    assert_eq!(searches.find(roots(), "foo".to_owned(), CancellationToken::new()).await.len(), 1);
}
