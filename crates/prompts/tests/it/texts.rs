//! The instructions.

use codicil_prompts::{COMPACTION_PROMPT, REVIEW_INSTRUCTIONS, ReviewOutput, base_instructions};
use codicil_protocol::Personality;
use insta::assert_snapshot;

#[test]
fn the_personality_precedes_the_rest() {
    let text = base_instructions(true, Some(Personality::Friendly), None);
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_snapshot!(headings.join("\n"), @r"
    # Tone
    # What you are given
    # AGENTS.md
    # How to work
    # Tools
    ## Patches
    # Checking
    # Your answer
    ");
}

#[test]
fn the_example_of_the_reviewers_instructions_is_parsed() {
    let start = REVIEW_INSTRUCTIONS.find("\n{\n").unwrap();
    let end = REVIEW_INSTRUCTIONS.find("\n}\n").unwrap();
    let example = REVIEW_INSTRUCTIONS[start..end + 2].replace(" or \"patch is incorrect\"", "");
    let review = ReviewOutput::parse(&example);
    assert_eq!(review.overall_correctness, "patch is correct");
    assert_eq!(review.findings.len(), 1);
    let finding = &review.findings[0];
    assert_eq!((finding.confidence, finding.priority), (0.8, Some(1)));
    let range = finding.code_location.as_ref().unwrap().line_range;
    assert_eq!((range.start, range.end), (10, 12));
}

#[test]
fn prompts_are_plain_text() {
    for text in [COMPACTION_PROMPT, REVIEW_INSTRUCTIONS] {
        assert!(!text.starts_with('<') && !text.contains("{{") && text.ends_with('\n'));
    }
}
