//! Writes one file of a git diff.

use std::fmt::{self, Display, Formatter};

use crate::{blob::NO_BLOB, files::FileMode, hunks::unified, turn_diff::FileVersion};

/// The number of unchanged lines around each hunk.
const CONTEXT: usize = 3;

pub(crate) struct FileDiff<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) before: Option<&'a FileVersion>,
    pub(crate) after: Option<&'a FileVersion>,
    /// Whether the file moved without a change, which the diff must state because it has no hunks.
    pub(crate) is_plain_rename: bool,
}

impl Display for FileDiff<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let from = name("a/", self.from);
        let to = name("b/", self.to);
        writeln!(f, "diff --git {from} {to}")?;
        self.modes(f)?;
        if self.is_plain_rename {
            writeln!(f, "similarity index 100%")?;
            writeln!(f, "rename from {}", name("", self.from))?;
            writeln!(f, "rename to {}", name("", self.to))?;
        }
        self.content(f, &from, &to)
    }
}

impl FileDiff<'_> {
    fn modes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (mode(self.before), mode(self.after)) {
            (None, Some(new)) => writeln!(f, "new file mode {}", new.git()),
            (Some(old), None) => writeln!(f, "deleted file mode {}", old.git()),
            (Some(old), Some(new)) if old != new => {
                writeln!(f, "old mode {}\nnew mode {}", old.git(), new.git())
            }
            _ => Ok(()),
        }
    }

    fn content(&self, f: &mut Formatter<'_>, from: &str, to: &str) -> fmt::Result {
        let old = id(self.before);
        let new = id(self.after);
        if old == new {
            return Ok(());
        }
        writeln!(f, "index {old}..{new}")?;
        let from = if self.before.is_some() { from } else { "/dev/null" };
        let to = if self.after.is_some() { to } else { "/dev/null" };
        let (Some(old), Some(new)) = (text(self.before), text(self.after)) else {
            return writeln!(f, "Binary files {from} and {to} differ");
        };
        let hunks = unified(old, new, CONTEXT);
        if hunks.is_empty() {
            return Ok(());
        }
        write!(f, "--- {}\n+++ {}\n{hunks}", header(from), header(to))
    }
}

fn mode(version: Option<&FileVersion>) -> Option<FileMode> {
    version.map(|version| version.mode)
}

fn id(version: Option<&FileVersion>) -> &str {
    version.map_or(NO_BLOB, |version| &version.id)
}

/// Returns the text of a version, or an empty one for a missing file.
fn text(version: Option<&FileVersion>) -> Option<&[u8]> {
    match version {
        Some(version) => version.text.as_deref(),
        None => Some(&[]),
    }
}

/// Returns a path as git writes it: quoted if it has characters that a line cannot contain.
fn name(side: &str, path: &str) -> String {
    let is_special = |c: char| c.is_ascii_control() || c == '"' || c == '\\';
    if !path.contains(is_special) {
        return format!("{side}{path}");
    }
    let mut out = format!("\"{side}");
    for c in path.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Adds a tab after a name with spaces, for tools that would take a part of it for a date.
fn header(name: &str) -> String {
    if name.contains(' ') && !name.starts_with('"') { format!("{name}\t") } else { name.to_owned() }
}
