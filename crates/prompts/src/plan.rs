//! Extracting the proposed plan from the text that a model streams in plan mode.
//!
//! A plan is between `<proposed_plan>` and `</proposed_plan>`. The tags should be on lines of their own, and these lines are
//! removed, so that the text around the plan has no gap. Models do not always comply: a plan may begin or end on the line of
//! its tag, but the opening tag must be first on its line, so that a sentence that mentions it does not open a plan.
//!
//! Text is delayed only while it could still be the beginning of a tag.

const OPEN: &str = "<proposed_plan>";
const CLOSE: &str = "</proposed_plan>";

/// The maximum indentation of a tag, which limits the delayed text.
const MAX_INDENT: usize = 64;

/// A piece of streamed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanPiece {
    Message(String),
    Plan(String),
}

/// Splits streamed text into message and plan, independently of the division into deltas.
#[derive(Debug, Default)]
pub struct PlanSplitter {
    place: TextPlace,
    in_plan: bool,
    /// Delayed text: indentation or the beginning of a tag.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextPlace {
    /// A tag may follow.
    #[default]
    LineStart,
    MidLine,
    /// Blanks and the end of the line after a tag are dropped.
    AfterTag,
}

impl PlanSplitter {
    /// Takes the next delta and returns the pieces that are known.
    pub fn feed(&mut self, delta: &str) -> Vec<PlanPiece> {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(delta);
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() && self.step(&mut rest, &mut pieces) {}
        self.held.push_str(rest);
        pieces
    }

    /// Ends the stream and returns the delayed text. An open plan ends here.
    pub fn finish(&mut self) -> Vec<PlanPiece> {
        let mut pieces = Vec::new();
        self.emit(&self.held, &mut pieces);
        *self = Self::default();
        pieces
    }

    /// Processes the beginning of `rest`. Returns `false` if more text is needed.
    fn step(&mut self, rest: &mut &str, pieces: &mut Vec<PlanPiece>) -> bool {
        match self.place {
            TextPlace::LineStart => self.line_start(rest),
            TextPlace::MidLine => self.mid_line(rest, pieces),
            TextPlace::AfterTag => self.after_tag(rest),
        }
    }

    fn line_start(&mut self, rest: &mut &str) -> bool {
        let text = without_indent(rest);
        if rest.len() - text.len() > MAX_INDENT {
            self.place = TextPlace::MidLine;
        } else if let Some(after) = text.strip_prefix(self.tag()) {
            self.switch_kind(rest, after);
        } else if self.tag().starts_with(text) {
            return false;
        } else {
            self.place = TextPlace::MidLine;
        }
        true
    }

    fn mid_line(&mut self, rest: &mut &str, pieces: &mut Vec<PlanPiece>) -> bool {
        let line = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let (line, next) = rest.split_at(line);
        let Some(tag) = self.in_plan.then(|| tag_in(line)).flatten() else {
            self.emit(line, pieces);
            self.place = if line.ends_with('\n') { TextPlace::LineStart } else { TextPlace::MidLine };
            *rest = next;
            return true;
        };
        let (text, from_tag) = rest.split_at(tag);
        self.emit(text, pieces);
        *rest = from_tag;
        let Some(after) = from_tag.strip_prefix(CLOSE) else { return false };
        self.switch_kind(rest, after);
        true
    }

    fn after_tag(&mut self, rest: &mut &str) -> bool {
        *rest = without_indent(rest);
        if rest.is_empty() {
            return false;
        }
        *rest = rest.strip_prefix('\n').unwrap_or(rest);
        self.place = TextPlace::LineStart;
        true
    }

    /// Returns the tag that ends the current kind of text.
    fn tag(&self) -> &'static str {
        if self.in_plan { CLOSE } else { OPEN }
    }

    fn switch_kind<'t>(&mut self, rest: &mut &'t str, after: &'t str) {
        *rest = after;
        self.in_plan = !self.in_plan;
        self.place = TextPlace::AfterTag;
    }

    /// Appends text to the last piece if it has the same kind.
    fn emit(&self, text: &str, pieces: &mut Vec<PlanPiece>) {
        if text.is_empty() {
            return;
        }
        match pieces.last_mut() {
            Some(PlanPiece::Plan(before)) if self.in_plan => before.push_str(text),
            Some(PlanPiece::Message(before)) if !self.in_plan => before.push_str(text),
            _ if self.in_plan => pieces.push(PlanPiece::Plan(text.to_owned())),
            _ => pieces.push(PlanPiece::Message(text.to_owned())),
        }
    }
}

/// Removes leading blanks, including carriage returns, which are half of a line end.
fn without_indent(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r'])
}

/// Returns the position of the closing tag in `text`, possibly incomplete.
fn tag_in(text: &str) -> Option<usize> {
    let might_be = |(at, _): &(usize, &str)| {
        text.get(*at..).is_some_and(|rest| rest.starts_with(CLOSE) || CLOSE.starts_with(rest))
    };
    text.match_indices('<').find(might_be).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The concatenated message and plan of a text that arrives in these deltas.
    fn split<'a>(deltas: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut splitter = PlanSplitter::default();
        let mut pieces: Vec<_> = deltas.into_iter().flat_map(|delta| splitter.feed(delta)).collect();
        pieces.extend(splitter.finish());
        let mut parts = (String::new(), String::new());
        for piece in pieces {
            match piece {
                PlanPiece::Message(text) => parts.0.push_str(&text),
                PlanPiece::Plan(text) => parts.1.push_str(&text),
            }
        }
        parts
    }

    #[test]
    fn the_tags_vanish_with_their_lines() {
        let check = |text: &str, message: &str, plan: &str| {
            assert_eq!(split([text]), (message.to_owned(), plan.to_owned()), "{text:?}");
        };
        check("plain", "plain", "");
        check("", "", "");
        check(
            "Intro.\n\n<proposed_plan>\n# Plan\n- one\n- two\n</proposed_plan>\nBye.",
            "Intro.\n\nBye.",
            "# Plan\n- one\n- two\n",
        );
        check("<proposed_plan>\nx\n</proposed_plan>", "", "x\n");
        check("<proposed_plan>\nnever closed", "", "never closed");
        check("<proposed_plan>\n", "", "");
        check("a\r\n<proposed_plan>\r\nx\r\n</proposed_plan>\r\nb", "a\r\nb", "x\r\n");
        check("  <proposed_plan>  \nx\n  </proposed_plan>\t\nb", "b", "x\n");
        check("<proposed_plan>x</proposed_plan> y", "y", "x");
        check("<proposed_plan>\n- two</proposed_plan>\nBye", "Bye", "- two");
        check("<proposed_plan>\n</ a </proposed </proposed_plan>b", "b", "</ a </proposed ");
        check("I end with `<proposed_plan>`.\nx", "I end with `<proposed_plan>`.\nx", "");
        check("</proposed_plan>\nx", "</proposed_plan>\nx", "");
        check("a\n<proposed_pla", "a\n<proposed_pla", "");
        check("a\n<proposed_planner>\n", "a\n<proposed_planner>\n", "");
        check(
            "<proposed_plan>\n1\n</proposed_plan>\nm\n<proposed_plan>\n2\n</proposed_plan>",
            "m\n",
            "1\n2\n",
        );
        let far = format!("{}<proposed_plan>\nx", " ".repeat(MAX_INDENT + 1));
        check(&far, &far, "");
    }

    #[test]
    fn text_is_emitted_as_soon_as_it_cannot_be_a_tag() {
        let mut splitter = PlanSplitter::default();
        let message = |text: &str| vec![PlanPiece::Message(text.to_owned())];
        assert_eq!(splitter.feed("Hel"), message("Hel"));
        assert_eq!(splitter.feed("lo\n<prop"), message("lo\n"));
        assert_eq!(splitter.feed("erty>"), message("<property>"));
        assert_eq!(splitter.feed("\n<proposed_plan>"), message("\n"));
        assert_eq!(splitter.feed("\n- one <b>"), [PlanPiece::Plan("- one <b>".to_owned())]);
        assert_eq!(splitter.feed(" </pro"), [PlanPiece::Plan(" ".to_owned())]);
        assert_eq!(splitter.finish(), [PlanPiece::Plan("</pro".to_owned())]);
    }

    #[test]
    fn the_example_of_plan_mode_is_a_plan() {
        let (_, plan) = split([include_str!("../text/mode_plan.md")]);
        assert!(plan.starts_with("# Title\n"), "{plan}");
    }

    fn texts() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("<proposed_plan>".to_owned()),
            Just("</proposed_plan>".to_owned()),
            Just("\n".to_owned()),
            Just("\r\n".to_owned()),
            Just(" ".to_owned()),
            Just("</".to_owned()),
            Just("<pro".to_owned()),
            Just("é".to_owned()),
            "[ab<>/\n ]{0,4}",
        ];
        prop::collection::vec(word, 0..20).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            text in texts(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.retain(|cut| text.is_char_boundary(*cut));
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let deltas: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(split(deltas), split([text.as_str()]));
        }

        #[test]
        fn one_character_at_a_time_gives_the_same(text in texts()) {
            let mut buffer = [0; 4];
            let deltas: Vec<String> = text.chars().map(|c| c.encode_utf8(&mut buffer).to_owned()).collect();
            prop_assert_eq!(split(deltas.iter().map(String::as_str)), split([text.as_str()]));
        }

        #[test]
        fn text_without_a_tag_is_all_message(text in "[a-z<>/\n ]{0,40}") {
            prop_assert_eq!(split([text.as_str()]), (text, String::new()));
        }
    }
}
