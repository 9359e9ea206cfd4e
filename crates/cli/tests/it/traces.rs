//! Traces: what a collector receives, what models and MCP servers are told, and what a missing collector costs. Structured logs
//! are here too: the same spans name the thread and the turn in them.

use std::{sync::Arc, time::Duration};

use codicil_protocol::{Thread, TurnCompleted, TurnStatus};
use codicil_testkit::{App, AppBuilder, Script, TestTransport};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::Instant,
};

use crate::soon;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A request as an HTTP server of a test receives it.
#[derive(Debug)]
struct PostedRequest {
    /// The lines of the head, in lower case.
    head: Vec<String>,
    body: Vec<u8>,
}

impl PostedRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An HTTP server that records what is posted to it.
struct HttpPeer {
    address: String,
    requests: mpsc::UnboundedReceiver<PostedRequest>,
}

impl HttpPeer {
    /// Answers each request with the status and the JSON that `answer` returns.
    async fn start(answer: impl Fn(&PostedRequest) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, requests) = mpsc::unbounded_channel();
        let answer = Arc::new(answer);
        // Ends with the runtime of the test.
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (sender, answer) = (sender.clone(), answer.clone());
                tokio::spawn(async move { serve(stream, sender, &*answer).await });
            }
        });
        Self { address, requests }
    }

    async fn next(&mut self) -> PostedRequest {
        soon(self.requests.recv()).await.unwrap()
    }
}

async fn serve(
    stream: TcpStream,
    sender: mpsc::UnboundedSender<PostedRequest>,
    answer: &(dyn Fn(&PostedRequest) -> (u16, Value) + Send + Sync),
) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match stream.read_line(&mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => head.push(line.trim().to_lowercase()),
            }
        }
        let mut request = PostedRequest { head, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).await.unwrap();
        let (status, body) = answer(&request);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        // The test has what it waits for when the peer has its answer.
        stream.write_all(response.as_bytes()).await.unwrap();
        let _ = sender.send(request);
    }
}

/// A collector that receives spans as JSON.
struct Collector {
    peer: HttpPeer,
    spans: Vec<Value>,
    /// The attributes of the service.
    resource: Value,
}

impl Collector {
    async fn start() -> Self {
        let peer = HttpPeer::start(|_| (200, json!({}))).await;
        Self { peer, spans: Vec::new(), resource: Value::Null }
    }

    fn export(&self, app: AppBuilder) -> AppBuilder {
        app.environment("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", self.peer.address))
            .environment("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    }

    /// Waits for a span with this name, and returns all so far.
    async fn until(&mut self, name: &str) -> &[Value] {
        while !self.spans.iter().any(|span| span["name"] == name) {
            let request = self.peer.next().await;
            assert_eq!(request.head[0], "post /v1/traces http/1.1");
            for resource in request.json()["resourceSpans"].as_array().unwrap() {
                self.resource = resource["resource"]["attributes"].clone();
                for scope in resource["scopeSpans"].as_array().unwrap() {
                    self.spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
        }
        &self.spans
    }
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn attribute(attributes: &Value, name: &str) -> Value {
    let found = attributes.as_array().unwrap().iter().find(|attribute| attribute["key"] == name);
    let value = found.unwrap_or_else(|| panic!("no {name} in {attributes}"))["value"].clone();
    value["stringValue"].as_str().map_or(value.clone(), Value::from)
}

/// Starts a turn as a client does that is part of a trace. Returns the id of the turn.
async fn traced_turn(app: &mut App, thread: &Thread, flags: &str) -> String {
    let answer = app
        .exchange(json!({
            "id": 700,
            "method": "turn/start",
            "params": { "threadId": thread.id, "input": [{ "type": "text", "text": "private words" }] },
            "trace": { "traceparent": format!("00-{TRACE_ID}-{CLIENT_SPAN}-{flags}"), "tracestate": "desk=1" },
        }))
        .await;
    let completed = app.until::<TurnCompleted>().await;
    assert_eq!(completed.turn.status, TurnStatus::Completed);
    answer["result"]["turn"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn a_turn_is_in_the_trace_of_its_client() {
    let script = Script::new()
        .call("update_plan", json!({ "plan": [{ "step": "private plan", "status": "pending" }] }))
        .usage(100, 40, 20, 5)
        .then()
        .say("private answer");
    let mut collector = Collector::start().await;
    let app = collector.export(App::builder().script(script).over(TestTransport::Stdio));
    let mut app = app.environment("OTEL_SERVICE_NAME", "desk").start().await;
    let thread = app.start_thread().await;
    let turn = traced_turn(&mut app, &thread, "01").await;
    let spans = collector.until("turn").await.to_vec();

    let [request] = named(&spans, "turn/start")[..] else { panic!("{spans:?}") };
    assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE_ID), &json!(CLIENT_SPAN)));
    assert_eq!(request["kind"], 2, "a server's");
    assert_eq!(attribute(&request["attributes"], "thread"), json!(thread.id));
    assert_eq!(attribute(&request["attributes"], "outcome"), "completed");

    let [turn_span] = named(&spans, "turn")[..] else { panic!("{spans:?}") };
    assert_eq!((&turn_span["traceId"], &turn_span["parentSpanId"]), (&json!(TRACE_ID), &request["spanId"]));
    let models = named(&spans, "model_request");
    let tools = named(&spans, "tool_call");
    assert_eq!((models.len(), tools.len()), (2, 1));
    for span in models.iter().chain(&tools) {
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE_ID), &turn_span["spanId"]));
    }
    for span in models.iter().chain(&tools).chain([&turn_span]) {
        assert_eq!(attribute(&span["attributes"], "thread"), json!(thread.id));
        assert_eq!(attribute(&span["attributes"], "turn"), json!(turn));
        assert_eq!(attribute(&span["attributes"], "outcome"), "completed");
        let times = ["startTimeUnixNano", "endTimeUnixNano"]
            .map(|name| span[name].as_str().unwrap().parse::<u64>().unwrap());
        assert!(times[0] > 0 && times[0] <= times[1], "{span}");
    }
    assert_eq!(attribute(&tools[0]["attributes"], "tool"), "update_plan");
    assert_eq!(attribute(&models[0]["attributes"], "output_tokens")["intValue"], "20");
    assert_eq!(attribute(&collector.resource, "service.name"), "desk");

    let told: Vec<_> = app
        .model()
        .requests()
        .iter()
        .map(|request| request.header("traceparent").unwrap().to_owned())
        .collect();
    let expected = models.iter().map(|span| format!("00-{TRACE_ID}-{}-01", span["spanId"].as_str().unwrap()));
    assert_eq!(told, expected.collect::<Vec<_>>());
    assert_eq!(app.model().requests()[0].header("tracestate"), Some("desk=1"));
    let sent = json!(spans).to_string();
    assert!(!sent.contains("private"), "{sent}");
    app.ignore_rest();
}

#[tokio::test]
async fn a_trace_that_the_client_does_not_sample_is_passed_on_and_not_exported() {
    let script = Script::new().say("One").then().say("Two");
    let mut collector = Collector::start().await;
    let mut app = collector.export(App::builder().script(script).over(TestTransport::Stdio)).start().await;
    let thread = app.start_thread().await;
    traced_turn(&mut app, &thread, "00").await;
    app.rest().await;
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Completed);
    // The second turn has a trace of its own.
    let spans = collector.until("turn").await;
    assert_eq!(named(spans, "turn").len(), 1, "{spans:?}");
    assert!(spans.iter().all(|span| span["traceId"] != TRACE_ID), "{spans:?}");
    let told = app.model().requests()[0].header("traceparent").unwrap().to_owned();
    assert!(told.starts_with(&format!("00-{TRACE_ID}-")) && told.ends_with("-00"), "{told}");
    app.ignore_rest();
}

#[tokio::test]
async fn an_mcp_server_is_told_the_trace() {
    let mcp = HttpPeer::start(|request| {
        if request.body.is_empty() {
            return (405, Value::Null);
        }
        let message = request.json();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "desk", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{
                "name": "look",
                "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false },
            }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "seen" }] }),
            _ => return (202, Value::Null),
        };
        (200, json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    });
    let mut mcp = mcp.await;
    let config =
        format!("approval_policy = 'never'\n[mcp_servers.desk]\nurl = 'http://{}/mcp'\n", mcp.address);
    let script = Script::new().call("mcp__desk__look", json!({})).then().say("Done");
    let mut collector = Collector::start().await;
    let app = App::builder().script(script).config(&config).over(TestTransport::Stdio);
    let mut app = collector.export(app).start().await;
    let thread = app.start_thread().await;
    traced_turn(&mut app, &thread, "01").await;
    let spans = collector.until("turn").await;
    let [tool] = named(spans, "tool_call")[..] else { panic!("{spans:?}") };
    assert_eq!(attribute(&tool["attributes"], "tool"), "mcp__desk__look");
    let told = loop {
        let request = mcp.next().await;
        if !request.body.is_empty() && request.json()["method"] == "tools/call" {
            break request.header("traceparent").unwrap().to_owned();
        }
    };
    assert_eq!(told, format!("00-{TRACE_ID}-{}-01", tool["spanId"].as_str().unwrap()));
    app.ignore_rest();
}

#[tokio::test]
async fn the_configuration_chooses_the_collector() {
    let mut peer = HttpPeer::start(|_| (200, Value::Null)).await;
    let config = format!(
        "[otel]\nenvironment = 'test'\n[otel.trace_exporter.otlp-http]\nendpoint = 'http://{}/spans'\n\
         headers = {{ x-desk-key = 'abc' }}\n",
        peer.address
    );
    let script = Script::new().say("Hello");
    let mut app = App::builder().script(script).config(&config).over(TestTransport::WebSocket).start().await;
    let thread = app.start_thread().await;
    traced_turn(&mut app, &thread, "01").await;
    app.rest().await;
    let trace = u128::from_str_radix(TRACE_ID, 16).unwrap().to_be_bytes();
    loop {
        let request = peer.next().await;
        assert_eq!(request.head[0], "post /spans http/1.1");
        assert_eq!(request.header("x-desk-key"), Some("abc"));
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
        if request.body.windows(trace.len()).any(|bytes| bytes == trace) {
            break;
        }
    }
}

#[tokio::test]
async fn a_collector_that_cannot_be_reached_is_one_warning() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let script = Script::new().say("One").then().say("Two");
    let mut app = App::builder()
        .script(script)
        .over(TestTransport::WebSocket)
        .arguments(["--metrics", "127.0.0.1:0"])
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{unused}"))
        .start()
        .await;
    let thread = app.start_thread().await;
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Completed);
    app.process().stderr_line("the collector of traces at 127.0.0.1 does not take spans").await;
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Completed);
    app.rest().await;
    app.process().terminate();
    app.process().expect_success().await;
    let log = app.process().whole_stderr().await;
    assert_eq!(log.matches("the collector of traces").count(), 1, "{log}");
    app.ignore_rest();
}

#[tokio::test]
async fn a_collector_that_does_not_answer_does_not_delay_the_end() {
    // Connections are accepted by the kernel, and nothing reads them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut app = App::builder()
        .script(Script::new().say("Hello"))
        .over(TestTransport::WebSocket)
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", silent.local_addr().unwrap()))
        .start()
        .await;
    let thread = app.start_thread().await;
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Completed);
    app.rest().await;
    let stopped = Instant::now();
    app.process().terminate();
    app.process().expect_success().await;
    // Two seconds for the collector, and a generous rest for a busy machine. A request may take ten.
    assert!(stopped.elapsed() < Duration::from_secs(8), "{:?}", stopped.elapsed());
    app.ignore_rest();
}

#[tokio::test]
async fn what_cannot_be_exported_is_reported_at_the_start() {
    let config = "[otel.trace_exporter.otlp-grpc]\nendpoint = 'https://collector.example.com'\n";
    let mut app = App::builder().config(config).over(TestTransport::Stdio).start().await;
    app.process().stderr_line("traces are not exported: the exporter `otlp-grpc` is not supported").await;
    app.ignore_rest();
}

#[tokio::test]
async fn json_lines_name_the_thread_and_the_turn() {
    let script = Script::new().say("Half").cut().then().say("Whole");
    let mut app = App::builder()
        .script(script)
        .over(TestTransport::Stdio)
        .arguments(["-c", "model_providers.mock.stream_max_retries=1"])
        .environment("LOG_FORMAT", "json")
        .environment("RUST_LOG", "codicil_engine=debug")
        .start()
        .await;
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "Hi").await;
    assert_eq!(turn.status, TurnStatus::Completed);
    app.rest().await;
    let line = app.process().stderr_line("retrying the model request").await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["span"]["thread"], json!(thread.id), "{line}");
    assert_eq!(line["span"]["turn"], json!(turn.id), "{line}");
    assert_eq!(line["fields"]["message"], "retrying the model request");
}
