//! An MCP server over standard streams for the tests. Its first argument selects the behaviour: `plain`, `mute` (never
//! responds), `noisy` (writes invalid lines), `exits` (exits with code 3 at once), `crowded` (many pages of tools),
//! `bulky` (endless pages with a tool of 5 MiB each), `flood` (writes endlessly after `initialize`). The child process
//! that it starts outlives the call on purpose.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::zombie_processes)]

use std::{
    env,
    io::{self, Write},
    process::{Command, exit},
};

use serde_json::{Value, json};

struct Server {
    mode: String,
    /// Ids of cancelled requests.
    cancelled: Vec<Value>,
    extra_tool: bool,
    /// The user has opened the page that the tool `gate` requires.
    gate_is_open: bool,
    /// Params of `initialize`.
    hello: Value,
    /// Responses of the client to elicitation requests, returned by the tool `answers`.
    answers: Vec<Value>,
    lines: io::Lines<io::StdinLock<'static>>,
}

fn main() {
    let mode = env::args().nth(1).unwrap_or_else(|| "plain".to_owned());
    if mode == "exits" {
        exit(3);
    }
    let lines = io::stdin().lines();
    let mut server = Server {
        mode,
        cancelled: Vec::new(),
        extra_tool: false,
        gate_is_open: false,
        hello: Value::Null,
        answers: Vec::new(),
        lines,
    };
    if server.mode == "noisy" {
        println!("starting up…\n{{\"not\": \"a message\"}}\n[1, 2\n\u{7f}");
    }
    while let Some(message) = server.read() {
        server.handle(&message);
    }
}

impl Server {
    fn read(&mut self) -> Option<Value> {
        let line = self.lines.next()?.ok()?;
        serde_json::from_str(&line).ok()
    }

    fn send(&self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        if self.mode == "noisy" {
            println!("DEBUG: about to say something");
        }
        println!("{message}");
        io::stdout().flush().unwrap();
    }

    fn handle(&mut self, message: &Value) {
        if self.mode == "mute" {
            return;
        }
        if message["method"] == "notifications/cancelled" {
            self.cancelled.push(message["params"]["requestId"].clone());
        }
        if message["id"].is_null() || message["method"].is_null() {
            return;
        }
        let id = message["id"].clone();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => {
                self.hello = message["params"].clone();
                self.initialize(message)
            }
            "tools/list" => self.tools(message),
            "tools/call" => match self.call(message) {
                Some(result) => result,
                None => return,
            },
            "resources/list" => json!({ "resources": [{ "uri": "test://notes", "name": "notes" }] }),
            "resources/templates/list" => {
                json!({ "resourceTemplates": [{ "uriTemplate": "test://note/{id}", "name": "note" }] })
            }
            "resources/read" => {
                json!({ "contents": [{ "uri": message["params"]["uri"], "text": "a resource" }] })
            }
            _ => {
                return self
                    .send(json!({ "id": id, "error": { "code": -32601, "message": "method not found" } }));
            }
        };
        self.send(json!({ "id": id, "result": result }));
        if self.mode == "flood" && message["method"] == "initialize" {
            loop {
                println!("{}", "x".repeat(1 << 16));
            }
        }
    }

    fn initialize(&self, message: &Value) -> Value {
        json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true }, "resources": {} },
            "serverInfo": { "name": "test", "version": "1" },
            "_meta": { "seen": message["params"] },
        })
    }

    fn tools(&self, message: &Value) -> Value {
        let page: usize = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        if self.mode == "crowded" {
            let tools: Vec<Value> = (0..100).map(|i| tool(&format!("tool_{:04}", page * 100 + i))).collect();
            return json!({ "tools": tools, "nextCursor": (page + 1).to_string() });
        }
        if self.mode == "bulky" {
            let mut tool = tool(&format!("tool_{page}"));
            tool["description"] = json!("x".repeat(5 << 20));
            return json!({ "tools": [tool], "nextCursor": (page + 1).to_string() });
        }
        let mut names =
            vec!["answers", "ask", "cancelled", "count", "echo", "env", "fail", "grow", "hang", "huge"];
        names.extend(["pid", "refuse", "die", "family", "odd", "meta", "hello", "gate", "finish"]);
        if self.extra_tool {
            names.push("extra");
        }
        let mut tools: Vec<Value> = names.into_iter().map(tool).collect();
        tools.push(json!({ "without": "a name" }));
        json!({ "tools": tools })
    }

    fn call(&mut self, message: &Value) -> Option<Value> {
        let params = &message["params"];
        let arguments = &params["arguments"];
        let token = &params["_meta"]["progressToken"];
        Some(match params["name"].as_str().unwrap() {
            "echo" => text(&format!("echo: {}", arguments["text"].as_str().unwrap_or_default())),
            "fail" => json!({ "content": [{ "type": "text", "text": "it failed" }], "isError": true }),
            "refuse" => {
                self.send(
                    json!({ "id": message["id"], "error": { "code": -32602, "message": "no such thing" } }),
                );
                return None;
            }
            "odd" => json!({ "content": [{ "type": "hologram", "depth": 3 }], "_meta": { "a": 1 } }),
            "count" => {
                for step in 1..=arguments["to"].as_u64().unwrap() {
                    self.progress(token, step, Some(format!("step {step}")));
                }
                text("counted")
            }
            "hang" => {
                self.progress(token, 0, None);
                return None;
            }
            "cancelled" => text(&json!(self.cancelled).to_string()),
            "die" => exit(7),
            "meta" => text(&params["_meta"].to_string()),
            "pid" => text(&std::process::id().to_string()),
            "family" => {
                let child = Command::new("sleep").arg("1000").spawn().unwrap();
                text(&child.id().to_string())
            }
            "env" => text(&json!(env::vars().collect::<std::collections::BTreeMap<_, _>>()).to_string()),
            "huge" => text(&"y".repeat(arguments["bytes"].as_u64().unwrap() as usize)),
            "grow" => {
                self.extra_tool = true;
                self.send(json!({ "method": "notifications/tools/list_changed" }));
                text("grown")
            }
            "ask" => {
                let answer = self.ask(&arguments["params"]);
                text(&answer.to_string())
            }
            "hello" => text(&self.hello.to_string()),
            "gate" if self.gate_is_open => text("through the gate"),
            "gate" => {
                let page = json!({ "mode": "url", "message": "Open the gate", "url": "https://example.com/gate",
                    "elicitationId": "gate" });
                let error = json!({ "code": -32042, "message": "the gate is closed",
                    "data": { "elicitations": [page] } });
                self.send(json!({ "id": message["id"], "error": error }));
                return None;
            }
            "finish" => {
                self.gate_is_open = true;
                let params = json!({ "elicitationId": arguments["page"] });
                self.send(json!({ "method": "notifications/elicitation/complete", "params": params }));
                text("finished")
            }
            "answers" => text(&json!(self.answers).to_string()),
            _ => text("extra"),
        })
    }

    fn progress(&self, token: &Value, progress: u64, message: Option<String>) {
        let mut params = json!({ "progressToken": token, "progress": progress });
        if let Some(message) = message {
            params["message"] = json!(message);
        }
        self.send(json!({ "method": "notifications/progress", "params": params }));
    }

    fn ask(&mut self, params: &Value) -> Value {
        self.send(json!({ "id": "ask", "method": "elicitation/create", "params": params }));
        while let Some(message) = self.read() {
            if message["id"] == "ask" && message["method"].is_null() {
                let answer = if message["error"].is_null() {
                    message["result"].clone()
                } else {
                    message["error"].clone()
                };
                self.answers.push(answer.clone());
                return answer;
            }
            self.handle(&message);
        }
        exit(0);
    }
}

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The {name} tool"),
        "inputSchema": { "type": "object", "properties": {} },
        "annotations": { "readOnlyHint": name == "echo" },
    })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}
