//! Editing an array in a document such that the remaining elements keep their comments.
//!
//! To the parser, the comment after an element and its comma belongs to the next element. So the array is first split into
//! entries with their own comments, then the entries are selected and joined again.

use toml::Value;
use toml_edit::{Array, Value as DocValue};

use crate::document::new_value;

/// The maximum number of comparisons. Longer arrays are written from scratch.
const MAX_COMPARISONS: usize = 250_000;

pub(crate) fn sync(array: &mut Array, before: &[Value], wanted: &[Value]) {
    let has_lines = text(array).contains('\n') || array.iter().any(|value| prefix(value).contains('\n'));
    let comparable = before.len().saturating_mul(wanted.len()) <= MAX_COMPARISONS;
    if !has_lines || !comparable || array.len() != before.len() {
        array.clear();
        array.set_trailing("");
        array.set_trailing_comma(false);
        wanted.iter().for_each(|value| array.push(new_value(value)));
        return;
    }
    let (entries, closing) = split(array);
    join(array, select(entries, before, wanted), &closing);
}

/// An element with the text before it and the comment after it.
struct ArrayEntry {
    above: String,
    value: DocValue,
    behind: String,
}

fn prefix(value: &DocValue) -> &str {
    value.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default()
}

fn text(array: &Array) -> &str {
    array.trailing().as_str().unwrap_or_default()
}

/// Splits an array into its entries and the text before the closing bracket.
fn split(array: &mut Array) -> (Vec<ArrayEntry>, String) {
    let mut entries: Vec<ArrayEntry> = Vec::new();
    for value in array.iter() {
        let (behind, above) = split_line(prefix(value));
        match entries.last_mut() {
            Some(last) => {
                last.behind = behind.to_owned();
                entries.push(ArrayEntry::new(above, value));
            }
            None => entries.push(ArrayEntry::new(prefix(value), value)),
        }
    }
    let (behind, closing) = split_line(text(array));
    if let Some(last) = entries.last_mut() {
        last.behind = behind.to_owned();
    }
    let closing = closing.to_owned();
    array.clear();
    (entries, closing)
}

/// Splits a text into the rest of the previous element's line and what follows. Without a line break, all of it follows.
fn split_line(text: &str) -> (&str, &str) {
    text.find('\n').map_or(("", text), |newline| text.split_at(newline))
}

impl ArrayEntry {
    fn new(above: &str, value: &DocValue) -> Self {
        Self { above: above.to_owned(), value: value.clone(), behind: String::new() }
    }
}

/// Returns the entries of the wanted elements: existing ones unchanged, a new one with the comments of the element that it
/// replaces, others with the indentation of their neighbours.
fn select(entries: Vec<ArrayEntry>, before: &[Value], wanted: &[Value]) -> Vec<ArrayEntry> {
    let indent = entries.first().map(|entry| indent_of(&entry.above)).unwrap_or_default();
    let mut old = before.iter().zip(entries).peekable();
    let mut kept = common(before, wanted).into_iter().peekable();
    let mut chosen = Vec::new();
    for value in wanted {
        let next_kept = kept.peek().copied();
        if next_kept == Some(value) {
            // The elements in between are removed.
            let entry = old.find(|(old, _)| *old == value).map(|(_, entry)| entry);
            chosen.extend(entry);
            kept.next();
            continue;
        }
        let replaced = old.next_if(|(old, _)| Some(*old) != next_kept);
        let (above, behind) = match replaced {
            Some((_, entry)) => (entry.above, entry.behind),
            None => (indent.clone(), String::new()),
        };
        chosen.push(ArrayEntry { above, value: new_value(value), behind });
    }
    chosen
}

/// Returns the line break and indentation before an element, without comments.
fn indent_of(above: &str) -> String {
    above.rfind('\n').and_then(|newline| above.get(newline..)).unwrap_or("\n    ").to_owned()
}

fn join(array: &mut Array, entries: Vec<ArrayEntry>, closing: &str) {
    let mut behind = String::new();
    for entry in entries {
        let ArrayEntry { above, mut value, behind: next } = entry;
        // A comment ends at the line break.
        let line_break = if behind.contains('#') && !above.starts_with('\n') { "\n" } else { "" };
        value.decor_mut().set_prefix(format!("{behind}{line_break}{above}"));
        array.push_formatted(value);
        behind = next;
    }
    array.set_trailing(format!("{behind}{closing}"));
}

/// Returns a longest common subsequence.
fn common<'v>(before: &[Value], wanted: &'v [Value]) -> Vec<&'v Value> {
    let width = wanted.len() + 1;
    let mut lengths = vec![0_u32; (before.len() + 1) * width];
    let at = |row: usize, column: usize| row * width + column;
    let length = |lengths: &[u32], place: usize| lengths.get(place).copied().unwrap_or_default();
    for (row, old) in before.iter().enumerate().rev() {
        for (column, new) in wanted.iter().enumerate().rev() {
            let best = if old == new {
                length(&lengths, at(row + 1, column + 1)) + 1
            } else {
                length(&lengths, at(row + 1, column)).max(length(&lengths, at(row, column + 1)))
            };
            if let Some(place) = lengths.get_mut(at(row, column)) {
                *place = best;
            }
        }
    }
    let mut row = 0;
    let mut column = 0;
    let mut found = Vec::new();
    while let (Some(old), Some(new)) = (before.get(row), wanted.get(column)) {
        if old == new {
            found.push(new);
            row += 1;
            column += 1;
        } else if length(&lengths, at(row + 1, column)) >= length(&lengths, at(row, column + 1)) {
            row += 1;
        } else {
            column += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use toml_edit::DocumentMut;

    use super::*;

    const LIST: &str =
        "a = [\n    # the first\n    \"/a\", # one\n    \"/b\", # two\n    \"/c\", # three\n]\n";

    fn check(wanted: &[&str], expected: &str) {
        let mut document: DocumentMut = LIST.parse().unwrap();
        let before: Vec<_> = ["/a", "/b", "/c"].map(Value::from).to_vec();
        let wanted: Vec<_> = wanted.iter().map(|text| Value::from(*text)).collect();
        sync(document["a"].as_array_mut().unwrap(), &before, &wanted);
        assert_eq!(document.to_string(), expected);
        let says: toml::Table = document.to_string().parse().unwrap();
        assert_eq!(says["a"], Value::Array(wanted));
    }

    #[test]
    fn remaining_elements_keep_their_comments() {
        check(&["/b", "/c"], "a = [\n    \"/b\", # two\n    \"/c\", # three\n]\n");
        check(&["/a", "/c"], "a = [\n    # the first\n    \"/a\", # one\n    \"/c\", # three\n]\n");
        check(&["/a", "/b"], "a = [\n    # the first\n    \"/a\", # one\n    \"/b\", # two\n]\n");
        check(&["/b", "/c", "/d"], "a = [\n    \"/b\", # two\n    \"/c\", # three\n    \"/d\",\n]\n");
        check(
            &["/a", "/x", "/c"],
            "a = [\n    # the first\n    \"/a\", # one\n    \"/x\", # two\n    \"/c\", # three\n]\n",
        );
        check(&[], "a = [\n]\n");
    }
}
