//! Reads `agents/openai.yaml` of a skill: its presentation, its dependencies, and whether the model may
//! choose it.
//!
//! The file is optional. Invalid fields are ignored, an invalid file is logged, and the skill works without
//! it.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use codicil_protocol::{SkillDependencies, SkillInterface, SkillToolDependency};
use serde_json::Value;

use super::{
    file::{MAX_TEXT_CHARS, line},
    yaml,
};
use crate::small_file::read_text;

const FILE: &str = "agents/openai.yaml";
const ASSETS: &str = "assets";
const MAX_BYTES: u64 = 64 << 10;
const MAX_NAME_CHARS: usize = 64;

/// The valid fields of the file.
#[derive(Debug)]
pub(crate) struct SkillDetails {
    pub interface: Option<SkillInterface>,
    pub dependencies: Option<SkillDependencies>,
    /// Whether the model may choose the skill without a mention.
    pub implicit: bool,
}

impl SkillDetails {
    /// Reads the details of the skill with this `SKILL.md`.
    pub fn read_beside(skill_file: &Path) -> Self {
        let folder = skill_file.parent().unwrap_or(Path::new("/"));
        let fields = read(&folder.join(FILE)).unwrap_or_default();
        let policy = fields.get("policy").and_then(|policy| policy.get("allow_implicit_invocation"));
        Self {
            interface: fields.get("interface").and_then(|interface| self::interface(interface, folder)),
            dependencies: fields.get("dependencies").and_then(dependencies),
            implicit: policy.and_then(Value::as_bool).unwrap_or(true),
        }
    }
}

fn read(path: &Path) -> Option<Value> {
    let text = match read_text(path, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        text => text.map_err(|error| error.to_string()),
    };
    let parsed = text.and_then(|text| yaml::parse(&text).map_err(|error| error.to_string()));
    parsed.inspect_err(|error| tracing::warn!("ignoring {}: {error}", path.display())).ok()
}

fn interface(fields: &Value, folder: &Path) -> Option<SkillInterface> {
    let text = |key: &str, max| text(fields, key, max);
    let icon = |key: &str| text(key, MAX_TEXT_CHARS).and_then(|given| asset(folder, &given));
    let interface = SkillInterface {
        display_name: text("display_name", MAX_NAME_CHARS),
        short_description: text("short_description", MAX_TEXT_CHARS),
        icon_small: icon("icon_small"),
        icon_large: icon("icon_large"),
        brand_color: text("brand_color", MAX_NAME_CHARS).filter(|color| is_color(color)),
        default_prompt: text("default_prompt", MAX_TEXT_CHARS),
        ..SkillInterface::default()
    };
    (interface != SkillInterface::default()).then_some(interface)
}

fn dependencies(fields: &Value) -> Option<SkillDependencies> {
    let tools: Vec<_> = fields.get("tools")?.as_array()?.iter().filter_map(tool).collect();
    (!tools.is_empty()).then_some(SkillDependencies { tools })
}

fn tool(fields: &Value) -> Option<SkillToolDependency> {
    Some(SkillToolDependency {
        kind: text(fields, "type", MAX_NAME_CHARS)?,
        value: text(fields, "value", MAX_TEXT_CHARS)?,
        description: text(fields, "description", MAX_TEXT_CHARS),
        transport: text(fields, "transport", MAX_NAME_CHARS),
        command: text(fields, "command", MAX_TEXT_CHARS),
        url: text(fields, "url", MAX_TEXT_CHARS),
    })
}

/// Returns a text that is not blank and not too long.
fn text(fields: &Value, key: &str, max: usize) -> Option<String> {
    line(fields.get(key)).filter(|text| text.chars().count() <= max)
}

/// Returns the absolute path of a file below the skill's `assets`, whether it exists or not.
fn asset(folder: &Path, given: &str) -> Option<String> {
    let mut path = PathBuf::new();
    for part in Path::new(given).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    path.starts_with(ASSETS).then(|| folder.join(path).to_string_lossy().into_owned())
}

fn is_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(yaml: &str) -> SkillDetails {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        std::fs::write(folder.path().join(FILE), yaml).unwrap();
        SkillDetails::read_beside(&folder.path().join("SKILL.md"))
    }

    #[test]
    fn icons_must_be_below_the_assets() {
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(asset(Path::new("/s"), given).as_deref(), expected, "{given}");
        };
        check("./assets/a.svg", Some("/s/assets/a.svg"));
        check("assets/b/../c.svg", None);
        check("../assets/a.svg", None);
        check("/s/assets/a.svg", None);
        check("icon.svg", None);
        check("https://example.com/a.svg", None);
    }

    #[test]
    fn invalid_fields_are_ignored() {
        let fields = details(
            "interface:\n  display_name: Nice\n  brand_color: red\n  icon_small: ./icon.svg\n\
             dependencies:\n  tools:\n    - type: mcp\n    - type: mcp\n      value: docs\n      url: https://x\n\
             policy:\n  allow_implicit_invocation: false\n",
        );
        let interface = fields.interface.unwrap();
        assert_eq!(interface.display_name.as_deref(), Some("Nice"));
        assert_eq!((interface.brand_color, interface.icon_small), (None, None));
        let tools = fields.dependencies.unwrap().tools;
        assert_eq!((tools.len(), tools[0].value.as_str()), (1, "docs"));
        assert!(!fields.implicit);
    }

    #[test]
    fn an_invalid_file_is_ignored() {
        for text in ["a: b: c", "- list", "interface: text\ndependencies: {tools: text}", ""] {
            let fields = details(text);
            assert!(fields.interface.is_none() && fields.dependencies.is_none() && fields.implicit, "{text}");
        }
    }
}
