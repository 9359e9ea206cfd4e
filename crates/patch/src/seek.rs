//! Finds lines of a patch in a file that may have slightly different ones.
//!
//! Models copy lines with small errors: a lost trailing space, straight quotes instead of curly ones. So three readings of
//! a line are tried, from strict to loose. A match by a stricter reading anywhere takes precedence over an earlier match by
//! a looser one.
//!
//! For each reading, equal lines get equal numbers, and the numbers are searched with the algorithm of Knuth, Morris and
//! Pratt: the time is linear in the length of the file even if all of its lines are equal.

use std::{borrow::Cow, cell::OnceCell, collections::HashMap, ops::Range};

use crate::work::WorkBudget;

/// All readings, from strict to loose.
const READINGS: [LineReading; 3] = [LineReading::Exact, LineReading::TrailingSpace, LineReading::Loose];

#[derive(Clone, Copy)]
enum LineReading {
    Exact,
    /// Ignores trailing spaces and carriage returns.
    TrailingSpace,
    /// Ignores indentation, runs of spaces and typographic punctuation.
    Loose,
}

impl LineReading {
    /// Returns the part of a line that is compared. Lines that are not UTF-8 have no loose reading.
    fn read<'a>(self, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Exact => Some(Cow::Borrowed(line)),
            Self::TrailingSpace => Some(Cow::Borrowed(line.trim_ascii_end())),
            Self::Loose => str::from_utf8(line).ok().map(|line| Cow::Owned(loosen(line).into_bytes())),
        }
    }
}

/// A file as lines without their newlines.
pub(crate) struct FileLines<'a> {
    lines: Vec<&'a [u8]>,
    work: &'a WorkBudget,
    /// The numbers for each reading, created on first use. Most patches need only the exact one.
    numbered: [OnceCell<NumberedLines<'a>>; READINGS.len()],
}

impl<'a> FileLines<'a> {
    pub(crate) fn new(lines: Vec<&'a [u8]>, work: &'a WorkBudget) -> Self {
        Self { lines, work, numbered: Default::default() }
    }

    /// Returns the first position within `range` that has all of the lines and that `accepts` accepts. Returns `None` once
    /// the budget is spent.
    pub(crate) fn find(
        &self,
        needle: &[&str],
        range: Range<usize>,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        READINGS.into_iter().find_map(|reading| {
            let file = self.numbered(reading);
            let needle = file.numbers_of(needle, reading)?;
            let searched = file.numbers.get(range.clone())?;
            if searched.len() < needle.len() || self.work.is_spent() {
                return None;
            }
            let found = find_numbers(&needle, searched, |at| accepts(range.start + at));
            self.work.spend(found.unwrap_or(searched.len()) + needle.len());
            found.map(|at| range.start + at)
        })
    }

    /// Finds an anchor. Unlike the lines of a section, it may be only the beginning of a line.
    pub(crate) fn find_anchor(&self, anchor: &str, range: Range<usize>) -> Option<usize> {
        self.find(&[anchor], range.clone(), |_| true).or_else(|| {
            let file = self.numbered(LineReading::Loose);
            let anchor = loosen(anchor);
            self.work.spend_bytes(file.texts.len().saturating_mul(anchor.len()));
            if !self.work.spend(range.len() + file.texts.len()) {
                return None;
            }
            let begins: Vec<_> = file.texts.iter().map(|text| text.starts_with(anchor.as_bytes())).collect();
            range.into_iter().find(|&at| {
                file.numbers.get(at).and_then(|&number| begins.get(number as usize)).is_some_and(|&it| it)
            })
        })
    }

    fn numbered(&self, reading: LineReading) -> &NumberedLines<'a> {
        let [exact, trailing_space, loose] = &self.numbered;
        let cell = match reading {
            LineReading::Exact => exact,
            LineReading::TrailingSpace => trailing_space,
            LineReading::Loose => loose,
        };
        cell.get_or_init(|| NumberedLines::new(&self.lines, reading))
    }
}

/// The number of a line without such a reading. No text has this number.
const NO_NUMBER: u32 = u32::MAX;

/// The lines in one reading. Equal lines have equal numbers.
#[derive(Default)]
struct NumberedLines<'a> {
    /// The number of each line of the file.
    numbers: Vec<u32>,
    by_text: HashMap<Cow<'a, [u8]>, u32>,
    /// The texts by their numbers, for the loose reading only.
    texts: Vec<Vec<u8>>,
}

impl<'a> NumberedLines<'a> {
    fn new(lines: &[&'a [u8]], reading: LineReading) -> Self {
        let mut file = Self { numbers: Vec::with_capacity(lines.len()), ..Self::default() };
        for &line in lines {
            let number = reading.read(line).map_or(NO_NUMBER, |text| file.number(text));
            file.numbers.push(number);
        }
        if matches!(reading, LineReading::Loose) {
            file.texts = vec![Vec::new(); file.by_text.len()];
            for (text, &number) in &file.by_text {
                if let Some(slot) = file.texts.get_mut(number as usize) {
                    slot.extend_from_slice(text);
                }
            }
        }
        file
    }

    fn number(&mut self, text: Cow<'a, [u8]>) -> u32 {
        let next = u32::try_from(self.by_text.len()).unwrap_or(NO_NUMBER);
        *self.by_text.entry(text).or_insert(next)
    }

    /// Returns the numbers of a patch's lines, or `None` if the file lacks one of them.
    fn numbers_of(&self, needle: &[&str], reading: LineReading) -> Option<Vec<u32>> {
        needle.iter().map(|line| self.by_text.get(&reading.read(line.as_bytes())?).copied()).collect()
    }
}

/// Returns the first occurrence of `needle` that `accepts` accepts.
fn find_numbers(needle: &[u32], searched: &[u32], accepts: impl Fn(usize) -> bool) -> Option<usize> {
    if needle.is_empty() {
        return (0..=searched.len()).find(|&at| accepts(at));
    }
    let borders = borders(needle);
    let mut matched = 0;
    for (at, number) in searched.iter().enumerate() {
        matched = extend_match(needle, &borders, matched, *number);
        if matched == needle.len() {
            let start = at + 1 - matched;
            if accepts(start) {
                return Some(start);
            }
        }
    }
    None
}

/// Returns for each prefix of `needle` the length of its longest proper prefix that is also its suffix.
fn borders(needle: &[u32]) -> Vec<usize> {
    let mut borders = Vec::with_capacity(needle.len());
    let mut length = 0;
    for (at, number) in needle.iter().enumerate() {
        if at > 0 {
            length = extend_match(needle, &borders, length, *number);
        }
        borders.push(length);
    }
    borders
}

/// Returns the length of the match after one more number, given the length before it.
fn extend_match(needle: &[u32], borders: &[usize], mut matched: usize, number: u32) -> usize {
    loop {
        if needle.get(matched) == Some(&number) {
            return matched + 1;
        }
        let Some(shorter) = matched.checked_sub(1).and_then(|last| borders.get(last)) else { return 0 };
        matched = *shorter;
    }
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

/// Returns the ASCII text for a typographic character.
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
        let work = WorkBudget::new();
        let haystack = FileLines::new(file.iter().map(|line| line.as_bytes()).collect(), &work);
        haystack.find(needle, from..file.len(), |_| true)
    }

    /// Returns the same as [`FileLines::find`], by trying each position with each reading.
    fn find_slowly(
        file: &[String],
        needle: &[&str],
        range: Range<usize>,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let last = range.end.checked_sub(needle.len())?;
        READINGS.into_iter().find_map(|reading| {
            (range.start..=last).find(|&at| {
                let lines = file.get(at..at + needle.len()).unwrap();
                let mut pairs = lines.iter().zip(needle);
                accepts(at)
                    && pairs.all(|(line, wanted)| {
                        reading.read(line.as_bytes()) == reading.read(wanted.as_bytes())
                    })
            })
        })
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

        #[test]
        fn the_fast_search_finds_what_the_slow_one_finds(
            file in proptest::collection::vec("[ab]{1,2}[ ]{0,1}|[ ]a|", 0..24),
            needle in proptest::collection::vec("[ab]{1,2}[ ]{0,1}|[ ]a|", 1..5),
            bounds in (0usize..24, 0usize..24), refused in proptest::bits::u32::ANY,
        ) {
            let start = bounds.0.min(bounds.1).min(file.len());
            let end = bounds.0.max(bounds.1).min(file.len());
            let needle: Vec<_> = needle.iter().map(String::as_str).collect();
            let accepts = |at: usize| refused & (1 << at) == 0;
            let work = WorkBudget::new();
            let haystack = FileLines::new(file.iter().map(|line| line.as_bytes()).collect(), &work);
            proptest::prop_assert_eq!(
                haystack.find(&needle, start..end, accepts),
                find_slowly(&file, &needle, start..end, accepts)
            );
        }
    }

    #[test]
    fn a_search_beyond_the_budget_finds_nothing() {
        let work = WorkBudget::new();
        let haystack = FileLines::new(vec![b"a"], &work);
        assert!(!work.spend(usize::MAX) && work.is_spent());
        assert_eq!(haystack.find(&["a"], 0..1, |_| true), None);
        assert_eq!(haystack.find_anchor("a", 0..1), None);
    }

    #[test]
    fn stricter_readings_take_precedence_over_earlier_positions() {
        assert_eq!(find(&["a ", "a"], &["a"], 0), Some(1));
        assert_eq!(find(&["  a", "a "], &["a"], 0), Some(1));
        assert_eq!(find(&["a", "a"], &["a"], 0), Some(0));
        assert_eq!(find(&["a", "a"], &["a"], 1), Some(1));
        assert_eq!(find(&["a", "b"], &["a"], 1), None);
        assert_eq!(find(&["a"], &["a", "b"], 0), None);
        assert_eq!(find(&[], &["a"], 0), None);
    }

    #[test]
    fn small_copying_errors_are_tolerated() {
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
    fn anchors_may_be_prefixes_of_lines() {
        let work = WorkBudget::new();
        let haystack = FileLines::new(vec![b"class A:", b"  def f(self):", b"def f"], &work);
        assert_eq!(haystack.find_anchor("class A", 0..3), Some(0));
        assert_eq!(haystack.find_anchor("def f", 0..3), Some(2));
        assert_eq!(haystack.find_anchor("def f", 0..2), Some(1));
        assert_eq!(haystack.find_anchor("class B", 0..3), None);
    }

    #[test]
    fn bytes_that_are_not_text_match_only_exactly() {
        let work = WorkBudget::new();
        let haystack = FileLines::new(vec![b"\xff\xfe", b"ok"], &work);
        assert_eq!(haystack.find(&["ok"], 0..2, |_| true), Some(1));
        assert_eq!(haystack.find(&["\u{fffd}"], 0..2, |_| true), None);
    }
}
