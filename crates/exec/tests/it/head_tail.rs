//! The bounded output buffer.

use codicil_exec::{CaptureLimit, HeadTail};
use proptest::{collection::vec, prelude::*};

fn filled(mut buffer: HeadTail, pieces: &[Vec<u8>]) -> HeadTail {
    pieces.iter().for_each(|piece| buffer.push(piece));
    buffer
}

proptest! {
    #[test]
    fn head_and_tail_are_those_of_the_whole_output(
        pieces in vec(vec(any::<u8>(), 0..40), 0..20),
        head_cap in 0_usize..60,
        tail_cap in 0_usize..60,
    ) {
        let all = pieces.concat();
        let buffer = filled(HeadTail::split(head_cap, tail_cap), &pieces);

        prop_assert_eq!(buffer.total(), all.len() as u64);
        prop_assert_eq!(buffer.len(), all.len().min(head_cap + tail_cap));
        prop_assert_eq!(buffer.omitted(), (all.len() - buffer.len()) as u64);
        prop_assert_eq!(buffer.head(), &all[..all.len().min(head_cap)]);
        let tail = buffer.tail().into_owned();
        prop_assert_eq!(&tail[..], &all[all.len() - tail.len()..]);
        let kept = [buffer.head(), &tail].concat();
        prop_assert_eq!(buffer.into_bytes(), kept);
    }

    #[test]
    fn chunk_boundaries_do_not_matter(
        pieces in vec(vec(any::<u8>(), 0..40), 0..20),
        cap in 0_usize..100,
    ) {
        let at_once = filled(HeadTail::new(cap), &[pieces.concat()]);
        prop_assert!(filled(HeadTail::new(cap), &pieces) == at_once);
    }

    #[test]
    fn text_is_cut_between_characters(text in "[a-zäß€😀]{0,60}", cap in 0_usize..80) {
        let buffer = filled(HeadTail::new(cap), &[text.clone().into_bytes()]);
        let mut omitted = 0;
        let shown = buffer.to_text(|count| {
            omitted = count;
            "|".to_owned()
        });

        prop_assert!(!shown.contains('\u{fffd}'), "{}", shown);
        match shown.split_once('|') {
            None => prop_assert_eq!(shown, text),
            Some((head, tail)) => {
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + omitted as usize, text.len());
                prop_assert!(head.len() + tail.len() + 6 >= cap.min(text.len()), "at most two characters are lost");
            }
        }
    }
}

#[test]
fn limits_define_what_is_kept() {
    let check = |cap: CaptureLimit, expected: &str, omitted: u64| {
        let buffer = filled(HeadTail::with_limit(cap), &[b"0123456789".to_vec()]);
        assert_eq!(
            (buffer.omitted(), buffer.into_bytes()),
            (omitted, expected.as_bytes().to_vec()),
            "{cap:?}"
        );
    };
    check(CaptureLimit::HeadTail(4), "0189", 6);
    check(CaptureLimit::HeadTail(5), "01289", 5);
    check(CaptureLimit::HeadTail(10), "0123456789", 0);
    check(CaptureLimit::HeadTail(0), "", 10);
    check(CaptureLimit::Head(4), "0123", 6);
    check(CaptureLimit::Head(0), "", 10);
    check(CaptureLimit::Unlimited, "0123456789", 0);
}

#[test]
fn taking_empties_the_buffer() {
    let mut buffer = filled(HeadTail::new(4), &[b"0123456789".to_vec()]);
    assert_eq!(buffer.take().into_bytes(), b"0189");
    assert_eq!((buffer.total(), buffer.is_empty()), (0, true));
    buffer.push(b"ab");
    assert_eq!(buffer.into_bytes(), b"ab");
}

#[test]
fn the_note_replaces_the_missing_bytes() {
    let buffer = filled(HeadTail::new(4), &[b"0123456789".to_vec()]);
    assert_eq!(buffer.to_text(|count| format!("[{count} left out]")), "01[6 left out]89");
    assert_eq!(format!("{buffer:?}"), "HeadTail(4 of 10 bytes)");
}
