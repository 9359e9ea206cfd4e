//! Instructions: base instructions, personality, collaboration modes, reviews. The texts are files in `text/`; this module
//! selects them.

use codicil_protocol::{CollaborationMode, ModeKind, Personality};

use crate::context_tags;

const BASE: &str = include_str!("../text/base.md");
const SLOT: &str = "{{personality}}";
const FRIENDLY: &str = include_str!("../text/personality_friendly.md");
const PRAGMATIC: &str = include_str!("../text/personality_pragmatic.md");
const PLAN_MODE: &str = include_str!("../text/mode_plan.md");
const DEFAULT_MODE: &str = include_str!("../text/mode_default.md");

/// The base instructions of a reviewer, whose response [`ReviewOutput::parse`](crate::ReviewOutput::parse) reads.
pub const REVIEW_INSTRUCTIONS: &str = include_str!("../text/review.md");

/// The last message of a compaction request, which asks for the summary.
pub const COMPACTION_PROMPT: &str = include_str!("../text/compaction.md");

/// The default personality of models that support one.
pub const DEFAULT_PERSONALITY: Personality = Personality::Pragmatic;

/// Returns the base instructions of a thread: `instead` if given, otherwise the built-in text with the personality.
pub fn base_instructions(
    supports_personality: bool,
    personality: Option<Personality>,
    instead: Option<&str>,
) -> String {
    if let Some(text) = instead {
        return text.to_owned();
    }
    let tone = effective_personality(supports_personality, personality).and_then(tone);
    let filling = tone.map(|tone| format!("\n{tone}")).unwrap_or_default();
    BASE.replacen(SLOT, &filling, 1)
}

/// Returns the personality in effect, for [`ContextSnapshot::personality`](crate::ContextSnapshot::personality): none if the
/// model does not support it, otherwise the chosen one or the default.
pub fn effective_personality(supports_personality: bool, chosen: Option<Personality>) -> Option<Personality> {
    supports_personality.then(|| chosen.unwrap_or(DEFAULT_PERSONALITY))
}

/// Returns the instructions of a personality; `None` if it has none.
pub(crate) fn tone(personality: Personality) -> Option<&'static str> {
    match personality {
        Personality::Friendly => Some(FRIENDLY),
        Personality::Pragmatic => Some(PRAGMATIC),
        Personality::None => None,
    }
}

/// Returns the built-in instructions of a collaboration mode that clients are shown; `None` for the usual mode.
pub fn shown_mode_instructions(mode: &ModeKind) -> Option<&'static str> {
    (*mode == ModeKind::Plan).then_some(PLAN_MODE)
}

/// Returns the instructions of a collaboration mode. Instructions in its settings replace the built-in ones. `None` for blank
/// instructions, and for unknown modes without instructions.
pub(crate) fn mode_text(mode: &CollaborationMode) -> Option<String> {
    let text = match (&mode.settings.developer_instructions, &mode.mode) {
        (Some(custom), _) => custom,
        (None, ModeKind::Plan) => PLAN_MODE,
        (None, ModeKind::Default | ModeKind::Code) => DEFAULT_MODE,
        (None, ModeKind::Unrecognized(_)) => "",
    };
    (!text.trim().is_empty()).then(|| context_tags::wrap(context_tags::COLLABORATION_MODE, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tone_fills_its_slot() {
        let check = |supports, personality, heading: bool| {
            let text = base_instructions(supports, personality, None);
            assert_eq!(text.contains("# Tone\n"), heading, "{personality:?}");
            assert!(!text.contains("{{"), "an unfilled slot");
            assert!(!text.contains("\n\n\n"), "an empty slot leaves a gap");
        };
        check(true, None, true);
        check(true, Some(Personality::Friendly), true);
        check(true, Some(Personality::Pragmatic), true);
        check(true, Some(Personality::None), false);
        check(false, Some(Personality::Friendly), false);
        assert_eq!(
            base_instructions(true, None, None),
            base_instructions(true, Some(Personality::Pragmatic), None)
        );
        assert_eq!(
            base_instructions(true, None, Some("Be short. {{personality}}")),
            "Be short. {{personality}}"
        );
    }

    #[test]
    fn the_instructions_name_the_tools_and_stay_compact() {
        let text = base_instructions(true, None, None);
        for tool in ["exec_command", "write_stdin", "apply_patch", "update_plan", "view_image"] {
            assert!(text.contains(tool), "{tool}");
        }
        assert!(text.len() < 10_000, "{} bytes", text.len());
        assert!(PLAN_MODE.contains("\n<proposed_plan>\n") && PLAN_MODE.contains("\n</proposed_plan>\n"));
    }
}
