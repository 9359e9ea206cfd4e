//! Code as HTML, with classes for comments, strings, numbers and words.
//!
//! Written by hand although `syntect` exists, which is too heavy here: its grammars and its second regex engine would be a
//! large part of the binary, its default grammars lack TypeScript and TOML, grammars are compiled on first use within a
//! request, and backtracking expressions make the time for a hostile line unpredictable. This lexer knows comments, strings, numbers, keywords, types, calls and keys of the languages in
//! [`languages`](super::languages), reads each character once, and carries its state from line to line, which a diff needs.

use std::ops::Range;

use maud::{Markup, PreEscaped};

use super::{
    languages::{LANGUAGES, Language, StringSyntax},
    text::push_visible,
};

pub use super::languages::Language as CodeLanguage;

/// The longest line that is highlighted; longer ones are shown as they are.
const MAX_LINE: usize = 4_000;

/// What a piece of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Attribute,
    Comment,
    Constant,
    Function,
    Key,
    Keyword,
    Number,
    String,
    Tag,
    Type,
    Added,
    Removed,
}

impl TokenKind {
    /// The class of the piece's element.
    pub fn class(self) -> &'static str {
        match self {
            Self::Attribute => "hl-attribute",
            Self::Comment => "hl-comment",
            Self::Constant => "hl-constant",
            Self::Function => "hl-function",
            Self::Key => "hl-key",
            Self::Keyword => "hl-keyword",
            Self::Number => "hl-number",
            Self::String => "hl-string",
            Self::Tag => "hl-tag",
            Self::Type => "hl-type",
            Self::Added => "hl-added",
            Self::Removed => "hl-removed",
        }
    }
}

/// A highlighted piece of a line, in bytes.
pub type Token = (Range<usize>, TokenKind);

/// Returns the language with this name, as in a code fence.
pub fn language_named(name: &str) -> Option<&'static Language> {
    let name = name.to_ascii_lowercase();
    LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()))
}

/// Returns the language of a file, by its name.
pub fn language_of_path(path: &str) -> Option<&'static Language> {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let file = file.to_ascii_lowercase();
    let name = match file.as_str() {
        "cargo.lock" => "toml",
        "gemfile" | "rakefile" => "ruby",
        "cmakelists.txt" => "cmake",
        ".bashrc" | ".zshrc" | ".profile" => "bash",
        "dockerfile" | "containerfile" | "makefile" | "justfile" => &file,
        _ => file.rsplit_once('.')?.1,
    };
    language_named(name)
}

/// Returns code as HTML, for the inside of a `code` element.
pub fn code(code: &str, language: Option<&'static Language>) -> Markup {
    let mut html = String::with_capacity(code.len() * 2);
    let mut highlighter = Highlighter::new(language);
    for line in code.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let tokens = highlighter.line(content);
        push_tokens(&mut html, content, &tokens);
        if content.len() < line.len() {
            html.push('\n');
        }
    }
    PreEscaped(html)
}

/// Appends a line with its tokens as elements.
pub fn push_tokens(html: &mut String, line: &str, tokens: &[Token]) {
    let mut end = 0;
    for (range, kind) in tokens {
        push_visible(html, line.get(end..range.start).unwrap_or_default());
        html.push_str("<span class=\"");
        html.push_str(kind.class());
        html.push_str("\">");
        push_visible(html, line.get(range.clone()).unwrap_or_default());
        html.push_str("</span>");
        end = range.end;
    }
    push_visible(html, line.get(end..).unwrap_or_default());
}

/// Highlights code line by line.
#[derive(Clone, Debug)]
pub struct Highlighter {
    language: Option<&'static Language>,
    /// The comment or string that the last line left open.
    open: Option<OpenSpan>,
}

/// A comment or a string that continues on the next line.
#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    kind: TokenKind,
    close: &'static str,
    has_escapes: bool,
}

impl Highlighter {
    /// Starts at the beginning of a text. Without a language nothing is highlighted.
    pub fn new(language: Option<&'static Language>) -> Self {
        Self { language, open: None }
    }

    /// Returns the tokens of the next line, which must not contain the line's end. They are in order and do not overlap.
    pub fn line(&mut self, line: &str) -> Vec<Token> {
        let Some(language) = self.language else { return Vec::new() };
        if line.len() > MAX_LINE {
            return Vec::new();
        }
        if language.traits.is_diff {
            return diff_line(line);
        }
        let mut lexer = LineLexer { language, line, at: 0, tokens: Vec::new() };
        let mut open = self.open.take();
        loop {
            if let Some(span) = open.take() {
                let start = lexer.at;
                open = lexer.span(start, span);
            }
            if lexer.at >= line.len() {
                break;
            }
            open = lexer.step();
        }
        self.open = open;
        lexer.tokens
    }
}

/// Returns whether text behind a word makes the word a key: `=`, or a colon that does not belong to an address.
fn is_before_value(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('=') || text.strip_prefix(':').is_some_and(|rest| !rest.starts_with("//"))
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn diff_line(line: &str) -> Vec<Token> {
    let kind = match line.as_bytes().first() {
        Some(b'+') => TokenKind::Added,
        Some(b'-') => TokenKind::Removed,
        Some(b'@') => TokenKind::Keyword,
        _ => return Vec::new(),
    };
    vec![(0..line.len(), kind)]
}

/// The lexer of one line.
struct LineLexer<'a> {
    language: &'static Language,
    line: &'a str,
    at: usize,
    tokens: Vec<Token>,
}

impl LineLexer<'_> {
    fn rest(&self) -> &str {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, start: usize, kind: TokenKind) {
        if start < self.at {
            self.tokens.push((start..self.at, kind));
        }
    }

    /// Reads one token. Returns the comment or string that begins here, with the position behind its opening.
    fn step(&mut self) -> Option<OpenSpan> {
        let start = self.at;
        let rest = self.rest();
        let c = rest.chars().next()?;
        // Comments that end with the line are longer than operators, and `--[[` is longer than `--`.
        if let Some((open, close)) =
            self.language.block_comments.iter().find(|(open, _)| rest.starts_with(open))
        {
            return self.begin(
                start,
                open.len(),
                OpenSpan { kind: TokenKind::Comment, close, has_escapes: false },
            );
        }
        if self.begins_line_comment(rest) {
            self.at = self.line.len();
            self.push(start, TokenKind::Comment);
            return None;
        }
        if let Some(string) = self.language.strings.iter().find(|string| rest.starts_with(string.open)) {
            return self.string(start, string);
        }
        if c.is_ascii_digit() {
            self.number();
        } else if c.is_alphabetic() || c == '_' {
            self.word();
        } else if self.language.traits.has_attributes
            && (c == '@' || rest.starts_with("#[") || rest.starts_with("#!["))
        {
            self.attribute(c);
        } else if self.language.traits.has_tags && c == '<' {
            self.tag();
        } else {
            self.at += c.len_utf8();
        }
        None
    }

    /// A `#` begins a comment only at the start of a word: `$#` and `a#b` are not comments in shells.
    fn begins_line_comment(&self, rest: &str) -> bool {
        let Some(marker) = self.language.line_comments.iter().find(|marker| rest.starts_with(**marker))
        else {
            return false;
        };
        let before = self.line.get(..self.at).and_then(|before| before.chars().next_back());
        // `//` within a URL has a colon before it.
        let is_url = *marker == "//" && before == Some(':');
        let is_inside_word =
            marker.len() == 1 && before.is_some_and(|c| !c.is_whitespace() && !"(){}[],;|&".contains(c));
        let is_rust_attribute = self.language.traits.has_attributes && rest.starts_with("#[");
        !is_url && !is_inside_word && !is_rust_attribute
    }

    fn begin(&mut self, start: usize, opening: usize, span: OpenSpan) -> Option<OpenSpan> {
        self.at = start + opening;
        self.span(start, span)
    }

    fn string(&mut self, start: usize, string: &'static StringSyntax) -> Option<OpenSpan> {
        if string.open == "'" && self.is_lifetime() {
            self.at += 1;
            self.skip_word();
            self.push(start, TokenKind::Attribute);
            return None;
        }
        let span = OpenSpan { kind: TokenKind::String, close: string.close, has_escapes: string.has_escapes };
        let open = self.begin(start, string.open.len(), span).filter(|_| string.is_multiline);
        self.name_key(start);
        open
    }

    /// Whether a quote begins a lifetime of Rust: a name follows, and no second quote behind its first character.
    fn is_lifetime(&self) -> bool {
        let mut ahead = self.rest().chars().skip(1);
        self.language.names.contains(&"rust")
            && ahead.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && ahead.next() != Some('\'')
    }

    /// Makes a string that is a key into a key, as in JSON.
    fn name_key(&mut self, start: usize) {
        let is_key = self.language.traits.has_keys && self.rest().trim_start().starts_with([':', '=']);
        if let Some((range, kind)) = self.tokens.last_mut()
            && is_key
            && range.start == start
        {
            *kind = TokenKind::Key;
        }
    }

    /// Reads up to the end of a comment or string, or of the line. Returns it if it goes on.
    fn span(&mut self, start: usize, span: OpenSpan) -> Option<OpenSpan> {
        let mut is_open = true;
        while is_open && let Some(c) = self.rest().chars().next() {
            if self.rest().starts_with(span.close) {
                self.at += span.close.len();
                is_open = false;
            } else if span.has_escapes && c == '\\' {
                self.at += 1;
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            } else {
                self.at += c.len_utf8();
            }
        }
        self.push(start, span.kind);
        is_open.then_some(span)
    }

    fn number(&mut self) {
        let start = self.at;
        let mut previous = ' ';
        while let Some(c) = self.rest().chars().next() {
            let is_fraction = c == '.' && self.rest().chars().nth(1).is_some_and(|c| c.is_ascii_digit());
            let is_exponent_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || c == '_' || is_fraction || is_exponent_sign) {
                break;
            }
            self.at += c.len_utf8();
            previous = c;
        }
        self.push(start, TokenKind::Number);
    }

    fn skip_word(&mut self) {
        let dashes = self.language.traits.has_dashed_words;
        while let Some(c) = self.rest().chars().next() {
            if !(c.is_alphanumeric() || c == '_' || (dashes && c == '-')) {
                break;
            }
            self.at += c.len_utf8();
        }
    }

    fn word(&mut self) {
        let start = self.at;
        self.skip_word();
        let word = self.line.get(start..self.at).unwrap_or_default();
        if let Some(kind) = self.word_kind(word) {
            self.push(start, kind);
        }
    }

    fn word_kind(&self, word: &str) -> Option<TokenKind> {
        let language = self.language;
        let lower;
        let looked_up = if language.traits.ignores_case {
            lower = word.to_ascii_lowercase();
            lower.as_str()
        } else {
            word
        };
        let follows = self.rest();
        if language.traits.has_keys && is_before_value(follows) {
            return Some(TokenKind::Key);
        }
        if has_word(language.constants, looked_up) {
            return Some(TokenKind::Constant);
        }
        if has_word(language.keywords, looked_up) {
            return Some(TokenKind::Keyword);
        }
        if language.traits.has_capital_types && word.starts_with(char::is_uppercase) {
            return Some(TokenKind::Type);
        }
        (follows.starts_with('(') || follows.starts_with("!(")).then_some(TokenKind::Function)
    }

    /// Reads `@name`, or `#[…]` to its bracket or the end of the line.
    fn attribute(&mut self, first: char) {
        let start = self.at;
        self.at += first.len_utf8();
        if first == '@' {
            self.skip_word();
        } else {
            let length = self.rest().find(']').map_or(self.rest().len(), |end| end + 1);
            self.at += length;
        }
        self.push(start, TokenKind::Attribute);
    }

    /// Reads `<name` or `</name`.
    fn tag(&mut self) {
        let start = self.at;
        self.at += 1;
        if self.rest().starts_with(['/', '!', '?']) {
            self.at += 1;
        }
        self.skip_word();
        self.push(start, TokenKind::Tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows tokens as `kind:text`.
    #[track_caller]
    fn check(language: &str, source: &str, expected: &[&str]) {
        let mut highlighter = Highlighter::new(Some(language_named(language).unwrap()));
        let mut shown = Vec::new();
        for line in source.lines() {
            for (range, kind) in highlighter.line(line) {
                shown.push(format!("{}:{}", &kind.class()[3..], &line[range]));
            }
        }
        assert_eq!(shown, expected, "{source}");
    }

    #[test]
    fn code_is_split_into_tokens() {
        check(
            "rust",
            "fn main() { let x: &'a str = \"a\\\"b\"; } // end",
            &[
                "keyword:fn",
                "function:main",
                "keyword:let",
                "attribute:'a",
                "keyword:str",
                "string:\"a\\\"b\"",
                "comment:// end",
            ],
        );
        check(
            "rs",
            "#[test] 'x' 1_000u32 0.5 Vec::new()",
            &["attribute:#[test]", "string:'x'", "number:1_000u32", "number:0.5", "type:Vec", "function:new"],
        );
        check("rust", "/* a\nb */ c", &["comment:/* a", "comment:b */"]);
        check("rust", "r#\"a\"b\"#", &["string:r#\"a\"b\"#"]);
        check(
            "py",
            "@cache\ndef f():\n  \"\"\"doc\n  more\"\"\"\n  return None # x",
            &[
                "attribute:@cache",
                "keyword:def",
                "function:f",
                "string:\"\"\"doc",
                "string:  more\"\"\"",
                "keyword:return",
                "constant:None",
                "comment:# x",
            ],
        );
        check("ts", "const a = `x ${y}`; // z", &["keyword:const", "string:`x ${y}`", "comment:// z"]);
        check("toml", "a-b = \"x\" # c\n[dependencies]", &["key:a-b", "string:\"x\"", "comment:# c"]);
        check(
            "json",
            "{\"a\": [1, true, \"b\"]}",
            &["key:\"a\"", "number:1", "constant:true", "string:\"b\""],
        );
        check("sh", "echo $# 'a b' # c", &["string:'a b'", "comment:# c"]);
        check("sql", "SELECT a FROM b -- c", &["keyword:SELECT", "keyword:FROM", "comment:-- c"]);
        check(
            "html",
            "<a href=\"x\">y</a><!-- z -->",
            &["tag:<a", "string:\"x\"", "tag:</a", "comment:<!-- z -->"],
        );
        check("diff", "@@ -1 +1 @@\n-a\n+b\n c", &["keyword:@@ -1 +1 @@", "removed:-a", "added:+b"]);
        check("go", "x := \"open", &["string:\"open"]);
        check("yaml", "url: http://a//b # c", &["key:url", "comment:# c"]);
    }

    #[test]
    fn languages_are_found_by_name_and_by_path() {
        for (path, name) in [
            ("src/main.rs", Some("rust")),
            ("a/Dockerfile", Some("dockerfile")),
            ("Makefile", Some("makefile")),
            ("Cargo.lock", Some("ini")),
            ("x.TSX", Some("javascript")),
            ("README", None),
            ("a.b/c", None),
        ] {
            assert_eq!(language_of_path(path).map(|language| language.names[0]), name, "{path}");
        }
    }

    #[test]
    fn no_name_is_listed_twice() {
        let mut names: Vec<_> = LANGUAGES.iter().flat_map(|language| language.names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn markup_in_code_is_text() {
        let html = code("\"<script>\" // </code>\n", language_named("rust")).into_string();
        assert_eq!(
            html,
            "<span class=\"hl-string\">&quot;&lt;script&gt;&quot;</span> <span class=\"hl-comment\">// &lt;/code&gt;</span>\n"
        );
    }
}
