//! Entry points of the fuzz targets in `fuzz/`.

use crate::request_head::{RequestKind, parse, parse_response};

/// Parses bytes as a request and as a response.
pub fn parse_heads(bytes: &[u8]) {
    if let Ok(Some((request, end))) = parse(bytes) {
        assert!(end <= bytes.len());
        if let RequestKind::Forward { head, .. } = &request.kind {
            assert!(head.ends_with(b"\r\n\r\n"), "a forwarded head is complete");
            let ends = head.windows(4).filter(|bytes| *bytes == b"\r\n\r\n").count();
            assert_eq!(ends, 1, "exactly one head is forwarded");
        }
    }
    if let Ok(Some((_, end))) = parse_response(bytes) {
        assert!(end <= bytes.len());
    }
}
