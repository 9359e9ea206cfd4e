//! Many pages on a busy thread, and measurements. The weight of pages is tested in `console/tests/it/long_thread.rs`.

use std::{
    fs,
    time::{Duration, Instant},
};

use codicil_protocol::{SessionSource, TurnId, TurnStatus};
use codicil_store::{Record, Store, StoredSettings, ThreadMeta, new_thread_id};
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

/// Pages that follow a busy thread, beside the one in the browser.
const PAGES: usize = 50;

/// Deltas of the busy turn, and the time between them: 2,000 a second.
const DELTAS: usize = 3_000;
const BETWEEN: Duration = Duration::from_micros(500);

/// Items of the large thread.
const LARGE_THREAD: usize = 10_000;

/// Memory of server and console together, in KiB.
const MAX_MEMORY: u64 = 512 << 10;

#[tokio::test]
async fn fifty_pages_follow_a_busy_thread() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Ready").then().reply(busy("end-one"))).await;
    let path = stage.start_thread(&browser, "Begin").await;
    browser.sees([article("Agent message")], "Ready").await;
    browser.gone([button("Stop")]).await;

    let cookies = browser.cookies().await;
    // A page that never reads holds nothing up.
    let _idle = open_events(&stage.origin, &path, &cookies).await;
    let mut pages = JoinSet::new();
    for _ in 0..PAGES {
        let mut stream = open_events(&stage.origin, &path, &cookies).await;
        pages
            .spawn(async move { timeout(Duration::from_secs(60), read_until(&mut stream, "end-one")).await });
    }
    stage.send(&browser, "Go on").await;
    browser.sees([article("Agent message")], "end-one").await;
    browser.gone([button("Stop")]).await;
    while let Some(page) = pages.join_next().await {
        page.unwrap().expect("every page gets the end of the answer");
    }
    let memory = stage.server.resident_kib();
    assert!(memory < MAX_MEMORY, "{memory} KiB");
}

/// Tabs of one browser, which opens six connections to a host.
const TABS: usize = 8;

#[tokio::test]
async fn a_browser_has_eight_tabs() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Ready").then().say("Still here")).await;
    let path = stage.start_thread(&browser, "Begin").await;
    for _ in 1..TABS {
        browser.open_tab().await;
        stage.visit(&browser, &path).await;
        browser.sees([article("Agent message")], "Ready").await;
    }
    stage.send(&browser, "Go on").await;
    browser.sees([article("Agent message")], "Still here").await;
    // A tab that was hidden has it too when it is looked at.
    browser.go_to_first_tab().await;
    browser.sees([article("Agent message")], "Still here").await;
}

/// Measures what pages cost: the time of a turn and the processor time of server and console, without and with 50 pages. The two
/// take turns, and the shortest times count, which a busy machine lengthens least. With an optimised binary:
///
/// `CARGO_BIN_EXE_codicil=target/release/codicil target/debug/deps/console-… --ignored measure --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn measure_the_cost_of_pages() {
    const ROUNDS: usize = 20;
    let end = |number: usize| format!("end-{number}.");
    let script =
        (0..ROUNDS).fold(Script::new().say("Ready"), |script, number| script.reply(busy(&end(number))));
    let stage = Stage::start(script).await;
    let cookies = stage.sign_in().await;
    let path = stage.post(&cookies, "/new", "text=Begin").await;
    let mut stream = open_events(&stage.origin, &path, &cookies).await;
    read_until(&mut stream, "Done").await;
    let mut shortest = [(Duration::MAX, u64::MAX), (Duration::MAX, u64::MAX)];
    for number in 0..ROUNDS {
        let count = [1, PAGES][number % 2];
        let mut streams = Vec::new();
        for _ in 0..count {
            let mut stream = open_events(&stage.origin, &path, &cookies).await;
            // The page as it is comes first.
            read_until(&mut stream, "id: ").await;
            streams.push(stream);
        }
        let mut first = streams.pop().unwrap();
        let mut pages = JoinSet::new();
        for mut stream in streams {
            pages.spawn(async move { read_until(&mut stream, &end(number)).await });
        }
        let (began, ticks) = (Instant::now(), processor_ticks(stage.server.id()));
        stage.post(&cookies, &format!("{path}/input"), "do=send&text=Go").await;
        let mut bytes = read_until(&mut first, &end(number)).await;
        let turn = began.elapsed();
        bytes += pages.join_all().await.into_iter().sum::<usize>();
        let used = (processor_ticks(stage.server.id()) - ticks) * 10;
        let memory = stage.server.resident_kib();
        println!(
            "{count} pages: {DELTAS} deltas in {turn:?}, all pages {:?}, {used} ms of processor time, {bytes} bytes, {memory} KiB",
            began.elapsed()
        );
        let known = &mut shortest[number % 2];
        *known = (known.0.min(turn), known.1.min(used));
    }
    println!(
        "shortest: 1 page {:?}, {PAGES} pages {:?} (turn, ms of processor time)",
        shortest[0], shortest[1]
    );
}

/// Measures how long the page of a thread with 10,000 items takes, for a server that has just been started. Run like the
/// measurement above.
#[tokio::test]
#[ignore = "measures"]
async fn measure_the_page_of_a_large_thread() {
    let mut stage = Stage::start(Script::new()).await;
    let id = new_thread_id();
    let meta = ThreadMeta::new(id.clone(), "/", SessionSource::AppServer, "mock");
    let turn_id = TurnId::from("turn");
    let mut records = vec![
        Record::Settings(StoredSettings::without_snapshot("mock-model".to_owned(), None)),
        Record::Turn { turn_id: turn_id.clone(), run: None },
    ];
    records.extend((0..LARGE_THREAD).map(|number| {
        let text = format!("message {number}: {}", "some words of **text** ".repeat(10));
        let item = json!({ "type": "agentMessage", "id": format!("item{number}"), "text": text, "phase": null, "memoryCitation": null });
        Record::Item { turn_id: turn_id.clone(), item: serde_json::from_value(item).unwrap() }
    }));
    records.push(Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None, cause: None });
    Store::open(stage.home.path()).unwrap().create_with(meta, records).await.unwrap();
    for _ in 0..5 {
        stage.kill_and_restart().await;
        let cookies = stage.sign_in().await;
        let (began, ticks) = (Instant::now(), processor_ticks(stage.server.id()));
        let page = stage.request("GET", &format!("/threads/{id}"), &cookies, "").await;
        let (taken, used) = (began.elapsed(), processor_ticks(stage.server.id()) - ticks);
        let older = page.split("data-older=\"\" href=\"").nth(1).unwrap().split('"').next().unwrap();
        let began = Instant::now();
        let part = stage.request("GET", &older.replace("&amp;", "&"), &cookies, "").await;
        println!(
            "{LARGE_THREAD} items: {} bytes in {taken:?}, {} ms of processor time; earlier turns: {} bytes in {:?}",
            page.len(),
            used * 10,
            part.len(),
            began.elapsed()
        );
    }
}

/// Returns the processor time that a process has used, in ticks of 10 ms.
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Returns a reply of many deltas.
fn busy(end: &str) -> Reply {
    let words = (0..DELTAS).map(|number| format!("word{number} ")).chain([end.to_owned()]);
    Reply::new().pace(BETWEEN).say_deltas(words)
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
async fn read_until(stream: &mut TcpStream, end: &str) -> usize {
    let mut count = 0;
    let mut recent = String::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the stream ended");
        count += read;
        recent.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if recent.contains(end) {
            return count;
        }
        let keep = recent.ceil_char_boundary(recent.len().saturating_sub(end.len()));
        recent.drain(..keep);
    }
}
