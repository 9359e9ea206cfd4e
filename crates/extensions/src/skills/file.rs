//! Reads a `SKILL.md`: front matter between two lines of dashes, then the instructions.

use std::{io, path::Path};

use codicil_protocol::{SkillMetadata, SkillScope};
use serde_json::Value;

use super::{
    details::SkillDetails,
    yaml::{self, YamlError},
};
use crate::small_file::read_head;

pub(crate) const FILE_NAME: &str = "SKILL.md";

/// Maximum size of the front matter.
const MAX_FRONT_MATTER_BYTES: u64 = 64 << 10;
/// Maximum size of the instructions; the rest is cut.
pub(crate) const MAX_BODY_BYTES: u64 = 256 << 10;

const MAX_NAME_CHARS: usize = 64;
/// Maximum length of a description; the rest is cut.
pub(crate) const MAX_TEXT_CHARS: usize = 1024;

/// A skill of a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// The metadata for clients. `enabled` is set for the directory that is listed.
    pub metadata: SkillMetadata,
    /// Whether the model may choose the skill without a mention.
    pub implicit: bool,
}

/// Reasons why a file is not a valid skill, shown to users.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SkillFileError {
    #[error("failed to read file: {0}")]
    Read(#[from] io::Error),
    #[error("missing YAML frontmatter delimited by ---")]
    NoFrontMatter,
    #[error("invalid YAML: {0}")]
    Yaml(#[from] YamlError),
    #[error("missing field `{0}`")]
    Missing(&'static str),
    #[error("invalid {field}: exceeds maximum length of {max} characters")]
    TooLong { field: &'static str, max: usize },
}

/// Reads the front matter of a skill file, and the details beside it.
pub(crate) fn read(path: &Path, scope: SkillScope, namespace: Option<&str>) -> Result<Skill, SkillFileError> {
    let head = head(path)?;
    let front = yaml::parse(front_matter(&head)?)?;
    let name = match line(front.get("name")) {
        Some(name) => name,
        None => folder_name(path).ok_or(SkillFileError::Missing("name"))?,
    };
    let name = within(name, "name", MAX_NAME_CHARS)?;
    let description = line(front.get("description")).ok_or(SkillFileError::Missing("description"))?;
    let short = line(front.get("metadata").and_then(|metadata| metadata.get("short-description")));
    let details = SkillDetails::read_beside(path);
    let metadata = SkillMetadata {
        name: namespace.map(|plugin| format!("{plugin}:{name}")).unwrap_or(name),
        description: cut(description),
        short_description: short.map(cut),
        interface: details.interface,
        dependencies: details.dependencies,
        path: path.to_string_lossy().into_owned(),
        scope,
        enabled: true,
        plugin_id: None,
    };
    Ok(Skill { metadata, implicit: details.implicit })
}

/// Returns the instructions of a skill without its front matter, cut if they are too long.
pub(crate) fn body(path: &Path) -> io::Result<String> {
    let bytes = read_head(path, MAX_BODY_BYTES)?;
    let was_cut = bytes.len() as u64 == MAX_BODY_BYTES;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(rest) = after_front_matter(&text) {
        text = rest.to_owned();
    }
    if was_cut {
        text.push_str("\n[The file goes on; read the rest of it if you need it.]");
    }
    Ok(text)
}

/// Returns a text with whitespace collapsed to single spaces; `None` if it is blank or not a text.
pub(crate) fn line(value: Option<&Value>) -> Option<String> {
    let words: Vec<_> = value?.as_str()?.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Reads the beginning of a file, up to invalid UTF-8: the limit may split a character, and the body may be
/// binary.
fn head(path: &Path) -> io::Result<String> {
    let bytes = read_head(path, MAX_FRONT_MATTER_BYTES)?;
    Ok(bytes.utf8_chunks().next().map(|chunk| chunk.valid().to_owned()).unwrap_or_default())
}

fn front_matter(text: &str) -> Result<&str, SkillFileError> {
    let (front, _) = split(text).ok_or(SkillFileError::NoFrontMatter)?;
    if front.trim().is_empty() { Err(SkillFileError::NoFrontMatter) } else { Ok(front) }
}

fn after_front_matter(text: &str) -> Option<&str> {
    split(text).map(|(_, rest)| rest)
}

/// Splits a file into its front matter and what follows.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let is_dashes = |line: &str| line.trim() == "---";
    let (first, rest) = text.split_once('\n')?;
    if !is_dashes(first) {
        return None;
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if is_dashes(line) {
            return Some((rest.get(..end)?, rest.get(end + line.len()..)?));
        }
        end += line.len();
    }
    None
}

fn folder_name(path: &Path) -> Option<String> {
    let name = path.parent()?.file_name()?.to_string_lossy();
    line(Some(&Value::String(name.into_owned())))
}

fn within(text: String, field: &'static str, max: usize) -> Result<String, SkillFileError> {
    match text.chars().count() {
        length if length > max => Err(SkillFileError::TooLong { field, max }),
        _ => Ok(text),
    }
}

/// Cuts a description, which is part of every thread's first request. The last character says so.
fn cut(text: String) -> String {
    if text.chars().count() <= MAX_TEXT_CHARS {
        return text;
    }
    let kept: String = text.chars().take(MAX_TEXT_CHARS - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8]) -> (tempfile::TempDir, Result<Skill, SkillFileError>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my-skill").join(FILE_NAME);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let skill = read(&path, SkillScope::User, None);
        (folder, skill)
    }

    #[test]
    fn name_and_description_are_read() {
        let check = |text: &str, name: &str, description: &str| {
            let skill = written(text.as_bytes()).1.expect(text).metadata;
            assert_eq!((skill.name.as_str(), skill.description.as_str()), (name, description), "{text}");
        };
        check("---\nname: a\ndescription: b\n---\nbody", "a", "b");
        check("\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\nbody", "a", "b");
        check("---\ndescription: >\n  b\n  c\n---", "my-skill", "b c");
        check("--- \nname:  ' a  b '\ndescription: b\n---\n", "a b", "b");
    }

    #[test]
    fn invalid_files_are_reported_with_the_reason() {
        let check = |text: &[u8], reason: &str| {
            let error = written(text).1.expect_err("no skill").to_string();
            assert!(error.contains(reason), "{}: {error}", String::from_utf8_lossy(text));
        };
        check(b"no front matter", "missing YAML frontmatter");
        check(b"", "missing YAML frontmatter");
        check(b"---\n---\n", "missing YAML frontmatter");
        check(b"---\nname: a\n", "missing YAML frontmatter");
        check(b"---\nname: a\n---\n", "missing field `description`");
        check(b"---\nname: a: b\n---\n", "invalid YAML");
        check(b"\xff\xfe---\n", "missing YAML frontmatter");
        check(format!("---\nname: {}\ndescription: d\n---\n", "x".repeat(65)).as_bytes(), "invalid name");
        check(format!("---\ndescription: d\nx: {}\n---\n", "x".repeat(70_000)).as_bytes(), "missing YAML");
    }

    #[test]
    fn long_descriptions_are_cut() {
        let check = |length: usize, expected: &str| {
            let long = "ü".repeat(length);
            let text = format!("---\ndescription: {long}\nmetadata:\n  short-description: {long}\n---\n");
            let skill = written(text.as_bytes()).1.unwrap().metadata;
            assert_eq!(skill.description, expected);
            assert_eq!(skill.short_description.as_deref(), Some(expected));
        };
        check(1024, &"ü".repeat(1024));
        check(1025, &format!("{}…", "ü".repeat(1023)));
    }

    #[test]
    fn instructions_exclude_the_front_matter() {
        let (folder, skill) = written(b"---\ndescription: d\n---\n\n# Title\n---\nrest\n");
        assert_eq!(body(Path::new(&skill.unwrap().metadata.path)).unwrap(), "\n# Title\n---\nrest\n");
        let long = folder.path().join("long");
        std::fs::write(&long, "y".repeat(300 << 10)).unwrap();
        let text = body(&long).unwrap();
        assert!(text.len() < 260 << 10 && text.ends_with("if you need it.]"));
    }
}
