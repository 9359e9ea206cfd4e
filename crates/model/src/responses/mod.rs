//! OpenAI's Responses API.

pub(crate) mod decoder;
mod input;
mod wire;

use http::HeaderMap;

use crate::{
    ModelRequest, ProviderCredentials, WireApi,
    body::RequestBody,
    credentials::insert_bearer,
    http::{BodyExtent, HttpDialect},
    stream::EventDecoder,
};

pub(crate) use {input::write_item, wire::tool};

pub(crate) struct ResponsesDialect;

impl HttpDialect for ResponsesDialect {
    const WIRE_API: WireApi = WireApi::Responses;
    const PATH: &'static str = "/responses";

    fn body(&self, request: &ModelRequest, _: BodyExtent) -> RequestBody {
        wire::body(request)
    }

    fn headers(&self, request: &ModelRequest) -> HeaderMap {
        request.headers.clone()
    }

    fn authorize(&self, credentials: &ProviderCredentials, headers: &mut HeaderMap) {
        insert_bearer(credentials, headers);
    }

    fn decoder(&self, _: &ModelRequest) -> Box<dyn EventDecoder> {
        Box::new(decoder::ResponsesDecoder::default())
    }
}
