//! The words of a git command: its general options, its subcommand, and the commands that it runs.

/// A git command, parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GitWords<'a> {
    /// The settings for this command alone, as in `-c core.pager=cat`.
    pub(crate) settings: Vec<&'a str>,
    /// Whether there is a setting whose value is in an environment variable.
    pub(crate) has_hidden_setting: bool,
    /// The subcommand and its arguments.
    pub(crate) rest: Vec<&'a str>,
}

impl<'a> GitWords<'a> {
    /// Parses the words after `git`.
    pub(crate) fn new(mut words: &[&'a str]) -> Self {
        let mut git = Self::default();
        loop {
            words = match words {
                ["-c", setting, rest @ ..] => {
                    git.settings.push(setting);
                    rest
                }
                ["--config-env", _, rest @ ..] => {
                    git.has_hidden_setting = true;
                    rest
                }
                [
                    "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" | "--attr-source",
                    _,
                    rest @ ..,
                ] => rest,
                [option, rest @ ..] if option.starts_with('-') => {
                    git.has_hidden_setting |= option.starts_with("--config-env");
                    rest
                }
                rest => {
                    git.rest = rest.to_vec();
                    return git;
                }
            };
        }
    }

    /// Returns the value of the subcommand if a setting makes it an alias: words of git, or a script after `!`.
    pub(crate) fn alias(&self) -> Option<&'a str> {
        let name = self.rest.first()?;
        let value = |setting: &&'a str| {
            let (key, value) = setting.split_once('=')?;
            let (section, alias) = key.split_once('.')?;
            (section.eq_ignore_ascii_case("alias") && alias.eq_ignore_ascii_case(name)).then_some(value)
        };
        self.settings.iter().rev().find_map(value)
    }

    /// Returns the scripts that this runs: settings may name programs, and some subcommands take a command.
    pub(crate) fn scripts(&self) -> Vec<String> {
        let values =
            self.settings.iter().filter_map(|setting| setting.split_once('=')).map(|(_, value)| value);
        let mut scripts: Vec<String> = values.map(|value| value.trim_start_matches('!').to_owned()).collect();
        match self.rest.as_slice() {
            ["submodule", rest @ ..] => {
                let command = rest.iter().skip_while(|word| **word != "foreach").skip(1);
                let command: Vec<&str> = command.copied().skip_while(|word| word.starts_with('-')).collect();
                scripts.push(command.join(" "));
            }
            ["bisect", "run", command @ ..] => scripts.push(command.join(" ")),
            ["rebase", rest @ ..] => {
                let after_option = rest.windows(2).filter_map(|pair| match pair {
                    ["-x" | "--exec", script] => Some(*script),
                    _ => None,
                });
                let attached =
                    rest.iter().filter_map(|word| word.strip_prefix("--exec=").or(word.strip_prefix("-x")));
                scripts.extend(after_option.chain(attached).map(str::to_owned));
            }
            _ => {}
        }
        scripts.retain(|script| !script.is_empty());
        scripts
    }
}
