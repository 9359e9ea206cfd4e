//! Applies the sections of a patch to the content of a file.
//!
//! Context lines keep the bytes of the file; new lines get the line ending of the file.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    error::{PlanError, excerpt},
    operation::{PatchLine, PatchSection},
    seek::FileLines,
    work::WorkBudget,
};

/// How many lines of a failed section its error repeats.
const SHOWN: usize = 12;

/// Returns the content after all sections. `path` is the file's name in errors.
pub(crate) fn rewrite(
    path: &str,
    content: &[u8],
    sections: &[PatchSection],
    work: &WorkBudget,
) -> Result<Vec<u8>, PlanError> {
    let lines: Vec<&[u8]> = content.split_inclusive(|&byte| byte == b'\n').collect();
    work.spend_bytes(content.len());
    work.spend(lines.len());
    let bare = lines.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
    let file = FileLines::new(bare, work);
    let mut placing =
        SectionPlacing { path, file, work, length: lines.len(), edits: SectionEdits::default() };
    let mut cursor = 0;
    for section in sections {
        cursor = placing.place(section, cursor)?;
    }
    Ok(assemble(&lines, placing.edits))
}

/// The lines of the file that each section covers. No two sections cover the same line, and none covers lines on both
/// sides of another one's insertion.
#[derive(Default)]
struct SectionEdits<'a> {
    /// The lines of a section by start, end and number. The number keeps insertions at the same line in the order of the
    /// patch.
    by_range: BTreeMap<(usize, usize, usize), &'a [PatchLine]>,
}

impl<'a> SectionEdits<'a> {
    /// Adds a section. For an insertion the range is empty.
    fn add(&mut self, range: Range<usize>, lines: &'a [PatchLine]) {
        self.by_range.insert((range.start, range.end, self.by_range.len()), lines);
    }

    fn is_free(&self, range: &Range<usize>) -> bool {
        // Ranges do not overlap, so of all that start before the end of `range`, the last one has the greatest end.
        let before = self.by_range.range(..(range.end, 0, 0)).next_back();
        before.is_none_or(|((_, end, _), _)| *end <= range.start)
    }
}

struct SectionPlacing<'a> {
    path: &'a str,
    file: FileLines<'a>,
    work: &'a WorkBudget,
    length: usize,
    edits: SectionEdits<'a>,
}

impl<'a> SectionPlacing<'a> {
    /// Finds the lines of a section, first after `cursor`. Returns where the search for the next one begins.
    fn place(&mut self, section: &'a PatchSection, cursor: usize) -> Result<usize, PlanError> {
        let anchor = self.anchor(section, cursor)?;
        let old = section.old_lines();
        let (start, lines) = if old.is_empty() {
            // Lines without context are inserted after the anchor, else at the end.
            let at = anchor.filter(|_| !section.at_end).map_or(self.length, |anchor| anchor + 1);
            (at, section.lines.as_slice())
        } else {
            self.find(section, &old, anchor, cursor).ok_or_else(|| self.no_match(section, &old))?
        };
        let length = lines.iter().filter(|line| !matches!(line, PatchLine::Add(_))).count();
        let range = start..start + length;
        if !self.edits.is_free(&range) {
            return Err(PlanError::Overlap { path: self.path.to_owned(), line: section.line });
        }
        let next = range.end;
        self.edits.add(range, lines);
        Ok(next)
    }

    fn anchor(&self, section: &PatchSection, cursor: usize) -> Result<Option<usize>, PlanError> {
        let mut from = cursor;
        let mut found = None;
        for anchor in &section.anchors {
            let mut at = self.file.find_anchor(anchor, from..self.length);
            if at.is_none() && found.is_none() {
                at = self.file.find_anchor(anchor, 0..cursor);
            }
            let Some(at) = at else {
                if self.work.is_spent() {
                    return Err(self.too_much_work(section));
                }
                let path = self.path.to_owned();
                return Err(PlanError::NoAnchor { path, line: section.line, anchor: excerpt(anchor) });
            };
            found = Some(at);
            from = at + 1;
        }
        Ok(found)
    }

    /// Returns the first line of a section in the file, and its lines without blank ones at the end that the file lacks.
    fn find(
        &self,
        section: &'a PatchSection,
        old: &[&str],
        anchor: Option<usize>,
        cursor: usize,
    ) -> Option<(usize, &'a [PatchLine])> {
        if let Some(at) = self.find_lines(section, old, anchor, cursor) {
            return Some((at, &section.lines));
        }
        // Models often add a blank line before the next marker that is not context.
        let blank = section.lines.iter().rev().take_while(|line| line.is_blank_context()).count();
        let lines = section.lines.get(..section.lines.len() - blank)?;
        let old = old.get(..old.len() - blank)?;
        if blank == 0 || old.is_empty() {
            return None;
        }
        Some((self.find_lines(section, old, anchor, cursor)?, lines))
    }

    fn find_lines(
        &self,
        section: &PatchSection,
        old: &[&str],
        anchor: Option<usize>,
        cursor: usize,
    ) -> Option<usize> {
        let free = |at| self.edits.is_free(&(at..at + old.len()));
        if section.at_end {
            let start = self.length.checked_sub(old.len())?;
            return self.file.find(old, start..self.length, free);
        }
        match anchor {
            // Some models repeat the anchor as the first line of the section.
            Some(anchor) => (self.file.find(old, anchor + 1..self.length, free))
                .or_else(|| self.file.find(old, anchor..self.length, free)),
            None => (self.file.find(old, cursor..self.length, free))
                .or_else(|| self.file.find(old, 0..self.length, free)),
        }
    }

    fn no_match(&self, section: &PatchSection, old: &[&str]) -> PlanError {
        if self.work.is_spent() {
            return self.too_much_work(section);
        }
        let mut expected: Vec<_> = old.iter().take(SHOWN).map(|line| excerpt(line)).collect();
        if old.len() > SHOWN {
            expected.push("…".to_owned());
        }
        let expected = expected.join("\n");
        PlanError::NoMatch { path: self.path.to_owned(), line: section.line, expected }
    }

    fn too_much_work(&self, section: &PatchSection) -> PlanError {
        PlanError::TooMuchWork { path: self.path.to_owned(), line: section.line }
    }
}

fn assemble(lines: &[&[u8]], edits: SectionEdits<'_>) -> Vec<u8> {
    let newline = newline(lines);
    let mut out = Vec::with_capacity(lines.iter().map(|line| line.len()).sum());
    let mut at = 0;
    for ((start, ..), edited) in edits.by_range {
        copy(&mut out, lines, at..start);
        at = start;
        for line in edited {
            match line {
                PatchLine::Keep(_) => {
                    copy(&mut out, lines, at..at + 1);
                    at += 1;
                }
                PatchLine::Remove(_) => at += 1,
                PatchLine::Add(text) => push_line(&mut out, text, newline),
            }
        }
    }
    copy(&mut out, lines, at..lines.len());
    out
}

fn copy(out: &mut Vec<u8>, lines: &[&[u8]], range: Range<usize>) {
    lines.get(range).unwrap_or_default().iter().for_each(|line| out.extend_from_slice(line));
}

fn push_line(out: &mut Vec<u8>, text: &str, newline: &[u8]) {
    // The last line of the file may lack a newline.
    if out.last().is_some_and(|&byte| byte != b'\n') {
        out.extend_from_slice(newline);
    }
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(newline);
}

/// Returns the line ending that most lines of the file have.
fn newline(lines: &[&[u8]]) -> &'static [u8] {
    let with_return = lines.iter().filter(|line| line.ends_with(b"\r\n")).count();
    if with_return * 2 > lines.len() { b"\r\n" } else { b"\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_costs_too_much_is_refused() {
        let lines = vec![PatchLine::Keep("x".to_owned()), PatchLine::Add("y".to_owned())];
        let section = |anchors: &[&str]| PatchSection {
            line: 3,
            anchors: anchors.iter().map(|&anchor| anchor.to_owned()).collect(),
            lines: lines.clone(),
            at_end: false,
        };
        let work = WorkBudget::new();
        assert!(rewrite("f", b"x\n", &[section(&[])], &work).is_ok());
        work.spend(usize::MAX);
        for section in [section(&[]), section(&["x"])] {
            let error = rewrite("f", b"x\n", &[section], &work).unwrap_err().to_string();
            assert!(
                error.starts_with("finding the section at patch line 3 in `f` takes too long"),
                "{error}"
            );
        }
    }
}
