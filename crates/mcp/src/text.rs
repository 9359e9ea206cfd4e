//! Texts of strangers, cut to a length.

/// The text up to so many characters, with a mark where it was cut.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("añb", 3), "añb");
        assert_eq!(cut("añb", 2), "añ…");
        assert_eq!(cut("", 0), "");
    }
}
