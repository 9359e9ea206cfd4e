//! Large threads and many pages.

use std::time::{Duration, Instant};

use codicil_testkit::{Reply, Script};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::{
    browser::{Browser, article, button},
    stage::Stage,
};

const ITEMS: usize = 10_000;

/// Items of one reply, below the server's limit.
const ITEMS_PER_TURN: usize = 1_000;

/// The page of a thread must stay below this, in bytes.
const MAX_PAGE: u64 = 300 << 10;

/// Time until the first byte of the page. The aim is 300 ms with an optimised binary on an idle machine; a debug build beside
/// other tests gets more.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Ignored by default, because a debug build writes 10,000 items in minutes; `console/tests/it/long_thread.rs` has a shorter one.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_thread_of_ten_thousand_items_opens_at_once() {
    let Some(browser) = Browser::start().await else { return };
    let message = |reply: Reply, number: usize| reply.say_deltas([format!("message {number}")]);
    let turns = (0..ITEMS).step_by(ITEMS_PER_TURN);
    let turns = turns.map(|first| (first..first + ITEMS_PER_TURN).fold(Reply::new(), message));
    let stage = Stage::start(turns.fold(Script::new(), Script::reply)).await;
    let path = stage.start_thread(&browser, "Go").await;
    for first in (0..ITEMS).step_by(ITEMS_PER_TURN) {
        browser.sees([article("Agent message")], &format!("message {}", first + ITEMS_PER_TURN - 1)).await;
        browser.gone([button("Stop")]).await;
        if first + ITEMS_PER_TURN < ITEMS {
            stage.send(&browser, "Go on").await;
        }
    }

    stage.visit(&browser, &path).await;
    let timing = "const page = performance.getEntriesByType('navigation')[0]; \
        return { bytes: page.decodedBodySize, wait: page.responseStart - page.requestStart }";
    let timing = browser.script(timing, json!([])).await;
    let bytes = timing["bytes"].as_u64().unwrap();
    let wait = Duration::from_secs_f64(timing["wait"].as_f64().unwrap() / 1000.0);
    eprintln!("{ITEMS} items: {bytes} bytes after {wait:?}");
    assert!(bytes < MAX_PAGE, "{bytes} bytes");
    assert!(wait < MAX_WAIT, "{wait:?}");
    // Older items come on demand.
    let shown = browser.count([article("Agent message")]).await;
    let began = Instant::now();
    browser.click([("link", "Show *")]).await;
    let more = "return document.querySelectorAll('[aria-label=\"Agent message\"]').length > arguments[0]";
    browser.until("more items", more, json!(shown)).await;
    eprintln!("earlier items after {:?}", began.elapsed());
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

/// Pages that follow a busy thread, beside the one in the browser.
const PAGES: usize = 50;

/// Deltas of the busy turn, and the time between them: 2,000 a second.
const DELTAS: usize = 3_000;
const BETWEEN: Duration = Duration::from_micros(500);

/// Memory of server and console together, in KiB.
const MAX_MEMORY: u64 = 512 << 10;

#[tokio::test]
async fn fifty_pages_follow_a_busy_thread() {
    let Some(browser) = Browser::start().await else { return };
    let busy = |end: &str| {
        let words = (0..DELTAS).map(|number| format!("word{number} ")).chain([end.to_owned()]);
        Reply::new().pace(BETWEEN).say_deltas(words)
    };
    let stage =
        Stage::start(Script::new().say("Ready").then().reply(busy("end-one")).reply(busy("end-two"))).await;
    let path = stage.start_thread(&browser, "Begin").await;
    browser.sees([article("Agent message")], "Ready").await;
    browser.gone([button("Stop")]).await;

    let alone = turn_time(&stage, &browser, "end-one").await;
    let mut pages = JoinSet::new();
    let cookies = browser.cookies().await;
    for _ in 0..PAGES {
        let stream = open_events(&stage.origin, &path, &cookies).await;
        pages.spawn(timeout(Duration::from_secs(60), read_until(stream, b"end-two")));
    }
    let together = turn_time(&stage, &browser, "end-two").await;
    let mut bytes = 0;
    while let Some(page) = pages.join_next().await {
        bytes += page.unwrap().expect("every page gets the end of the answer");
    }
    let memory = stage.server.resident_kib();
    eprintln!(
        "{DELTAS} deltas: {alone:?} with one page, {together:?} with {PAGES} more; {bytes} bytes; {memory} KiB"
    );
    // The aim is 5 % with an optimised binary on an idle machine. Here the pages must only not hold the turn up.
    assert!(together < alone * 3, "{alone:?} became {together:?}");
    assert!(memory < MAX_MEMORY, "{memory} KiB");
}

/// Returns how long the next turn takes.
async fn turn_time(stage: &Stage, browser: &Browser, end: &str) -> Duration {
    let began = Instant::now();
    stage.send(browser, "Go on").await;
    browser.sees([article("Agent message")], end).await;
    browser.gone([button("Stop")]).await;
    began.elapsed()
}

/// Opens the event stream of a page.
async fn open_events(origin: &str, path: &str, cookies: &str) -> TcpStream {
    let host = origin.trim_start_matches("http://");
    let thread = path.trim_start_matches("/threads/");
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET /events?thread={thread} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until a text has come. Returns the number of bytes.
async fn read_until(mut stream: TcpStream, end: &[u8]) -> usize {
    let mut count = 0;
    let mut recent = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the stream ended");
        count += read;
        recent.extend_from_slice(&buffer[..read]);
        if recent.windows(end.len()).any(|window| window == end) {
            return count;
        }
        let keep = recent.len().saturating_sub(end.len());
        recent.drain(..keep);
    }
}
