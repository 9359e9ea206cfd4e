//! OpenAI's Responses API, streamed.

mod decoder;
mod input;
mod wire;

use http::HeaderMap;

use crate::{
    Credentials, Request, WireApi,
    body::Body,
    http::{Dialect, Extent},
    keys::bearer,
    stream::Decoder,
};

pub(crate) use {input::write_item, wire::tool};

/// The dialect itself has no settings.
pub(crate) struct Responses;

impl Dialect for Responses {
    const WIRE_API: WireApi = WireApi::Responses;
    const PATH: &'static str = "/responses";

    fn body(&self, request: &Request, _: Extent) -> Body {
        wire::body(request)
    }

    fn headers(&self, request: &Request) -> HeaderMap {
        request.headers.clone()
    }

    fn authorize(&self, credentials: &Credentials, headers: &mut HeaderMap) {
        bearer(credentials, headers);
    }

    fn decoder(&self, _: &Request) -> Box<dyn Decoder> {
        Box::new(decoder::ResponsesDecoder::default())
    }
}
