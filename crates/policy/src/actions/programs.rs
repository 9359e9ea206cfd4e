//! The known programs, and the meaning of their arguments.

use crate::{
    command_line::PlainCommand,
    options::{OptionSyntax, ParsedOptions},
};

/// The meaning of one command of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandMeaning<'a> {
    Read(Vec<&'a str>),
    List(Option<&'a str>),
    Search {
        query: Option<&'a str>,
        path: Option<&'a str>,
    },
    /// `cd`
    Directory(&'a str),
    /// It filters its input. `picks_lines` is for `sed -n 1,5p`, which shows a part of what the command before it reads.
    Filter {
        picks_lines: bool,
    },
    /// `true`, `echo ---`
    Nothing,
    Unknown,
}

const NO_VALUES: OptionSyntax = OptionSyntax { short: "", long: &[] };
const HEAD: OptionSyntax = OptionSyntax { short: "nc", long: &["lines", "bytes"] };
const NL: OptionSyntax = OptionSyntax { short: "bdfhilnsvw", long: &["body-numbering", "number-format"] };
const LS: OptionSyntax =
    OptionSyntax { short: "ITw", long: &["ignore", "hide", "width", "tabsize", "block-size"] };
const TREE: OptionSyntax = OptionSyntax { short: "LIPo", long: &["filelimit", "sort", "charset", "timefmt"] };
const FD: OptionSyntax = OptionSyntax {
    short: "deEtxXSoc",
    long: &["max-depth", "min-depth", "extension", "exclude", "type", "size", "exec", "exec-batch", "color"],
};
const GREP: OptionSyntax = OptionSyntax {
    short: "efmABCdD",
    long: &[
        "regexp",
        "file",
        "max-count",
        "after-context",
        "before-context",
        "context",
        "include",
        "exclude",
        "exclude-dir",
        "binary-files",
        "color",
        "label",
    ],
};
const RG: OptionSyntax = OptionSyntax {
    short: "efmABCdgtTrjME",
    long: &[
        "regexp",
        "file",
        "max-count",
        "after-context",
        "before-context",
        "context",
        "max-depth",
        "glob",
        "iglob",
        "type",
        "type-not",
        "replace",
        "threads",
        "max-columns",
        "encoding",
        "sort",
        "sortr",
        "color",
        "colors",
        "max-filesize",
        "ignore-file",
        "path-separator",
        "context-separator",
        "engine",
    ],
};

/// Returns the meaning of a plain command.
pub(crate) fn meaning(command: &PlainCommand) -> CommandMeaning<'_> {
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    let parse = |syntax| ParsedOptions::parse(&words, syntax);
    match command.program() {
        "cat" | "bat" | "batcat" | "less" | "more" => read(parse(NO_VALUES)),
        "head" | "tail" => read_or_filter(parse(HEAD)),
        "nl" => read_or_filter(parse(NL)),
        "sed" => sed(&words),
        "ls" | "eza" | "exa" => list(parse(LS)),
        "tree" => list(parse(TREE)),
        "rg" | "rga" | "ripgrep" => rg(parse(RG)),
        "grep" | "egrep" | "fgrep" | "zgrep" | "ag" | "ack" => search(parse(GREP)),
        "fd" | "fdfind" => fd(parse(FD)),
        "find" => find(&words),
        "git" => git(&words),
        "cd" => words.first().map_or(CommandMeaning::Unknown, |path| CommandMeaning::Directory(path)),
        "wc" | "sort" | "uniq" | "cut" | "tr" | "column" | "fold" | "rev" | "tac" => filter(parse(NO_VALUES)),
        "true" | ":" | "echo" | "printf" => CommandMeaning::Nothing,
        _ => CommandMeaning::Unknown,
    }
}

fn is_help(options: &ParsedOptions<'_>) -> bool {
    options.has(&["help", "version"])
}

fn read<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    match options.operands.as_slice() {
        [] => CommandMeaning::Unknown,
        _ if is_help(&options) => CommandMeaning::Unknown,
        paths => CommandMeaning::Read(paths.to_vec()),
    }
}

/// Returns the meaning of `head`, `tail` and `nl`, which read a file or filter their input.
fn read_or_filter<'a>(mut options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    // The old syntax `tail +2 file`.
    options.operands.retain(|operand| !operand.starts_with('+'));
    if options.operands.is_empty() { CommandMeaning::Filter { picks_lines: false } } else { read(options) }
}

fn filter<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    // With few exceptions an operand is a file, and counting or sorting a file does not display it.
    if options.operands.iter().any(|operand| operand.contains('/') || operand.contains('.')) {
        return CommandMeaning::Unknown;
    }
    CommandMeaning::Filter { picks_lines: false }
}

/// Returns the meaning of `sed -n '1,20p' file`, which prints lines. Other scripts are unknown.
fn sed<'a>(words: &[&'a str]) -> CommandMeaning<'a> {
    match words {
        ["-n", range] if is_line_range(range) => CommandMeaning::Filter { picks_lines: true },
        ["-n", range, path] if is_line_range(range) && !path.starts_with('-') => {
            CommandMeaning::Read(vec![path])
        }
        _ => CommandMeaning::Unknown,
    }
}

/// Returns whether a script of `sed` is `5p`, `1,20p`, `$p` or a list of these.
pub(crate) fn is_line_range(script: &str) -> bool {
    let is_address =
        |text: &str| text == "$" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let is_range = |part: &str| {
        part.trim().strip_suffix('p').is_some_and(|range| match range.split_once(',') {
            Some((from, to)) => is_address(from) && is_address(to),
            None => is_address(range),
        })
    };
    script.split(';').all(is_range)
}

fn list<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    if is_help(&options) {
        return CommandMeaning::Unknown;
    }
    CommandMeaning::List(options.operands.first().copied())
}

fn rg<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    if options.has(&["files"]) { list(options) } else { search(options) }
}

/// Returns a search with its pattern and the first path.
fn search<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    if is_help(&options) {
        return CommandMeaning::Unknown;
    }
    let mut operands = options.operands.iter().copied();
    // With `-e` all operands are paths.
    let query = options.value(&["e", "regexp"]).or_else(|| operands.next());
    match query {
        Some(_) => CommandMeaning::Search { query, path: operands.next() },
        None => CommandMeaning::Unknown,
    }
}

fn fd<'a>(options: ParsedOptions<'a>) -> CommandMeaning<'a> {
    if is_help(&options) || options.has(&["x", "X", "exec", "exec-batch"]) {
        return CommandMeaning::Unknown;
    }
    match options.operands.as_slice() {
        [] | ["."] => CommandMeaning::List(None),
        [".", path, ..] => CommandMeaning::List(Some(path)),
        [query, rest @ ..] => CommandMeaning::Search { query: Some(query), path: rest.first().copied() },
    }
}

/// Returns the meaning of `find PATH -name PATTERN`, which searches, and lists without a pattern. Its actions are not part
/// of the summary.
fn find<'a>(words: &[&'a str]) -> CommandMeaning<'a> {
    const PATTERNS: [&str; 8] =
        ["-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname"];
    let is_expression = |word: &&str| word.starts_with(['-', '(', '!']);
    let path = words.iter().copied().take_while(|word| !is_expression(word)).next();
    let pattern = words.iter().position(|word| PATTERNS.contains(word)).and_then(|at| words.get(at + 1));
    match pattern {
        Some(pattern) => CommandMeaning::Search { query: Some(pattern), path },
        None => CommandMeaning::List(path),
    }
}

fn git<'a>(words: &[&'a str]) -> CommandMeaning<'a> {
    match words {
        ["grep", rest @ ..] => search(ParsedOptions::parse(rest, GREP)),
        ["ls-files", rest @ ..] => list(ParsedOptions::parse(rest, NO_VALUES)),
        _ => CommandMeaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: CommandMeaning<'_>) {
        let command = PlainCommand::from_words(shlex::split(line).unwrap()).unwrap();
        assert_eq!(meaning(&command), expected, "{line}");
    }

    fn search<'a>(query: &'a str, path: Option<&'a str>) -> CommandMeaning<'a> {
        CommandMeaning::Search { query: Some(query), path }
    }

    #[test]
    fn reading() {
        check("cat -n a.txt", CommandMeaning::Read(vec!["a.txt"]));
        check("cat a b", CommandMeaning::Read(vec!["a", "b"]));
        check("cat", CommandMeaning::Unknown);
        check("head -50 a", CommandMeaning::Read(vec!["a"]));
        check("tail -n +2 a", CommandMeaning::Read(vec!["a"]));
        check("tail +2 a", CommandMeaning::Read(vec!["a"]));
        check("nl -ba a", CommandMeaning::Read(vec!["a"]));
        check("sed -n 1,3p a", CommandMeaning::Read(vec!["a"]));
        check("sed -n '1,3p;7p;$p' a", CommandMeaning::Read(vec!["a"]));
        check("sed -i s/a/b/ a", CommandMeaning::Unknown);
        check("sed -n '1,3w out' a", CommandMeaning::Unknown);
        check("sed s/a/b/ a", CommandMeaning::Unknown);
    }

    #[test]
    fn listing() {
        check("ls", CommandMeaning::List(None));
        check("ls -la sub other", CommandMeaning::List(Some("sub")));
        check("ls -I node_modules .", CommandMeaning::List(Some(".")));
        check("rg --files -g '*.rs' src", CommandMeaning::List(Some("src")));
        check("tree -L 2 src", CommandMeaning::List(Some("src")));
        check("fd . src", CommandMeaning::List(Some("src")));
        check("find . -type f", CommandMeaning::List(Some(".")));
        check("git ls-files src", CommandMeaning::List(Some("src")));
        check("ls --help", CommandMeaning::Unknown);
    }

    #[test]
    fn searching() {
        check("rg -n needle", search("needle", None));
        check("rg -A 3 --glob '*.rs' needle src lib", search("needle", Some("src")));
        check("rg -e needle src", search("needle", Some("src")));
        check("grep -rn -m1 needle .", search("needle", Some(".")));
        check("grep -C 2 --include=*.rs needle a", search("needle", Some("a")));
        check("find src -type f -iname '*.RS'", search("*.RS", Some("src")));
        check("find -name x", search("x", None));
        check("find . -name x -delete", search("x", Some(".")));
        check("git grep -n needle src", search("needle", Some("src")));
        check("fd -e rs needle src", search("needle", Some("src")));
        check("fd x -x rm", CommandMeaning::Unknown);
        check("rg --version", CommandMeaning::Unknown);
        check("rg", CommandMeaning::Unknown);
    }

    #[test]
    fn other_programs() {
        check("wc -l", CommandMeaning::Filter { picks_lines: false });
        check("wc -l a.txt", CommandMeaning::Unknown);
        check("sort -k 2", CommandMeaning::Filter { picks_lines: false });
        check("head -5", CommandMeaning::Filter { picks_lines: false });
        check("sed -n 1,3p", CommandMeaning::Filter { picks_lines: true });
        check("cd sub", CommandMeaning::Directory("sub"));
        check("cd", CommandMeaning::Unknown);
        check("true", CommandMeaning::Nothing);
        check("python3 -c 1", CommandMeaning::Unknown);
    }
}
