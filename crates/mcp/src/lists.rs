//! Paginated lists of a server, read to the end or to a limit. Invalid entries are skipped.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    call::CallError,
    connection::ServerConnection,
    limits::{LIST_BYTES, LIST_TIMEOUT, PAGES},
};

/// A page, with the cursor of the next one.
pub(crate) struct ListPage<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) next_cursor: Option<String>,
    /// The size of the entries, including invalid ones.
    bytes: usize,
}

/// Reads all pages of a list within one timeout.
pub(crate) async fn list<T: DeserializeOwned>(
    connection: &ServerConnection,
    method: &str,
    member: &str,
    max_entries: usize,
) -> Result<Vec<T>, CallError> {
    let pages = async {
        let mut entries = Vec::new();
        let mut cursor = None;
        let mut bytes = 0_usize;
        for _ in 0..PAGES {
            let read = page(connection, method, member, cursor.as_deref()).await?;
            entries.extend(read.entries);
            bytes = bytes.saturating_add(read.bytes);
            cursor = read.next_cursor;
            if cursor.is_none() || entries.len() >= max_entries || bytes >= LIST_BYTES {
                break;
            }
        }
        entries.truncate(max_entries);
        Ok(entries)
    };
    timeout(LIST_TIMEOUT, pages).await.unwrap_or(Err(CallError::TimedOut(LIST_TIMEOUT)))
}

/// Reads one page of a list.
pub(crate) async fn page<T: DeserializeOwned>(
    connection: &ServerConnection,
    method: &str,
    member: &str,
    cursor: Option<&str>,
) -> Result<ListPage<T>, CallError> {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    let mut result = connection.request(method, params).await?;
    let next_cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let entries = match result.get_mut(member).map(Value::take) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    Ok(ListPage {
        bytes: entries.iter().map(|entry| entry.to_string().len()).sum(),
        entries: entries.into_iter().filter_map(|entry| read(method, entry)).collect(),
        next_cursor,
    })
}

fn read<T: DeserializeOwned>(method: &str, entry: Value) -> Option<T> {
    serde_json::from_value(entry)
        .inspect_err(|error| tracing::debug!(method, %error, "skipped an invalid entry"))
        .ok()
}
