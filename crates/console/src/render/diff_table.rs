//! A file's diff as a table, unified or side by side: highlighted, with changed words marked and long context folded.
//!
//! Folded lines are in the table; a checkbox of the row before them shows them, by the stylesheet alone.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};

use super::{
    diff::{DiffHunk, DiffLine, DiffLineKind, FileDiff, FileDiffKind},
    highlight::{Highlighter, Token, language_of_path},
    text::{prefix, push_visible, url_part, visible, visible_plain},
    word_diff::changed_words,
};

/// Unchanged lines that stay visible beside a change.
const KEPT_CONTEXT: usize = 3;

/// Hidden lines below which a fold would save nothing.
const MIN_FOLD: usize = 6;

/// The longest line that is shown, in bytes.
const MAX_LINE: usize = 2_000;

/// How a diff is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffLayout {
    /// Old and new lines below each other.
    #[default]
    Unified,
    /// Old lines on the left, new ones on the right.
    SideBySide,
}

impl DiffLayout {
    /// The value of the layout in an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::SideBySide => "split",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Unified => Self::SideBySide,
            Self::SideBySide => Self::Unified,
        }
    }

    /// The names of the columns, which are read aloud and not shown.
    fn column_names(self) -> &'static [&'static str] {
        match self {
            Self::Unified => &["Old line", "New line", "Change"],
            Self::SideBySide => &["Old line", "Before", "New line", "After"],
        }
    }

    fn columns(self) -> usize {
        self.column_names().len()
    }
}

/// How much of a diff is shown, and where the rest is.
#[derive(Clone, Copy, Debug)]
pub struct DiffView<'a> {
    pub layout: DiffLayout,
    /// The most rows of one file.
    pub max_rows: usize,
    /// The number of the change among those that the address shows: a file may have changed several times.
    pub number: usize,
    /// The address that shows the diff of the file in its parameter `file` completely, in the layout of its parameter `layout`.
    pub address: &'a str,
}

impl DiffView<'_> {
    fn link(&self, file: &FileDiff, layout: DiffLayout) -> String {
        format!("{}?layout={}&file={}", self.address, layout.as_str(), url_part(&file.path))
    }
}

/// Returns the diff of one file: its name, a button for the other layout, and the table.
pub fn view(file: &FileDiff, options: DiffView<'_>) -> Markup {
    let rows = rows(file, options.max_rows);
    let is_pressed = options.layout == DiffLayout::SideBySide;
    html! {
        section.file-diff aria-label={ "Changes of " (visible_plain(&file.path)) } data-change=(options.number) {
            header {
                span.path { (title(file)) }
                (change_counts(file))
                // A link, because the question about a change is a form, and forms cannot contain forms.
                a.button role="button" href=(options.link(file, options.layout.other()))
                    aria-pressed=(is_pressed) data-diff-layout="" { "Side by side" }
            }
            (table(file, &rows, options))
        }
    }
}

/// Returns the numbers of added and removed lines.
pub fn change_counts(file: &FileDiff) -> Markup {
    html! {
        span.counts {
            span.added { "+" (file.count(DiffLineKind::Added)) } " "
            span.removed { "−" (file.count(DiffLineKind::Removed)) }
        }
    }
}

fn title(file: &FileDiff) -> Markup {
    html! {
        @if let Some(previous) = &file.previous_path { (visible(previous)) " → " }
        (visible(&file.path))
        @match file.kind {
            FileDiffKind::Added => " (new)",
            FileDiffKind::Deleted => " (deleted)",
            FileDiffKind::Binary => " (binary)",
            FileDiffKind::Updated => "",
        }
    }
}

fn table(file: &FileDiff, shown: &ShownRows<'_>, options: DiffView<'_>) -> Markup {
    let columns = options.layout.columns();
    let class = match options.layout {
        DiffLayout::Unified => "diff unified",
        DiffLayout::SideBySide => "diff split",
    };
    html! {
        table class=(class) aria-label={ "Diff of " (visible_plain(&file.path)) } {
            thead {
                tr {
                    @for name in options.layout.column_names() {
                        th scope="col" { span.visually-hidden { (name) } }
                    }
                }
            }
            tbody {
                @if shown.rows.is_empty() && shown.left == 0 {
                    tr { td colspan=(columns) { (empty_text(file)) } }
                }
                (PreEscaped(body(&shown.rows, options.layout)))
            }
            @if shown.left > 0 {
                tbody { tr.omitted { td colspan=(columns) {
                    (shown.left) " more lines. " a href={ (options.link(file, options.layout)) "&all=1" } { "Show all" }
                } } }
            }
        }
    }
}

fn empty_text(file: &FileDiff) -> &'static str {
    match file.kind {
        FileDiffKind::Binary => "The file is not text.",
        FileDiffKind::Added => "The file is empty.",
        FileDiffKind::Updated if file.previous_path.is_some() => "The file was moved without a change.",
        _ => "No lines changed.",
    }
}

/// A row of the table in either layout.
enum DiffRow<'a> {
    /// The start of a hunk that does not follow the one before it.
    Gap { heading: &'a str, skipped: usize },
    /// The start of folded lines.
    Fold { count: usize },
    /// The end of folded lines.
    EndOfFold,
    /// A line that is in both files, or one or two lines of a change.
    Lines { old: Option<RowLine<'a>>, new: Option<RowLine<'a>>, is_change: bool },
}

/// One side of a row.
#[derive(Clone)]
struct RowLine<'a> {
    number: usize,
    text: &'a str,
    tokens: Vec<Token>,
    changed: Vec<Range<usize>>,
}

/// The rows of a table.
struct ShownRows<'a> {
    rows: Vec<DiffRow<'a>>,
    /// Lines that are left out.
    left: usize,
}

/// Returns the first rows of a diff. The rest is not even highlighted.
fn rows(file: &FileDiff, max_rows: usize) -> ShownRows<'_> {
    let language = language_of_path(&file.path);
    let mut rows = Vec::new();
    let mut next_line = 1;
    let mut left: usize = file.hunks.iter().map(|hunk| hunk.lines.len()).sum();
    for hunk in &file.hunks {
        if rows.len() >= max_rows {
            break;
        }
        let skipped = hunk.new_start.saturating_sub(next_line);
        if skipped > 0 || !hunk.heading.is_empty() {
            rows.push(DiffRow::Gap { heading: &hunk.heading, skipped });
        }
        let mut builder = HunkRows {
            old: Highlighter::new(language),
            new: Highlighter::new(language),
            old_number: hunk.old_start,
            new_number: hunk.new_start,
            rows: &mut rows,
            max_rows,
            lines: 0,
        };
        builder.hunk(hunk);
        next_line = builder.new_number;
        left -= builder.lines;
    }
    ShownRows { rows, left }
}

/// Makes the rows of one hunk. Both files are highlighted on their own, because a comment may begin in only one of them.
struct HunkRows<'a, 'r> {
    old: Highlighter,
    new: Highlighter,
    old_number: usize,
    new_number: usize,
    rows: &'r mut Vec<DiffRow<'a>>,
    max_rows: usize,
    /// Lines of the hunk that are in the rows.
    lines: usize,
}

impl<'a> HunkRows<'a, '_> {
    /// Returns how many rows may be added.
    fn room(&self) -> usize {
        self.max_rows.saturating_sub(self.rows.len())
    }

    fn hunk(&mut self, hunk: &'a DiffHunk) {
        let blocks: Vec<&'a [DiffLine]> = hunk
            .lines
            .chunk_by(|a, b| (a.kind == DiffLineKind::Context) == (b.kind == DiffLineKind::Context))
            .collect();
        let last = blocks.len().saturating_sub(1);
        for (index, block) in blocks.iter().enumerate() {
            if block.first().is_some_and(|line| line.kind == DiffLineKind::Context) {
                let before = if index == 0 { 0 } else { KEPT_CONTEXT };
                let after = if index == last { 0 } else { KEPT_CONTEXT };
                self.context(block, before, after);
            } else {
                self.changes(block);
            }
        }
    }

    /// Adds unchanged lines, of which all but the first `before` and the last `after` are folded.
    fn context(&mut self, lines: &'a [DiffLine], before: usize, after: usize) {
        let hidden = lines.len().saturating_sub(before + after);
        let is_folded = hidden >= MIN_FOLD;
        for (index, line) in lines.iter().enumerate() {
            if self.room() == 0 {
                return;
            }
            if is_folded && index == before {
                self.rows.push(DiffRow::Fold { count: hidden });
            }
            self.lines += 1;
            let old = self.old_line(line);
            let new = self.new_line(line);
            self.rows.push(DiffRow::Lines { old: Some(old), new: Some(new), is_change: false });
            if is_folded && index + 1 == before + hidden {
                self.rows.push(DiffRow::EndOfFold);
            }
        }
    }

    /// Adds changed lines. The first removed line is shown beside the first added one, and so on.
    fn changes(&mut self, lines: &'a [DiffLine]) {
        let room = self.room();
        let of_kind = |kind| lines.iter().filter(move |line| line.kind == kind).take(room);
        let mut old: Vec<_> = of_kind(DiffLineKind::Removed).map(|line| self.old_line(line)).collect();
        let mut new: Vec<_> = of_kind(DiffLineKind::Added).map(|line| self.new_line(line)).collect();
        self.lines += old.len() + new.len();
        for (old, new) in old.iter_mut().zip(&mut new) {
            if let Some(changed) = changed_words(old.text, new.text) {
                old.changed = changed.old;
                new.changed = changed.new;
            }
        }
        let count = old.len().max(new.len());
        let (mut old, mut new) = (old.into_iter(), new.into_iter());
        for _ in 0..count {
            self.rows.push(DiffRow::Lines { old: old.next(), new: new.next(), is_change: true });
        }
    }

    fn old_line(&mut self, line: &'a DiffLine) -> RowLine<'a> {
        let number = self.old_number;
        self.old_number += 1;
        RowLine { number, text: &line.text, tokens: self.old.line(&line.text), changed: Vec::new() }
    }

    fn new_line(&mut self, line: &'a DiffLine) -> RowLine<'a> {
        let number = self.new_number;
        self.new_number += 1;
        RowLine { number, text: &line.text, tokens: self.new.line(&line.text), changed: Vec::new() }
    }
}

fn body(rows: &[DiffRow<'_>], layout: DiffLayout) -> String {
    let mut writer = TableWriter { html: String::new(), layout, is_folded: false };
    for block in rows.chunk_by(|a, b| is_change(a) && is_change(b)) {
        match layout {
            DiffLayout::Unified if block.first().is_some_and(is_change) => writer.unified_change(block),
            _ => block.iter().for_each(|row| writer.row(row)),
        }
    }
    writer.end_fold();
    writer.html
}

fn is_change(row: &DiffRow<'_>) -> bool {
    matches!(row, DiffRow::Lines { is_change: true, .. })
}

struct TableWriter {
    html: String,
    layout: DiffLayout,
    is_folded: bool,
}

impl TableWriter {
    fn row(&mut self, row: &DiffRow<'_>) {
        let columns = self.layout.columns();
        match row {
            DiffRow::Gap { heading, skipped } => {
                let text = html! {
                    tr.gap { td colspan=(columns) {
                        @if *skipped > 0 { "⋯ " (skipped) " unchanged lines " }
                        (visible(prefix(heading, 200)))
                    } }
                };
                self.html.push_str(&text.0);
            }
            DiffRow::Fold { count } => {
                let text = html! {
                    tr.fold { td colspan=(columns) {
                        label { input type="checkbox"; " Show " (count) " unchanged lines" }
                    } }
                };
                self.html.push_str("</tbody><tbody class=\"fold-switch\">");
                self.html.push_str(&text.0);
                self.html.push_str("</tbody><tbody class=\"folded\">");
                self.is_folded = true;
            }
            DiffRow::EndOfFold => self.end_fold(),
            DiffRow::Lines { old, new, is_change } => match self.layout {
                DiffLayout::SideBySide => self.split_row(old.as_ref(), new.as_ref(), *is_change),
                // Changes are written by `unified_change`, so this is a line of both files.
                DiffLayout::Unified => {
                    if let Some(new) = new {
                        self.unified_row(
                            "",
                            ' ',
                            old.as_ref().map(|line| line.number),
                            Some(new.number),
                            new,
                        );
                    }
                }
            },
        }
    }

    fn end_fold(&mut self) {
        if self.is_folded {
            self.html.push_str("</tbody><tbody>");
            self.is_folded = false;
        }
    }

    /// Writes all removed lines of a change, then all added ones.
    fn unified_change(&mut self, rows: &[DiffRow<'_>]) {
        for row in rows {
            if let DiffRow::Lines { old: Some(old), .. } = row {
                self.unified_row("removed", '-', Some(old.number), None, old);
            }
        }
        for row in rows {
            if let DiffRow::Lines { new: Some(new), .. } = row {
                self.unified_row("added", '+', None, Some(new.number), new);
            }
        }
    }

    fn unified_row(
        &mut self,
        class: &str,
        sign: char,
        old: Option<usize>,
        new: Option<usize>,
        line: &RowLine<'_>,
    ) {
        if class.is_empty() {
            self.html.push_str("<tr>");
        } else {
            self.html.push_str("<tr class=\"");
            self.html.push_str(class);
            self.html.push_str("\">");
        }
        self.number(old);
        self.number(new);
        self.html.push_str("<td class=\"line\">");
        self.html.push(sign);
        self.line(line);
        self.html.push_str("</td></tr>");
    }

    fn split_row(&mut self, old: Option<&RowLine<'_>>, new: Option<&RowLine<'_>>, is_change: bool) {
        self.html.push_str("<tr>");
        self.side(old, if is_change { "removed" } else { "" }, if is_change { '-' } else { ' ' });
        self.side(new, if is_change { "added" } else { "" }, if is_change { '+' } else { ' ' });
        self.html.push_str("</tr>");
    }

    fn side(&mut self, line: Option<&RowLine<'_>>, class: &str, sign: char) {
        self.number(line.map(|line| line.number));
        match line {
            Some(line) => {
                self.html.push_str("<td class=\"line ");
                self.html.push_str(class);
                self.html.push_str("\">");
                self.html.push(sign);
                self.line(line);
            }
            None => self.html.push_str("<td class=\"line absent\">"),
        }
        self.html.push_str("</td>");
    }

    fn number(&mut self, number: Option<usize>) {
        self.html.push_str("<td class=\"number\">");
        if let Some(number) = number {
            self.html.push_str(&number.to_string());
        }
        self.html.push_str("</td>");
    }

    /// Writes the text of a line: tokens as elements, and changed words marked within them.
    fn line(&mut self, line: &RowLine<'_>) {
        let text = prefix(line.text, MAX_LINE);
        let mut at = 0;
        for (range, kind) in &line.tokens {
            self.piece(text, at..range.start, &line.changed);
            self.html.push_str("<span class=\"");
            self.html.push_str(kind.class());
            self.html.push_str("\">");
            self.piece(text, range.clone(), &line.changed);
            self.html.push_str("</span>");
            at = range.end;
        }
        self.piece(text, at..text.len(), &line.changed);
        if text.len() < line.text.len() {
            self.html.push('…');
        }
    }

    /// Writes a part of a line with the changed words in it marked.
    fn piece(&mut self, text: &str, part: Range<usize>, changed: &[Range<usize>]) {
        let mut at = part.start;
        for mark in changed.iter().filter(|mark| mark.start < part.end && mark.end > part.start) {
            let start = mark.start.max(part.start);
            let end = mark.end.min(part.end);
            push_visible(&mut self.html, text.get(at..start).unwrap_or_default());
            self.html.push_str("<mark>");
            push_visible(&mut self.html, text.get(start..end).unwrap_or_default());
            self.html.push_str("</mark>");
            at = end;
        }
        push_visible(&mut self.html, text.get(at..part.end).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{super::diff::parse, *};

    fn shown(text: &str, layout: DiffLayout, max_rows: usize) -> String {
        let file = parse(text).remove(0);
        view(&file, DiffView { layout, max_rows, number: 0, address: "/d" }).into_string()
    }

    const CHANGE: &str = "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@\n // <c>\n-let a = 1;\n+let a = 2;\n";

    #[test]
    fn a_unified_diff_shows_removed_before_added_lines() {
        let html = shown(CHANGE, DiffLayout::Unified, 100);
        assert!(html.contains("<table class=\"diff unified\" aria-label=\"Diff of x.rs\">"), "{html}");
        assert!(
            html.contains("<td class=\"number\">1</td><td class=\"number\">1</td><td class=\"line\"> <span class=\"hl-comment\">// &lt;c&gt;</span></td>"),
            "{html}"
        );
        let removed = html.find("<span class=\"hl-number\"><mark>1</mark></span>").unwrap();
        let added = html.find("<span class=\"hl-number\"><mark>2</mark></span>").unwrap();
        assert!(removed < added);
        assert!(
            html.contains(
                "href=\"/d?layout=split&amp;file=x.rs\" aria-pressed=\"false\" data-diff-layout=\"\">Side by side</a>"
            ),
            "{html}"
        );
    }

    #[test]
    fn a_diff_side_by_side_has_both_lines_in_a_row() {
        let html = shown(CHANGE, DiffLayout::SideBySide, 100);
        let row = html.split("<tr>").find(|row| row.contains("line removed")).unwrap();
        assert!(row.contains("line added"), "{row}");
        assert!(html.contains("href=\"/d?layout=unified&amp;file=x.rs\" aria-pressed=\"true\""), "{html}");
        let html = shown("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\n", DiffLayout::SideBySide, 100);
        assert!(html.contains("<td class=\"line absent\"></td>"), "{html}");
    }

    #[test]
    fn long_context_is_folded() {
        let context: String = (0..40).map(|number| format!(" {number}\n")).collect();
        let text = format!("--- a/x\n+++ b/x\n@@ -1,42 +1,42 @@\n-a\n+b\n{context}-c\n+d\n");
        for layout in [DiffLayout::Unified, DiffLayout::SideBySide] {
            let html = shown(&text, layout, 100);
            assert!(
                html.contains("<label><input type=\"checkbox\"> Show 34 unchanged lines</label>"),
                "{html}"
            );
            assert_eq!(html.matches("<tbody").count(), 4);
            assert_eq!(html.matches("<tbody").count(), html.matches("</tbody>").count());
        }
    }

    #[test]
    fn a_huge_diff_is_cut() {
        let lines: String = (0..10_000).map(|number| format!("+{number}\n")).collect();
        let html =
            shown(&format!("--- /dev/null\n+++ b/x\n@@ -0,0 +1,10000 @@\n{lines}"), DiffLayout::Unified, 50);
        assert!(
            html.contains("9950 more lines. <a href=\"/d?layout=unified&amp;file=x&amp;all=1\">Show all</a>"),
            "{html}"
        );
        assert_eq!(html.matches("<tr class=\"added\">").count(), 50);
        let long = "x".repeat(100_000);
        let html = shown(&format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+{long}\n"), DiffLayout::Unified, 50);
        assert!(html.len() < 5_000 && html.contains('…'));
    }

    #[test]
    fn a_file_without_lines_says_why() {
        for (text, expected) in [
            ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "The file is not text."),
            ("diff --git a/x b/y\nrename from x\nrename to y\n", "The file was moved without a change."),
            ("diff --git a/x b/x\nnew file mode 100644\n", "The file is empty."),
        ] {
            assert!(shown(text, DiffLayout::Unified, 9).contains(expected), "{text}");
        }
    }
}
