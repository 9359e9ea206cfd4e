//! Sessions: one walk, many queries.

use std::{collections::BTreeSet, fs, time::Duration};

use codicil_fs::{FileSearches, MAX_RESULTS, SearchEvent, SearchRoots, SearchSession};
use tokio::{sync::mpsc, time::timeout};

use crate::support::TestFolder;

const MAX_WAIT: Duration = Duration::from_secs(20);

struct Opened {
    session: SearchSession,
    events: mpsc::UnboundedReceiver<SearchEvent>,
}

fn open(searches: &FileSearches, place: &TestFolder) -> Opened {
    let (sender, events) = mpsc::unbounded_channel();
    let roots = SearchRoots::new(&["tree".to_owned()], place.root());
    Opened { session: searches.open(roots, move |event| drop(sender.send(event))), events }
}

impl Opened {
    async fn next(&mut self) -> SearchEvent {
        timeout(MAX_WAIT, self.events.recv()).await.expect("no event").expect("the session has ended")
    }

    /// Returns the last results for a query, once they are complete.
    async fn ask(&mut self, query: &str) -> Vec<String> {
        self.session.update(query.to_owned());
        let mut last = None;
        loop {
            match self.next().await {
                SearchEvent::Updated { query: of, files } if of == query => {
                    last = Some(files.into_iter().map(|file| file.path).collect());
                }
                // Results of an earlier query.
                SearchEvent::Updated { .. } => {}
                SearchEvent::Completed { query: of } => {
                    if let Some(files) = last.take() {
                        assert_eq!(of, query);
                        return files;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn each_query_is_answered_from_the_walk_at_the_start() {
    let place = TestFolder::new();
    place.file("tree/src/alpha.rs", "");
    place.file("tree/docs/alphabet.md", "");
    let searches = FileSearches::default();
    let mut opened = open(&searches, &place);
    assert_eq!(opened.ask("alph").await, ["docs/alphabet.md", "src/alpha.rs"]);
    place.file("tree/alpha_later", "");
    assert_eq!(opened.ask("alpha.rs").await, ["src/alpha.rs"]);
    assert_eq!(opened.ask("alph").await, ["docs/alphabet.md", "src/alpha.rs"]);
    assert_eq!(opened.ask("alph").await.len(), 2);
    assert!(opened.ask("").await.is_empty());
    assert!(opened.ask("zzz").await.is_empty());
    let mut again = open(&searches, &place);
    assert_eq!(again.ask("later").await, ["alpha_later"]);
}

#[tokio::test]
async fn a_session_without_a_query_completes() {
    let place = TestFolder::new();
    place.file("tree/file", "");
    let mut opened = open(&FileSearches::default(), &place);
    assert_eq!(opened.next().await, SearchEvent::Updated { query: String::new(), files: Vec::new() });
    assert_eq!(opened.next().await, SearchEvent::Completed { query: String::new() });
}

#[tokio::test]
async fn sessions_and_searches_have_the_same_results() {
    let place = TestFolder::new();
    for number in 0..3_000 {
        let folder = place.path(&format!("tree/{}", ["alpha", "beta_x", "core"][number % 3]));
        if number < 3 {
            fs::create_dir_all(&folder).unwrap();
        }
        fs::write(folder.join(format!("{}_{number}.rs", ["one", "Two", "été"][number / 3 % 3])), "").unwrap();
    }
    let searches = FileSearches::default();
    let mut opened = open(&searches, &place);
    // Letter by letter, so that later queries build on earlier ones, and then another query.
    for query in ["a", "al", "alo", "alo1", "alO", "two", "two8", "ete", "été", "rs$ !alpha", "core 7", "b"]
    {
        let roots = SearchRoots::new(&["tree".to_owned()], place.root());
        let found = searches.find(roots, query.to_owned(), Default::default()).await;
        let found: Vec<_> = found.into_iter().map(|file| file.path).collect();
        assert!(found.len() <= MAX_RESULTS);
        assert_eq!(opened.ask(query).await, found, "{query:?}");
    }
}

#[tokio::test]
async fn of_many_queries_at_once_the_last_is_answered() {
    let place = TestFolder::new();
    for number in 0..500 {
        place.file(&format!("tree/file_{number}"), "");
    }
    let mut opened = open(&FileSearches::default(), &place);
    for number in 0..400 {
        opened.session.update(format!("file_{number}"));
    }
    let found = opened.ask("file_499").await;
    assert_eq!(found, ["file_499"]);
}

#[tokio::test]
async fn there_are_no_events_after_the_session_is_closed() {
    let place = TestFolder::new();
    for number in 0..500 {
        place.file(&format!("tree/file_{number}"), "");
    }
    let Opened { session, mut events } = open(&FileSearches::default(), &place);
    session.update("file".to_owned());
    drop(session);
    let seen: BTreeSet<_> =
        std::iter::from_fn(|| events.try_recv().ok()).map(|seen| format!("{seen:?}")).collect();
    // The channel is closed because the callback is dropped; it has nothing new.
    assert!(timeout(MAX_WAIT, events.recv()).await.unwrap().is_none(), "{seen:?}");
}
