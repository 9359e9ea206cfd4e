//! Errors of handlers, as a page or as text for the script.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use codicil_client::ClientError;
use maud::{DOCTYPE, html};
use thiserror::Error;

use crate::{live::HubError, questions::AnswerError};

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
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "Codicil: not possible" }
                    link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="/assets/console.css";
                }
                body.plain-page {
                    main aria-label="Error" {
                        h1 { "That is not possible" }
                        p id="error" { (self.text()) }
                        p { a href="/" { "All threads" } }
                    }
                }
            }
        };
        (self.status(), page).into_response()
    }
}
