//! The changed words of a line that replaces another one.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Words of a line above which a comparison tells a reader nothing.
const MAX_WORDS: usize = 400;

/// The part of a line that must be unchanged, in percent. Below it the lines have nothing to do with each other.
const MIN_SHARED_PERCENT: usize = 30;

/// The changed bytes of an old and a new line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedWords {
    pub(super) old: Vec<Range<usize>>,
    pub(super) new: Vec<Range<usize>>,
}

/// Compares two lines by words. Returns `None` if marking single words would not help: the lines differ too much.
pub(super) fn changed_words(old: &str, new: &str) -> Option<ChangedWords> {
    let old_words = words(old);
    let new_words = words(new);
    if old_words.len() > MAX_WORDS || new_words.len() > MAX_WORDS {
        return None;
    }
    let mut input = InternedInput::default();
    input.update_before(old_words.iter().filter_map(|range| old.get(range.clone())));
    input.update_after(new_words.iter().filter_map(|range| new.get(range.clone())));
    let diff = Diff::compute(Algorithm::Myers, &input);
    let old_changes = merge(old, &old_words, |index| diff.is_removed(index));
    let new_changes = merge(new, &new_words, |index| diff.is_added(index));
    let changed = length(&old_changes).max(length(&new_changes));
    let longest = old.trim().len().max(new.trim().len());
    let is_similar = changed * 100 <= longest * (100 - MIN_SHARED_PERCENT);
    is_similar.then_some(ChangedWords { old: old_changes, new: new_changes })
}

/// Splits a line into words, runs of blanks, and single other characters.
fn words(line: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut previous = CharacterClass::Other;
    for (start, c) in line.char_indices() {
        let class = CharacterClass::of(c);
        let end = start + c.len_utf8();
        match words.last_mut() {
            Some(word) if class == previous && class != CharacterClass::Other => word.end = end,
            _ => words.push(start..end),
        }
        previous = class;
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterClass {
    Word,
    Blank,
    Other,
}

impl CharacterClass {
    fn of(c: char) -> Self {
        if c.is_alphanumeric() || c == '_' {
            Self::Word
        } else if c.is_whitespace() {
            Self::Blank
        } else {
            Self::Other
        }
    }
}

/// Returns the changed words as ranges of the line, joined where only blanks are between them.
fn merge(line: &str, words: &[Range<usize>], is_changed: impl Fn(u32) -> bool) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for (_, word) in (0u32..).zip(words).filter(|(index, _)| is_changed(*index)) {
        match merged.last_mut() {
            Some(last) if line.get(last.end..word.start).is_some_and(|gap| gap.trim().is_empty()) => {
                last.end = word.end;
            }
            _ => merged.push(word.clone()),
        }
    }
    merged
}

fn length(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: Option<(&[&str], &[&str])>) {
        let changes = changed_words(old, new);
        let shown = changes.as_ref().map(|changes| {
            let cut = |line: &str, ranges: &[Range<usize>]| -> Vec<String> {
                ranges.iter().map(|range| line[range.clone()].to_owned()).collect()
            };
            (cut(old, &changes.old), cut(new, &changes.new))
        });
        let expected = expected.map(|(old, new)| {
            (old.iter().map(ToString::to_string).collect(), new.iter().map(ToString::to_string).collect())
        });
        assert_eq!(shown, expected, "{old} → {new}");
    }

    #[test]
    fn changed_words_are_found() {
        check("let a = 1;", "let a = 2;", Some((&["1"], &["2"])));
        check("call(a, b)", "call(a, b, c)", Some((&[], &[", c"])));
        check(
            "the old grey cat sat here",
            "the new black cat sat here",
            Some((&["old grey"], &["new black"])),
        );
        check("größe = 1", "größe = 10", Some((&["1"], &["10"])));
        check("completely different", "nothing shared at all", None);
        check("", "", Some((&[], &[])));
        check(&"a ".repeat(MAX_WORDS), "a", None);
    }
}
