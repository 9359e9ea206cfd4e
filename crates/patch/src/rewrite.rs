//! Sections of a patch put into the content of a file.
//!
//! Lines that a section only names as context stay byte for byte as the file has them; new lines end the way
//! the file's lines end.

use std::ops::Range;

use crate::{
    error::{PlanError, excerpt},
    operation::{Line, Section},
    seek::Haystack,
};

/// The lines of a failed section that its error repeats.
const SHOWN: usize = 12;

/// The content after all sections, `path` being its name in errors.
pub(crate) fn rewrite(path: &str, content: &[u8], sections: &[Section]) -> Result<Vec<u8>, PlanError> {
    let lines: Vec<&[u8]> = content.split_inclusive(|&byte| byte == b'\n').collect();
    let bare = lines.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
    let mut placing = Placing { path, file: Haystack::new(bare), length: lines.len(), edits: Vec::new() };
    let mut cursor = 0;
    for section in sections {
        cursor = placing.place(section, cursor)?;
    }
    Ok(assemble(&lines, placing.edits))
}

/// A section and the lines of the file it covers; for a mere insertion the range is empty.
struct Edit<'a> {
    range: Range<usize>,
    lines: &'a [Line],
}

struct Placing<'a> {
    path: &'a str,
    file: Haystack<'a>,
    length: usize,
    edits: Vec<Edit<'a>>,
}

impl<'a> Placing<'a> {
    /// Finds the section's place, looking behind `cursor` first; returns where the next one starts to look.
    fn place(&mut self, section: &'a Section, cursor: usize) -> Result<usize, PlanError> {
        let anchor = self.anchor(section, cursor)?;
        let old = section.old_lines();
        let (start, lines) = if old.is_empty() {
            // Where lines go that have no neighbours: below the anchor, else to the end.
            let at = anchor.filter(|_| !section.at_end).map_or(self.length, |anchor| anchor + 1);
            (at, section.lines.as_slice())
        } else {
            self.find(section, &old, anchor, cursor).ok_or_else(|| self.no_match(section, &old))?
        };
        let length = lines.iter().filter(|line| !matches!(line, Line::Add(_))).count();
        let range = start..start + length;
        if !self.is_free(&range) {
            return Err(PlanError::Overlap { path: self.path.to_owned(), line: section.line });
        }
        let next = range.end;
        self.edits.push(Edit { range, lines });
        Ok(next)
    }

    fn anchor(&self, section: &Section, cursor: usize) -> Result<Option<usize>, PlanError> {
        let mut from = cursor;
        let mut found = None;
        for anchor in &section.anchors {
            let mut at = self.file.find_anchor(anchor, from..self.length);
            if at.is_none() && found.is_none() {
                at = self.file.find_anchor(anchor, 0..cursor);
            }
            let Some(at) = at else {
                let (path, anchor) = (self.path.to_owned(), excerpt(anchor));
                return Err(PlanError::NoAnchor { path, line: section.line, anchor });
            };
            found = Some(at);
            from = at + 1;
        }
        Ok(found)
    }

    /// The place of a section, and its lines without those at the end that the file need not have.
    fn find(
        &self,
        section: &'a Section,
        old: &[&str],
        anchor: Option<usize>,
        cursor: usize,
    ) -> Option<(usize, &'a [Line])> {
        if let Some(at) = self.find_lines(section, old, anchor, cursor) {
            return Some((at, &section.lines));
        }
        // A blank line before the next marker is more often untidiness than context.
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
        section: &Section,
        old: &[&str],
        anchor: Option<usize>,
        cursor: usize,
    ) -> Option<usize> {
        let free = |at| self.is_free(&(at..at + old.len()));
        if section.at_end {
            let start = self.length.checked_sub(old.len())?;
            return self.file.find(old, start..self.length, free);
        }
        match anchor {
            // Some repeat the anchor as the first line of the section.
            Some(anchor) => (self.file.find(old, anchor + 1..self.length, free))
                .or_else(|| self.file.find(old, anchor..self.length, free)),
            None => (self.file.find(old, cursor..self.length, free))
                .or_else(|| self.file.find(old, 0..self.length, free)),
        }
    }

    fn is_free(&self, range: &Range<usize>) -> bool {
        self.edits.iter().all(|edit| edit.range.end <= range.start || range.end <= edit.range.start)
    }

    fn no_match(&self, section: &Section, old: &[&str]) -> PlanError {
        let mut expected: Vec<_> = old.iter().take(SHOWN).map(|line| excerpt(line)).collect();
        if old.len() > SHOWN {
            expected.push("…".to_owned());
        }
        let (path, expected) = (self.path.to_owned(), expected.join("\n"));
        PlanError::NoMatch { path, line: section.line, expected }
    }
}

fn assemble(lines: &[&[u8]], mut edits: Vec<Edit<'_>>) -> Vec<u8> {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let newline = newline(lines);
    let mut out = Vec::with_capacity(lines.iter().map(|line| line.len()).sum());
    let mut at = 0;
    for edit in edits {
        copy(&mut out, lines, at..edit.range.start);
        at = edit.range.start;
        for line in edit.lines {
            match line {
                Line::Keep(_) => {
                    copy(&mut out, lines, at..at + 1);
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Add(text) => push_line(&mut out, text, newline),
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
    // The file's last line may have ended without one.
    if out.last().is_some_and(|&byte| byte != b'\n') {
        out.extend_from_slice(newline);
    }
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(newline);
}

/// The line ending that most lines of the file have.
fn newline(lines: &[&[u8]]) -> &'static [u8] {
    let with_return = lines.iter().filter(|line| line.ends_with(b"\r\n")).count();
    if with_return * 2 > lines.len() { b"\r\n" } else { b"\n" }
}
