//! Recognises commands that are known to only read, so that they may run without a question.
//!
//! The result decides whether the user is asked, never whether a command leaves the sandbox: `git status` reads, but also
//! runs programs that a repository's configuration names.
//!
//! An option that is not in a program's list makes the command unknown. If in doubt, leave an option out: it costs a
//! question only.

use crate::{
    actions::is_line_range,
    command_line::{PlainCommand, is_system_program},
    options::KnownOptions,
    safe_git,
};

/// Programs that only read with any arguments: none of their options, in any common version, writes a file, runs a program
/// or changes the machine.
const READERS: [&str; 47] = [
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
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

/// Without `-o` of the BSD version, which names an output file.
const BASE64: KnownOptions = KnownOptions {
    flags: "dDi",
    valued: "wb",
    long: &["decode", "ignore-garbage", "wrap", "break"],
    numbers: false,
};

/// Without `-l` and `--paginate`, which run `pr`.
const DIFF: KnownOptions = KnownOptions {
    flags: "abBcdeEfHiNnpPqrstTuwyZ",
    valued: "CUDIFLSWxX",
    long: &[
        "brief",
        "color",
        "context",
        "ed",
        "exclude",
        "exclude-from",
        "expand-tabs",
        "from-file",
        "ignore-all-space",
        "ignore-blank-lines",
        "ignore-case",
        "ignore-file-name-case",
        "ignore-matching-lines",
        "ignore-space-change",
        "ignore-tab-expansion",
        "ignore-trailing-space",
        "label",
        "left-column",
        "minimal",
        "new-file",
        "no-dereference",
        "normal",
        "recursive",
        "report-identical-files",
        "show-c-function",
        "show-function-line",
        "side-by-side",
        "speed-large-files",
        "strip-trailing-cr",
        "suppress-blank-empty",
        "suppress-common-lines",
        "tabsize",
        "text",
        "to-file",
        "unified",
        "width",
    ],
    numbers: true,
};

/// Without `--pre` and `--hostname-bin`, which name a program, and `-z`, which runs one for each kind of archive.
const RIPGREP: KnownOptions = KnownOptions {
    flags: "0abcFhHiIlLNnopPqSsuUvVwx.",
    valued: "ABCdEefgjMmrTt",
    long: &[
        "after-context",
        "before-context",
        "binary",
        "byte-offset",
        "case-sensitive",
        "color",
        "colors",
        "column",
        "context",
        "context-separator",
        "count",
        "count-matches",
        "crlf",
        "encoding",
        "engine",
        "file",
        "files",
        "files-with-matches",
        "files-without-match",
        "fixed-strings",
        "follow",
        "glob",
        "glob-case-insensitive",
        "heading",
        "help",
        "hidden",
        "iglob",
        "ignore-case",
        "ignore-file",
        "include-zero",
        "invert-match",
        "json",
        "line-buffered",
        "line-number",
        "line-regexp",
        "max-columns",
        "max-columns-preview",
        "max-count",
        "max-depth",
        "max-filesize",
        "mmap",
        "multiline",
        "multiline-dotall",
        "no-column",
        "no-config",
        "no-filename",
        "no-heading",
        "no-hidden",
        "no-ignore",
        "no-ignore-dot",
        "no-ignore-exclude",
        "no-ignore-files",
        "no-ignore-global",
        "no-ignore-messages",
        "no-ignore-parent",
        "no-ignore-vcs",
        "no-line-number",
        "no-messages",
        "no-mmap",
        "no-require-git",
        "no-unicode",
        "null",
        "null-data",
        "one-file-system",
        "only-matching",
        "passthru",
        "path-separator",
        "pcre2",
        "pretty",
        "quiet",
        "regexp",
        "replace",
        "smart-case",
        "sort",
        "sortr",
        "stats",
        "text",
        "threads",
        "trim",
        "type",
        "type-add",
        "type-clear",
        "type-list",
        "type-not",
        "unrestricted",
        "version",
        "vimgrep",
        "with-filename",
        "word-regexp",
    ],
    numbers: false,
};

/// Without `-o` and `--output`, `--compress-program`, `--files0-from`, and `-T`, the directory of temporary files.
const SORT: KnownOptions = KnownOptions {
    flags: "bcCdfghiMmnRrsuVz",
    valued: "kSt",
    long: &[
        "buffer-size",
        "check",
        "dictionary-order",
        "field-separator",
        "general-numeric-sort",
        "human-numeric-sort",
        "ignore-case",
        "ignore-leading-blanks",
        "ignore-nonprinting",
        "key",
        "merge",
        "month-sort",
        "numeric-sort",
        "parallel",
        "random-sort",
        "reverse",
        "stable",
        "unique",
        "version-sort",
        "zero-terminated",
    ],
    numbers: false,
};

/// Without `-o`, and `-R`, which writes a page into every directory. A letter with a value takes the next word, and the
/// rest of its own word are options (`-Lo 2 FILE`), so all letters are flags here.
const TREE: KnownOptions = KnownOptions {
    flags: "aAcCdDfFghIiJlLnNpPqrsStuUvxX",
    valued: "",
    long: &[
        "charset",
        "dirsfirst",
        "du",
        "filelimit",
        "filesfirst",
        "gitignore",
        "ignore-case",
        "inodes",
        "matchdirs",
        "noreport",
        "prune",
        "si",
        "sort",
        "timefmt",
    ],
    numbers: false,
};

const UNIQ: KnownOptions = KnownOptions {
    flags: "cdDiuz",
    valued: "fsw",
    long: &[
        "all-repeated",
        "check-chars",
        "count",
        "group",
        "ignore-case",
        "repeated",
        "skip-chars",
        "skip-fields",
        "unique",
        "zero-terminated",
    ],
    numbers: false,
};

/// Returns whether a command only reads files and prints. Not a reason to run it without a sandbox.
pub fn is_known_safe(command: &PlainCommand) -> bool {
    if !command.words.first().is_some_and(|program| is_system_program(program)) {
        return false;
    }
    if READERS.contains(&command.program()) {
        return true;
    }
    // For other programs the arguments decide, so they must be known: a file named `-delete` matches `*`.
    !command.expands && has_safe_arguments(command)
}

fn has_safe_arguments(command: &PlainCommand) -> bool {
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    match command.program() {
        // On some systems these two take a program to run or a name to set.
        "arch" | "hostname" => words.is_empty(),
        "base64" => BASE64.allow_all(&words),
        "command" => is_safe_command(&words),
        "date" => is_safe_date(&words),
        "diff" => DIFF.allow_all(&words),
        "find" => words.iter().all(|word| is_safe_in_find(word)),
        "git" => safe_git::is_safe(&words),
        "printf" => words.first().is_some_and(|format| is_safe_format(format)),
        "ps" => is_safe_ps(&words),
        "rg" => RIPGREP.allow_all(&words),
        "sed" => is_safe_sed(&words),
        "sort" => SORT.allow_all(&words),
        "tree" => TREE.allow_all(&words),
        "uniq" => is_safe_uniq(&words),
        _ => false,
    }
}

/// Returns whether `command` only prints where a program is.
fn is_safe_command(words: &[&str]) -> bool {
    match words {
        ["-v" | "-V", names @ ..] => !names.iter().any(|name| name.starts_with('-')),
        _ => false,
    }
}

/// Returns whether `date` prints the time and does not set it.
fn is_safe_date(words: &[&str]) -> bool {
    words
        .iter()
        .all(|word| word.starts_with('+') || matches!(*word, "-u" | "-R" | "-I" | "--utc" | "-Iseconds"))
}

/// Returns whether a word of `find` is an operand, a test or an action that prints. Other words with a dash may be actions
/// that delete, write a file or run a program.
fn is_safe_in_find(word: &str) -> bool {
    const PRIMARIES: [&str; 71] = [
        "-E",
        "-H",
        "-L",
        "-P",
        "-s",
        "-x",
        "-a",
        "-amin",
        "-and",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-ctime",
        "-d",
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-false",
        "-follow",
        "-fstype",
        "-gid",
        "-group",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-iwholename",
        "-links",
        "-lname",
        "-ls",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mount",
        "-mtime",
        "-name",
        "-newer",
        "-newerat",
        "-newerct",
        "-newermt",
        "-nogroup",
        "-noleaf",
        "-not",
        "-nouser",
        "-nowarn",
        "-o",
        "-or",
        "-path",
        "-perm",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-readable",
        "-regex",
        "-regextype",
        "-samefile",
        "-size",
        "-true",
        "-type",
        "-uid",
        "-used",
        "-user",
        "-wholename",
        "-writable",
        "-xdev",
        "-xtype",
    ];
    let Some(value) = word.strip_prefix('-') else { return true };
    // `-size -10k`, `-mtime -7`, `-perm -222`.
    let is_number =
        value.starts_with(|c: char| c.is_ascii_digit()) && value.chars().all(|c| c.is_ascii_alphanumeric());
    value.is_empty() || is_number || PRIMARIES.contains(&word)
}

/// Returns whether a format of `printf` only prints text. An option of `printf` sets a variable, as does `%n`, and it could
/// be `PATH`. Some shells evaluate the arguments of numeric conversions.
fn is_safe_format(format: &str) -> bool {
    let is_text = |conversion: &str| {
        let conversion = conversion.trim_start_matches(|c: char| c.is_ascii_digit() || "-.".contains(c));
        conversion.starts_with(['s', 'b', 'c', 'q'])
    };
    !format.starts_with('-') && format.replace("%%", "").split('%').skip(1).all(is_text)
}

/// Returns whether `ps` lists processes without their environments, which have secrets. `e` without a dash prints them, as
/// may words with a dash that `ps` cannot parse: it then parses all words again without the dash.
fn is_safe_ps(words: &[&str]) -> bool {
    const COLUMNS: [&str; 27] = [
        "%cpu", "%mem", "args", "cmd", "comm", "command", "cputime", "etime", "etimes", "gid", "group",
        "lstart", "ni", "nlwp", "pcpu", "pgid", "pid", "pmem", "ppid", "pri", "rss", "sid", "stat", "time",
        "uid", "user", "vsz",
    ];
    let are_columns = |list: &str| list.split(',').all(|name| COLUMNS.contains(&name.trim_end_matches('=')));
    let are_numbers = |list: &str| {
        list.split(',').all(|number| !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit()))
    };
    match words {
        [] => true,
        ["-e" | "-ef" | "-eF" | "-A" | "-Af" | "-f" | "-a" | "-x" | "-ax" | "-axf"] => true,
        ["-eo" | "-Ao" | "-axo" | "-o", list] | ["-e" | "-A" | "-ax", "-o", list] => are_columns(list),
        ["-p" | "-fp", numbers] | ["-f", "-p", numbers] => are_numbers(numbers),
        ["-p", numbers, "-o", list] => are_numbers(numbers) && are_columns(list),
        [letters, rest @ ..] => {
            let is_sorting = |word: &&str| {
                let key = word.strip_prefix("--sort=").map(|key| key.trim_start_matches(['+', '-']));
                key.is_some_and(|key| COLUMNS.contains(&key))
            };
            let is_list = !letters.is_empty() && letters.chars().all(|letter| "afjlmuwx".contains(letter));
            is_list && rest.iter().all(is_sorting)
        }
    }
}

/// Returns whether `uniq` has at most one file. It writes to a second one.
fn is_safe_uniq(words: &[&str]) -> bool {
    let is_option = |word: &&&str| word.starts_with('-') && **word != "-";
    UNIQ.allow_all(words)
        && words.iter().all(|word| *word != "--")
        && words.iter().filter(|word| !is_option(word)).count() <= 1
}

/// Returns whether `sed` prints lines, as in `sed -n 5p` and `sed -n 1,20p file`. Other scripts can write files and run
/// programs.
fn is_safe_sed(words: &[&str]) -> bool {
    match words {
        ["-n", range] => is_line_range(range),
        ["-n", range, files @ ..] => is_line_range(range) && !files.iter().any(|file| file.starts_with('-')),
        _ => false,
    }
}
