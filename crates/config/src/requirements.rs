//! `requirements.toml`: the limits that an administrator sets for configurations.
//!
//! Read from the system file and from the home. The file in the home adds to the system file and cannot loosen it. If a file
//! cannot be read, no thread can start; otherwise breaking the file would lift the limits. Applying the requirements is in
//! `requirement_checks.rs`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{
    AskForApproval, ConfigRequirements, NetworkRequirements, ResidencyRequirement, SandboxMode, WebSearchMode,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value as Json};
use toml::Table;

use crate::{
    error::{ConfigError, ConfigProblem, FileProblem},
    features::Feature,
    files::parse_table,
    foreign_tables::McpServerIdentity,
    key_location,
    settings::closed,
    toml_json::table_to_json,
};

/// One requirements file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequirementsFile {
    #[serde(deserialize_with = "closed_list")]
    allowed_approval_policies: Option<Vec<AskForApproval>>,
    #[serde(deserialize_with = "sandbox_modes")]
    allowed_sandbox_modes: Option<Vec<SandboxMode>>,
    #[serde(deserialize_with = "closed_list")]
    allowed_web_search_modes: Option<Vec<WebSearchMode>>,
    #[serde(alias = "feature_requirements")]
    features: Option<BTreeMap<String, bool>>,
    #[serde(deserialize_with = "closed")]
    enforce_residency: Option<ResidencyRequirement>,
    #[serde(alias = "experimental_network", deserialize_with = "network")]
    network: Option<NetworkRequirements>,
    mcp_servers: Option<BTreeMap<String, McpRequirement>>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    not_enforced: Vec<String>,
}

/// An allowed MCP server: its name and its command or URL.
#[derive(Clone, Debug, Deserialize)]
struct McpRequirement {
    identity: McpIdentity,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum McpIdentity {
    Command { command: String },
    Url { url: String },
}

/// The known keys.
const KNOWN: [&str; 9] = [
    "allowed_approval_policies",
    "allowed_sandbox_modes",
    "allowed_web_search_modes",
    "features",
    "feature_requirements",
    "enforce_residency",
    "network",
    "experimental_network",
    "mcp_servers",
];

/// The known keys of the table `network`.
const KNOWN_OF_NETWORK: [&str; 13] = [
    "enabled",
    "http_port",
    "socks_port",
    "allow_upstream_proxy",
    "dangerously_allow_non_loopback_proxy",
    "dangerously_allow_all_unix_sockets",
    "domains",
    "managed_allowed_domains_only",
    "allowed_domains",
    "denied_domains",
    "unix_sockets",
    "allow_unix_sockets",
    "allow_local_binding",
];

/// Returns the keys of a file that are not known and so not enforced.
fn unknown_requirements(table: &Table) -> Vec<String> {
    let at_root = table.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned();
    let networks = ["network", "experimental_network"].into_iter();
    let networks = networks.filter_map(|name| Some((name, table.get(name)?.as_table()?)));
    let of_network = networks.flat_map(|(name, network)| {
        let unknown = network.keys().filter(|key| !KNOWN_OF_NETWORK.contains(&key.as_str()));
        unknown.map(move |key| format!("{name}.{key}"))
    });
    at_root.chain(of_network).collect()
}

impl RequirementsFile {
    pub(crate) fn parse(path: &Path, text: String) -> Result<Self, ConfigError> {
        let table = parse_table(path, &text)?;
        let not_enforced = unknown_requirements(&table);
        let read = Self::deserialize(table).map_err(|error| {
            let problem = ConfigProblem::of(&error);
            let span = problem.key.as_deref().and_then(|key| key_location::of_joined_key(&text, key));
            ConfigError::InFile(FileProblem::new(path, &text, span, problem))
        })?;
        if read.allowed_approval_policies.as_ref().is_some_and(Vec::is_empty) {
            let problem = ConfigProblem::new("allowed_approval_policies", "must allow at least one policy");
            return Err(ConfigError::InFile(FileProblem::new(path, &text, None, problem)));
        }
        let ports = read.network.iter().flat_map(|network| [network.http_port, network.socks_port]);
        if ports.into_iter().flatten().any(|port| port == 0) {
            let problem = ConfigProblem::new("network", "a port of the proxy must not be 0");
            return Err(ConfigError::InFile(FileProblem::new(path, &text, None, problem)));
        }
        Ok(Self { path: path.to_owned(), not_enforced, ..read })
    }
}

/// The requirements of all files.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// The files in order of decreasing precedence.
    files: Vec<Arc<RequirementsFile>>,
}

/// A requirement and its file.
#[derive(Clone, Copy)]
pub(crate) struct RequirementRule<'r, T: ?Sized> {
    pub value: &'r T,
    pub path: &'r Path,
}

impl Requirements {
    pub(crate) fn new(system: Option<Arc<RequirementsFile>>, home: Option<Arc<RequirementsFile>>) -> Self {
        Self { files: system.into_iter().chain(home).collect() }
    }

    /// Returns the response to `configRequirements/read`; `None` without requirements.
    pub fn to_wire(&self) -> Option<ConfigRequirements> {
        let wire = ConfigRequirements {
            allowed_approval_policies: self.approval_policies().map(|rule| rule.value.to_vec()),
            allowed_sandbox_modes: self.sandbox_modes().map(|rule| rule.value.to_vec()),
            allowed_web_search_modes: self.web_search_modes().map(|rule| rule.value.to_vec()),
            feature_requirements: self.features(),
            enforce_residency: self
                .first(|file| file.enforce_residency.as_ref())
                .map(|rule| rule.value.clone()),
            network: self.network().cloned(),
            ..ConfigRequirements::default()
        };
        let has_requirements = wire != ConfigRequirements::default() || self.mcp_servers().is_some();
        has_requirements.then_some(wire)
    }

    pub(crate) fn approval_policies(&self) -> Option<RequirementRule<'_, [AskForApproval]>> {
        self.first(|file| file.allowed_approval_policies.as_deref())
    }

    pub(crate) fn sandbox_modes(&self) -> Option<RequirementRule<'_, [SandboxMode]>> {
        self.first(|file| file.allowed_sandbox_modes.as_deref())
    }

    pub(crate) fn web_search_modes(&self) -> Option<RequirementRule<'_, [WebSearchMode]>> {
        self.first(|file| file.allowed_web_search_modes.as_deref())
    }

    /// Returns where data must be processed, as the value of the reference server's header.
    pub fn residency(&self) -> Option<String> {
        let required = self.first(|file| file.enforce_residency.as_ref())?.value;
        match required {
            ResidencyRequirement::Us => Some("us".to_owned()),
            // Unknown values are refused when the file is read.
            ResidencyRequirement::Unrecognized(name) => Some(name.to_string()),
        }
    }

    pub(crate) fn network(&self) -> Option<&NetworkRequirements> {
        self.first(|file| file.network.as_ref()).map(|rule| rule.value)
    }

    pub(crate) fn pinned_feature(&self, feature: Feature) -> Option<bool> {
        let pins = self.files.iter().filter_map(|file| file.features.as_ref()).flatten();
        let mut matching = pins.filter(|(name, _)| Feature::named(name) == Some(feature));
        matching.next().map(|(_, on)| *on)
    }

    /// Returns whether an MCP server may be used. Without a list, all may.
    pub(crate) fn permits_mcp_server(&self, name: &str, identity: Option<McpServerIdentity<'_>>) -> bool {
        let Some(allowed) = self.mcp_servers() else { return true };
        match (allowed.value.get(name).map(|entry| &entry.identity), identity) {
            (Some(McpIdentity::Command { command }), Some(McpServerIdentity::Command(asked))) => {
                command == asked
            }
            (Some(McpIdentity::Url { url }), Some(McpServerIdentity::Url(asked))) => url == asked,
            _ => false,
        }
    }

    /// Returns the unknown keys of the files, for warnings.
    pub(crate) fn not_enforced(&self) -> impl Iterator<Item = (&Path, &str)> {
        let files = self.files.iter();
        files.flat_map(|file| file.not_enforced.iter().map(|key| (file.path.as_path(), key.as_str())))
    }

    /// Returns the permissions of the network requirements that commands do not get, with the reasons.
    pub(crate) fn unused_permissions(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        const SOCKETS: &str = "Commands behind the proxy reach no sockets of this machine.";
        let network = self.network().cloned().unwrap_or_default();
        let is_listed = |sockets: Option<usize>| sockets.is_some_and(|count| count > 0);
        [
            (
                "allow_upstream_proxy",
                network.allow_upstream_proxy == Some(true),
                "The proxy of commands connects to hosts directly.",
            ),
            (
                "dangerously_allow_non_loopback_proxy",
                network.dangerously_allow_non_loopback_proxy == Some(true),
                "Only the command itself can reach its proxy.",
            ),
            (
                "dangerously_allow_all_unix_sockets",
                network.dangerously_allow_all_unix_sockets == Some(true),
                SOCKETS,
            ),
            ("unix_sockets", is_listed(network.unix_sockets.as_ref().map(|it| it.len())), SOCKETS),
            ("allow_unix_sockets", is_listed(network.allow_unix_sockets.as_ref().map(Vec::len)), SOCKETS),
        ]
        .into_iter()
        .filter_map(|(key, is_set, reason)| is_set.then_some((key, reason)))
    }

    fn mcp_servers(&self) -> Option<RequirementRule<'_, BTreeMap<String, McpRequirement>>> {
        self.first(|file| file.mcp_servers.as_ref())
    }

    fn features(&self) -> Option<BTreeMap<String, bool>> {
        let increasing_precedence = self.files.iter().rev().filter_map(|file| file.features.as_ref());
        increasing_precedence.cloned().reduce(|mut all, overrides| {
            all.extend(overrides);
            all
        })
    }

    fn first<'r, T: ?Sized>(
        &'r self,
        rule: impl Fn(&'r RequirementsFile) -> Option<&'r T>,
    ) -> Option<RequirementRule<'r, T>> {
        self.files.iter().find_map(|file| Some(RequirementRule { value: rule(file)?, path: &file.path }))
    }
}

fn closed_list<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + codicil_protocol::Inspect,
{
    closed(from)
}

/// Reads sandbox modes. Ignores `external-sandbox`, a mode of the reference server that configurations cannot select here.
fn sandbox_modes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<SandboxMode>>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    let names = names.into_iter().filter(|name| name != "external-sandbox").map(Json::String).collect();
    closed(Json::Array(names)).map_err(D::Error::custom)
}

/// Reads the network requirements, which are camel case on the wire and snake case in the file.
fn network<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NetworkRequirements>, D::Error> {
    let members = table_to_json(&Table::deserialize(from)?);
    let members: Map<_, _> = members.into_iter().map(|(key, value)| (camel_case(&key), value)).collect();
    closed(Json::Object(members)).map_err(D::Error::custom)
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &initial.into_iter().chain(letters).collect::<String>()
    })
}
