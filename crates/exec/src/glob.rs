//! Patterns for names of variables: `*` for any characters, `?` for one, without regard to case.

/// Whether the whole name fits the pattern. Takes time proportional to the product of the lengths at worst.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().flat_map(char::to_lowercase).collect();
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let (mut at, mut from) = (0, 0);
    // Where to go on after the last `*` when what follows it does not fit: one character further each time.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&character) = name.get(at) {
        match pattern.get(from) {
            Some('*') => {
                retry = Some((from + 1, at));
                from += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == character => {
                at += 1;
                from += 1;
            }
            _ => match &mut retry {
                Some((after_star, start)) => {
                    *start += 1;
                    (from, at) = (*after_star, *start);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(from).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_the_whole_name() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        };
        check("PATH", "PATH", true);
        check("path", "PATH", true);
        check("PATH", "PATHS", false);
        check("AWS_*", "AWS_REGION", true);
        check("AWS_*", "AWS_", true);
        check("AWS_*", "MY_AWS_", false);
        check("*KEY*", "OPENAI_API_KEY", true);
        check("*KEY*", "monkeys", true);
        check("*KEY*", "KE", false);
        check("?", "A", true);
        check("?", "", false);
        check("A?C", "ABC", true);
        check("A*B*C", "AxxBxBxC", true);
        check("A*B*C", "AxxBxBx", false);
        check("*", "", true);
        check("**", "anything", true);
        check("", "", true);
        check("", "A", false);
        check("ÄRGER*", "ärgernis", true);
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!matches(&"*a".repeat(500), &"a".repeat(499)));
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &"a".repeat(5_000)));
    }
}
