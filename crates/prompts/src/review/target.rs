//! The target of a review: validation, label for users and prompt for the reviewer.

use codicil_protocol::ReviewTarget;

/// A target with a blank text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewTargetError {
    #[error("branch must not be empty")]
    Branch,
    #[error("sha must not be empty")]
    Sha,
    #[error("instructions must not be empty")]
    Instructions,
}

/// Rejects a target whose text is blank.
pub fn check_review_target(target: &ReviewTarget) -> Result<(), ReviewTargetError> {
    let (text, error) = match target {
        ReviewTarget::UncommittedChanges => return Ok(()),
        ReviewTarget::BaseBranch { branch } => (branch, ReviewTargetError::Branch),
        ReviewTarget::Commit { sha, .. } => (sha, ReviewTargetError::Sha),
        ReviewTarget::Custom { instructions } => (instructions, ReviewTargetError::Instructions),
    };
    if text.trim().is_empty() { Err(error) } else { Ok(()) }
}

/// Returns the label of the target, which clients show during the review.
pub fn review_label(target: &ReviewTarget) -> String {
    match target {
        ReviewTarget::UncommittedChanges => "current changes".to_owned(),
        ReviewTarget::BaseBranch { branch } => format!("changes against '{}'", branch.trim()),
        ReviewTarget::Commit { sha, title } => {
            let short: String = sha.trim().chars().take(7).collect();
            match title.as_deref().map(str::trim).filter(|title| !title.is_empty()) {
                Some(title) => format!("commit {short}: {title}"),
                None => format!("commit {short}"),
            }
        }
        ReviewTarget::Custom { instructions } => instructions.trim().to_owned(),
    }
}

/// Returns the prompt for the reviewer. `merge_base` is the merge base with the branch, if known.
pub fn review_prompt(target: &ReviewTarget, merge_base: Option<&str>) -> String {
    match target {
        ReviewTarget::UncommittedChanges => UNCOMMITTED.to_owned(),
        ReviewTarget::BaseBranch { branch } => base_branch(branch.trim(), merge_base),
        ReviewTarget::Commit { sha, title } => commit(sha.trim(), title.as_deref().map(str::trim)),
        ReviewTarget::Custom { instructions } => instructions.trim().to_owned(),
    }
}

const UNCOMMITTED: &str = "\
    Review everything in this work tree that is not committed: staged, unstaged and untracked. `git status \
    --porcelain` lists it, `git diff HEAD` shows what changed in tracked files; read untracked files as they \
    are.";

fn base_branch(branch: &str, merge_base: Option<&str>) -> String {
    let how = match merge_base {
        Some(sha) => format!("The two parted at {sha}; `git diff {sha}` shows the change."),
        None => format!(
            "Find the commit where the two parted, with `git merge-base HEAD '{branch}@{{upstream}}'` or, if \
             the branch has no upstream, `git merge-base HEAD '{branch}'`; `git diff` against that commit \
             shows the change."
        ),
    };
    format!(
        "Review what was done here since the work left the branch '{branch}', as it would be merged into \
         it. {how}"
    )
}

fn commit(sha: &str, title: Option<&str>) -> String {
    let title =
        title.filter(|title| !title.is_empty()).map(|title| format!(" (\"{title}\")")).unwrap_or_default();
    format!("Review the change that commit {sha}{title} made. `git show {sha}` shows it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(branch: &str) -> ReviewTarget {
        ReviewTarget::BaseBranch { branch: branch.to_owned() }
    }

    fn commit(sha: &str, title: Option<&str>) -> ReviewTarget {
        ReviewTarget::Commit { sha: sha.to_owned(), title: title.map(str::to_owned) }
    }

    fn custom(instructions: &str) -> ReviewTarget {
        ReviewTarget::Custom { instructions: instructions.to_owned() }
    }

    #[test]
    fn blank_targets_are_rejected() {
        let check = |target, expected: &str| {
            assert_eq!(check_review_target(&target).unwrap_err().to_string(), expected);
        };
        check(base("  "), "branch must not be empty");
        check(commit("", Some("x")), "sha must not be empty");
        check(custom("\n"), "instructions must not be empty");
        assert_eq!(check_review_target(&ReviewTarget::UncommittedChanges), Ok(()));
        assert_eq!(check_review_target(&custom("x")), Ok(()));
    }

    #[test]
    fn labels_are_short() {
        let check = |target, expected: &str| assert_eq!(review_label(&target), expected);
        check(ReviewTarget::UncommittedChanges, "current changes");
        check(base(" main "), "changes against 'main'");
        check(commit("9251812f8f028bf6", None), "commit 9251812");
        check(commit("9251812f8f028bf6", Some("Polish colors")), "commit 9251812: Polish colors");
        check(commit("925", Some(" ")), "commit 925");
        check(custom("  Check the docs  "), "Check the docs");
    }

    #[test]
    fn prompts_name_the_target() {
        let check = |target, merge_base, needles: &[&str]| {
            let prompt = review_prompt(&target, merge_base);
            for needle in needles {
                assert!(prompt.contains(needle), "{needle} in {prompt}");
            }
        };
        check(ReviewTarget::UncommittedChanges, None, &["git diff HEAD", "untracked"]);
        check(base("main"), Some("abc123"), &["'main'", "git diff abc123"]);
        check(base("main"), None, &["git merge-base HEAD 'main'", "'main@{upstream}'"]);
        check(commit("abc123", Some("Title")), None, &["git show abc123", "\"Title\""]);
        assert_eq!(review_prompt(&custom(" look "), None), "look");
    }
}
