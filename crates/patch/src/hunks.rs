//! Writes unified hunks as `diff -u` and git do.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

const NO_NEWLINE: &str = "\\ No newline at end of file\n";

/// The number of lines, before and after together, above which common lines at the beginning and end are skipped. The
/// comparison itself skips them as well, but only after it has numbered all lines.
const MANY_LINES: usize = 20_000;

/// The number of remaining lines above which all of them count as replaced, because comparing them would take seconds.
const MOST_COMPARED: usize = 200_000;

/// Returns the differences with `context` unchanged lines around them, without file headers. Empty if there are none.
pub(crate) fn unified(old: &[u8], new: &[u8], context: usize) -> String {
    let lines = DiffLines { old: split(old), new: split(new), context };
    let mut out = String::new();
    let mut group: Vec<Hunk> = Vec::new();
    for hunk in lines.differences() {
        let gap = group.last().map_or(0, |last| (hunk.before.start - last.before.end) as usize);
        if gap > 2 * context {
            lines.write(&group, &mut out);
            group.clear();
        }
        group.push(hunk);
    }
    lines.write(&group, &mut out);
    out
}

fn compare(old: &[&[u8]], new: &[&[u8]]) -> Vec<Hunk> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    diff.hunks().collect()
}

fn split(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|&byte| byte == b'\n').collect()
}

struct DiffLines<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    context: usize,
}

impl DiffLines<'_> {
    fn differences(&self) -> Vec<Hunk> {
        if self.old.len() + self.new.len() <= MANY_LINES {
            return compare(&self.old, &self.new);
        }
        let same = |(old, new): &(&&[u8], &&[u8])| old == new;
        let start = self.old.iter().zip(&self.new).take_while(same).count();
        let old = self.old.get(start..).unwrap_or_default();
        let new = self.new.get(start..).unwrap_or_default();
        let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let old = old.get(..old.len() - end).unwrap_or_default();
        let new = new.get(..new.len() - end).unwrap_or_default();
        let start = start as u32;
        if old.len() + new.len() > MOST_COMPARED {
            let before = start..start + old.len() as u32;
            let after = start..start + new.len() as u32;
            return vec![Hunk { before, after }];
        }
        let moved = |range: Range<u32>| range.start + start..range.end + start;
        let hunks = compare(old, new).into_iter();
        hunks.map(|hunk| Hunk { before: moved(hunk.before), after: moved(hunk.after) }).collect()
    }

    /// Writes one hunk for changes that are close enough to share their context.
    fn write(&self, group: &[Hunk], out: &mut String) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let before = (first.before.start as usize).min(self.context);
        let after = (self.old.len() - last.before.end as usize).min(self.context);
        let old = first.before.start as usize - before..last.before.end as usize + after;
        let new = first.after.start as usize - before..last.after.end as usize + after;
        out.push_str(&format!("@@ -{} +{} @@\n", range(&old), range(&new)));
        let mut at = old.start;
        for hunk in group {
            self.lines(' ', &self.old, at..hunk.before.start as usize, out);
            self.lines('-', &self.old, hunk.before.start as usize..hunk.before.end as usize, out);
            self.lines('+', &self.new, hunk.after.start as usize..hunk.after.end as usize, out);
            at = hunk.before.end as usize;
        }
        self.lines(' ', &self.old, at..old.end, out);
    }

    fn lines(&self, mark: char, lines: &[&[u8]], range: Range<usize>, out: &mut String) {
        for line in lines.get(range).unwrap_or_default() {
            out.push(mark);
            out.push_str(&String::from_utf8_lossy(line));
            if !line.ends_with(b"\n") {
                out.push('\n');
                out.push_str(NO_NEWLINE);
            }
        }
    }
}

/// Formats a range of lines, counted from 1. An empty range names the line before it, and a length of 1 is omitted.
fn range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        length => format!("{},{length}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, context: usize, expected: &str) {
        assert_eq!(unified(old.as_bytes(), new.as_bytes(), context), expected);
    }

    #[test]
    fn hunks_as_git_writes_them() {
        check("a\n", "a\n", 3, "");
        check("", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\n", "", 3, "@@ -1 +0,0 @@\n-a\n");
        check("a\nb\nc\n", "a\nB\nc\n", 3, "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        check("a\nb\nc\n", "a\nB\nc\n", 0, "@@ -2 +2 @@\n-b\n+B\n");
        check("a", "a\n", 3, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        check("a\nb", "x\nb", 3, "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n");
    }

    #[test]
    fn close_changes_share_a_hunk() {
        let old = "1\n2\n3\n4\n5\n6\n";
        check(old, "x\n2\n3\n4\n5\n6\ny\n", 1, "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -6 +6,2 @@\n 6\n+y\n");
        check(old, "x\n2\n3\ny\n5\n6\n", 1, "@@ -1,5 +1,5 @@\n-1\n+x\n 2\n 3\n-4\n+y\n 5\n");
    }

    /// Applies hunks to the old content.
    fn follow(old: &str, hunks: &str) -> String {
        let mut rest = old.split_inclusive('\n');
        let mut out = String::new();
        let mut at = 0;
        let mut lines = hunks.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let (mark, text) = line.split_at(1);
            let ends_bare = lines.next_if(|next| next.starts_with('\\')).is_some();
            let text = if ends_bare { text.trim_end_matches('\n') } else { text };
            match mark {
                "@" => {
                    let range = text.split(['-', ' ']).nth(2).unwrap();
                    let (start, length) = range.split_once(',').unwrap_or((range, "1"));
                    let start: usize = start.parse().unwrap();
                    let start = if length == "0" { start } else { start - 1 };
                    out.extend(rest.by_ref().take(start - at));
                    at = start;
                }
                "+" => out.push_str(text),
                " " | "-" => {
                    assert_eq!(rest.next(), Some(text));
                    at += 1;
                    out.push_str(if mark == " " { text } else { "" });
                }
                _ => panic!("not a hunk: {line:?}"),
            }
        }
        out.extend(rest);
        out
    }

    #[test]
    fn the_ends_of_long_files_are_left_out_of_the_comparison() {
        let start = "a\n".repeat(15_000);
        let end = "b\n".repeat(15_000);
        check(
            &format!("{start}1\n2\n3\n{end}"),
            &format!("{start}1\n3\n4\n{end}"),
            1,
            "@@ -15001,4 +15001,4 @@\n 1\n-2\n 3\n+4\n b\n",
        );
        check(&start, &format!("{start}a\n"), 1, "@@ -15000 +15000,2 @@\n a\n+a\n");
        check(&start, &start, 1, "");
    }

    #[test]
    fn very_long_differences_are_one_hunk() {
        let lines = |from: u32, step: usize| -> String {
            (from..from + 150_000).step_by(step).map(|number| format!("{number}\n")).collect()
        };
        let old = format!("same\n{}", lines(0, 1));
        let new = format!("same\n{}", lines(1_000, 2));
        let hunks = unified(old.as_bytes(), new.as_bytes(), 1);
        assert!(hunks.starts_with("@@ -1,150001 +1,75001 @@\n same\n-0\n"), "{}", &hunks[..80]);
        assert_eq!(follow(&old, &hunks), new);
    }

    proptest::proptest! {
        #[test]
        fn hunks_lead_from_the_old_content_to_the_new(
            old in "([ab]{0,2}\n){0,12}[ab]?", new in "([ab]{0,2}\n){0,12}[ab]?", context in 0usize..4,
        ) {
            let hunks = unified(old.as_bytes(), new.as_bytes(), context);
            proptest::prop_assert_eq!(follow(&old, &hunks), new, "{}", hunks);
        }
    }
}
