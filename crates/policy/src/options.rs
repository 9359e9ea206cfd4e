//! Parses the options of programs as `getopt` does, and checks them against lists of known options.

/// The options of a program that take a value. All other options take none.
#[derive(Clone, Copy)]
pub(crate) struct OptionSyntax {
    /// One letter each.
    pub(crate) short: &'static str,
    pub(crate) long: &'static [&'static str],
}

/// The options with which a program still only reads.
///
/// The check applies to every word that begins with a dash, at any position. Whether such a word is an option or the value
/// of one (`sort -T -- -o FILE`) depends on the program and its version. If all of them are harmless as options, it does
/// not matter.
#[derive(Clone, Copy)]
pub(crate) struct KnownOptions {
    /// The letters of options without a value.
    pub(crate) flags: &'static str,
    /// The letters of options whose value is the rest of the word, or else the next word.
    pub(crate) valued: &'static str,
    /// Long names, with or without a value. Abbreviations are not accepted.
    pub(crate) long: &'static [&'static str],
    /// Whether numbers such as `-5` are options.
    pub(crate) numbers: bool,
}

impl KnownOptions {
    /// Returns whether all words are operands or known options.
    pub(crate) fn allow_all(&self, words: &[&str]) -> bool {
        words.iter().all(|word| self.allow(word))
    }

    fn allow(&self, word: &str) -> bool {
        if matches!(word, "-" | "--") {
            return true;
        }
        if let Some(long) = word.strip_prefix("--") {
            return self.long.contains(&long.split('=').next().unwrap_or(long));
        }
        let Some(cluster) = word.strip_prefix('-') else { return true };
        if self.numbers && cluster.chars().all(|letter| letter.is_ascii_digit()) {
            return true;
        }
        // The text after a letter with a value is that value.
        let flags = cluster.chars().take_while(|letter| !self.valued.contains(*letter));
        flags.into_iter().all(|letter| self.flags.contains(letter))
    }
}

/// Parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedOptions<'a> {
    /// The names of options without dashes, and their values. Each letter of a cluster is an option.
    pub(crate) given: Vec<(&'a str, Option<&'a str>)>,
    pub(crate) operands: Vec<&'a str>,
}

impl<'a> ParsedOptions<'a> {
    pub(crate) fn parse(arguments: &[&'a str], syntax: OptionSyntax) -> Self {
        let mut options = Self::default();
        let mut rest = arguments;
        while let [first, after @ ..] = rest {
            rest = match *first {
                "--" => {
                    options.operands.extend(after);
                    break;
                }
                option if option.starts_with('-') && option.len() > 1 => {
                    options.option(option, after, syntax)
                }
                operand => {
                    options.operands.push(operand);
                    after
                }
            };
        }
        options
    }

    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(name))
    }

    pub(crate) fn value(&self, names: &[&str]) -> Option<&'a str> {
        self.given.iter().find(|(name, _)| names.contains(name))?.1
    }

    /// Parses one word. Returns the words after it and its value.
    fn option<'b>(&mut self, word: &'a str, after: &'b [&'a str], syntax: OptionSyntax) -> &'b [&'a str] {
        if let Some(long) = word.strip_prefix("--") {
            if let Some((name, value)) = long.split_once('=') {
                self.given.push((name, Some(value)));
                return after;
            }
            return self.take_value(long, syntax.long.contains(&long), after);
        }
        let mut letters = word.get(1..).unwrap_or_default();
        while let Some(letter) = letters.chars().next() {
            let (name, rest) = letters.split_at(letter.len_utf8());
            let takes_value = syntax.short.contains(letter);
            if takes_value && !rest.is_empty() {
                self.given.push((name, Some(rest)));
                return after;
            }
            if takes_value {
                return self.take_value(name, true, after);
            }
            self.given.push((name, None));
            letters = rest;
        }
        after
    }

    fn take_value<'b>(&mut self, name: &'a str, takes_value: bool, after: &'b [&'a str]) -> &'b [&'a str] {
        match after {
            [value, rest @ ..] if takes_value => {
                self.given.push((name, Some(value)));
                rest
            }
            _ => {
                self.given.push((name, None));
                after
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: OptionSyntax = OptionSyntax { short: "nA", long: &["glob"] };

    #[test]
    fn options_and_operands() {
        let check = |line: &str, given: &[(&str, Option<&str>)], operands: &[&str]| {
            let words: Vec<_> = line.split(' ').collect();
            let options = ParsedOptions::parse(&words, SYNTAX);
            assert_eq!((options.given.as_slice(), options.operands.as_slice()), (given, operands), "{line}");
        };
        check("a b", &[], &["a", "b"]);
        check("-la a", &[("l", None), ("a", None)], &["a"]);
        check("-n 5 a", &[("n", Some("5"))], &["a"]);
        check("-n5 a", &[("n", Some("5"))], &["a"]);
        check("-ln 5 a", &[("l", None), ("n", Some("5"))], &["a"]);
        check(
            "--glob x --glob=y --other z",
            &[("glob", Some("x")), ("glob", Some("y")), ("other", None)],
            &["z"],
        );
        check("- -- -x", &[], &["-", "-x"]);
        check("a -n", &[("n", None)], &["a"]);
    }

    #[test]
    fn known_options() {
        let known = KnownOptions { flags: "ru", valued: "k", long: &["reverse", "key"], numbers: false };
        let check = |line: &str, expected: bool| {
            assert_eq!(known.allow_all(&line.split(' ').collect::<Vec<_>>()), expected, "{line}");
        };
        check("a b - --", true);
        check("-ru --reverse --key=2 --key 2", true);
        check("-rk2o -k 2 a", true);
        check("--rev a", false);
        check("--reversed", false);
        check("-ruo a", false);
        check("-k -- -o a", false);
        check("-- -o", false);
        check("-5", false);
        let numbers = KnownOptions { numbers: true, ..known };
        assert!(numbers.allow_all(&["-5"]) && !numbers.allow_all(&["-5o"]));
    }
}
