//! Errors of handlers, as a page or as text for the script.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use codicil_client::ClientError;
use maud::html;
use thiserror::Error;

use super::sign_in::plain;
use crate::{live::HubError, questions::AnswerError, render::text::visible};

/// The reason why a page cannot be shown or a change cannot be made.
#[derive(Debug, Error)]
pub enum PageError {
    #[error("{0}")]
    Server(ClientError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("not found: {0}")]
    NotFound(String),
    #[error("{0}")]
    BadRequest(String),
}

impl From<ClientError> for PageError {
    fn from(error: ClientError) -> Self {
        Self::Server(error)
    }
}

impl PageError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Server(ClientError::ResponseError { .. }) | Self::Answer(_) | Self::BadRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Hub(HubError::Refused(_)) | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Server(_) | Self::Hub(HubError::Closed) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns what happened, in a few words.
    fn title(&self) -> &'static str {
        match self.status() {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_GATEWAY => "The server does not answer",
            _ => "That is not possible",
        }
    }

    /// Returns the sentence for people: of an error of the server its own message.
    fn text(&self) -> String {
        match self {
            Self::Server(ClientError::ResponseError { error, .. }) => error.message.clone(),
            other => other.to_string(),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let page = html! {
            p.brand { "Codicil" }
            h1 { (self.title()) }
            p id="error" { (visible(&self.text())) }
            p { a.button href="/" { "All threads" } }
        };
        (self.status(), plain(self.title(), page)).into_response()
    }
}
