//! Colours for terminals, and removal of control characters.

use std::{
    borrow::Cow,
    env,
    io::{self, IsTerminal},
};

use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Paints text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    is_coloured: bool,
}

impl Palette {
    /// A palette for standard error.
    pub fn new(color: ColorChoice) -> Self {
        Self::on(color, &io::stderr())
    }

    /// A palette for standard output.
    pub fn of_stdout(color: ColorChoice) -> Self {
        Self::on(color, &io::stdout())
    }

    fn on(color: ColorChoice, stream: &impl IsTerminal) -> Self {
        let is_wanted = || {
            let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
            let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            stream.is_terminal() && !is_dumb && !is_unwanted
        };
        let is_coloured = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_wanted(),
        };
        Self { is_coloured }
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.is_coloured && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Removes control characters from the text of a model or a command: in a terminal they could move the
/// cursor, change colours or enter input.
pub fn without_control_characters(text: &str) -> Cow<'_, str> {
    let is_harmful = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if text.contains(is_harmful) {
        Cow::Owned(text.chars().filter(|character| !is_harmful(*character)).collect())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(without_control_characters("a\tb\nc"), "a\tb\nc");
        assert_eq!(without_control_characters("\x1b[2Jgone\r\x07"), "[2Jgone");
    }

    #[test]
    fn without_colour_text_is_left_alone() {
        assert_eq!(Palette::new(ColorChoice::Never).red("x"), "x");
        assert_eq!(Palette::new(ColorChoice::Always).red("x"), "\x1b[31mx\x1b[0m");
    }
}
