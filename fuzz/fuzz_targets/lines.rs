//! Lines are the same however the bytes arrive, and none is longer than the ceiling.
#![no_main]

use codicil_protocol::{LineSplitter, SplitLine};
use libfuzzer_sys::fuzz_target;

const MAX_LINE_BYTES: usize = 64;

fn lines<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<SplitLine> {
    let mut splitter = LineSplitter::new(MAX_LINE_BYTES);
    let mut lines = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk, |line| lines.push(line));
    }
    lines.extend(splitter.finish().map(SplitLine::Whole));
    lines
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = lines([bytes].into_iter());
    let pieces = lines(bytes.chunks(usize::from(size) + 1));
    assert_eq!(whole.len(), pieces.len());
    for (whole, pieces) in whole.iter().zip(&pieces) {
        match (whole, pieces) {
            (SplitLine::Whole(whole), SplitLine::Whole(pieces)) => {
                assert_eq!(whole, pieces);
                assert!(whole.len() <= MAX_LINE_BYTES);
            }
            // How much of a line is kept as its head depends on the chunks.
            (SplitLine::TooLong { .. }, SplitLine::TooLong { .. }) => {}
            (whole, pieces) => panic!("{whole:?} in one chunk, {pieces:?} in several"),
        }
    }
});
