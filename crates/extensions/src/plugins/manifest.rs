//! Reads the manifest of a plugin, `.codex-plugin/plugin.json` or `.claude-plugin/plugin.json`.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use codicil_protocol::{AbsolutePathBuf, PluginInterface};
use serde::Deserialize;
use serde_json::Value;

use crate::small_file::read_json;

/// The places of the manifest. The first that exists is used.
const FILES: [&str; 2] = [".codex-plugin/plugin.json", ".claude-plugin/plugin.json"];
const MAX_BYTES: u64 = 256 << 10;
const MAX_PROMPTS: usize = 3;
const MAX_PROMPT_CHARS: usize = 128;

/// A manifest with resolved paths. Paths that lead out of the plugin are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginManifest {
    /// The name in the manifest, or else that of the folder.
    pub name: String,
    pub version: Option<String>,
    pub keywords: Vec<String>,
    pub description: Option<String>,
    pub interface: Option<PluginInterface>,
    /// Folders with skills, in addition to the default one.
    pub(crate) skills: Vec<PathBuf>,
    pub(crate) mcp_servers: Option<ManifestServers>,
    pub(crate) apps: Option<PathBuf>,
}

/// The MCP servers of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ManifestServers {
    File(PathBuf),
    Inline(BTreeMap<String, Value>),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawManifest {
    name: String,
    version: Option<String>,
    description: Option<String>,
    /// A text or a list of texts.
    keywords: Value,
    /// A path or a list of paths.
    skills: Value,
    /// A path or the servers by name.
    mcp_servers: Value,
    apps: Option<String>,
    interface: Option<RawInterface>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawInterface {
    display_name: Option<String>,
    short_description: Option<String>,
    long_description: Option<String>,
    developer_name: Option<String>,
    category: Option<String>,
    capabilities: Vec<String>,
    #[serde(alias = "websiteURL")]
    website_url: Option<String>,
    #[serde(alias = "privacyPolicyURL")]
    privacy_policy_url: Option<String>,
    #[serde(alias = "termsOfServiceURL")]
    terms_of_service_url: Option<String>,
    /// A text or a list of texts.
    default_prompt: Value,
    brand_color: Option<String>,
    composer_icon: Option<String>,
    logo: Option<String>,
    logo_dark: Option<String>,
    screenshots: Vec<String>,
}

/// Reads the manifest of the plugin in a folder. Returns `None` if there is none; an invalid one is also
/// logged.
pub(crate) fn load(root: &Path) -> Option<PluginManifest> {
    let file = FILES.iter().map(|file| root.join(file)).find(|file| file.is_file())?;
    let raw: RawManifest = read_json(&file, MAX_BYTES)?;
    let named = Some(raw.name.trim().to_owned()).filter(|name| !name.is_empty());
    let by_folder = || root.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(PluginManifest {
        name: named.or_else(by_folder)?,
        version: raw.version,
        keywords: texts(&raw.keywords).into_iter().map(str::to_owned).collect(),
        description: raw.description,
        interface: raw.interface.and_then(|interface| interface.resolve(root)),
        skills: texts(&raw.skills).into_iter().filter_map(|given| below(root, given)).collect(),
        mcp_servers: match raw.mcp_servers {
            Value::String(given) => below(root, &given).map(ManifestServers::File),
            Value::Object(servers) => Some(ManifestServers::Inline(servers.into_iter().collect())),
            _ => None,
        },
        apps: raw.apps.and_then(|given| below(root, &given)),
    })
}

/// Returns the name of the plugin whose root is this folder.
pub(crate) fn plugin_at(folder: &Path) -> Option<String> {
    load(folder).map(|manifest| manifest.name)
}

/// Returns the name of the plugin that contains a folder.
pub(crate) fn plugin_around(folder: &Path) -> Option<String> {
    folder.ancestors().find_map(plugin_at)
}

impl RawInterface {
    fn resolve(self, root: &Path) -> Option<PluginInterface> {
        let file = |given: &String| below(root, given).and_then(AbsolutePathBuf::new);
        let interface = PluginInterface {
            display_name: self.display_name,
            short_description: self.short_description,
            long_description: self.long_description,
            developer_name: self.developer_name,
            category: self.category,
            capabilities: self.capabilities,
            website_url: self.website_url,
            privacy_policy_url: self.privacy_policy_url,
            terms_of_service_url: self.terms_of_service_url,
            default_prompt: prompts(&self.default_prompt),
            brand_color: self.brand_color,
            composer_icon: self.composer_icon.as_ref().and_then(file),
            composer_icon_url: None,
            logo_dark: self.logo_dark.as_ref().and_then(file),
            logo_url: None,
            logo_url_dark: None,
            logo: self.logo.as_ref().and_then(file),
            screenshots: self.screenshots.iter().filter_map(file).collect(),
            screenshot_urls: Vec::new(),
        };
        (interface != PluginInterface::default()).then_some(interface)
    }
}

/// Returns the prompts that are short enough; `None` if there are none.
fn prompts(given: &Value) -> Option<Vec<String>> {
    let on_one_line =
        texts(given).into_iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let fitting = on_one_line.filter(|text| !text.is_empty() && text.chars().count() <= MAX_PROMPT_CHARS);
    let prompts: Vec<_> = fitting.take(MAX_PROMPTS).collect();
    (!prompts.is_empty()).then_some(prompts)
}

/// Returns the texts of a field that is a text or a list of texts.
fn texts(given: &Value) -> Vec<&str> {
    match given {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

/// Resolves a path of the form `./…` that stays within `root`, whether it exists or not.
pub(super) fn below(root: &Path, given: &str) -> Option<PathBuf> {
    let path = Path::new(given.strip_prefix("./")?);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && path.components().next().is_some()).then(|| root.join(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_stay_within_the_plugin() {
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(below(Path::new("/p"), given).as_deref(), expected.map(Path::new), "{given}");
        };
        check("./skills", Some("/p/skills"));
        check("./a/b.png", Some("/p/a/b.png"));
        check("./", None);
        check("skills", None);
        check("./../x", None);
        check(".//etc", None);
        check("/etc", None);
    }

    #[test]
    fn prompts_are_few_and_short() {
        let check = |given: Value, expected: Option<&[&str]>| {
            let expected =
                expected.map(|texts| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
            assert_eq!(prompts(&given), expected, "{given}");
        };
        check(json!("Do  a\nthing"), Some(&["Do a thing"]));
        check(json!(["a", 1, " ", "b", "c", "d"]), Some(&["a", "b", "c"]));
        check(json!(["x".repeat(129)]), None);
        check(json!(null), None);
        check(json!({ "a": 1 }), None);
    }

    #[test]
    fn a_manifest_without_valid_fields_has_no_interface() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("sample");
        std::fs::create_dir_all(root.join(".codex-plugin")).unwrap();
        assert_eq!(load(&root), None);
        std::fs::write(root.join(FILES[0]), r#"{ "interface": { "logo": "../x" } }"#).unwrap();
        let manifest = load(&root).unwrap();
        assert_eq!((manifest.name.as_str(), manifest.interface), ("sample", None));
        assert_eq!(plugin_around(&root.join("skills/x")).as_deref(), Some("sample"));
        std::fs::write(root.join(FILES[0]), "{").unwrap();
        assert_eq!(load(&root), None);
    }

    #[test]
    fn manifests_of_claude_plugins_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join(".claude-plugin")).unwrap();
        let server = json!({ "command": "x" });
        let manifest = json!({ "name": "c", "skills": ["./a", "../b", 3], "mcpServers": { "s": server },
            "author": { "name": "x" }, "hooks": {} });
        std::fs::write(root.join(FILES[1]), manifest.to_string()).unwrap();
        let manifest = load(root).unwrap();
        assert_eq!((manifest.name.as_str(), manifest.skills), ("c", vec![root.join("a")]));
        let inline = BTreeMap::from([("s".to_owned(), server)]);
        assert_eq!(manifest.mcp_servers, Some(ManifestServers::Inline(inline)));
    }
}
