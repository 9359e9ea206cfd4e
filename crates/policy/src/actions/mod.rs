//! Summarises a command in the protocol's words: reading, listing, searching. For display only.

mod programs;

use std::path::Path;

use codicil_protocol::CommandAction;

use crate::command_line::{CommandConnector, CommandLine, PlainCommand};

use programs::CommandMeaning;

pub(crate) use programs::is_line_range;

/// Summarises a command. A line with an unknown part is one unknown action with the whole text.
pub fn command_actions(line: &CommandLine) -> Vec<CommandAction> {
    known_actions(line).filter(|actions| !actions.is_empty()).unwrap_or_else(|| {
        let command = line.script().map_or_else(|| line.display(), |script| script.trim().to_owned());
        vec![CommandAction::Unknown { command }]
    })
}

fn known_actions(line: &CommandLine) -> Option<Vec<CommandAction>> {
    let mut summary = ActionSummary { line, directory: None, actions: Vec::new() };
    for pipeline in line.plain()?.chunk_by(|_, next| next.connector == CommandConnector::Pipe) {
        summary.pipeline(pipeline)?;
    }
    Some(summary.actions)
}

struct ActionSummary<'a> {
    line: &'a CommandLine,
    /// The directory after `cd`, relative to that of the line.
    directory: Option<String>,
    actions: Vec<CommandAction>,
}

impl ActionSummary<'_> {
    /// Adds the actions of a pipeline. Returns `None` if a stage is unknown.
    fn pipeline(&mut self, stages: &[PlainCommand]) -> Option<()> {
        let start = self.actions.len();
        for (index, stage) in stages.iter().enumerate() {
            let is_first = index == 0;
            match programs::meaning(stage) {
                CommandMeaning::Unknown => return None,
                // A filter at the start reads input that the line does not name.
                CommandMeaning::Filter { .. } if is_first => return None,
                CommandMeaning::Filter { picks_lines: true } => self.show_whole(start, stages),
                CommandMeaning::Filter { picks_lines: false } | CommandMeaning::Nothing => {}
                CommandMeaning::Directory(path) => self.directory = Some(self.within(path)),
                meaning => self.add(meaning, stage),
            }
        }
        Some(())
    }

    fn add(&mut self, meaning: CommandMeaning<'_>, stage: &PlainCommand) {
        let command = self.text(stage, stage);
        match meaning {
            CommandMeaning::Read(paths) => {
                for path in paths {
                    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned();
                    let path = self.within(path);
                    self.actions.push(CommandAction::Read { command: command.clone(), name, path });
                }
            }
            CommandMeaning::List(path) => {
                self.actions.push(CommandAction::ListFiles { command, path: path.map(str::to_owned) });
            }
            CommandMeaning::Search { query, path } => {
                let query = query.map(str::to_owned);
                let path = path.map(str::to_owned);
                self.actions.push(CommandAction::Search { command, query, path });
            }
            CommandMeaning::Directory(_)
            | CommandMeaning::Filter { .. }
            | CommandMeaning::Nothing
            | CommandMeaning::Unknown => {}
        }
    }

    /// Gives the reads of a pipeline its whole text. `nl file | sed -n '1,20p'` reads a part of the file, which the text
    /// shows.
    fn show_whole(&mut self, start: usize, stages: &[PlainCommand]) {
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return };
        let whole = self.text(first, last);
        for action in self.actions.iter_mut().skip(start) {
            if let CommandAction::Read { command, .. } = action {
                command.clone_from(&whole);
            }
        }
    }

    fn text(&self, first: &PlainCommand, last: &PlainCommand) -> String {
        let script = self.line.script().and_then(|script| script.get(first.span.start..last.span.end));
        script.map_or_else(|| self.line.display(), str::to_owned)
    }

    /// Returns a path relative to the directory of the line, so that a client can open it.
    fn within(&self, path: &str) -> String {
        match &self.directory {
            Some(directory) if !path.starts_with('~') => {
                Path::new(directory).join(path).to_string_lossy().into_owned()
            }
            _ => path.to_owned(),
        }
    }
}
