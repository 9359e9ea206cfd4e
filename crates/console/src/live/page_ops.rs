//! What a browser is told to change, and its encoding as a server-sent event.
//!
//! The browser knows nothing of threads: it carries out operations on elements, which it finds by their ids.

use bytes::Bytes;
use maud::Markup;
use serde::Serialize;

/// A change of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub enum PageOp {
    /// Replaces an element, or adds it at the end of another one.
    Put {
        id: String,
        #[serde(rename = "in")]
        parent: String,
        html: String,
    },
    /// Appends text to an element.
    Text { id: String, text: String },
    /// Removes an element.
    Drop { id: String },
    /// Makes the children of an element those of `html`. Children with the same id and content stay as they are, with
    /// what a person has typed there.
    Sync { id: String, html: String },
    /// Loads the contents of an element again, from its own address.
    Load { id: String },
    /// Shows the number of open questions in the title and the icon of the page.
    Count { questions: usize },
}

impl PageOp {
    pub fn put(id: impl Into<String>, parent: impl Into<String>, html: Markup) -> Self {
        Self::Put { id: id.into(), parent: parent.into(), html: html.into_string() }
    }

    pub fn sync(id: impl Into<String>, html: Markup) -> Self {
        Self::Sync { id: id.into(), html: html.into_string() }
    }
}

/// Encodes operations as one event. `seq` becomes the id of the event, with which a browser reconnects.
pub fn encode_event(seq: Option<u64>, ops: &[PageOp]) -> Bytes {
    // The JSON has no line breaks, so it is one line of data.
    let json = serde_json::to_string(ops).unwrap_or_default();
    Bytes::from(match seq {
        Some(seq) => format!("id: {seq}\ndata: {json}\n\n"),
        None => format!("data: {json}\n\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_data() {
        let ops = [PageOp::Text { id: "a".to_owned(), text: "one\ntwo\r\n\u{2028}".to_owned() }];
        let event = encode_event(Some(7), &ops);
        let text = std::str::from_utf8(&event).unwrap();
        assert_eq!(
            text,
            "id: 7\ndata: [{\"op\":\"text\",\"id\":\"a\",\"text\":\"one\\ntwo\\r\\n\u{2028}\"}]\n\n"
        );
    }
}
