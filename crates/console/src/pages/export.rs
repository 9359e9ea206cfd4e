//! `GET /threads/{thread}/export`: a thread as Markdown.

use std::fmt::Write;

use axum::{
    extract::{Path, State},
    http::header,
    response::{IntoResponse, Response},
};
use codicil_client::{
    IncludeTurns,
    protocol::{DynamicToolCallOutputContentItem, Thread, ThreadId, ThreadItem, UserInput},
};

use serde_json::Value;

use super::{PageError, items::shell_text};
use crate::{live::thread_title, render::ansi, state::Console};

pub async fn export(
    State(console): State<Console>,
    Path(thread): Path<String>,
) -> Result<Response, PageError> {
    let thread = console.client.read_thread(&ThreadId::from(thread), IncludeTurns::Yes).await?;
    let name: String = thread_title(&thread)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-'))
        .take(60)
        .collect();
    let disposition = format!("attachment; filename=\"{}.md\"", name.trim().replace(' ', "-"));
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, markdown_of(&thread)).into_response())
}

/// Returns a thread as Markdown.
fn markdown_of(thread: &Thread) -> String {
    let mut text = format!("# {}\n\n- Directory: `{}`\n", thread_title(thread), thread.cwd);
    if let Some(model) = &thread.model {
        let _ = writeln!(text, "- Model: {model}");
    }
    for (number, turn) in thread.turns.iter().enumerate() {
        let _ = writeln!(text, "\n## Turn {}", number + 1);
        turn.items.iter().for_each(|item| write_item(&mut text, item));
        if let Some(error) = &turn.error {
            let _ = writeln!(text, "\n**Failed:** {}", error.message);
        }
    }
    text
}

fn write_item(text: &mut String, item: &ThreadItem) {
    // Writing to a string cannot fail.
    let _ = match item {
        ThreadItem::UserMessage { content, .. } => {
            let parts = content.iter().map(|part| match part {
                UserInput::Text { text, .. } => text.clone(),
                UserInput::Skill { name, .. } => format!("${name}"),
                UserInput::Mention { name, .. } => format!("@{name}"),
                _ => "(image)".to_owned(),
            });
            let said = parts.collect::<Vec<_>>().join("\n").replace('\n', "\n> ");
            writeln!(text, "\n> {said}")
        }
        ThreadItem::AgentMessage { text: said, .. } => writeln!(text, "\n{said}"),
        ThreadItem::Plan { text: plan, .. } => writeln!(text, "\n### Plan\n\n{plan}"),
        ThreadItem::Reasoning { summary, .. } if !summary.is_empty() => {
            writeln!(
                text,
                "\n<details><summary>Reasoning</summary>\n\n{}\n\n</details>",
                summary.join("\n\n")
            )
        }
        ThreadItem::CommandExecution { command, aggregated_output, exit_code, .. } => {
            let output = ansi::plain(aggregated_output.as_deref().unwrap_or_default());
            let code = exit_code.map(|code| format!("exit {code}")).unwrap_or_default();
            let content = format!("$ {}\n{output}", shell_text(command));
            writeln!(text, "\n{}\n{code}", fenced("console", &content))
        }
        ThreadItem::FileChange { changes, .. } => {
            for change in changes {
                let _ = writeln!(text, "\n`{}`\n\n{}", change.path, fenced("diff", &change.diff));
            }
            Ok(())
        }
        ThreadItem::McpToolCall { server, tool, arguments, result, error, .. } => {
            let parts = result.iter().flat_map(|result| &result.content);
            let texts = parts.filter_map(|part| part.get("text")?.as_str());
            let texts = texts.chain(error.iter().map(|error| error.message.as_str()));
            write_call(text, &format!("{server}/{tool}"), arguments, texts)
        }
        ThreadItem::DynamicToolCall { tool, arguments, content_items, .. } => {
            let texts = content_items.iter().flatten().filter_map(|part| match part {
                DynamicToolCallOutputContentItem::InputText { text } => Some(text.as_str()),
                _ => None,
            });
            write_call(text, tool, arguments, texts)
        }
        ThreadItem::CollabAgentToolCall { prompt: Some(prompt), .. } => {
            writeln!(text, "\nTo a subagent:\n\n> {}", prompt.replace('\n', "\n> "))
        }
        ThreadItem::ContextCompaction { .. } => writeln!(text, "\n---\n\nThe history was compacted here."),
        ThreadItem::WebSearch { query, .. } => writeln!(text, "\nWeb search: {query}"),
        ThreadItem::ExitedReviewMode { review, .. } => writeln!(text, "\n### Review\n\n{review}"),
        _ => Ok(()),
    };
}

/// Writes the call of a tool with the texts of its result.
fn write_call<'a>(
    text: &mut String,
    name: &str,
    arguments: &Value,
    results: impl Iterator<Item = &'a str>,
) -> std::fmt::Result {
    writeln!(text, "\nTool call `{name}`\n\n{}", fenced("json", &arguments.to_string()))?;
    for result in results {
        writeln!(text, "\n{}", fenced("", result))?;
    }
    Ok(())
}

/// Returns a code block whose fence is longer than any in its content.
fn fenced(language: &str, content: &str) -> String {
    let longest =
        content.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", content.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_those_within() {
        assert_eq!(fenced("x", "a\n"), "```x\na\n```");
        assert_eq!(fenced("", "```\nb\n```"), "````\n```\nb\n```\n````");
    }
}
