//! `/inbox`: every open question of every thread, oldest first.

use axum::{Extension, extract::State};
use maud::{Markup, html};

use super::{PageFrame, QUESTIONS_ID, page, question_cards};
use crate::{access::Session, state::Console};

pub async fn inbox(State(console): State<Console>, Extension(session): Extension<Session>) -> Markup {
    let open = console.questions.open();
    let frame = PageFrame { has_inbox: false, ..PageFrame::new("Inbox", "inbox") };
    page(
        &console,
        &session,
        &frame,
        html! {
            main #main aria-label="Questions" {
                header.page-head { h1 { "Inbox" } }
                aside.inbox-page aria-label="Inbox" {
                    div #(QUESTIONS_ID) .questions { (question_cards(&open, Some(&session.csrf))) }
                    p.empty { "No questions are waiting. Agents ask here before they do what needs approval." }
                }
            }
        },
    )
}
