//! Prints what a streamed delta and a long history cost in CPU time of the client's thread.
//!
//! `cargo run --release -p codicil-model --example delta_cost`

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use codicil_model::{
    History, ModelEvent, ModelProvider, ModelRequest, ProviderConfig, ProviderContext, StreamFlow, connect,
};
use codicil_protocol::{ContentItem, ResponseItem};

const DELTAS: usize = 50_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for framing in [Framing::Length, Framing::ChunkPerEvent] {
        let provider = provider(framing);
        runtime.block_on(deltas(&provider, ModelRequest::default()));
        let before = cpu_ns();
        let seen = runtime.block_on(deltas(&provider, ModelRequest::default()));
        println!("{framing:?}: {} ns per delta ({seen} deltas)", (cpu_ns() - before) / seen as u64);
    }
    let provider = provider(Framing::Short);
    for items in [10, 1_000, 10_000] {
        let mut history: History = (0..items).map(message).collect();
        let request = ModelRequest { input: history.snapshot(), ..ModelRequest::default() };
        runtime.block_on(deltas(&provider, request));
        let rounds = 50;
        let before = cpu_ns();
        for round in 0..rounds {
            history.push(message(items + round));
            let request = ModelRequest { input: history.snapshot(), ..ModelRequest::default() };
            runtime.block_on(deltas(&provider, request));
        }
        let cost = (cpu_ns() - before) / rounds as u64 / 1000;
        println!("request with a history of {items} items: {cost} µs");
    }
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    ChunkPerEvent,
    Short,
}

async fn deltas(provider: &Arc<dyn ModelProvider>, request: ModelRequest) -> usize {
    let mut stream = provider.stream(request);
    let mut events = Vec::new();
    let mut seen = 0;
    loop {
        let flow = stream.next(&mut events).await.unwrap();
        seen += events.drain(..).filter(|event| matches!(event, ModelEvent::TextDelta { .. })).count();
        if flow == StreamFlow::Done {
            return seen;
        }
    }
}

fn message(n: usize) -> ResponseItem {
    ResponseItem::Message {
        role: "user".into(),
        content: vec![ContentItem::InputText { text: format!("message {n} {}", "x".repeat(200)) }],
        end_turn: None,
        phase: None,
        id: None,
    }
}

fn provider(framing: Framing) -> Arc<dyn ModelProvider> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            thread::spawn(move || serve(socket, framing));
        }
    });
    let config = ProviderConfig { base_url, ..ProviderConfig::default() };
    connect("bench", &config, &ProviderContext::default()).unwrap()
}

fn serve(mut socket: TcpStream, framing: Framing) {
    let answer = answer(framing);
    while read_request(&mut socket).is_some() {
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

fn read_request(socket: &mut TcpStream) -> Option<()> {
    let mut bytes = vec![0; 1 << 20];
    let mut filled = 0;
    let head = loop {
        filled += Some(socket.read(&mut bytes[filled..]).ok()?).filter(|read| *read > 0)?;
        if let Some(at) = bytes[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length: usize = text.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    let mut left = (head + length).checked_sub(filled)?;
    while left > 0 {
        let wanted = left.min(bytes.len());
        left -= Some(socket.read(&mut bytes[..wanted]).ok()?).filter(|read| *read > 0)?;
    }
    Some(())
}

fn answer(framing: Framing) -> Vec<u8> {
    let mut events = vec![
        r#"{"type":"response.output_item.added","item":{"type":"message","role":"assistant","id":"msg_1","content":[]}}"#
            .to_owned(),
    ];
    let count = if matches!(framing, Framing::Short) { 1 } else { DELTAS };
    events.extend((0..count).map(|n| {
        format!(
            r#"{{"type":"response.output_text.delta","sequence_number":{n},"item_id":"msg_1","output_index":0,"content_index":0,"delta":"word{n} ","logprobs":[]}}"#
        )
    }));
    events.push(r#"{"type":"response.completed","response":{"id":"resp_1","usage":null}}"#.to_owned());
    let named = events.iter().map(|event| {
        let name = event.split('"').nth(3).unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    match framing {
        Framing::ChunkPerEvent => {
            let chunks: String = named.map(|event| format!("{:x}\r\n{event}\r\n", event.len())).collect();
            format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
        }
        Framing::Length | Framing::Short => {
            let body: String = named.collect();
            format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }
    }
}

/// CPU time of this thread, as Linux counts it.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
