//! `agents/openai.yaml` beside a skill: how to show it, what it needs, whether the model may choose it.
//!
//! It is an extra: what is wrong in it is logged and left out, and the skill works without.

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

/// What the file says, as far as it can be used.
#[derive(Debug)]
pub(crate) struct SkillDetails {
    pub interface: Option<SkillInterface>,
    pub dependencies: Option<SkillDependencies>,
    pub implicit: bool,
}

impl SkillDetails {
    /// Those of the skill whose `SKILL.md` this is.
    pub fn beside(skill_file: &Path) -> Self {
        let folder = skill_file.parent().unwrap_or(Path::new("/"));
        let said = read(&folder.join(FILE)).unwrap_or_default();
        let policy = said.get("policy").and_then(|policy| policy.get("allow_implicit_invocation"));
        Self {
            interface: said.get("interface").and_then(|interface| self::interface(interface, folder)),
            dependencies: said.get("dependencies").and_then(dependencies),
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
    parsed.inspect_err(|error| tracing::warn!("{} is ignored: {error}", path.display())).ok()
}

fn interface(said: &Value, folder: &Path) -> Option<SkillInterface> {
    let text = |key: &str, max| text(said, key, max);
    let icon = |key: &str| text(key, MAX_TEXT_CHARS).and_then(|given| asset(folder, &given));
    let interface = SkillInterface {
        display_name: text("display_name", MAX_NAME_CHARS),
        short_description: text("short_description", MAX_TEXT_CHARS),
        icon_small: icon("icon_small"),
        icon_large: icon("icon_large"),
        brand_color: text("brand_color", MAX_NAME_CHARS).filter(|color| is_color(color)),
        default_prompt: text("default_prompt", MAX_TEXT_CHARS),
    };
    (interface != SkillInterface::default()).then_some(interface)
}

fn dependencies(said: &Value) -> Option<SkillDependencies> {
    let tools: Vec<_> = said.get("tools")?.as_array()?.iter().filter_map(tool).collect();
    (!tools.is_empty()).then_some(SkillDependencies { tools })
}

fn tool(said: &Value) -> Option<SkillToolDependency> {
    Some(SkillToolDependency {
        kind: text(said, "type", MAX_NAME_CHARS)?,
        value: text(said, "value", MAX_TEXT_CHARS)?,
        description: text(said, "description", MAX_TEXT_CHARS),
        transport: text(said, "transport", MAX_NAME_CHARS),
        command: text(said, "command", MAX_TEXT_CHARS),
        url: text(said, "url", MAX_TEXT_CHARS),
    })
}

/// A text that is there, says something and is not too long.
fn text(said: &Value, key: &str, max: usize) -> Option<String> {
    line(said.get(key)).filter(|text| text.chars().count() <= max)
}

/// The absolute path of a file below the skill's `assets`; whether it is there is not looked at.
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
        SkillDetails::beside(&folder.path().join("SKILL.md"))
    }

    #[test]
    fn an_icon_is_below_the_assets() {
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
    fn what_makes_no_sense_is_left_out() {
        let said = details(
            "interface:\n  display_name: Nice\n  brand_color: red\n  icon_small: ./icon.svg\n\
             dependencies:\n  tools:\n    - type: mcp\n    - type: mcp\n      value: docs\n      url: https://x\n\
             policy:\n  allow_implicit_invocation: false\n",
        );
        let interface = said.interface.unwrap();
        assert_eq!(interface.display_name.as_deref(), Some("Nice"));
        assert_eq!((interface.brand_color, interface.icon_small), (None, None));
        let tools = said.dependencies.unwrap().tools;
        assert_eq!((tools.len(), tools[0].value.as_str()), (1, "docs"));
        assert!(!said.implicit);
    }

    #[test]
    fn a_broken_file_is_as_good_as_none() {
        for text in ["a: b: c", "- list", "interface: text\ndependencies: {tools: text}", ""] {
            let said = details(text);
            assert!(said.interface.is_none() && said.dependencies.is_none() && said.implicit, "{text}");
        }
    }
}
