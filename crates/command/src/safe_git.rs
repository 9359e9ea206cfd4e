//! Git commands that only read the repository.

use crate::safe::has_option;

/// Options that write a file or run a program named on the command line or in the attributes.
const FORBIDDEN: [&str; 6] =
    ["output", "output-directory", "ext-diff", "textconv", "open-files-in-pager", "filters"];

pub(crate) fn is_safe(words: &[&str]) -> bool {
    let Some((subcommand, arguments)) = subcommand(words) else { return false };
    if has_option(arguments, "", &FORBIDDEN) {
        return false;
    }
    match subcommand {
        "status" | "log" | "show" | "diff" | "rev-parse" | "rev-list" | "ls-files" | "ls-tree" | "blame"
        | "describe" | "shortlog" | "merge-base" | "name-rev" | "show-ref" | "for-each-ref" | "diff-tree"
        | "cat-file" | "whatchanged" | "var" | "version" => true,
        "grep" => !has_option(arguments, "O", &[]),
        // Older versions take `-l` for something else.
        "branch" => lists(arguments, &["list", "contains", "merged", "no-merged", "points-at"]),
        "tag" => lists(arguments, &["list", "l", "contains", "merged", "no-merged", "points-at"]),
        "remote" => matches!(arguments, [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(arguments, ["list" | "show", ..]),
        "worktree" => matches!(arguments, ["list", ..]),
        "reflog" => matches!(arguments, [] | ["show", ..]),
        "config" => matches!(arguments, ["--get" | "--get-all" | "--list" | "-l" | "get" | "list", ..]),
        _ => false,
    }
}

/// The subcommand behind the few general options that change nothing but what is printed or where.
/// `-c` and `--config-env` are not among them: configuration can name programs to run.
fn subcommand<'a, 'b>(mut words: &'b [&'a str]) -> Option<(&'a str, &'b [&'a str])> {
    loop {
        words = match words {
            ["--no-pager" | "--no-optional-locks", rest @ ..] | ["-C", _, rest @ ..] => rest,
            [name, rest @ ..] if !name.starts_with('-') => return Some((name, rest)),
            _ => return None,
        };
    }
}

/// `branch` and `tag` list, unless they are given a name or told to do something with one.
fn lists(arguments: &[&str], filters: &[&str]) -> bool {
    const HARMLESS: [&str; 19] = [
        "a",
        "all",
        "r",
        "remotes",
        "v",
        "vv",
        "verbose",
        "list",
        "l",
        "show-current",
        "contains",
        "merged",
        "no-merged",
        "points-at",
        "sort",
        "format",
        "column",
        "no-color",
        "n",
    ];
    let name = |word: &str| -> Option<String> {
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        Some(option.split('=').next().unwrap_or(option).to_owned())
    };
    let options: Vec<_> = arguments.iter().filter_map(|word| name(word)).collect();
    let is_filtered = options.iter().any(|option| filters.contains(&option.as_str()));
    let has_operands = arguments.iter().any(|word| !word.starts_with('-'));
    options.iter().all(|option| HARMLESS.contains(&option.as_str())) && (is_filtered || !has_operands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_commands_that_only_read() {
        for line in [
            "status",
            "status --short",
            "log --oneline -5",
            "diff HEAD~1 -- src",
            "show HEAD:a",
            "branch",
            "branch -a",
            "branch --show-current",
            "branch --list x*",
            "branch -vv",
            "branch --contains HEAD",
            "tag",
            "tag -l v1*",
            "remote -v",
            "--no-pager log",
            "-C sub status",
            "stash list",
            "rev-parse HEAD",
            "config --get user.name",
            "grep -n x",
            "worktree list",
            "reflog",
        ] {
            assert!(is_safe(&line.split(' ').collect::<Vec<_>>()), "{line}");
        }
    }

    #[test]
    fn git_commands_that_might_do_more() {
        for line in [
            "commit -m x",
            "push",
            "branch new",
            "branch -d old",
            "branch -D old",
            "branch -m a b",
            "tag v1",
            "tag -d v1",
            "remote add x y",
            "remote show x",
            "stash",
            "stash drop",
            "log --output=x",
            "diff --outp=x",
            "diff --ext-diff",
            "show --textconv",
            "-c core.pager=sh log",
            "--config-env=a=b log",
            "--exec-path=/x status",
            "config a b",
            "config --global a b",
            "checkout x",
            "reset --hard",
            "grep -O sh",
            "grep --open-files-in-pager=sh x",
            "reflog expire",
            "worktree add x",
            "",
            "--version",
            "cat-file --filters x",
            "bisect run sh",
        ] {
            assert!(!is_safe(&line.split(' ').collect::<Vec<_>>()), "{line}");
        }
    }
}
