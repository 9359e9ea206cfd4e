//! Sessions: one walk, many queries.

use std::{collections::BTreeSet, fs, time::Duration};

use codicil_fs::{FileSearches, MAX_RESULTS, SearchRoots, SearchSession, SessionNews};
use tokio::{sync::mpsc, time::timeout};

use crate::support::Place;

const PATIENCE: Duration = Duration::from_secs(20);

struct Opened {
    session: SearchSession,
    news: mpsc::UnboundedReceiver<SessionNews>,
}

fn open(searches: &FileSearches, place: &Place) -> Opened {
    let (sender, news) = mpsc::unbounded_channel();
    let roots = SearchRoots::new(&["tree".to_owned()], place.root());
    Opened { session: searches.open(roots, move |said| drop(sender.send(said))), news }
}

impl Opened {
    async fn next(&mut self) -> SessionNews {
        timeout(PATIENCE, self.news.recv()).await.expect("something is said").expect("the session is open")
    }

    /// Returns the last results for a query, once they are complete.
    async fn ask(&mut self, query: &str) -> Vec<String> {
        self.session.update(query.to_owned());
        let mut last = None;
        loop {
            match self.next().await {
                SessionNews::Updated { query: of, files } if of == query => {
                    last = Some(files.into_iter().map(|file| file.path).collect());
                }
                // Results of an earlier query.
                SessionNews::Updated { .. } => {}
                SessionNews::Completed { query: of } => {
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
    let place = Place::new();
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
    let place = Place::new();
    place.file("tree/file", "");
    let mut opened = open(&FileSearches::default(), &place);
    assert_eq!(opened.next().await, SessionNews::Updated { query: String::new(), files: Vec::new() });
    assert_eq!(opened.next().await, SessionNews::Completed { query: String::new() });
}

#[tokio::test]
async fn sessions_and_searches_have_the_same_results() {
    let place = Place::new();
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
    let place = Place::new();
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
async fn there_is_no_news_after_the_session_is_closed() {
    let place = Place::new();
    for number in 0..500 {
        place.file(&format!("tree/file_{number}"), "");
    }
    let Opened { session, mut news } = open(&FileSearches::default(), &place);
    session.update("file".to_owned());
    drop(session);
    let said: BTreeSet<_> =
        std::iter::from_fn(|| news.try_recv().ok()).map(|said| format!("{said:?}")).collect();
    // The channel is closed because the callback is dropped; it has nothing new.
    assert!(timeout(PATIENCE, news.recv()).await.unwrap().is_none(), "{said:?}");
}
