//! Items, each as an `article` that is named by its kind. Items of tools and of the rest are in `tool_items.rs`.

use codicil_client::protocol::{
    CommandAction, CommandExecutionStatus, FileUpdateChange, ImageSource, ItemId, PatchApplyStatus, ThreadId,
    ThreadItem, TurnId, UserInput,
};
use maud::{Markup, html};

use super::{
    format,
    tool_items::{self, ItemPartMarkup},
};
use crate::{
    live::{ItemPart, TurnView},
    render::{
        ansi::{self, OutputLines},
        diff::{DiffLayout, DiffView, FileDiff, change_counts, view},
        markdown::{link_address, markdown},
        text::{prefix, url_part, visible, visible_plain},
    },
};

/// Rows of a diff on a thread's page.
const MAX_DIFF_ROWS: usize = 120;

/// Files of one item whose diffs are on a thread's page.
const MAX_DIFFS: usize = 8;

/// The longest message on a thread's page, in bytes.
const MAX_MESSAGE: usize = 60_000;

pub fn element_id(turn: &TurnId, item: &ItemId) -> String {
    format!("item-{turn}-{}", url_part(item))
}

/// Returns the address of an item. Its id may come from the model.
pub fn item_address(thread: &ThreadId, turn: &TurnId, item: &ItemId) -> String {
    format!("/threads/{thread}/turns/{turn}/items/{}", url_part(item))
}

/// Returns the id of the element that text of an open item is appended to.
pub fn text_element_id(turn: &TurnId, item: &ItemId, part: ItemPart) -> String {
    let item = element_id(turn, item);
    match part {
        ItemPart::Body => format!("{item}-text"),
        ItemPart::Summary(index) => format!("{item}-summary-{index}"),
        ItemPart::Content(index) => format!("{item}-content-{index}"),
    }
}

/// The kind of text that is appended to an open item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamedText {
    /// Output of a command, with escape sequences.
    Output,
    Message,
}

impl StreamedText {
    /// Returns the kind of an item's text.
    pub fn of(item: Option<&ThreadItem>) -> Self {
        match item {
            Some(ThreadItem::CommandExecution { .. }) => Self::Output,
            _ => Self::Message,
        }
    }

    /// Returns text as it is appended to the page. It is rendered with colours and Markdown when the item is complete.
    pub fn shown(self, text: &str) -> String {
        match self {
            Self::Output => {
                let end = if text.ends_with('\n') { "\n" } else { "" };
                visible_plain(&ansi::plain(text)) + end
            }
            Self::Message => visible_plain(text),
        }
    }
}

/// An item with what is needed to render it.
struct ShownItem<'a> {
    thread: &'a ThreadId,
    turn: &'a TurnId,
    id: &'a ItemId,
    is_open: bool,
}

/// Returns an item. Kinds that this version does not know are left out.
pub fn item(thread: &ThreadId, turn: &TurnView, item: &ThreadItem) -> Markup {
    let Some(id) = item.id() else { return html! {} };
    let shown = ShownItem { thread, turn: &turn.id, id, is_open: turn.is_open(id) };
    shown.item(item)
}

impl ShownItem<'_> {
    fn item(&self, item: &ThreadItem) -> Markup {
        match item {
            ThreadItem::UserMessage { content, .. } => self.user_message(content),
            ThreadItem::AgentMessage { text, .. } => {
                self.article("agent-message", "Agent message", html! {}, self.text(text))
            }
            ThreadItem::Plan { text, .. } => self.article("plan", "Plan", html! {}, self.text(text)),
            ThreadItem::Reasoning { summary, content, .. } => self.reasoning(summary, content),
            ThreadItem::CommandExecution { .. } => self.command(item),
            ThreadItem::FileChange { changes, status, .. } => self.file_change(changes, status),
            ThreadItem::ImageView { path, .. } => {
                let body = html! { p.meta { (visible(path)) } (self.image(0, path)) };
                self.article("image", "Image", html! {}, body)
            }
            ThreadItem::ImageGeneration { revised_prompt, result, .. } => {
                let body = html! {
                    @if let Some(prompt) = revised_prompt { p.meta { (visible(prompt)) } }
                    @if !result.is_empty() { (self.image(0, "Generated image")) }
                };
                self.article("image", "Image", html! {}, body)
            }
            other => match tool_items::part(other) {
                Some(ItemPartMarkup { class, kind, head, body }) => {
                    let images = tool_items::image_numbers(other);
                    let body = html! { (body) @for number in images { (self.image(number, "Image of the result")) } };
                    self.article(class, kind, head, body)
                }
                None => html! {},
            },
        }
    }

    fn article(&self, class: &str, kind: &str, head: Markup, body: Markup) -> Markup {
        let id = element_id(self.turn, self.id);
        html! {
            article.item.(class) id=(id) aria-label=(kind) tabindex="-1" {
                header {
                    h3 { (kind) } " " (head)
                    a.permalink href={ "/threads/" (self.thread) "?turn=" (self.turn) "&item=" (url_part(self.id)) "#" (url_part(&id)) } aria-label={ "Link to this " (kind.to_lowercase()) } { "#" }
                }
                (body)
            }
        }
    }

    /// Returns text of the agent: plain while it is written, Markdown when it is complete.
    fn text(&self, text: &str) -> Markup {
        let id = text_element_id(self.turn, self.id, ItemPart::Body);
        if self.is_open {
            return html! { div.streaming id=(id) { (visible_plain(text)) } };
        }
        html! {
            div.markdown id=(id) { (markdown(prefix(text, MAX_MESSAGE))) }
            @if text.len() > MAX_MESSAGE { (self.all_output("The message is cut here. Show all")) }
        }
    }

    fn user_message(&self, content: &[UserInput]) -> Markup {
        self.article("user-message", "User message", html! {}, html! {
            @for (index, part) in content.iter().enumerate() {
                @match part {
                    UserInput::Text { text, .. } => p.text { (visible(prefix(text, MAX_MESSAGE))) },
                    UserInput::Image { source: ImageSource::Url { url }, .. } if !url.starts_with("data:") => {
                        p { "Image at " (safe_link(url)) }
                    }
                    UserInput::Image { .. } | UserInput::LocalImage { .. } => (self.image(index, "Attached image")),
                    UserInput::Skill { name, .. } => span.chip { "$" (visible(name)) },
                    UserInput::Mention { name, .. } => span.chip { "@" (visible(name)) },
                    _ => {}
                }
            }
        })
    }

    /// Returns an image, which is loaded when it becomes visible.
    fn image(&self, index: usize, description: &str) -> Markup {
        let source = format!("{}/images/{index}", item_address(self.thread, self.turn, self.id));
        html! { img.attachment src=(source) alt=(visible_plain(description)) loading="lazy"; }
    }

    fn reasoning(&self, summary: &[String], content: &[String]) -> Markup {
        let title = summary.iter().find_map(|section| section.lines().find(|line| !line.trim().is_empty()));
        let title = title.map_or_else(|| "Thinking".to_owned(), |line| line.trim().replace("**", ""));
        self.article(
            "reasoning",
            "Reasoning",
            html! {},
            html! {
                details open[self.is_open] {
                    summary { (visible(prefix(&title, 160))) }
                    @for (index, section) in summary.iter().enumerate() {
                        (self.reasoning_section(ItemPart::Summary(index), section))
                    }
                    @for (index, section) in content.iter().enumerate() {
                        (self.reasoning_section(ItemPart::Content(index), section))
                    }
                }
            },
        )
    }

    fn reasoning_section(&self, part: ItemPart, section: &str) -> Markup {
        let id = text_element_id(self.turn, self.id, part);
        html! {
            @if self.is_open { div.streaming id=(id) { (visible_plain(section)) } }
            @else { div.markdown id=(id) { (markdown(section)) } }
        }
    }

    fn command(&self, item: &ThreadItem) -> Markup {
        let ThreadItem::CommandExecution {
            command,
            cwd,
            status,
            command_actions,
            aggregated_output,
            exit_code,
            duration_ms,
            ..
        } = item
        else {
            return html! {};
        };
        let (class, state) = match (status, exit_code) {
            (CommandExecutionStatus::InProgress, _) => ("running", "Running".to_owned()),
            (CommandExecutionStatus::Declined, _) => ("failed", "Declined".to_owned()),
            (CommandExecutionStatus::Failed, Some(code)) => ("failed", format!("Exit {code}")),
            (CommandExecutionStatus::Failed, None) => ("failed", "Failed".to_owned()),
            _ => ("ok", exit_code.map_or_else(|| "Done".to_owned(), |code| format!("Exit {code}"))),
        };
        let head = html! {
            span.chip.(class) { (state) }
            @if let Some(milliseconds) = duration_ms { " " span.meta { (format::duration(*milliseconds)) } }
            " " span.meta { "in " (visible(cwd)) }
        };
        let text = aggregated_output.as_deref().unwrap_or_default();
        let output = ansi::output(text, OutputLines::SUMMARY);
        self.article("command", "Command", head, html! {
            pre.command-line { code { (visible(&shell_text(command))) } }
            (action_summary(command_actions))
            @if self.is_open || !text.is_empty() {
                pre.output id=(text_element_id(self.turn, self.id, ItemPart::Body)) tabindex="0" aria-label="Output" { (output.html) }
            }
            @if output.omitted_lines > 0 { (self.all_output("Show all output")) }
        })
    }

    fn all_output(&self, label: &str) -> Markup {
        html! {
            p.more { a data-more="" href={ (item_address(self.thread, self.turn, self.id)) "/output" } { (label) } }
        }
    }

    fn file_change(&self, changes: &[FileUpdateChange], status: &PatchApplyStatus) -> Markup {
        let (class, state) = match status {
            PatchApplyStatus::InProgress => ("running", "Not applied yet"),
            PatchApplyStatus::Failed => ("failed", "Failed"),
            PatchApplyStatus::Declined => ("failed", "Declined"),
            _ => ("ok", "Applied"),
        };
        let address = format!("{}/diff", item_address(self.thread, self.turn, self.id));
        // The question about a change shows its diff.
        let body = match status {
            PatchApplyStatus::InProgress => changed_files(changes, &address),
            _ => diffs(changes, &address),
        };
        self.article("file-change", "File change", html! { span.chip.(class) { (state) } }, body)
    }
}

/// Returns the names of changed files, with a link to the diff.
fn changed_files(changes: &[FileUpdateChange], address: &str) -> Markup {
    html! {
        ul.changed-files {
            @for change in changes.iter().take(MAX_DIFFS) {
                @let file = FileDiff::from_change(change);
                li { span.path { (visible(&file.path)) } " " (change_counts(&file)) }
            }
        }
        p.more { a href=(address) { "Show the changes" @if changes.len() > MAX_DIFFS { " of all " (changes.len()) " files" } } }
    }
}

/// Returns the diffs of edits.
pub fn diffs(changes: &[FileUpdateChange], address: &str) -> Markup {
    html! {
        @for (number, change) in changes.iter().take(MAX_DIFFS).enumerate() {
            (view(&FileDiff::from_change(change), DiffView { layout: DiffLayout::Unified, max_rows: MAX_DIFF_ROWS, number, address }))
        }
        @if changes.len() > MAX_DIFFS {
            p.more { a href=(address) { "Show all " (changes.len()) " files" } }
        }
    }
}

/// Returns a command line as a person would type it: without the shell that runs it.
pub fn shell_text(command: &str) -> String {
    for shell in [
        "/bin/bash -lc ",
        "bash -lc ",
        "/bin/bash -c ",
        "bash -c ",
        "/bin/sh -c ",
        "sh -c ",
        "/bin/zsh -lc ",
        "zsh -lc ",
    ] {
        let Some(quoted) = command.strip_prefix(shell) else { continue };
        let inner = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        let inner = inner.or_else(|| quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')));
        return inner.unwrap_or(quoted).replace("'\\''", "'");
    }
    command.to_owned()
}

/// Returns what a command appears to do, in words.
pub fn action_summary(actions: &[CommandAction]) -> Markup {
    let known: Vec<(&str, String)> = actions
        .iter()
        .filter_map(|action| match action {
            CommandAction::Read { name, .. } => Some(("Reads", name.clone())),
            CommandAction::ListFiles { path, .. } => {
                Some(("Lists", path.clone().unwrap_or_else(|| "files".to_owned())))
            }
            CommandAction::Search { query, .. } => Some(("Searches for", query.clone().unwrap_or_default())),
            _ => None,
        })
        .collect();
    html! {
        @if !known.is_empty() {
            p.meta.actions { @for (verb, what) in &known { span { (verb) " " (visible(prefix(what, 120))) } " " } }
        }
    }
}

/// Returns a link that may be followed, or its text.
pub fn safe_link(url: &str) -> Markup {
    html! {
        @match link_address(url) {
            Some(address) => a href=(address) rel="noreferrer noopener" target="_blank" { (visible(url)) },
            None => code { (visible(url)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_of_a_command_is_left_out() {
        let check = |command: &str, expected: &str| assert_eq!(shell_text(command), expected, "{command}");
        check("/bin/bash -lc 'make test'", "make test");
        check("bash -lc \"echo hi\"", "echo hi");
        check("bash -c ls", "ls");
        check("/bin/sh -c 'echo '\\''a'\\'''", "echo 'a'");
        check("make", "make");
    }
}
