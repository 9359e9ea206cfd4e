//! Web searches that the provider does itself, as items.

use codicil_protocol::{ItemId, ResponsesApiWebSearchAction, ThreadItem, WebSearchAction};

/// A search has begun; what for is known when it is done.
pub fn begun(id: &ItemId) -> ThreadItem {
    ThreadItem::WebSearch { id: id.clone(), query: String::new(), action: Some(WebSearchAction::Other) }
}

pub fn done(id: ItemId, action: Option<&ResponsesApiWebSearchAction>) -> ThreadItem {
    let action = action.map_or(WebSearchAction::Other, shown);
    ThreadItem::WebSearch { id, query: query(&action), action: Some(action) }
}

fn shown(action: &ResponsesApiWebSearchAction) -> WebSearchAction {
    match action {
        ResponsesApiWebSearchAction::Search { query, queries } => {
            WebSearchAction::Search { query: query.clone(), queries: queries.clone() }
        }
        ResponsesApiWebSearchAction::OpenPage { url } => WebSearchAction::OpenPage { url: url.clone() },
        ResponsesApiWebSearchAction::FindInPage { url, pattern } => {
            WebSearchAction::FindInPage { url: url.clone(), pattern: pattern.clone() }
        }
        ResponsesApiWebSearchAction::Other | ResponsesApiWebSearchAction::Unrecognized(_) => {
            WebSearchAction::Other
        }
    }
}

/// One line that says what was looked for.
fn query(action: &WebSearchAction) -> String {
    match action {
        WebSearchAction::Search { query: Some(query), .. } => query.clone(),
        WebSearchAction::Search { query: None, queries } => match queries.as_deref() {
            Some([only]) => only.clone(),
            Some([first, ..]) => format!("{first} ..."),
            _ => String::new(),
        },
        WebSearchAction::OpenPage { url } => url.clone().unwrap_or_default(),
        WebSearchAction::FindInPage { url, pattern } => match (pattern, url) {
            (Some(pattern), Some(url)) => format!("'{pattern}' in {url}"),
            (Some(pattern), None) => format!("'{pattern}'"),
            (None, url) => url.clone().unwrap_or_default(),
        },
        WebSearchAction::Other | WebSearchAction::Unrecognized(_) => String::new(),
    }
}
