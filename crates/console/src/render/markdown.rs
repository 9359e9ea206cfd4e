//! The model's Markdown as HTML.
//!
//! The parser is `pulldown-cmark`; this module writes the tags itself, so that the output needs no sanitizer: HTML in the
//! Markdown is shown as text, links lead only to the schemes in [`LINK_SCHEMES`] and say where, and images are links,
//! because loading one would tell its server who reads the thread.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};
use url::Url;

use super::{
    highlight,
    text::{push_escaped, push_visible, visible_plain},
};

/// The schemes that a link may have.
const LINK_SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// The size above which text is shown as it is. Messages of models are far below it.
const MAX_MARKDOWN: usize = 256 << 10;

/// Elements within each other; deeper ones are left out and their text stays. Browsers have a limit of their own.
const MAX_DEPTH: usize = 32;

/// Returns Markdown as HTML.
pub fn markdown(source: &str) -> Markup {
    let mut writer = MarkdownWriter::default();
    if source.len() > MAX_MARKDOWN {
        writer.html.push_str("<pre class=\"plain\">");
        push_visible(&mut writer.html, source);
        writer.html.push_str("</pre>");
    } else {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for event in Parser::new_ext(source, options) {
            writer.event(event);
        }
    }
    PreEscaped(writer.html)
}

/// Returns the address of a link if it may be followed, normalised.
pub fn link_address(destination: &str) -> Option<String> {
    let url = Url::parse(destination.trim()).ok()?;
    LINK_SCHEMES.contains(&url.scheme()).then(|| url.to_string())
}

#[derive(Default)]
struct MarkdownWriter {
    html: String,
    /// What closes each open element; empty for one that was left out.
    open: Vec<&'static str>,
    /// The open links and images; only the outermost one is an element.
    link_depth: usize,
    code: Option<CodeBlock>,
    alignments: Vec<Alignment>,
    column: usize,
    is_table_head: bool,
}

struct CodeBlock {
    language: String,
    content: String,
}

impl MarkdownWriter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(_) => self.end(),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.content.push_str(&text),
                None => push_visible(&mut self.html, &text),
            },
            // Markup of the model is text for the reader.
            Event::Html(text) | Event::InlineHtml(text) => push_visible(&mut self.html, &text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html.push_str("<code>");
                push_visible(&mut self.html, &text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(true) => {
                self.html.push_str(r#"<input type="checkbox" disabled checked aria-label="Done"> "#);
            }
            Event::TaskListMarker(false) => {
                self.html.push_str(r#"<input type="checkbox" disabled aria-label="Open"> "#);
            }
            Event::FootnoteReference(name) => push_visible(&mut self.html, &name),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.is_too_deep(&tag) {
            self.open.push("");
            return;
        }
        match tag {
            Tag::Paragraph => self.element("<p>", "</p>"),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => self.element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => self.code_block(&kind),
            Tag::List(None) => self.element("<ul>", "</ul>"),
            Tag::List(Some(start)) => {
                let start_tag =
                    if start == 1 { "<ol>".to_owned() } else { format!("<ol start=\"{start}\">") };
                self.element(&start_tag, "</ol>");
            }
            Tag::Item => self.element("<li>", "</li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.element("<table>", "</tbody></table>");
            }
            Tag::TableHead => {
                self.is_table_head = true;
                self.column = 0;
                self.element("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.element("<tr>", "</tr>");
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.element("<em>", "</em>"),
            Tag::Strong => self.element("<strong>", "</strong>"),
            Tag::Strikethrough => self.element("<del>", "</del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url, ""),
            Tag::Image { dest_url, .. } => self.link(&dest_url, "Image: "),
            _ => self.element("", ""),
        }
    }

    /// Returns whether an element is left out. What is inside of one that was left out is left out as well, because a row
    /// without its table would not be balanced. Code blocks stay: their text is collected until their end.
    fn is_too_deep(&self, tag: &Tag<'_>) -> bool {
        let is_inside_left_out = self.open.last().is_some_and(|close| close.is_empty());
        // A table needs room for its rows and cells.
        let room = if matches!(tag, Tag::Table(_)) { 4 } else { 0 };
        let is_deep = self.open.len() + room >= MAX_DEPTH;
        (is_inside_left_out || is_deep) && !matches!(tag, Tag::CodeBlock(_))
    }

    fn end(&mut self) {
        let Some(close) = self.open.pop() else { return };
        match close {
            "</code></pre>" => self.write_code(),
            "</tr></thead><tbody>" => self.is_table_head = false,
            "</a>" | "</span>" => self.link_depth = self.link_depth.saturating_sub(1),
            _ => {}
        }
        self.html.push_str(close);
    }

    fn element(&mut self, open: &str, close: &'static str) {
        self.html.push_str(open);
        self.open.push(close);
    }

    /// The page has headings of its own above the message, so the message's begin at the third level.
    fn heading(&mut self, level: HeadingLevel) {
        match level {
            HeadingLevel::H1 => self.element("<h3>", "</h3>"),
            HeadingLevel::H2 => self.element("<h4>", "</h4>"),
            HeadingLevel::H3 => self.element("<h5>", "</h5>"),
            _ => self.element("<h6>", "</h6>"),
        }
    }

    fn cell(&mut self) {
        let class = match self.alignments.get(self.column) {
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::Right) => " class=\"right\"",
            _ => "",
        };
        self.column += 1;
        if self.is_table_head {
            self.element(&format!("<th scope=\"col\"{class}>"), "</th>");
        } else {
            self.element(&format!("<td{class}>"), "</td>");
        }
    }

    /// Writes a link, or its text alone if its address is not allowed. A title shows the address, because the text may
    /// pretend another one.
    fn link(&mut self, destination: &str, label: &str) {
        if self.link_depth > 0 {
            return self.element("", "");
        }
        self.link_depth += 1;
        match link_address(destination) {
            Some(address) => {
                self.html.push_str("<a href=\"");
                push_escaped(&mut self.html, &address);
                self.html.push_str("\" rel=\"noopener noreferrer nofollow\" target=\"_blank\" title=\"");
                push_escaped(&mut self.html, &visible_plain(&address));
                self.element("\">", "</a>");
            }
            None => {
                self.html.push_str("<span class=\"dead-link\" title=\"");
                push_escaped(&mut self.html, &visible_plain(destination));
                self.element("\">", "</span>");
            }
        }
        self.html.push_str(label);
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().unwrap_or_default().to_owned(),
            CodeBlockKind::Indented => String::new(),
        };
        self.code = Some(CodeBlock { language, content: String::new() });
        self.element("<pre class=\"code\" tabindex=\"0\"><code>", "</code></pre>");
    }

    fn write_code(&mut self) {
        let Some(block) = self.code.take() else { return };
        let language = highlight::language_named(&block.language);
        self.html.push_str(&highlight::code(&block.content, language).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, html: &str) {
        assert_eq!(markdown(source).into_string(), html, "{source}");
    }

    #[test]
    fn blocks_and_spans() {
        check("a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>");
        check("# a\n\n#### b", "<h3>a</h3><h6>b</h6>");
        check(
            "- [x] a\n- [ ] b",
            concat!(
                "<ul><li><input type=\"checkbox\" disabled checked aria-label=\"Done\"> a</li>",
                "<li><input type=\"checkbox\" disabled aria-label=\"Open\"> b</li></ul>"
            ),
        );
        check("3. a", "<ol start=\"3\"><li>a</li></ol>");
        check("> a\n\n---\n", "<blockquote><p>a</p></blockquote><hr>");
        check(
            "|a|b|\n|-|-:|\n|1|2|",
            concat!(
                "<table><thead><tr><th scope=\"col\">a</th><th scope=\"col\" class=\"right\">b</th></tr></thead><tbody>",
                "<tr><td>1</td><td class=\"right\">2</td></tr></tbody></table>"
            ),
        );
        check(
            "```rust\nfn\n```",
            "<pre class=\"code\" tabindex=\"0\"><code><span class=\"hl-keyword\">fn</span>\n</code></pre>",
        );
        check("```\"><b>\n<i>\n```", "<pre class=\"code\" tabindex=\"0\"><code>&lt;i&gt;\n</code></pre>");
    }

    #[test]
    fn links_lead_only_to_the_web_and_to_mail() {
        check(
            "[a](https://x.y/?q=\"<)",
            concat!(
                "<p><a href=\"https://x.y/?q=%22%3C\" rel=\"noopener noreferrer nofollow\" target=\"_blank\"",
                " title=\"https://x.y/?q=%22%3C\">a</a></p>"
            ),
        );
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java&#x0a;script:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//evil.example",
            "/logout",
            "#a",
            "blob:https://a/b",
        ] {
            for source in [format!("[a](<{bad}>)"), format!("![a](<{bad}>)"), format!("<{bad}>")] {
                let html = markdown(&source).into_string();
                assert!(!html.contains("href"), "{source}: {html}");
                assert!(!html.contains("<img"), "{source}: {html}");
            }
        }
        assert_eq!(link_address("mailto:a@b.c").as_deref(), Some("mailto:a@b.c"));
        assert_eq!(link_address(" https://a ").as_deref(), Some("https://a/"));
    }

    #[test]
    fn images_are_links() {
        let html = markdown("![x](https://a/b.png)").into_string();
        assert!(html.contains("<a href=\"https://a/b.png\""), "{html}");
        assert!(html.contains(">Image: x</a>"), "{html}");
        assert!(!markdown("[![x](https://a/b.png)](https://c)").into_string().contains("b.png"));
    }

    #[test]
    fn markup_is_text() {
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("a <img src=x onerror=y> b", "<p>a &lt;img src=x onerror=y&gt; b</p>");
        assert!(markdown("a\u{202e}b").into_string().contains("U+202E"));
    }

    #[test]
    fn deep_nesting_stays_balanced() {
        let html = markdown(&format!("{}x", "> ".repeat(500))).into_string();
        assert!(html.matches("<blockquote>").count() <= MAX_DEPTH);
        assert_eq!(html.matches("<blockquote>").count(), html.matches("</blockquote>").count());
        assert!(markdown(&"*a".repeat(MAX_MARKDOWN)).into_string().starts_with("<pre class=\"plain\">"));
    }
}
