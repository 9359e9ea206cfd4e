//! Marketplaces: files that list plugins, `.agents/plugins/marketplace.json` or `.claude-plugin/marketplace.json` below a
//! root. A plugin that cannot be offered, such as one from a remote source, does not affect the others.

use std::path::{Path, PathBuf};

use codicil_protocol::{
    AbsolutePathBuf, MarketplaceInterface, PluginAuthPolicy, PluginInstallPolicy, PluginInterface,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    error::PluginError,
    manifest::{self, below},
};
use crate::small_file::read_text;

/// The places of the file below a root. The first that exists is used.
const FILES: [&str; 2] = [".agents/plugins/marketplace.json", ".claude-plugin/marketplace.json"];
const MAX_BYTES: u64 = 4 << 20;

/// A marketplace as its file describes it.
#[derive(Debug)]
pub(crate) struct Marketplace {
    pub name: String,
    pub interface: Option<MarketplaceInterface>,
    pub plugins: Vec<MarketplaceOffer>,
    pub rejected: Vec<RejectedOffer>,
}

/// An entry of a marketplace that is not offered.
#[derive(Debug)]
pub(crate) struct RejectedOffer {
    /// The name of the plugin, or its position if it has none.
    pub name: String,
    pub reason: String,
}

/// A plugin that a marketplace offers.
#[derive(Debug)]
pub(crate) struct MarketplaceOffer {
    pub name: String,
    pub source: AbsolutePathBuf,
    pub install_policy: PluginInstallPolicy,
    pub auth_policy: PluginAuthPolicy,
    category: Option<String>,
}

impl MarketplaceOffer {
    /// Returns the interface in the plugin's manifest. The marketplace's category overrides that of the
    /// plugin.
    pub fn interface(&self) -> Option<PluginInterface> {
        let mut interface = manifest::load(&self.source).and_then(|manifest| manifest.interface);
        if let Some(category) = &self.category {
            interface.get_or_insert_default().category = Some(category.clone());
        }
        interface
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMarketplace {
    name: String,
    interface: Option<RawInterface>,
    /// Decoded one by one, so that an invalid entry does not hide the others.
    plugins: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInterface {
    display_name: Option<String>,
}

#[derive(Deserialize)]
struct RawOffer {
    name: String,
    source: RawSource,
    #[serde(default)]
    policy: RawPolicy,
    category: Option<String>,
}

/// A local path, as text or as an object with the kind of the source.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawSource {
    Path(String),
    Kind { source: String, path: Option<String> },
}

#[derive(Default, Deserialize)]
struct RawPolicy {
    installation: Option<PluginInstallPolicy>,
    authentication: Option<PluginAuthPolicy>,
}

/// Returns the marketplace files of the user, of the marketplaces that were added, and of these directories.
pub(crate) fn discover(
    user_home: Option<&Path>,
    added: &[PathBuf],
    cwds: &[AbsolutePathBuf],
) -> Vec<PathBuf> {
    let own = user_home.and_then(file_at);
    let of_added = added.iter().filter_map(|root| file_at(root));
    let of_cwds = cwds.iter().filter_map(|cwd| marketplace_file(cwd));
    let mut files = Vec::new();
    for file in own.into_iter().chain(of_added).chain(of_cwds) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns the marketplace file of a directory, or else of the repository around it.
fn marketplace_file(cwd: &Path) -> Option<PathBuf> {
    let in_repository = || cwd.ancestors().find(|folder| folder.join(".git").exists());
    file_at(cwd).or_else(|| file_at(in_repository()?))
}

/// Returns the marketplace file below a root.
pub(crate) fn file_at(root: &Path) -> Option<PathBuf> {
    FILES.iter().map(|file| root.join(file)).find(|file| file.is_file())
}

/// Reads a marketplace file. Entries that cannot be offered are listed separately.
pub(crate) fn load(path: &Path) -> Result<Marketplace, PluginError> {
    if !path.exists() {
        return Err(PluginError::NoMarketplace(path.to_owned()));
    }
    let bad = |reason: String| PluginError::BadMarketplace { path: path.to_owned(), reason };
    let text = read_text(path, MAX_BYTES).map_err(|error| bad(error.to_string()))?;
    let raw: RawMarketplace = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let root = root_of(path).ok_or_else(|| bad(format!("must be {} below a folder", FILES.join(" or "))))?;
    let mut plugins = Vec::new();
    let mut rejected = Vec::new();
    for (index, entry) in raw.plugins.into_iter().enumerate() {
        let name = entry.get("name").and_then(Value::as_str).map(str::to_owned);
        let decoded = serde_json::from_value::<RawOffer>(entry).map_err(|error| error.to_string());
        match decoded.and_then(|offer| offer.resolve(root)) {
            Ok(offer) => plugins.push(offer),
            Err(reason) => {
                let name = name.unwrap_or_else(|| format!("plugin {}", index + 1));
                rejected.push(RejectedOffer { name, reason });
            }
        }
    }
    let shown = raw.interface.filter(|interface| interface.display_name.is_some());
    Ok(Marketplace {
        name: raw.name,
        interface: shown.map(|interface| MarketplaceInterface { display_name: interface.display_name }),
        plugins,
        rejected,
    })
}

/// Returns the folder that paths in the file are relative to.
fn root_of(path: &Path) -> Option<&Path> {
    FILES.iter().find(|file| path.ends_with(file)).and_then(|file| {
        let depth = Path::new(file).components().count();
        path.ancestors().nth(depth)
    })
}

impl RawOffer {
    fn resolve(self, root: &Path) -> Result<MarketplaceOffer, String> {
        let path = match self.source {
            RawSource::Path(path) => path,
            RawSource::Kind { source, path: Some(path) } if source == "local" => path,
            RawSource::Kind { source, path: None } if source == "local" => {
                return Err("local plugin source has no path".to_owned());
            }
            RawSource::Kind { source, .. } => {
                return Err(format!("plugin source `{source}` is not supported; it must be local"));
            }
        };
        let source = below(root, &path).and_then(AbsolutePathBuf::new).ok_or_else(|| {
            format!(
                "local plugin source path must {}",
                match path.strip_prefix("./") {
                    None => "start with `./`",
                    Some("") => "not be empty",
                    Some(_) => "stay within the marketplace root",
                }
            )
        })?;
        let install_policy = self.policy.installation.unwrap_or(PluginInstallPolicy::Available);
        let auth_policy = self.policy.authentication.unwrap_or(PluginAuthPolicy::OnInstall);
        if let PluginInstallPolicy::Unrecognized(policy) = &install_policy {
            return Err(format!("unknown installation policy {policy}"));
        }
        if let PluginAuthPolicy::Unrecognized(policy) = &auth_policy {
            return Err(format!("unknown authentication policy {policy}"));
        }
        Ok(MarketplaceOffer { name: self.name, source, install_policy, auth_policy, category: self.category })
    }
}
