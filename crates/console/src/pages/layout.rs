//! The frame of every page: head, navigation, and the inbox at the side.

use maud::{DOCTYPE, Markup, html};

use super::{QUESTIONS_ID, THREAD_LIST_ID, question_cards, thread_links};
use crate::{access::Session, render::text::visible_plain, state::Console};

/// What differs between pages.
#[derive(Debug)]
pub struct PageFrame<'a> {
    pub title: &'a str,
    /// The section that is marked as current: `threads`, `inbox` or `status`.
    pub section: &'a str,
    /// The query of the page's event stream.
    pub events: String,
    /// The thread that the page shows. Its questions are shown with it, not at the side.
    pub thread: Option<&'a str>,
    /// Whether the open questions are shown at the side.
    pub has_inbox: bool,
}

impl<'a> PageFrame<'a> {
    /// Creates the frame of a page about no particular thread.
    pub fn new(title: &'a str, section: &'a str) -> Self {
        Self { title, section, events: String::new(), thread: None, has_inbox: true }
    }
}

/// Returns a whole page around its main part.
pub fn page(console: &Console, session: &Session, frame: &PageFrame<'_>, main: Markup) -> Markup {
    let open = console.questions.open();
    let count = open.len();
    let title = visible_plain(frame.title);
    let is_elsewhere = |thread: &str| frame.thread.is_none_or(|shown| shown != thread);
    let elsewhere: Vec<_> =
        open.iter().filter(|question| is_elsewhere(&question.thread_id)).cloned().collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="csrf" content=(session.csrf);
                meta name="color-scheme" content="light dark";
                title data-title=(title) { @if count > 0 { "(" (count) ") " } (title) " · Codicil" }
                link rel="icon" href={ "/assets/icon.svg?n=" (count) } type="image/svg+xml";
                link rel="stylesheet" href="/assets/console.css";
                script type="module" src="/assets/console.js" {}
            }
            body data-events=(frame.events) data-thread=[frame.thread] data-section=(frame.section) {
                a.skip href="#main" { "Skip to content" }
                (navigation(console, session, frame, count))
                (main)
                @if frame.has_inbox {
                    aside.inbox aria-label="Inbox" {
                        h2 { "Inbox " span #question-count .count { @if count > 0 { (count) } } }
                        div #(QUESTIONS_ID) .questions { (question_cards(&elsewhere, Some(&session.csrf))) }
                        p.empty { @if frame.thread.is_some() { "No other questions are waiting." } @else { "No questions are waiting." } }
                    }
                }
                (help())
                div #notices role="status" aria-live="polite" {}
                // Read aloud: new questions, and a lost connection.
                div #announcement .visually-hidden role="status" {}
                div #connection role="status" {}
            }
        }
    }
}

fn navigation(console: &Console, session: &Session, frame: &PageFrame<'_>, count: usize) -> Markup {
    let current = |section: &str| (frame.section == section).then_some("page");
    html! {
        nav.sidebar aria-label="Threads" {
            div.bar {
                a.brand href="/" { "Codicil" }
                ul.sections {
                    li { a href="/" aria-current=[current("threads")] { "Threads" } }
                    li { a href="/inbox" aria-current=[current("inbox")] { "Inbox" span.count data-count="" { @if count > 0 { (count) } } } }
                    li { a href="/status" aria-current=[current("status")] { "Status" } }
                }
            }
            a.button.new href="/new" { "New thread" }
            ul #(THREAD_LIST_ID) .thread-list { (thread_links(&console.overview.threads().threads)) }
            div.foot {
                button.link type="button" data-help="" { "Keyboard" }
                a href="/device" { "Sign in another device" }
                form.inline method="post" action="/sign-out" {
                    input type="hidden" name="csrf" value=(session.csrf);
                    button.link { "Sign out" }
                }
            }
        }
    }
}

fn help() -> Markup {
    let keys = [
        ("j / k", "next and previous item"),
        ("a", "approve the question with the focus, or go to the first one"),
        ("d", "decline the question with the focus, or go to the first one"),
        ("/", "search threads"),
        ("c", "write a message"),
        ("Ctrl + Enter", "send the message"),
        ("Esc", "interrupt the turn, after a confirmation"),
        ("?", "this help"),
    ];
    html! {
        dialog #help aria-label="Keyboard" {
            h2 { "Keyboard" }
            dl { @for (key, effect) in keys { dt { kbd { (key) } } dd { (effect) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
