//! The list of threads: as links in the navigation, and as a page with search and filters.

use std::collections::HashMap;

use axum::{
    Extension,
    extract::{Query, State},
};
use codicil_client::{
    protocol::{
        Thread, ThreadActiveFlag, ThreadId, ThreadList, ThreadListCwdFilter, ThreadListParams, ThreadSearch,
        ThreadSearchParams, ThreadSearchResult, ThreadSortKey, ThreadStatus,
    },
    user_thread_sources,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    PageError, PageFrame, directory_input,
    format::{age, short_path, timestamp, tokens},
    page,
};
use crate::{
    access::Session,
    live::thread_title,
    render::text::{prefix, visible, visible_plain},
    state::Console,
};

/// Threads on a page.
const PAGE_THREADS: u32 = 50;

/// Pages that are read from the server for one page of threads that pass the filters.
const MAX_READ_PAGES: usize = 20;

/// The status of a thread as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownStatus {
    Idle,
    Running,
    Waiting,
    Failed,
}

impl ShownStatus {
    pub fn of(status: &ThreadStatus) -> Self {
        match status {
            ThreadStatus::Active { active_flags } if active_flags.iter().any(is_wait) => Self::Waiting,
            ThreadStatus::Active { .. } => Self::Running,
            ThreadStatus::SystemError => Self::Failed,
            _ => Self::Idle,
        }
    }

    /// Returns the word and the class of the status.
    pub fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Idle => ("Idle", "idle"),
            Self::Running => ("Running", "running"),
            Self::Waiting => ("Waiting for you", "waiting"),
            Self::Failed => ("Failed", "failed"),
        }
    }
}

fn is_wait(flag: &ThreadActiveFlag) -> bool {
    matches!(flag, ThreadActiveFlag::WaitingOnApproval | ThreadActiveFlag::WaitingOnUserInput)
}

/// Returns the links of the navigation.
pub fn thread_links(threads: &[Thread]) -> Markup {
    html! {
        @for thread in threads {
            @let status = ShownStatus::of(&thread.status).label();
            li id={ "link-" (thread.id) } {
                a href={ "/threads/" (thread.id) } data-thread-link=(thread.id) {
                    span.name { (visible(thread_title(thread))) }
                    span.meta {
                        @if status.1 != "idle" { span.chip.(status.1) { (status.0) } " " }
                        span.where { (visible(short_path(&thread.cwd))) } " · " (age(thread.updated_at))
                    }
                }
            }
        }
    }
}

/// The filters of the page.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ThreadsQuery {
    /// Words to search for.
    #[serde(default)]
    q: String,
    /// `running`, `waiting` or `archived`; everything else shows all threads.
    #[serde(default)]
    show: String,
    /// Only threads in this directory.
    #[serde(default)]
    cwd: String,
    cursor: Option<String>,
}

impl ThreadsQuery {
    /// Returns whether a thread passes the filters that the server does not know.
    fn admits(&self, thread: &Thread) -> bool {
        let status = ShownStatus::of(&thread.status);
        let has_status = match self.show.as_str() {
            // A thread that waits runs too.
            "running" => matches!(status, ShownStatus::Running | ShownStatus::Waiting),
            "waiting" => status == ShownStatus::Waiting,
            _ => true,
        };
        let cwd = self.cwd.trim();
        has_status && (cwd.is_empty() || thread.cwd == cwd)
    }
}

/// A page of threads that pass the filters.
#[derive(Default)]
struct ThreadRows {
    found: Vec<ThreadSearchResult>,
    tokens: HashMap<ThreadId, i64>,
    next_cursor: Option<String>,
}

/// `GET /`: all threads.
pub async fn threads(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Query(query): Query<ThreadsQuery>,
) -> Result<Markup, PageError> {
    let rows = find(&console, &query).await?;
    let frame = PageFrame::new("Threads", "threads");
    Ok(page(&console, &session, &frame, main_part(&query, &rows, &session)))
}

async fn find(console: &Console, query: &ThreadsQuery) -> Result<ThreadRows, PageError> {
    let mut rows = ThreadRows::default();
    let mut next = query.clone();
    // Those that the server returns may all be filtered out.
    for _ in 0..MAX_READ_PAGES {
        let read = match search_content(console, &next).await {
            Some(read) => read,
            None => list(console, &next).await?,
        };
        rows.found.extend(read.found.into_iter().filter(|row| query.admits(&row.thread)));
        rows.next_cursor = read.next_cursor;
        next.cursor.clone_from(&rows.next_cursor);
        if next.cursor.is_none() || rows.found.len() >= PAGE_THREADS as usize {
            break;
        }
    }
    let threads: Vec<_> = rows.found.iter().map(|row| &row.thread).collect();
    rows.tokens = console.tokens.of(&console.client, &threads).await;
    Ok(rows)
}

/// Searches names and content. `None` without words, and for servers that cannot search content.
async fn search_content(console: &Console, query: &ThreadsQuery) -> Option<ThreadRows> {
    let term = query.q.trim();
    if term.is_empty() {
        return None;
    }
    let params = ThreadSearchParams {
        search_term: term.to_owned(),
        cursor: query.cursor.clone(),
        limit: Some(PAGE_THREADS),
        archived: Some(query.show == "archived"),
        sort_direction: None,
        sort_key: None,
        source_kinds: Some(user_thread_sources()),
    };
    let page = console.client.call::<ThreadSearch>(params).await.ok()?;
    Some(ThreadRows { found: page.data, next_cursor: page.next_cursor, ..ThreadRows::default() })
}

async fn list(console: &Console, query: &ThreadsQuery) -> Result<ThreadRows, PageError> {
    let term = query.q.trim();
    let cwd = query.cwd.trim();
    let params = ThreadListParams {
        cursor: query.cursor.clone(),
        limit: Some(PAGE_THREADS),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        source_kinds: Some(user_thread_sources()),
        archived: Some(query.show == "archived"),
        cwd: (!cwd.is_empty()).then(|| ThreadListCwdFilter::One(cwd.to_owned())),
        search_term: (!term.is_empty()).then(|| term.to_owned()),
        ..Default::default()
    };
    let page = console.client.call::<ThreadList>(params).await?;
    let row = |thread| ThreadSearchResult { thread, snippet: String::new() };
    let found = page.data.into_iter().map(row).collect();
    Ok(ThreadRows { found, next_cursor: page.next_cursor, ..ThreadRows::default() })
}

fn main_part(query: &ThreadsQuery, rows: &ThreadRows, session: &Session) -> Markup {
    html! {
        main #main .threads aria-label="Threads" {
            header.page-head {
                h1 { "Threads" }
                a.button.primary href="/new" { "New thread" }
            }
            (search_form(query))
            div #rows data-refresh="" { (table(rows, query, session)) }
        }
    }
}

fn search_form(query: &ThreadsQuery) -> Markup {
    let filters =
        [("", "All"), ("running", "Running"), ("waiting", "Waiting for me"), ("archived", "Archived")];
    html! {
        form.filters role="search" aria-label="Threads" method="get" action="/" data-filters="" {
            label.visually-hidden for="q" { "Search" }
            input #q name="q" type="search" placeholder="Search names and content" value=(query.q);
            label.visually-hidden for="cwd" { "Directory" }
            (directory_input(&query.cwd, "Directory"))
            button { "Search" }
            fieldset.choices {
                legend.visually-hidden { "Show" }
                @for (value, label) in filters {
                    label { input type="radio" name="show" value=(value) checked[query.show == value]; span { (label) } }
                }
            }
        }
    }
}

fn table(rows: &ThreadRows, query: &ThreadsQuery, session: &Session) -> Markup {
    html! {
        @if rows.found.is_empty() { (no_threads(query)) }
        ul.rows {
            @for found in &rows.found { (row(found, rows.tokens.get(&found.thread.id).copied(), query.show == "archived", session)) }
        }
        @if let Some(cursor) = &rows.next_cursor {
            @let next = next_page(query, cursor);
            p { a.button href={ "/?" (next) } { "Next page" } }
        }
    }
}

/// Returns what an empty list says: nothing was found, or there is nothing yet.
fn no_threads(query: &ThreadsQuery) -> Markup {
    let is_filtered = !(query.q.is_empty() && query.show.is_empty() && query.cwd.is_empty());
    html! {
        div.empty-page {
            @if is_filtered {
                p { "No threads match." }
                p { a href="/" { "Show all threads" } }
            } @else {
                p { "There are no threads yet." }
                p.meta { "A thread is a conversation with an agent that works in a directory of the server." }
                p { a.button.primary href="/new" { "Start the first one" } }
            }
        }
    }
}

fn next_page(query: &ThreadsQuery, cursor: &str) -> String {
    let pairs = [("q", query.q.as_str()), ("show", &query.show), ("cwd", &query.cwd), ("cursor", cursor)];
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn row(
    ThreadSearchResult { thread, snippet }: &ThreadSearchResult,
    used_tokens: Option<i64>,
    is_archived: bool,
    session: &Session,
) -> Markup {
    let (status, class) = ShownStatus::of(&thread.status).label();
    let preview = if snippet.is_empty() { &thread.preview } else { snippet };
    let title = thread_title(thread);
    // A thread without a name has its first message as the title.
    let preview = preview.lines().next().unwrap_or_default().trim();
    let preview = Some(preview).filter(|preview| !preview.is_empty() && *preview != title);
    html! {
        li.row id={ "row-" (thread.id) } {
            a.title href={ "/threads/" (thread.id) } { (visible(title)) }
            span.chip.(class) { (status) }
            @if let Some(preview) = preview { p.preview { (visible(prefix(preview, 200))) } }
            p.meta {
                span title=(visible_plain(&thread.cwd)) { (visible(short_path(&thread.cwd))) }
                " · " (visible(thread.model.as_deref().unwrap_or(&thread.model_provider)))
                @if let Some(branch) = thread.git_info.as_ref().and_then(|git| git.branch.as_deref()) { " · " (visible(branch)) }
                @if let Some(count) = used_tokens.filter(|count| *count > 0) { " · " (tokens(count)) " tokens" }
                " · " time datetime=(timestamp(thread.updated_at)) title=(timestamp(thread.updated_at)) { (age(thread.updated_at)) }
            }
            (thread_menu(thread, is_archived, session))
        }
    }
}

/// Returns the menu with what can be done to a thread as a whole.
pub fn thread_menu(thread: &Thread, is_archived: bool, session: &Session) -> Markup {
    let action = |name: &str| format!("/threads/{}/{name}", thread.id);
    let csrf = html! { input type="hidden" name="csrf" value=(session.csrf); };
    html! {
        details.menu {
            summary aria-label={ "Actions for " (visible_plain(thread_title(thread))) } { "⋯" }
            div.menu-body {
                form.rename method="post" action=(action("rename")) data-live="" {
                    (csrf)
                    label { "Name" input name="name" value=(thread.name.as_deref().unwrap_or_default()) required; }
                    button { "Rename" }
                }
                hr;
                form method="post" action=(action("fork")) { (csrf) button { "Fork" } }
                @if is_archived {
                    form method="post" action=(action("unarchive")) data-live="" { (csrf) button { "Restore" } }
                } @else {
                    form method="post" action=(action("archive")) data-live="" { (csrf) button { "Archive" } }
                }
                a href=(action("export")) { "Export as Markdown" }
                hr;
                form.delete method="post" action=(action("delete")) data-confirm="Delete this thread for ever?" {
                    (csrf)
                    label.sure { input type="checkbox" name="sure" required; " For ever" }
                    button.danger { "Delete" }
                }
            }
        }
    }
}
