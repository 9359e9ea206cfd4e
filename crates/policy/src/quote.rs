//! Words put back into one line.

/// The words quoted for a shell: what the protocol shows as an item's `command`.
pub fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A zero byte cannot be in an argument of a program, so such a command never ran.
    shlex::try_join(words).unwrap_or_else(|_| "<command with a zero byte>".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_as_the_reference_server_shows_them() {
        let check = |script: &str, shown: &str| assert_eq!(join(["/bin/bash", "-lc", script]), shown);
        check("cat notes.txt", "/bin/bash -lc 'cat notes.txt'");
        check("sed -n '1,3p' notes.txt", "/bin/bash -lc \"sed -n '1,3p' notes.txt\"");
        check("ls", "/bin/bash -lc ls");
        check("", "/bin/bash -lc ''");
        check("a\0b", "<command with a zero byte>");
    }

    proptest! {
        #[test]
        fn joined_words_split_into_themselves(words in prop::collection::vec("[^\0]{0,12}", 1..6)) {
            let line = join(words.iter().map(String::as_str));
            prop_assert_eq!(shlex::split(&line), Some(words));
        }
    }
}
