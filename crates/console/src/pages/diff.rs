//! Changes to files: of one item, of a whole turn, of a whole thread.
//!
//! The text of a turn's diff is known while the turn is loaded. Otherwise, and for a whole thread, the changes of all items
//! are shown in their order, file by file.

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::{Path, Query, State},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_client::{
    IncludeTurns,
    protocol::{FsReadFile, FsReadFileParams, ItemId, PatchApplyStatus, ThreadId, ThreadItem, TurnId},
};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::{PageError, PageFrame, item_content, items, page};
use crate::{
    access::Session,
    render::{
        diff::{DiffLayout, DiffLineKind, DiffView, FileDiff, FileDiffKind, parse, view},
        text::visible,
    },
    state::Console,
};

/// Rows of one file, unless all are wanted.
const MAX_ROWS: usize = 1_500;

/// Rows of all files of a page.
const MAX_PAGE_ROWS: usize = 12_000;

/// Rows of a page if all of a file are wanted.
const MAX_ALL_ROWS: usize = 50_000;

/// Files on one page.
const MAX_FILES: usize = 200;

/// Files that are read for the lines around their changes, and the largest of them.
const MAX_READ_FILES: usize = 20;
const MAX_READ_BYTES: usize = 512 << 10;

/// How a diff is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiffQuery {
    layout: String,
    all: String,
    /// Only the changes of this file.
    file: String,
}

impl DiffQuery {
    fn layout(&self) -> DiffLayout {
        if self.layout == DiffLayout::SideBySide.as_str() {
            DiffLayout::SideBySide
        } else {
            DiffLayout::Unified
        }
    }
}

/// Changes and what they belong to.
struct ShownChanges {
    title: &'static str,
    thread: ThreadId,
    /// The address of the page.
    address: String,
    files: Vec<FileDiff>,
}

/// `GET /threads/{thread}/turns/{turn}/items/{item}/diff`
pub async fn item_diff(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path((thread, turn, item)): Path<(String, String, String)>,
    Query(query): Query<DiffQuery>,
) -> Result<Markup, PageError> {
    let (thread, turn, item) = (ThreadId::from(thread), TurnId::from(turn), ItemId::from(item));
    let address = format!("{}/diff", items::item_address(&thread, &turn, &item));
    let found = item_content::find_item(&console, &thread, &turn, &item).await?;
    let files = item_changes(&found).ok_or_else(|| PageError::NotFound("changes".to_owned()))?;
    let files = with_surroundings(&console, files).await;
    let changes = ShownChanges { title: "Changes of one step", thread, address, files };
    changes_page(&console, &session, changes, query).await
}

/// `GET /threads/{thread}/turns/{turn}/diff`
pub async fn turn_diff(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path((thread, turn)): Path<(String, String)>,
    Query(query): Query<DiffQuery>,
) -> Result<Markup, PageError> {
    let address = format!("/threads/{thread}/turns/{turn}/diff");
    let (thread, turn) = (ThreadId::from(thread), TurnId::from(turn));
    let files = match combined_diff(&console, &thread, &turn).await? {
        Some(diff) => parse(&diff),
        None => applied_changes(&console, &thread, Some(&turn)).await?,
    };
    let changes = ShownChanges { title: "Changes of the turn", thread, address, files };
    changes_page(&console, &session, changes, query).await
}

/// `GET /threads/{thread}/diff`
pub async fn thread_diff(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path(thread): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Markup, PageError> {
    let address = format!("/threads/{thread}/diff");
    let thread = ThreadId::from(thread);
    let files = applied_changes(&console, &thread, None).await?;
    let changes = ShownChanges { title: "Changes of the thread", thread, address, files };
    changes_page(&console, &session, changes, query).await
}

/// Returns the diff that the server reported for a turn, if the thread is on a page.
async fn combined_diff(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<String>, PageError> {
    if !console.hubs.has(thread) {
        return Ok(None);
    }
    let shown = console.hubs.page(thread).await?;
    let diff = shown.view.turn(turn).map(|turn| turn.diff.clone());
    Ok(diff.filter(|diff| !diff.is_empty()))
}

/// Returns the changes of an item that are made or proposed; `None` for other items.
fn item_changes(item: &ThreadItem) -> Option<Vec<FileDiff>> {
    let ThreadItem::FileChange { changes, .. } = item else { return None };
    Some(changes.iter().map(FileDiff::from_change).collect())
}

/// Returns all applied changes of a turn or a thread. The changes of a file stand together, in their order.
async fn applied_changes(
    console: &Console,
    thread: &ThreadId,
    turn: Option<&TurnId>,
) -> Result<Vec<FileDiff>, PageError> {
    // One request: pages of items would each read the whole thread.
    let thread = console.client.read_thread(thread, IncludeTurns::Yes).await?;
    let turns = thread.turns.iter().filter(|found| turn.is_none_or(|turn| found.id == *turn));
    let applied = turns.flat_map(|turn| &turn.items).filter(|item| is_applied(item));
    let mut by_path: BTreeMap<String, Vec<FileDiff>> = BTreeMap::new();
    for file in applied.filter_map(item_changes).flatten() {
        by_path.entry(file.path.clone()).or_default().push(file);
    }
    Ok(by_path.into_values().flatten().collect())
}

fn is_applied(item: &ThreadItem) -> bool {
    matches!(item, ThreadItem::FileChange { status: PatchApplyStatus::Completed, .. })
}

/// Adds the lines around the changes from the files, where they still are as the change left them.
async fn with_surroundings(console: &Console, files: Vec<FileDiff>) -> Vec<FileDiff> {
    let mut filled = Vec::with_capacity(files.len());
    for (index, file) in files.into_iter().enumerate() {
        let is_read = file.kind == FileDiffKind::Updated && index < MAX_READ_FILES;
        let content = if is_read { read_text(console, &file.path).await } else { None };
        filled.push(match content {
            Some(content) => file.with_file(&content),
            None => file,
        });
    }
    filled
}

/// Returns the content of a file; `None` if it cannot be read, which only leaves the surroundings out.
async fn read_text(console: &Console, path: &str) -> Option<String> {
    let path = serde_json::from_value(path.into()).ok()?;
    let file = console.client.call::<FsReadFile>(FsReadFileParams { path }).await.ok()?;
    let bytes = BASE64_STANDARD.decode(file.data_base64).ok()?;
    String::from_utf8(bytes).ok().filter(|content| content.len() <= MAX_READ_BYTES)
}

/// The diffs of a page.
struct ShownDiffs {
    html: Vec<Markup>,
    /// Changes that there was no room for.
    left: usize,
}

/// Renders the changes that a page has room for.
fn diffs(changes: &ShownChanges, query: &DiffQuery) -> ShownDiffs {
    let is_wanted = |file: &FileDiff| query.file.is_empty() || file.path == query.file;
    let (max_rows, mut room) =
        if query.all.is_empty() { (MAX_ROWS, MAX_PAGE_ROWS) } else { (MAX_ALL_ROWS, MAX_ALL_ROWS) };
    let mut shown = ShownDiffs { html: Vec::new(), left: 0 };
    for (number, file) in changes.files.iter().enumerate().filter(|(_, file)| is_wanted(file)) {
        if room == 0 || shown.html.len() == MAX_FILES {
            shown.left += 1;
            continue;
        }
        let max_rows = max_rows.min(room);
        let layout = query.layout();
        shown.html.push(view(file, DiffView { layout, max_rows, number, address: &changes.address }));
        let lines: usize = file.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        room -= lines.min(max_rows);
    }
    shown
}

/// Returns the page of changes. Highlighting takes long, so it has a thread of its own.
async fn changes_page(
    console: &Console,
    session: &Session,
    changes: ShownChanges,
    query: DiffQuery,
) -> Result<Markup, PageError> {
    let rendered = spawn_blocking(move || {
        let shown = diffs(&changes, &query);
        (shown, changes, query)
    });
    let failed = |_| PageError::BadRequest("the changes cannot be shown".to_owned());
    let (shown, changes, query) = rendered.await.map_err(failed)?;
    // Both sides of a diff need the whole width.
    let frame = PageFrame { has_inbox: false, ..PageFrame::new(changes.title, "diff") };
    Ok(page(
        console,
        session,
        &frame,
        html! {
            main #main .diff-page aria-label="Diff" {
                header.page-head {
                    h1 { (changes.title) }
                    a.button href={ "/threads/" (changes.thread) } { "Back to the thread" }
                }
                @if shown.html.is_empty() { p.empty { "No files were changed." } }
                @if changes.files.len() > 1 { (file_list(&changes, &query)) }
                @for diff in &shown.html { (diff) }
                @if shown.left > 0 { p { (shown.left) " more changes are in the list above." } }
            }
        },
    ))
}

/// Returns links to the changes of each file.
fn file_list(changes: &ShownChanges, query: &DiffQuery) -> Markup {
    let mut totals: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for file in &changes.files {
        let (added, removed) = totals.entry(&file.path).or_default();
        *added += file.count(DiffLineKind::Added);
        *removed += file.count(DiffLineKind::Removed);
    }
    let link = |file: &str| {
        let pairs = [("layout", query.layout().as_str()), ("file", file)];
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        format!("{}?{query}", changes.address)
    };
    html! {
        nav.files aria-label="Changed files" {
            ul {
                @if !query.file.is_empty() { li { a href=(changes.address) { "All files" } } }
                @for (path, (added, removed)) in totals {
                    li {
                        a href=(link(path)) aria-current=[(query.file == path).then_some("true")] { (visible(path)) }
                        " " span.added { "+" (added) } " " span.removed { "−" (removed) }
                    }
                }
            }
        }
    }
}
