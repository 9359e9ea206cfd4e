//! Converts commands, which are text files, into skills of the same name.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    ImportError,
    config_place::{ConfigPlace, read, write},
    instructions::rename_agent,
    skills::children,
};

/// Maximum depth of nested command folders.
const MAX_DEPTH: usize = 8;

/// Returns the commands without a skill yet, with the names of their skills.
pub(super) fn missing(place: &ConfigPlace) -> Result<Vec<(PathBuf, String)>, ImportError> {
    let mut found = Vec::new();
    gather(&place.agent_directory().join("commands"), "", MAX_DEPTH, &mut found)?;
    let existing = place.skills_directory();
    // A skill of the other agent with this name is copied to that place instead.
    let copied = place.agent_directory().join("skills");
    found.retain(|(_, name)| {
        [&existing, &copied].iter().all(|skills| fs::symlink_metadata(skills.join(name)).is_err())
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

/// Returns the text in lowercase letters, digits and dashes.
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
            write(&place.skills_directory().join(&name).join("SKILL.md"), &skill(&name, &text))?;
        }
    }
    Ok(())
}

/// Returns the text of a skill. Its description is that of the command, or else the first line.
fn skill(name: &str, text: &str) -> String {
    let (head, body) = split_front_matter(text);
    let declared = head.lines().find_map(|line| line.strip_prefix("description:"));
    let first = || body.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let description = declared.map(unquote).filter(|text| !text.is_empty()).or_else(first).unwrap_or(name);
    let description = serde_json::Value::String(rename_agent(description));
    format!("---\nname: {name}\ndescription: {description}\n---\n\n{}", rename_agent(body.trim_start()))
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    let within = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// Splits the text into its front matter, which two lines of dashes enclose, and the rest.
fn split_front_matter(text: &str) -> (&str, &str) {
    let split = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    split.map_or(("", text), |(head, body)| (head, body.split_once('\n').map_or("", |(_, body)| body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_skill_with_a_description() {
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
    fn skill_names_have_lowercase_letters_digits_and_dashes() {
        let check = |text: &str, expected: &str| assert_eq!(skill_name(text), expected);
        check("Review PR!", "review-pr");
        check("git-fix__2", "git-fix-2");
        check("—", "");
    }
}
