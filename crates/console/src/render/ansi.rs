//! Output of commands as HTML: colours and styles of the terminal as classes.
//!
//! A line behaves as on a terminal: a carriage return or a backspace moves back, and what follows overwrites, so that a
//! progress bar shows its last state. All other escape sequences (cursor movement over lines, titles, links, modes) are
//! dropped. Colours of larger palettes become the nearest of the sixteen, because an exact colour would need an inline style.

use std::fmt::Write;

use maud::{Markup, PreEscaped};

use super::text::push_visible;

/// The longest line that is shown. A terminal line is not longer, and the rest of a minified file tells nothing.
const MAX_COLUMNS: usize = 4_000;

/// The lines of an output that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLines {
    /// All of them.
    All,
    /// The first and the last ones, and a count of those between.
    Ends {
        /// Lines from the beginning.
        first: usize,
        /// Lines from the end.
        last: usize,
    },
}

impl OutputLines {
    /// The lines that a thread's page shows of each command.
    pub const SUMMARY: Self = Self::Ends { first: 20, last: 60 };
}

/// Characters of a summary.
const MAX_SUMMARY: usize = 24 << 10;

/// Output as HTML.
#[derive(Debug)]
pub struct RenderedOutput {
    /// The lines, for a `pre` element.
    pub html: Markup,
    /// Lines that are left out or cut, for a link to all of them.
    pub omitted_lines: usize,
}

/// Returns the output of a command as HTML.
pub fn output(text: &str, lines: OutputLines) -> RenderedOutput {
    let line_count = text.lines().count();
    let (first, last) = match lines {
        OutputLines::Ends { first, last } if line_count > first + last => (first, line_count - last),
        _ => (line_count, line_count),
    };
    let max_line = match lines {
        OutputLines::Ends { .. } if text.len() > MAX_SUMMARY => {
            MAX_SUMMARY / (first + line_count - last).max(1)
        }
        _ => usize::MAX,
    };
    let mut cut_lines = 0;
    let mut terminal = TerminalLine::default();
    let mut html = String::with_capacity(text.len().min(1 << 20));
    for (number, line) in text.lines().enumerate() {
        terminal.feed(line);
        if number < first || number >= last {
            if terminal.cells.len() > max_line {
                terminal.cells.truncate(max_line);
                terminal.is_cut = true;
                cut_lines += 1;
            }
            terminal.write_html(&mut html);
            html.push('\n');
        } else if number == first {
            let omitted = last - first;
            let _ = writeln!(html, r#"<span class="omitted">… {omitted} lines omitted …</span>"#);
        }
        terminal.clear();
    }
    RenderedOutput { html: PreEscaped(html), omitted_lines: last - first + cut_lines }
}

/// Returns text without escape sequences, for places without markup.
pub fn plain(text: &str) -> String {
    let mut terminal = TerminalLine::default();
    let mut plain = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            plain.push('\n');
        }
        terminal.feed(line);
        plain.extend(terminal.cells.iter().map(|cell| cell.character));
        terminal.clear();
    }
    plain
}

/// One line of a terminal. The style continues from line to line.
#[derive(Default)]
struct TerminalLine {
    cells: Vec<Cell>,
    column: usize,
    style: Style,
    is_cut: bool,
}

#[derive(Clone, Copy)]
struct Cell {
    character: char,
    style: Style,
}

impl TerminalLine {
    fn clear(&mut self) {
        self.cells.clear();
        self.column = 0;
        self.is_cut = false;
    }

    fn feed(&mut self, line: &str) {
        let mut rest = line.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => self.column = 0,
                '\u{8}' => self.column = self.column.saturating_sub(1),
                '\u{7}' => {}
                '\u{1B}' => self.escape(&mut rest),
                '\u{9B}' => self.control_sequence(&mut rest),
                '\u{90}' | '\u{98}' | '\u{9D}'..='\u{9F}' => skip_string(&mut rest),
                c => self.put(c),
            }
        }
    }

    fn put(&mut self, character: char) {
        if self.column >= MAX_COLUMNS {
            self.is_cut = true;
            return;
        }
        let cell = Cell { character, style: self.style };
        match self.cells.get_mut(self.column) {
            Some(old) => *old = cell,
            None => self.cells.push(cell),
        }
        self.column += 1;
    }

    /// Handles what follows an escape character.
    fn escape(&mut self, rest: &mut std::str::Chars<'_>) {
        let mut ahead = rest.clone();
        match ahead.next() {
            Some('[') => {
                *rest = ahead;
                self.control_sequence(rest);
            }
            // Device control, title, application command, privacy message, start of string.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                *rest = ahead;
                skip_string(rest);
            }
            // Intermediate bytes, as in the choice of a character set, end with one more character.
            Some(' '..='/') => {
                *rest = ahead;
                for c in rest.by_ref() {
                    if !(' '..='/').contains(&c) {
                        break;
                    }
                }
            }
            Some('0'..='~') => *rest = ahead,
            _ => {}
        }
    }

    /// Handles a control sequence after its introducer. A sequence that contains another control character is abandoned.
    fn control_sequence(&mut self, rest: &mut std::str::Chars<'_>) {
        let mut parameters = String::new();
        loop {
            let mut ahead = rest.clone();
            match ahead.next() {
                Some(c @ ' '..='?') => {
                    *rest = ahead;
                    if parameters.len() < 64 {
                        parameters.push(c);
                    }
                }
                Some(last @ '@'..='~') => {
                    *rest = ahead;
                    return self.apply(last, &parameters);
                }
                _ => return,
            }
        }
    }

    fn apply(&mut self, command: char, parameters: &str) {
        let first = || parameters.split(';').next().and_then(|value| value.parse::<usize>().ok());
        match command {
            'm' => self.style.apply(parameters),
            'K' => self.erase(first().unwrap_or(0)),
            // Columns within what is there; a jump to the right of it would need filling.
            'G' => self.column = first().unwrap_or(1).saturating_sub(1).min(self.cells.len()),
            'D' => self.column = self.column.saturating_sub(first().unwrap_or(1).max(1)),
            'C' => {
                let target = self.column.saturating_add(first().unwrap_or(1).max(1)).min(MAX_COLUMNS);
                let style = Style::default();
                while self.cells.len() < target {
                    self.cells.push(Cell { character: ' ', style });
                }
                self.column = target;
            }
            _ => {}
        }
    }

    /// Erases a part of the line: 0 to the end, 1 from the beginning, 2 all.
    fn erase(&mut self, part: usize) {
        let column = self.column.min(self.cells.len());
        match part {
            0 => self.cells.truncate(column),
            1 | 2 => {
                let end = if part == 2 { self.cells.len() } else { column };
                for cell in self.cells.iter_mut().take(end) {
                    *cell = Cell { character: ' ', style: Style::default() };
                }
            }
            _ => {}
        }
    }

    fn write_html(&self, html: &mut String) {
        for run in self.cells.chunk_by(|a, b| a.style == b.style) {
            let Some(first) = run.first() else { continue };
            let classes = first.style.classes();
            if !classes.is_empty() {
                let _ = write!(html, r#"<span class="{classes}">"#);
            }
            let text: String = run.iter().map(|cell| cell.character).collect();
            push_visible(html, &text);
            if !classes.is_empty() {
                html.push_str("</span>");
            }
        }
        if self.is_cut {
            html.push_str(r#"<span class="omitted">…</span>"#);
        }
    }
}

/// Skips a string sequence up to its terminator: BEL, or ESC and a backslash. A line ends it as well.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\u{7}' | '\u{9C}' => return,
            '\u{1B}' => {
                let mut ahead = rest.clone();
                if ahead.next() == Some('\\') {
                    *rest = ahead;
                    return;
                }
            }
            _ => {}
        }
    }
}

/// The style of a character.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    foreground: Option<u8>,
    background: Option<u8>,
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
    is_underlined: bool,
    is_inverse: bool,
    is_struck: bool,
}

impl Style {
    /// Applies the parameters of a "select graphic rendition" sequence.
    fn apply(&mut self, parameters: &str) {
        // Private forms such as `>4;2m` set modes of the keyboard.
        if parameters.starts_with(['<', '=', '>', '?']) {
            return;
        }
        let mut codes = parameters.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                3 => self.is_italic = true,
                4 | 21 => self.is_underlined = true,
                7 => self.is_inverse = true,
                9 => self.is_struck = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                23 => self.is_italic = false,
                24 => self.is_underlined = false,
                27 => self.is_inverse = false,
                29 => self.is_struck = false,
                30..=37 => self.foreground = Some((code - 30) as u8),
                38 => self.foreground = extended_colour(&mut codes).or(self.foreground),
                39 => self.foreground = None,
                40..=47 => self.background = Some((code - 40) as u8),
                48 => self.background = extended_colour(&mut codes).or(self.background),
                49 => self.background = None,
                90..=97 => self.foreground = Some((code - 90 + 8) as u8),
                100..=107 => self.background = Some((code - 100 + 8) as u8),
                _ => {}
            }
        }
    }

    fn classes(self) -> String {
        let (foreground, background) = if self.is_inverse {
            (self.background, self.foreground)
        } else {
            (self.foreground, self.background)
        };
        let mut classes = Vec::new();
        classes.extend(foreground.map(|colour| format!("ansi-fg-{colour}")));
        classes.extend(background.map(|colour| format!("ansi-bg-{colour}")));
        let flags = [
            (self.is_bold, "ansi-bold"),
            (self.is_dim, "ansi-dim"),
            (self.is_italic, "ansi-italic"),
            (self.is_underlined, "ansi-underline"),
            (self.is_struck, "ansi-strike"),
            // With both colours set, swapping them above is enough.
            (self.is_inverse && (self.foreground.is_none() || self.background.is_none()), "ansi-inverse"),
        ];
        classes.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, class)| class.to_owned()));
        classes.join(" ")
    }
}

/// Reads the rest of an extended colour: `5;N` for one of 256, `2;R;G;B` for an exact one.
fn extended_colour(codes: &mut impl Iterator<Item = u16>) -> Option<u8> {
    match codes.next()? {
        5 => Some(nearest_of_palette(codes.next()?)),
        2 => Some(nearest([codes.next()?, codes.next()?, codes.next()?])),
        _ => None,
    }
}

/// Returns the nearest of the sixteen colours to one of the 256: sixteen, a cube of six steps, and greys.
fn nearest_of_palette(index: u16) -> u8 {
    match index {
        0..=15 => index as u8,
        16..=231 => {
            let step = |value: u16| if value == 0 { 0 } else { 55 + 40 * value };
            let index = index - 16;
            nearest([step(index / 36), step(index / 6 % 6), step(index % 6)])
        }
        _ => nearest([8 + 10 * (index.min(255) - 232); 3]),
    }
}

fn nearest(colour: [u16; 3]) -> u8 {
    const SIXTEEN: [[u16; 3]; 16] = [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
        [127, 127, 127],
        [255, 0, 0],
        [0, 255, 0],
        [255, 255, 0],
        [92, 92, 255],
        [255, 0, 255],
        [0, 255, 255],
        [255, 255, 255],
    ];
    let distance = |other: &[u16; 3]| -> u32 {
        colour.iter().zip(other).map(|(a, b)| u32::from(a.min(&255).abs_diff(*b)).pow(2)).sum()
    };
    (0u8..).zip(&SIXTEEN).min_by_key(|(_, other)| distance(other)).map_or(7, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, html: &str) {
        assert_eq!(output(text, OutputLines::All).html.into_string(), html);
    }

    #[test]
    fn colours_become_classes() {
        check("plain", "plain\n");
        check("\x1b[31mred\x1b[0m x", "<span class=\"ansi-fg-1\">red</span> x\n");
        check("\x1b[1;92;44mx", "<span class=\"ansi-fg-10 ansi-bg-4 ansi-bold\">x</span>\n");
        check("\x1b[38;5;196mx\x1b[39my", "<span class=\"ansi-fg-9\">x</span>y\n");
        check("\x1b[38;2;0;200;10mx", "<span class=\"ansi-fg-2\">x</span>\n");
        check("\x1b[38:2:0:200:10mx", "<span class=\"ansi-fg-2\">x</span>\n");
        check("\x1b[31;42;7mx", "<span class=\"ansi-fg-2 ansi-bg-1\">x</span>\n");
        check("\x1b[7mx", "<span class=\"ansi-inverse\">x</span>\n");
        check("\x1b[31ma\nb", "<span class=\"ansi-fg-1\">a</span>\n<span class=\"ansi-fg-1\">b</span>\n");
        check("\u{9b}31mx", "<span class=\"ansi-fg-1\">x</span>\n");
        check("\x1b[mx\x1b[38;5mx\x1b[38;9;1my", "xx<span class=\"ansi-bold\">y</span>\n");
    }

    #[test]
    fn a_line_shows_its_last_state() {
        check("10%\r20%\r100%", "100%\n");
        check("abcdef\rxy", "xycdef\n");
        check("abcdef\rxy\x1b[K", "xy\n");
        check("abc\x1b[2K\rx", "x  \n");
        check("ab\u{8}c", "ac\n");
        check("a\x1b[3Cb", "a   b\n");
        check("a\r\nb\r\n", "a\nb\n");
    }

    #[test]
    fn other_sequences_are_dropped() {
        check("\x1b]0;title\u{7}x", "x\n");
        check("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link\n");
        check("\x1b[2J\x1b[H\x1b[?25lx\x1b(By\x1b=z", "xyz\n");
        check("\x1bPq#0;2;0\x1b\\x", "x\n");
        check("\x1b[12;", "\n");
        check("\x1b", "\n");
    }

    #[test]
    fn markup_is_text_and_hidden_characters_are_shown() {
        check("\x1b[31m<script>\x1b[0m", "<span class=\"ansi-fg-1\">&lt;script&gt;</span>\n");
        check("\u{202e}x", "<span class=\"hidden-char\" title=\"right-to-left override\">U+202E</span>x\n");
        check("\x1b[31\"onload=x", "nload=x\n");
    }

    #[test]
    fn a_summary_of_long_lines_is_short() {
        let text = format!("{}\n", "x".repeat(4_000)).repeat(60);
        let rendered = output(&text, OutputLines::SUMMARY);
        assert_eq!(rendered.omitted_lines, 60);
        assert!(rendered.html.0.len() < 2 * MAX_SUMMARY, "{}", rendered.html.0.len());
        assert!(output(&text, OutputLines::All).html.0.len() >= text.len());
    }

    #[test]
    fn long_output_keeps_its_ends() {
        let text: String = (0..100).map(|number| format!("{number}\n")).collect();
        let rendered = output(&text, OutputLines::Ends { first: 1, last: 2 });
        assert_eq!(rendered.omitted_lines, 97);
        assert_eq!(
            rendered.html.into_string(),
            "0\n<span class=\"omitted\">… 97 lines omitted …</span>\n98\n99\n"
        );
        assert_eq!(output("a\nb\nc", OutputLines::Ends { first: 1, last: 2 }).omitted_lines, 0);
        assert!(output(&"x".repeat(1 << 20), OutputLines::All).html.0.len() < 5_000);
    }

    #[test]
    fn plain_text_has_no_sequences() {
        assert_eq!(plain("\x1b[31mred\x1b[0m\r\nx\ry"), "red\ny");
    }
}
