//! Commands: a text file each, which becomes a skill of the same name.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    ImportError,
    place::{ConfigPlace, read, write},
    skills::children,
    wording::reworded,
};

/// Folders of commands that lie within each other.
const MAX_DEPTH: usize = 8;

/// The files whose skills are not there yet, with their names.
pub(super) fn missing(place: &ConfigPlace) -> Result<Vec<(PathBuf, String)>, ImportError> {
    let mut found = Vec::new();
    gather(&place.agent().join("commands"), "", MAX_DEPTH, &mut found)?;
    let (ours, theirs) = (place.skills(), place.agent().join("skills"));
    // A skill of the other agent that has this name goes there.
    found.retain(|(_, name)| {
        [&ours, &theirs].iter().all(|skills| fs::symlink_metadata(skills.join(name)).is_err())
    });
    Ok(found)
}

fn gather(
    folder: &Path,
    prefix: &str,
    depth: usize,
    found: &mut Vec<(PathBuf, String)>,
) -> Result<(), ImportError> {
    for child in children(folder)? {
        let Some(stem) = child.path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let name = skill_name(&format!("{prefix}{stem}"));
        if child.kind.is_dir() && depth > 0 {
            gather(&child.path, &format!("{name}-"), depth - 1, found)?;
        } else if child.kind.is_file()
            && child.path.extension().is_some_and(|end| end == "md")
            && !name.is_empty()
        {
            found.push((child.path, name));
        }
    }
    Ok(())
}

/// Small letters, digits and dashes.
fn skill_name(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => name.push(letter),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    name.trim_end_matches('-').to_owned()
}

pub(super) fn import(place: &ConfigPlace) -> Result<(), ImportError> {
    for (file, name) in missing(place)? {
        if let Some(text) = read(&file)? {
            write(&place.skills().join(&name).join("SKILL.md"), &skill(&name, &text))?;
        }
    }
    Ok(())
}

/// A command as a skill: its own description if it has one, else its first line.
fn skill(name: &str, text: &str) -> String {
    let (head, body) = split_head(text);
    let described = head.lines().find_map(|line| line.strip_prefix("description:"));
    let first = || body.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let description = described.map(unquoted).filter(|text| !text.is_empty()).or_else(first).unwrap_or(name);
    let description = serde_json::Value::String(reworded(description));
    format!("---\nname: {name}\ndescription: {description}\n---\n\n{}", reworded(body.trim_start()))
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let within = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// What stands between two lines of dashes at the top, and what follows.
fn split_head(text: &str) -> (&str, &str) {
    let split = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    split.map_or(("", text), |(head, body)| (head, body.split_once('\n').map_or("", |(_, body)| body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_skill_that_says_what_it_is_for() {
        let check = |text: &str, expected: &str| assert_eq!(skill("deploy", text), expected);
        check(
            "# Ship it\n\nRun $ARGUMENTS",
            "---\nname: deploy\ndescription: \"Ship it\"\n---\n\n# Ship it\n\nRun $ARGUMENTS",
        );
        check(
            "---\nallowed-tools: Bash\ndescription: 'Ships: \"all\"'\n---\nAsk Claude.\n",
            "---\nname: deploy\ndescription: \"Ships: \\\"all\\\"\"\n---\n\nAsk Codex.\n",
        );
        check("", "---\nname: deploy\ndescription: \"deploy\"\n---\n\n");
    }

    #[test]
    fn names_are_made_of_small_letters_digits_and_dashes() {
        let check = |text: &str, expected: &str| assert_eq!(skill_name(text), expected);
        check("Review PR!", "review-pr");
        check("git-fix__2", "git-fix-2");
        check("—", "");
    }
}
