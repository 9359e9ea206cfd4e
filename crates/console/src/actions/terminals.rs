//! `/threads/{thread}/terminals`: commands that continue in the background.

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};
use codicil_client::protocol::{
    ThreadBackgroundTerminalsClean, ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsList,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsTerminate,
    ThreadBackgroundTerminalsTerminateParams, ThreadId,
};
use maud::{Markup, html};

use super::done;
use crate::{
    access::{FormFields, Session},
    pages::{PageError, PageFrame, page},
    render::text::visible,
    state::Console,
};

pub async fn terminals(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    Path(thread): Path<String>,
) -> Result<Markup, PageError> {
    let thread_id = ThreadId::from(thread);
    let params =
        ThreadBackgroundTerminalsListParams { thread_id: thread_id.clone(), cursor: None, limit: None };
    let found = console.threads_client.call::<ThreadBackgroundTerminalsList>(params).await?.data;
    let action = format!("/threads/{thread_id}/terminals");
    let csrf = html! { input type="hidden" name="csrf" value=(session.csrf); };
    Ok(page(
        &console,
        &session,
        &PageFrame::new("Background terminals", "thread"),
        html! {
            main #main aria-label="Background terminals" {
                header.page-head { h1 { "Background terminals" } a href={ "/threads/" (thread_id) } { "Back to the thread" } }
                @if found.is_empty() { p.empty { "No command runs in the background." } }
                ul.rows {
                    @for terminal in &found {
                        li.row {
                            pre.command-line { code { (visible(&terminal.command)) } }
                            p.meta {
                                (visible(&terminal.cwd))
                                @if let Some(percent) = terminal.cpu_percent { " · " (format!("{percent:.0}")) " % CPU" }
                                @if let Some(kilobytes) = terminal.rss_kb { " · " (kilobytes / 1024) " MiB" }
                            }
                            form method="post" action=(action) {
                                (csrf) input type="hidden" name="process" value=(terminal.process_id);
                                button.danger { "End" }
                            }
                        }
                    }
                }
                @if found.len() > 1 { form method="post" action=(action) { (csrf) button.danger { "End all" } } }
            }
        },
    ))
}

/// Ends one terminal, or all of them.
pub async fn end_terminal(
    State(console): State<Console>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let thread_id = ThreadId::from(thread);
    match fields.get("process") {
        Some(process) => {
            let params = ThreadBackgroundTerminalsTerminateParams {
                thread_id: thread_id.clone(),
                process_id: process.to_owned(),
            };
            console.threads_client.call::<ThreadBackgroundTerminalsTerminate>(params).await?;
        }
        None => {
            let params = ThreadBackgroundTerminalsCleanParams { thread_id: thread_id.clone() };
            console.threads_client.call::<ThreadBackgroundTerminalsClean>(params).await?;
        }
    }
    Ok(done(&headers, &format!("/threads/{thread_id}/terminals")))
}
