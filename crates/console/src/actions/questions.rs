//! Answers to questions.

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};

use super::done;
use crate::{
    access::FormFields,
    pages::PageError,
    questions::{AnswerOutcome, answer_from},
    state::Console,
};

/// `POST /questions/{key}`
pub async fn answer_question(
    State(console): State<Console>,
    Path(key): Path<String>,
    headers: HeaderMap,
    Extension(fields): Extension<FormFields>,
) -> Result<Response, PageError> {
    let gone = || PageError::BadRequest("the question was answered or withdrawn meanwhile".to_owned());
    let question = console.questions.find(&key).ok_or_else(gone)?;
    let answer = answer_from(&question.request, &fields)?;
    match console.questions.answer(&question, answer).await? {
        AnswerOutcome::Accepted => Ok(done(&headers, &format!("/threads/{}", question.thread_id))),
        AnswerOutcome::AnsweredBy(by) => {
            Err(PageError::BadRequest(format!("the question was answered before, by {by}")))
        }
        AnswerOutcome::Gone => Err(gone()),
    }
}
