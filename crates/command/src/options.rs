//! Telling a program's options from its operands, in the way of getopt.

/// The options of a program that take a value; all others stand alone.
#[derive(Clone, Copy)]
pub(crate) struct Syntax {
    /// One letter each.
    pub(crate) short: &'static str,
    pub(crate) long: &'static [&'static str],
}

/// Arguments sorted out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options<'a> {
    /// Names without dashes, and values. A letter from a cluster is an option of its own.
    pub(crate) given: Vec<(&'a str, Option<&'a str>)>,
    pub(crate) operands: Vec<&'a str>,
}

impl<'a> Options<'a> {
    pub(crate) fn parse(arguments: &[&'a str], syntax: Syntax) -> Self {
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

    /// What is left after the options at the beginning.
    pub(crate) fn leading<'b>(arguments: &'b [&'a str], syntax: Syntax) -> &'b [&'a str] {
        let mut rest = arguments;
        while let [first, after @ ..] = rest {
            rest = match *first {
                "--" => return after,
                option if option.starts_with('-') => Self::default().option(option, after, syntax),
                _ => return rest,
            };
        }
        rest
    }

    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(name))
    }

    pub(crate) fn value(&self, names: &[&str]) -> Option<&'a str> {
        self.given.iter().find(|(name, _)| names.contains(name))?.1
    }

    /// Takes one word apart; returns what is left after it and its value.
    fn option<'b>(&mut self, word: &'a str, after: &'b [&'a str], syntax: Syntax) -> &'b [&'a str] {
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

    const SYNTAX: Syntax = Syntax { short: "nA", long: &["glob"] };

    #[test]
    fn options_and_operands() {
        let check = |line: &str, given: &[(&str, Option<&str>)], operands: &[&str]| {
            let words: Vec<_> = line.split(' ').collect();
            let options = Options::parse(&words, SYNTAX);
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
    fn leading_options_end_at_the_first_operand() {
        assert_eq!(Options::leading(&["-n", "5", "-x", "cmd", "-y"], SYNTAX), ["cmd", "-y"]);
        assert_eq!(Options::leading(&["--", "-cmd"], SYNTAX), ["-cmd"]);
        assert!(Options::leading(&["-n"], SYNTAX).is_empty());
    }
}
