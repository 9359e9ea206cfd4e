//! Finding lines of a patch in a file that may not have them letter by letter.
//!
//! Models copy lines with small errors: a lost trailing space, straight quotes for curly ones. So three
//! readings are tried, and a closer one anywhere wins over a looser one that comes first.

use std::{borrow::Cow, cell::OnceCell, ops::Range};

/// From strict to forgiving.
const READINGS: [Reading; 3] = [Reading::Exact, Reading::TrailingSpace, Reading::Loose];

#[derive(Clone, Copy)]
enum Reading {
    Exact,
    /// Also what makes a patch without carriage returns fit a file that has them.
    TrailingSpace,
    /// Indentation, runs of spaces and typographic punctuation do not count.
    Loose,
}

/// A file as lines without their newlines.
pub(crate) struct Haystack<'a> {
    lines: Vec<&'a [u8]>,
    /// Worked out when first needed; most patches never do.
    loose: OnceCell<Vec<Option<String>>>,
}

impl<'a> Haystack<'a> {
    pub(crate) fn new(lines: Vec<&'a [u8]>) -> Self {
        Self { lines, loose: OnceCell::new() }
    }

    /// The first place within `range` that has all of the lines and that `accepts` is content with.
    pub(crate) fn find(
        &self,
        needle: &[&str],
        range: Range<usize>,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let last = range.end.checked_sub(needle.len())?;
        READINGS.into_iter().find_map(|reading| {
            let needle = prepare(needle, reading);
            (range.start..=last).find(|&at| accepts(at) && self.matches(&needle, at, reading))
        })
    }

    /// A line to go to. Unlike the lines of a section it may also be given by its beginning.
    pub(crate) fn find_anchor(&self, anchor: &str, range: Range<usize>) -> Option<usize> {
        self.find(&[anchor], range.clone(), |_| true).or_else(|| {
            let anchor = loosen(anchor);
            range.into_iter().find(|&at| {
                let line = self.loose().get(at).and_then(Option::as_deref);
                line.is_some_and(|line| line.starts_with(&anchor))
            })
        })
    }

    fn matches(&self, needle: &[Cow<'_, str>], at: usize, reading: Reading) -> bool {
        needle.iter().enumerate().all(|(offset, wanted)| self.line_is(at + offset, wanted, reading))
    }

    fn line_is(&self, at: usize, wanted: &str, reading: Reading) -> bool {
        let Some(line) = self.lines.get(at) else { return false };
        match reading {
            Reading::Exact => *line == wanted.as_bytes(),
            Reading::TrailingSpace => line.trim_ascii_end() == wanted.as_bytes(),
            Reading::Loose => self.loose().get(at).and_then(Option::as_deref) == Some(wanted),
        }
    }

    /// Lines that are not text have no loose reading.
    fn loose(&self) -> &[Option<String>] {
        self.loose
            .get_or_init(|| self.lines.iter().map(|line| str::from_utf8(line).ok().map(loosen)).collect())
    }
}

fn prepare<'a>(needle: &[&'a str], reading: Reading) -> Vec<Cow<'a, str>> {
    let prepared = needle.iter().map(|line| match reading {
        Reading::Exact => Cow::Borrowed(*line),
        Reading::TrailingSpace => Cow::Borrowed(line.trim_end_matches(|c: char| c.is_ascii_whitespace())),
        Reading::Loose => Cow::Owned(loosen(line)),
    });
    prepared.collect()
}

fn loosen(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        for c in word.chars() {
            match plain(c) {
                Some(plain) => out.push_str(plain),
                None => out.push(c),
            }
        }
    }
    out
}

/// What stands on a keyboard for a typographic character.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => "-",
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{ff07}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ff02}' => "\"",
        '\u{2026}' => "...",
        // Characters without width.
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => "",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(file: &[&str], needle: &[&str], from: usize) -> Option<usize> {
        let haystack = Haystack::new(file.iter().map(|line| line.as_bytes()).collect());
        haystack.find(needle, from..file.len(), |_| true)
    }

    #[test]
    fn closer_readings_win_over_earlier_places() {
        assert_eq!(find(&["a ", "a"], &["a"], 0), Some(1));
        assert_eq!(find(&["  a", "a "], &["a"], 0), Some(1));
        assert_eq!(find(&["a", "a"], &["a"], 0), Some(0));
        assert_eq!(find(&["a", "a"], &["a"], 1), Some(1));
        assert_eq!(find(&["a", "b"], &["a"], 1), None);
        assert_eq!(find(&["a"], &["a", "b"], 0), None);
        assert_eq!(find(&[], &["a"], 0), None);
    }

    #[test]
    fn small_errors_of_copying_are_forgiven() {
        let check = |line: &str, needle: &str| assert_eq!(find(&[line], &[needle], 0), Some(0), "{line:?}");
        check("let x = 1;  ", "let x = 1;");
        check("let x = 1;\r", "let x = 1;");
        check("let x = 1;", "let x = 1; \t");
        check("\tlet  x = 1;", "    let x = 1;");
        check("“quoted” – it’s…", "\"quoted\" - it's...");
        check("a\u{a0}b\u{200b}", "a b");
        assert_eq!(find(&["let x = 1;"], &["let y = 1;"], 0), None);
    }

    #[test]
    fn anchors_may_be_beginnings() {
        let haystack = Haystack::new(vec![b"class A:", b"  def f(self):", b"def f"]);
        assert_eq!(haystack.find_anchor("class A", 0..3), Some(0));
        assert_eq!(haystack.find_anchor("def f", 0..3), Some(2));
        assert_eq!(haystack.find_anchor("def f", 0..2), Some(1));
        assert_eq!(haystack.find_anchor("class B", 0..3), None);
    }

    #[test]
    fn bytes_that_are_not_text_match_only_exactly() {
        let haystack = Haystack::new(vec![b"\xff\xfe", b"ok"]);
        assert_eq!(haystack.find(&["ok"], 0..2, |_| true), Some(1));
        assert_eq!(haystack.find(&["\u{fffd}"], 0..2, |_| true), None);
    }
}
