//! Marketplaces: files that list plugins, `.agents/plugins/marketplace.json` below a root.

use std::path::{Path, PathBuf};

use codicil_protocol::{
    AbsolutePathBuf, MarketplaceInterface, PluginAuthPolicy, PluginInstallPolicy, PluginInterface,
};
use serde::Deserialize;

use super::{
    error::PluginError,
    manifest::{self, below},
};
use crate::small_file::read_text;

const FILE: &str = ".agents/plugins/marketplace.json";
const MAX_BYTES: u64 = 4 << 20;

/// A marketplace as its file describes it.
#[derive(Debug)]
pub(crate) struct Marketplace {
    pub name: String,
    pub interface: Option<MarketplaceInterface>,
    pub plugins: Vec<MarketplaceOffer>,
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
    plugins: Vec<RawOffer>,
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

#[derive(Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
enum RawSource {
    Local { path: String },
}

#[derive(Default, Deserialize)]
struct RawPolicy {
    installation: Option<PluginInstallPolicy>,
    authentication: Option<PluginAuthPolicy>,
}

/// Returns the marketplace files of these directories, and that of the user.
pub(crate) fn discover(user_home: Option<&Path>, cwds: &[AbsolutePathBuf]) -> Vec<PathBuf> {
    let own = user_home.map(|home| home.join(FILE)).filter(|file| file.is_file());
    let of_cwds = cwds.iter().filter_map(|cwd| marketplace_file(cwd));
    let mut files = Vec::new();
    for file in own.into_iter().chain(of_cwds) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns the marketplace file of a directory, or else of the repository around it.
fn marketplace_file(cwd: &Path) -> Option<PathBuf> {
    let in_repository = || cwd.ancestors().find(|folder| folder.join(".git").exists());
    let roots = std::iter::once(cwd).chain(in_repository());
    roots.map(|root| root.join(FILE)).find(|file| file.is_file())
}

/// Reads a marketplace file. One invalid plugin makes it invalid.
pub(crate) fn load(path: &Path) -> Result<Marketplace, PluginError> {
    load_matching(path, |_| true)
}

/// Reads a marketplace file for one plugin. The other plugins may be invalid.
pub(crate) fn load_one(path: &Path, name: &str) -> Result<Marketplace, PluginError> {
    load_matching(path, |offered| offered == name)
}

fn load_matching(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Marketplace, PluginError> {
    if !path.exists() {
        return Err(PluginError::NoMarketplace(path.to_owned()));
    }
    let bad = |reason: String| PluginError::BadMarketplace { path: path.to_owned(), reason };
    let text = read_text(path, MAX_BYTES).map_err(|error| bad(error.to_string()))?;
    let raw: RawMarketplace = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let root = root_of(path).ok_or_else(|| bad(format!("must be {FILE} below a folder")))?;
    let offers = raw.plugins.into_iter().filter(|offer| wanted(&offer.name));
    let plugins = offers.map(|offer| offer.resolve(root)).collect::<Result<_, _>>().map_err(bad)?;
    let shown = raw.interface.filter(|interface| interface.display_name.is_some());
    Ok(Marketplace {
        name: raw.name,
        interface: shown.map(|interface| MarketplaceInterface { display_name: interface.display_name }),
        plugins,
    })
}

/// Returns the folder that paths in the file are relative to.
fn root_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| folder.ends_with(".agents/plugins"))?.parent()?.parent()
}

impl RawOffer {
    fn resolve(self, root: &Path) -> Result<MarketplaceOffer, String> {
        let RawSource::Local { path } = self.source;
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
