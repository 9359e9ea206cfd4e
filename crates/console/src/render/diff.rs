//! Diffs as data, read from the formats of the protocol, and as HTML tables.
//!
//! A diff comes as the changes of an item ([`FileDiff::from_change`]) or as the text of a whole turn ([`parse`]).
//! [`FileDiff::with_file`] adds the unchanged lines between hunks, folded. [`view`] shows one file.

use codicil_client::protocol::{FileUpdateChange, PatchChangeKind};

pub use super::diff_table::{DiffLayout, DiffView, change_counts, view};

/// The changes to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// The path after the change.
    pub path: String,
    /// The path before it, if the file was renamed.
    pub previous_path: Option<String>,
    pub kind: FileDiffKind,
    pub hunks: Vec<DiffHunk>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileDiffKind {
    #[default]
    Updated,
    Added,
    Deleted,
    /// The content is not text, so there are no hunks.
    Binary,
}

/// Lines of a file that changed together, with their surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffHunk {
    /// The number of the first line before the change, from 1.
    pub old_start: usize,
    /// The number of the first line after the change, from 1.
    pub new_start: usize,
    /// The text behind the line numbers: usually the function around the hunk.
    pub heading: String,
    pub lines: Vec<DiffLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: DiffLineKind,
    /// The text without its sign and its end.
    pub text: String,
}

/// Whether a line is in the old file, in the new one, or in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLineKind {
    Context,
    Added,
    Removed,
}

impl FileDiff {
    /// Reads the change of one file of an item.
    pub fn from_change(change: &FileUpdateChange) -> Self {
        let whole = |kind, line_kind| Self {
            path: change.path.clone(),
            kind,
            hunks: whole_file(&change.diff, line_kind),
            ..Self::default()
        };
        match &change.kind {
            PatchChangeKind::Add => whole(FileDiffKind::Added, DiffLineKind::Added),
            PatchChangeKind::Delete => whole(FileDiffKind::Deleted, DiffLineKind::Removed),
            PatchChangeKind::Update { move_path } => {
                let mut diff = read_hunks(&change.diff);
                diff.path = move_path.clone().unwrap_or_else(|| change.path.clone());
                diff.previous_path = move_path.is_some().then(|| change.path.clone());
                diff
            }
            PatchChangeKind::Unrecognized(_) => {
                Self { path: change.path.clone(), ..read_hunks(&change.diff) }
            }
        }
    }

    /// Adds the lines of the file around the hunks, if `content` is the file after the change. The diff stays as it is if it
    /// is another version.
    #[must_use]
    pub fn with_file(self, content: &str) -> Self {
        match fill_gaps(&self.hunks, content) {
            Some(hunk) => Self { hunks: vec![hunk], ..self },
            None => self,
        }
    }

    /// Returns the number of lines of a kind.
    pub fn count(&self, kind: DiffLineKind) -> usize {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.kind == kind).count()
    }
}

/// Reads a diff of any number of files, as git writes it.
pub fn parse(text: &str) -> Vec<FileDiff> {
    let mut reader = DiffReader::default();
    for line in text.split('\n') {
        reader.line(line);
    }
    reader.finish()
}

/// Returns the number of files of a diff that git writes, without reading the rest.
pub fn file_count(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("diff --git ")).count()
}

/// Reads hunks without file headers.
fn read_hunks(text: &str) -> FileDiff {
    let mut reader = DiffReader { files: vec![FileDiff::default()], ..DiffReader::default() };
    for line in text.split('\n') {
        reader.line(line);
    }
    reader.finish().into_iter().next().unwrap_or_default()
}

fn whole_file(content: &str, kind: DiffLineKind) -> Vec<DiffHunk> {
    let lines: Vec<_> = content.lines().map(|text| DiffLine { kind, text: text.to_owned() }).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    vec![DiffHunk { old_start: 1, new_start: 1, heading: String::new(), lines }]
}

/// Returns one hunk with the whole file, or `None` if the hunks do not fit `content`.
fn fill_gaps(hunks: &[DiffHunk], content: &str) -> Option<DiffHunk> {
    let file: Vec<&str> = content.lines().collect();
    let mut lines = Vec::new();
    let mut next = 0;
    let context = |text: &&str| DiffLine { kind: DiffLineKind::Context, text: (*text).to_owned() };
    for hunk in hunks {
        // A hunk without new lines names the line before it.
        let has_new = hunk.lines.iter().any(|line| line.kind != DiffLineKind::Removed);
        let start = if has_new { hunk.new_start.checked_sub(1)? } else { hunk.new_start };
        lines.extend(file.get(next..start)?.iter().map(context));
        next = start;
        for line in &hunk.lines {
            if line.kind != DiffLineKind::Removed {
                let text = line.text.strip_suffix('\r').unwrap_or(&line.text);
                if file.get(next).is_none_or(|current| *current != text) {
                    return None;
                }
                next += 1;
            }
            lines.push(line.clone());
        }
    }
    lines.extend(file.get(next..)?.iter().map(context));
    Some(DiffHunk { old_start: 1, new_start: 1, heading: String::new(), lines })
}

/// Reads a diff line by line. The counts of a hunk's header tell its lines from headers: `--- a` may also be a removed line
/// `-- a`.
#[derive(Default)]
struct DiffReader {
    files: Vec<FileDiff>,
    /// Lines of the open hunk that are still to come.
    old_left: usize,
    new_left: usize,
}

impl DiffReader {
    fn line(&mut self, line: &str) {
        if self.old_left > 0 || self.new_left > 0 {
            self.hunk_line(line);
        } else {
            self.header(line);
        }
    }

    fn hunk_line(&mut self, line: &str) {
        let (kind, text) = match line.split_at_checked(1) {
            Some(("+", text)) => (DiffLineKind::Added, text),
            Some(("-", text)) => (DiffLineKind::Removed, text),
            Some((" ", text)) => (DiffLineKind::Context, text),
            // Some tools strip the blank of an empty line.
            None => (DiffLineKind::Context, ""),
            Some(("\\", _)) => return,
            // Not a hunk after all.
            Some(_) => {
                (self.old_left, self.new_left) = (0, 0);
                return self.header(line);
            }
        };
        if kind != DiffLineKind::Added {
            self.old_left = self.old_left.saturating_sub(1);
        }
        if kind != DiffLineKind::Removed {
            self.new_left = self.new_left.saturating_sub(1);
        }
        if let Some(hunk) = self.files.last_mut().and_then(|file| file.hunks.last_mut()) {
            hunk.lines.push(DiffLine { kind, text: text.to_owned() });
        }
    }

    fn header(&mut self, line: &str) {
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.files.push(FileDiff { path: git_name(names), ..FileDiff::default() });
        } else if let Some(header) = line.strip_prefix("@@ ") {
            self.hunk_header(header);
        } else if let Some(name) = line.strip_prefix("--- ") {
            self.old_name(name);
        } else if let Some(name) = line.strip_prefix("+++ ") {
            if let Some(file) = self.files.last_mut() {
                match file_name(name) {
                    Some(name) => file.path = name,
                    None => file.kind = FileDiffKind::Deleted,
                }
            }
        } else if let Some(file) = self.files.last_mut() {
            if line.starts_with("new file mode") {
                file.kind = FileDiffKind::Added;
            } else if line.starts_with("deleted file mode") {
                file.kind = FileDiffKind::Deleted;
            } else if line.starts_with("Binary files ") {
                file.kind = FileDiffKind::Binary;
            } else if let Some(name) = line.strip_prefix("rename from ") {
                file.previous_path = Some(unquote(name));
            } else if let Some(name) = line.strip_prefix("rename to ") {
                file.path = unquote(name);
            }
        }
    }

    /// Without a line `diff --git`, the old name begins a file.
    fn old_name(&mut self, name: &str) {
        if self.files.last().is_none_or(|file| !file.hunks.is_empty()) {
            self.files.push(FileDiff::default());
        }
        let Some(file) = self.files.last_mut() else { return };
        match file_name(name) {
            Some(name) => {
                if file.path.is_empty() {
                    file.path.clone_from(&name);
                }
                // The same path as the new one is removed at the end.
                file.previous_path.get_or_insert(name);
            }
            None => file.kind = FileDiffKind::Added,
        }
    }

    fn hunk_header(&mut self, header: &str) {
        let Some((numbers, heading)) = header.split_once(" @@") else { return };
        let Some((old, new)) = numbers.split_once(' ') else { return };
        let Some((old_start, old_count)) = old.strip_prefix('-').and_then(line_range) else { return };
        let Some((new_start, new_count)) = new.strip_prefix('+').and_then(line_range) else { return };
        if self.files.is_empty() {
            self.files.push(FileDiff::default());
        }
        let hunk = DiffHunk { old_start, new_start, heading: heading.trim().to_owned(), lines: Vec::new() };
        if let Some(file) = self.files.last_mut() {
            file.hunks.push(hunk);
        }
        (self.old_left, self.new_left) = (old_count, new_count);
    }

    fn finish(mut self) -> Vec<FileDiff> {
        for file in &mut self.files {
            if file.previous_path.as_ref() == Some(&file.path) {
                file.previous_path = None;
            }
            strip_carriage_returns(file);
        }
        self.files
    }
}

/// Removes the carriage returns of a file that has one on every line. Otherwise a change of the line ends is visible.
fn strip_carriage_returns(file: &mut FileDiff) {
    let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
    if !lines().all(|line| line.text.ends_with('\r')) {
        return;
    }
    for line in file.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
        line.text.pop();
    }
}

/// Reads `12,3` or `12`.
fn line_range(range: &str) -> Option<(usize, usize)> {
    match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    }
}

/// Returns the new path of `a/x b/x`. Both sides have the same length unless the file was renamed, which other lines tell.
fn git_name(names: &str) -> String {
    if names.ends_with('"')
        && let Some((_, new)) = names.rsplit_once(" \"")
    {
        return file_name(&format!("\"{new}")).unwrap_or_default();
    }
    let half = names.get(names.len() / 2 + 1..).unwrap_or(names);
    file_name(half.strip_prefix(' ').unwrap_or(half)).unwrap_or_default()
}

/// Returns the path of a file header without `a/` or `b/`; `None` for a file that does not exist.
fn file_name(name: &str) -> Option<String> {
    let name = unquote(name.trim_end_matches(['\t', '\r']));
    if name == "/dev/null" {
        return None;
    }
    let stripped = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).map(str::to_owned);
    Some(stripped.unwrap_or(name))
}

/// Returns a name without git's quotes.
fn unquote(name: &str) -> String {
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                while let Some(digit) = rest.next_if(|digit| (b'0'..=b'7').contains(digit) && value < 64) {
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(value as u8);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows a diff in one string per file: kind, paths, and lines with their signs.
    fn show(files: &[FileDiff]) -> Vec<String> {
        files.iter().map(show_file).collect()
    }

    fn show_file(file: &FileDiff) -> String {
        let mut shown = format!("{:?} {:?} {}", file.kind, file.previous_path, file.path);
        for hunk in &file.hunks {
            shown.push_str(&format!(" @{},{}", hunk.old_start, hunk.new_start));
            for line in &hunk.lines {
                let sign = match line.kind {
                    DiffLineKind::Context => '=',
                    DiffLineKind::Added => '+',
                    DiffLineKind::Removed => '-',
                };
                shown.push_str(&format!(" {sign}{}", line.text));
            }
        }
        shown
    }

    #[test]
    fn diffs_of_git_are_read() {
        let text = "diff --git a/x y.rs b/x y.rs\nindex 1..2 100644\n--- a/x y.rs\t\n+++ b/x y.rs\t\n@@ -1,3 +1,3 @@ fn f\n a\n--- b\n++ c\n d\n\
            diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n\
            diff --git a/o b/o\ndeleted file mode 100644\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
            diff --git a/p b/q\nsimilarity index 100%\nrename from p\nrename to q\n\
            diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n\
            diff --git \"a/t\\tb\" \"b/t\\tb\"\n--- \"a/t\\tb\"\n+++ \"b/t\\303\\244\"\n@@ -1 +1 @@\n-a\r\n+b\r\n";
        assert_eq!(file_count(text), 6);
        assert_eq!(
            show(&parse(text)),
            [
                "Updated None x y.rs @1,1 =a --- b ++ c =d",
                "Added None n @0,1 +x",
                "Deleted None o @1,0 -x",
                "Updated Some(\"p\") q",
                "Binary None i.png",
                "Updated Some(\"t\\tb\") tä @1,1 -a +b",
            ]
        );
    }

    #[test]
    fn diffs_without_git_headers_are_read() {
        assert_eq!(
            show(&parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n")),
            ["Updated None x @1,1 -a +b", "Updated None y @1,1 -c +d"]
        );
        assert!(parse("no diff at all").is_empty());
        assert_eq!(
            show(&parse("@@ -1,9 +1,9 @@\n a\ndiff --git a/b b/b\n")),
            ["Updated None  @1,1 =a", "Updated None b"]
        );
        assert_eq!(show(&parse("@@ nonsense @@\n@@ -x +1 @@\n")), Vec::<String>::new());
    }

    #[test]
    fn changes_of_items_are_read() {
        let change = |kind, diff: &str| {
            FileDiff::from_change(&FileUpdateChange { path: "p".into(), kind, diff: diff.into() })
        };
        assert_eq!(show_file(&change(PatchChangeKind::Add, "a\nb\n")), "Added None p @1,1 +a +b");
        assert_eq!(show_file(&change(PatchChangeKind::Delete, "a")), "Deleted None p @1,1 -a");
        let moved = PatchChangeKind::Update { move_path: Some("q".into()) };
        assert_eq!(
            show_file(&change(moved, "@@ -1 +1 @@\n-a\n+b\n\nMoved to: q")),
            "Updated Some(\"p\") q @1,1 -a +b"
        );
        assert_eq!(show_file(&change(PatchChangeKind::Add, "")), "Added None p");
    }

    #[test]
    fn a_file_fills_the_gaps_between_hunks() {
        let diff = || parse("--- a/x\n+++ b/x\n@@ -2 +2 @@\n-b\n+B\n@@ -4,1 +3,0 @@\n-d\n").remove(0);
        assert_eq!(show_file(&diff().with_file("a\nB\nc\ne\n")), "Updated None x @1,1 =a -b +B =c -d =e");
        assert_eq!(diff().with_file("a\nother\nc\n"), diff());
        assert_eq!(diff().with_file(""), diff());
    }

    #[test]
    fn carriage_returns_stay_where_they_differ() {
        assert_eq!(
            show(&parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n+a\n")),
            ["Updated None x @1,1 -a\r +a"]
        );
    }
}
