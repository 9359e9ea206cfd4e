//! A program that uses the `codex-codes` crate, whose types are made from the schema of codex 0.166: whatever
//! does not read as one of them is an error here.

use std::{env, error::Error, path::PathBuf};

use codex_codes::{AppServerBuilder, AsyncClient, ServerMessage};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let mut client = start().await?;
    let started = client
        .thread_start(&params(json!({
            "cwd": env::var("WORK")?, "approvalPolicy": "on-request", "sandbox": "workspace-write",
        }))?)
        .await?;
    let thread = started.thread.id.clone();

    let seen = turn(&mut client, &thread, "stream please", "accept").await?;
    assert!(said(&seen).contains("One two three four five, said the scripted model."), "{seen:?}");

    let stamp = PathBuf::from(env::var("ROOT")?).join("stamp.txt");
    for (decision, is_stamped) in [("decline", false), ("accept", true)] {
        let seen = turn(&mut client, &thread, "touch outside", decision).await?;
        assert!(seen.iter().any(|(method, _)| method == "item/commandExecution/requestApproval"), "{seen:?}");
        assert_eq!(stamp.exists(), is_stamped);
    }
    turn(&mut client, &thread, "patch the greeting", "accept").await?;

    let turns = client.thread_turns_list(&params(json!({ "threadId": thread, "limit": 2 }))?).await?;
    assert_eq!(turns.data.len(), 2);
    assert!(turns.next_cursor.is_some());
    let newest = serde_json::to_value(&turns.data[0])?;
    assert!(newest.to_string().contains("patch the greeting"), "the newest comes first: {newest}");
    let items = client.thread_items_list(&params(json!({ "threadId": thread, "limit": 100 }))?).await?;
    assert!(items.data.len() >= 10, "{}", items.data.len());
    client.shutdown().await?;

    let mut client = start().await?;
    let resumed = client.thread_resume(&params(json!({ "threadId": thread }))?).await?;
    assert_eq!((resumed.thread.id.as_str(), resumed.thread.turns.len()), (thread.as_str(), 4));
    let forked = client.thread_fork(&params(json!({ "threadId": thread }))?).await?;
    assert_ne!(forked.thread.id, thread);
    let seen = turn(&mut client, &forked.thread.id, "the copy", "accept").await?;
    assert!(said(&seen).contains("You said: the copy"), "{seen:?}");
    client.account_read(&params(json!({}))?).await?;
    client.thread_archive(&params(json!({ "threadId": thread }))?).await?;
    client.shutdown().await?;
    Ok(())
}

async fn start() -> Outcome<AsyncClient> {
    let builder = AppServerBuilder::new().command(env::var("CODICIL")?).working_directory(env::var("WORK")?);
    Ok(AsyncClient::start_with(builder).await?)
}

/// The types have many members and no defaults, so that they are read from JSON.
fn params<T: DeserializeOwned>(json: Value) -> Outcome<T> {
    Ok(serde_json::from_value(json)?)
}

/// Runs a turn to its end, answers what is asked, and gives every message as the crate read it.
async fn turn(
    client: &mut AsyncClient,
    thread: &str,
    text: &str,
    decision: &str,
) -> Outcome<Vec<(String, Value)>> {
    let input = json!([{ "type": "text", "text": text }]);
    client.turn_start(&params(json!({ "threadId": thread, "input": input }))?).await?;
    let mut seen = Vec::new();
    while let Some(message) = client.next_message().await? {
        assert!(!message.is_unknown(), "{message:?}");
        match message {
            ServerMessage::Notification(notification) => {
                let (method, params) = notification.into_envelope()?;
                let is_end = method == "turn/completed";
                seen.push((method, params.unwrap_or_default()));
                if is_end {
                    return Ok(seen);
                }
            }
            ServerMessage::Request { id, request } => {
                seen.push((request.method().to_owned(), Value::Null));
                client.respond(id, &json!({ "decision": decision })).await?;
            }
        }
    }
    Err("the server ended".into())
}

fn said(seen: &[(String, Value)]) -> String {
    let deltas = seen.iter().filter(|(method, _)| method == "item/agentMessage/delta");
    deltas.filter_map(|(_, params)| params.get("delta")?.as_str()).collect()
}
