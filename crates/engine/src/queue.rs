//! Changes to the queue of a thread, as functions of the queue.

use codicil_protocol::{
    QueuedSubmission, ThreadQueueAddParams, ThreadQueueListParams, ThreadQueueListResponse, UserInput,
};
use uuid::Uuid;

use crate::error::QueueError;

/// The longest queue.
const MAX_QUEUED: usize = 100;
/// The default size of a page.
const DEFAULT_PAGE: usize = 25;

/// Returns the submission that a request adds.
pub(crate) fn added(
    queue: &[QueuedSubmission],
    params: ThreadQueueAddParams,
) -> Result<QueuedSubmission, QueueError> {
    check_input(&params.input)?;
    if queue.len() >= MAX_QUEUED {
        return Err(QueueError::Full(MAX_QUEUED));
    }
    Ok(QueuedSubmission {
        id: Uuid::now_v7().to_string(),
        input: params.input,
        client_user_message_id: params.client_user_message_id,
    })
}

/// Returns a submission with other input.
pub(crate) fn updated(
    queue: &[QueuedSubmission],
    id: &str,
    input: Vec<UserInput>,
) -> Result<QueuedSubmission, QueueError> {
    check_input(&input)?;
    Ok(QueuedSubmission { input, ..find(queue, id)?.clone() })
}

/// Checks that an order names every submission once.
pub(crate) fn check_order(queue: &[QueuedSubmission], ids: &[String]) -> Result<(), QueueError> {
    let is_named = |submission: &QueuedSubmission| ids.contains(&submission.id);
    if ids.len() == queue.len() && queue.iter().all(is_named) { Ok(()) } else { Err(QueueError::Order) }
}

/// Returns the submission that starts next: the named one, else the first.
pub(crate) fn next<'a>(
    queue: &'a [QueuedSubmission],
    id: Option<&str>,
) -> Result<&'a QueuedSubmission, QueueError> {
    match id {
        Some(id) => find(queue, id),
        None => queue.first().ok_or(QueueError::Empty),
    }
}

fn find<'a>(queue: &'a [QueuedSubmission], id: &str) -> Result<&'a QueuedSubmission, QueueError> {
    let found = queue.iter().find(|submission| submission.id == id);
    found.ok_or_else(|| QueueError::NotQueued(id.to_owned()))
}

fn check_input(input: &[UserInput]) -> Result<(), QueueError> {
    if input.is_empty() { Err(QueueError::NoInput) } else { Ok(()) }
}

/// Returns a page of a queue. A cursor is the number of submissions before the page.
pub(crate) fn page(
    queue: &[QueuedSubmission],
    params: &ThreadQueueListParams,
) -> Result<ThreadQueueListResponse, QueueError> {
    let start = match &params.cursor {
        Some(cursor) => cursor.parse::<usize>().map_err(|error| QueueError::Cursor(error.to_string()))?,
        None => 0,
    };
    let limit = params.limit.map_or(DEFAULT_PAGE, |limit| (limit as usize).clamp(1, MAX_QUEUED));
    let data: Vec<_> = queue.iter().skip(start).take(limit).cloned().collect();
    let end = start.saturating_add(data.len());
    let next_cursor = (end < queue.len()).then(|| end.to_string());
    Ok(ThreadQueueListResponse { data, next_cursor })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(count: usize) -> Vec<QueuedSubmission> {
        let submission = |number: usize| QueuedSubmission {
            id: format!("q{number}"),
            input: Vec::new(),
            client_user_message_id: String::new(),
        };
        (0..count).map(submission).collect()
    }

    #[test]
    fn a_full_queue_and_empty_input_are_refused() {
        let add = |count, input| {
            let params = json!({ "threadId": "t", "input": input, "clientUserMessageId": "c" });
            added(&queue(count), serde_json::from_value(params).unwrap()).map(|added| added.input.len())
        };
        let text = json!([{ "type": "text", "text": "x" }]);
        assert_eq!(add(99, text.clone()).unwrap(), 1);
        assert_eq!(add(100, text).unwrap_err().to_string(), "queue cannot contain more than 100 submissions");
        let refused = add(0, json!([])).unwrap_err().to_string();
        assert_eq!(refused, "only user input can be added to the user-message queue");
    }

    #[test]
    fn an_order_names_every_submission_once() {
        let check = |ids: &[&str]| {
            let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
            check_order(&queue(2), &ids).is_ok()
        };
        assert!(check(&["q1", "q0"]) && check(&["q0", "q1"]));
        assert!(!check(&[]) && !check(&["q0"]) && !check(&["q0", "q0"]) && !check(&["q0", "q1", "x"]));
    }

    #[test]
    fn pages_follow_each_other() {
        let list = |cursor: Option<&str>, limit| {
            let params = json!({ "threadId": "t", "cursor": cursor, "limit": limit });
            page(&queue(30), &serde_json::from_value(params).unwrap())
                .map(|page| (page.data.len(), page.next_cursor))
                .map_err(|error| error.to_string())
        };
        assert_eq!(list(None, None).unwrap(), (25, Some("25".to_owned())));
        assert_eq!(list(Some("25"), None).unwrap(), (5, None));
        assert_eq!(list(None, Some(0)).unwrap(), (1, Some("1".to_owned())));
        assert_eq!(list(Some("70"), Some(1000)).unwrap(), (0, None));
        let invalid = "invalid queue pagination cursor: invalid digit found in string";
        assert_eq!(list(Some("nonsense"), None).unwrap_err(), invalid);
    }
}
