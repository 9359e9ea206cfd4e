//! Entry points of the fuzz targets in `fuzz/`.

use codicil_http::{EventTooLong, SseParser};

use crate::{
    ModelError, anthropic::decoder::AnthropicDecoder, chat::decoder::ChatDecoder,
    responses::decoder::ResponsesDecoder, stream::EventDecoder,
};

/// Decodes bytes as the stream and as the whole response of each dialect.
pub fn decode_streams(bytes: &[u8]) {
    let decoders: [fn() -> Box<dyn EventDecoder>; 3] = [
        || Box::new(ResponsesDecoder::default()),
        || Box::new(ChatDecoder::new(vec!["apply_patch".to_owned()])),
        || Box::new(AnthropicDecoder::new(vec!["apply_patch".to_owned()])),
    ];
    for decoder in decoders {
        let _ = decoder().document(bytes, &mut Vec::new());
        let _ = decode_events(&mut *decoder(), bytes);
    }
}

fn decode_events(decoder: &mut dyn EventDecoder, bytes: &[u8]) -> Result<(), FuzzedError> {
    let mut events = Vec::new();
    let mut parser = SseParser::new(1024 * 1024);
    parser.feed(bytes, |name, data| {
        // An event that cannot be read must leave the decoder usable.
        let _ = decoder.event(name, data, &mut events);
        Ok::<_, FuzzedError>(())
    })?;
    decoder.end(&mut events)?;
    Ok(())
}

/// An error that ends the stream.
struct FuzzedError;

impl From<EventTooLong> for FuzzedError {
    fn from(_: EventTooLong) -> Self {
        Self
    }
}

impl From<ModelError> for FuzzedError {
    fn from(_: ModelError) -> Self {
        Self
    }
}
