//! Events are the same however the bytes arrive.
#![no_main]

use codicil_http::{EventTooLong, SseParser};
use libfuzzer_sys::fuzz_target;

type Event = (Vec<u8>, Vec<u8>);

fn events<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut parser = SseParser::new(1024 * 1024);
    let mut events = Vec::new();
    let mut keep = |name: &[u8], data: &[u8]| -> Result<(), EventTooLong> {
        events.push((name.to_vec(), data.to_vec()));
        Ok(())
    };
    for chunk in chunks {
        parser.feed(chunk, &mut keep).expect("the input is shorter than the limit");
    }
    parser.finish(&mut keep).expect("the input is shorter than the limit");
    events
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    assert_eq!(events([bytes].into_iter()), events(bytes.chunks(usize::from(size) + 1)));
});
