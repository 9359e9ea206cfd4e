//! Commands that are known to only read, so that nobody need be asked about them.
//!
//! An entry must be free of every option that writes a file, runs a program or changes the machine. When in
//! doubt, leave it out: the price is a question.

use crate::{
    actions::is_line_range,
    line::{PlainCommand, is_system_program},
    safe_git,
};

/// Programs that only read, whatever their arguments.
const READERS: [&str; 50] = [
    "arch",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "fold",
    "grep",
    "groups",
    "head",
    "id",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printenv",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "sum",
    "tac",
    "tail",
    "tr",
    "true",
    "tty",
    "uname",
    "uptime",
    "wc",
    "which",
    "whoami",
];

/// Whether a command only reads files and prints.
pub fn is_known_safe(command: &PlainCommand) -> bool {
    if !command.words.first().is_some_and(|program| is_system_program(program)) {
        return false;
    }
    if READERS.contains(&command.program()) {
        return true;
    }
    // Below, the arguments decide, so they have to be known: a file called `-delete` matches `*`.
    !command.expands && has_safe_arguments(command)
}

fn has_safe_arguments(command: &PlainCommand) -> bool {
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    match command.program() {
        "base64" => !has_option(&words, "o", &["output"]),
        "command" => matches!(words.as_slice(), ["-v" | "-V", ..]),
        "date" => is_safe_date(&words),
        "find" => !words.iter().any(|word| FIND_ACTIONS.contains(word)),
        "git" => safe_git::is_safe(&words),
        "hostname" => words.is_empty(),
        "printf" => words.first().is_some_and(|format| is_safe_format(format)),
        "rg" => !has_option(&words, "z", &["pre", "hostname-bin", "search-zip"]),
        "sed" => is_safe_sed(&words),
        "sort" => !has_option(&words, "o", &["output", "compress-program"]),
        // With `-R` it writes a page into every directory.
        "tree" => !has_option(&words, "oR", &["output"]),
        "uniq" => is_safe_uniq(&words),
        _ => false,
    }
}

const FIND_ACTIONS: [&str; 9] =
    ["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"];

/// Whether an option might be among the words: clusters of letters and abbreviations of long names count.
pub(crate) fn has_option(words: &[&str], letters: &str, names: &[&str]) -> bool {
    words.iter().take_while(|word| **word != "--").any(|word| match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            !name.is_empty() && names.iter().any(|forbidden| forbidden.starts_with(name))
        }
        None => word.strip_prefix('-').is_some_and(|cluster| cluster.contains(|c| letters.contains(c))),
    })
}

/// Printing the time, not setting it.
fn is_safe_date(words: &[&str]) -> bool {
    words
        .iter()
        .all(|word| word.starts_with('+') || matches!(*word, "-u" | "-R" | "-I" | "--utc" | "-Iseconds"))
}

/// An option of `printf` sets a variable, and so does `%n`; it could be the path on which programs are looked
/// for. Some shells compute the arguments of numbers.
fn is_safe_format(format: &str) -> bool {
    let is_text = |conversion: &str| {
        let conversion = conversion.trim_start_matches(|c: char| c.is_ascii_digit() || "-.".contains(c));
        conversion.starts_with(['s', 'b', 'c', 'q'])
    };
    !format.starts_with('-') && format.replace("%%", "").split('%').skip(1).all(is_text)
}

/// A second file is written.
fn is_safe_uniq(words: &[&str]) -> bool {
    let is_option = |word: &&&str| word.starts_with('-') && **word != "-";
    words.iter().all(|word| *word != "--") && words.iter().filter(|word| !is_option(word)).count() <= 1
}

/// `sed -n 5p` and `sed -n 1,20p file`: other scripts can write files and run programs.
fn is_safe_sed(words: &[&str]) -> bool {
    match words {
        ["-n", range] => is_line_range(range),
        ["-n", range, files @ ..] => is_line_range(range) && !files.iter().any(|file| file.starts_with('-')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::CommandLine;

    fn check(expected: bool, scripts: &[&str]) {
        for script in scripts {
            let line = CommandLine::new(["/bin/bash", "-lc", script].map(str::to_owned).to_vec());
            assert_eq!(line.is_known_safe(), expected, "{script}");
        }
    }

    #[test]
    fn commands_that_only_read() {
        check(
            true,
            &[
                "ls a.txt",
                "cat a.txt",
                "pwd",
                "echo hi",
                "git status",
                "find . -name '*.txt'",
                "sed -n 1,3p a",
                "wc -l a",
                "sed -n '5p'",
                "ls | wc -l",
                "cat a && ls; pwd",
                "/bin/ls",
                "/usr/bin/cat x",
                "rg -n needle src",
                "grep -r x . || true",
                "head -n 5 *.txt",
                "sort -u a | uniq -c",
                "date +%s",
                "date -u",
                "which rg",
                "cd sub && ls",
                "stat a",
                "base64 a",
                "printf 'a\\n'",
                "printf '%-5s 100%%\\n' a",
                "cat a | uniq -",
                "command -v git",
                "sort --reverse a",
            ],
        );
    }

    #[test]
    fn commands_that_might_do_more() {
        check(
            false,
            &[
                "rm a.txt",
                "touch x",
                "ls > x",
                "echo $(rm x)",
                "find . -delete",
                "find . -exec rm {} ;",
                "sed -i s/a/b/ a",
                "sed -n '1w out' a",
                "sed s/a/b/ a",
                "sed -n 1p -i a",
                "sort -o out a",
                "sort -uo out a",
                "sort --outp=x a",
                "sort --compress-program=sh a",
                "rg --pre sh x",
                "rg --pre=sh x",
                "rg -z x",
                "uniq in out",
                "uniq - out",
                "uniq -- -in out",
                "tree -R -L 1 -H .",
                "printf '%n' PATH",
                "printf '%5.1n' PATH",
                "printf '%d' 'a[$(x)]'",
                "printf '%'",
                "base64 -o out a",
                "date -s 10:00",
                "date 0101",
                "hostname evil",
                "tree -o out",
                "./ls",
                "/tmp/cat x",
                "find *",
                "ls && rm x",
                "python3 -c 1",
                "env ls",
                "ls &",
                "FOO=1 ls",
                "",
                "tee x",
                "xargs rm",
                "curl x",
                "command ls",
                "awk 1 a",
                "printf -v PATH .",
                "/home/me/bin/ls",
                "test -v 'a[$(rm x)]'",
                "cat <(rm x)",
            ],
        );
    }
}
