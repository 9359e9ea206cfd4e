//! Plugins: bundles of skills, MCP servers and apps, offered by marketplaces and copied into the home.
//!
//! A plugin is installed when its files are in the store *and* the configuration has an entry
//! `[plugins."NAME@MARKETPLACE"]`; that entry also enables and disables it. Everything here blocks on the
//! disk.

mod contents;
pub(crate) mod error;
pub(crate) mod featured;
mod id;
pub(crate) mod manifest;
pub(crate) mod marketplace;
mod search;
mod store;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
};

use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, Feature, KeyEdit, KeyPath, PluginSettings};
use codicil_protocol::{
    AbsolutePathBuf, MarketplaceLoadErrorInfo, PluginAuthPolicy, PluginAvailability, PluginDetail,
    PluginInstallPolicy, PluginListParams, PluginListResponse, PluginMarketplaceEntry, PluginSource,
    PluginSummary, SkillMetadata, SkillSummary,
};
use serde_json::Value;
use toml::Table;

pub(crate) use self::id::check_marketplace_name;
pub use self::{contents::PluginContents, error::PluginError, id::PluginId, manifest::PluginManifest};

use self::{
    marketplace::{Marketplace, MarketplaceOffer},
    store::PluginStore,
};
use crate::marketplaces::Marketplaces;
use crate::skills::{
    SkillSwitches,
    roots::UserHomes,
    scan::{RootKind, SkillRoot, scan},
};

/// Finds, installs and removes plugins. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(Arc<PluginsInner>);

struct PluginsInner {
    config: ConfigStore,
    homes: UserHomes,
    store: PluginStore,
    marketplaces: Marketplaces,
}

/// A plugin that is installed and enabled.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledPlugin {
    pub id: PluginId,
    pub manifest: PluginManifest,
    pub contents: PluginContents,
}

impl InstalledPlugin {
    /// Returns the name to show to users.
    pub fn display_name(&self) -> &str {
        let shown = self.manifest.interface.as_ref().and_then(|interface| interface.display_name.as_deref());
        shown.unwrap_or(&self.manifest.name)
    }
}

/// The result of `plugin/read`. [`Apps`](crate::Apps) fills in the apps.
#[derive(Debug)]
pub struct PluginRead {
    pub detail: PluginDetail,
    pub app_ids: Vec<String>,
}

/// The result of an installation: what the caller has to do next.
#[derive(Debug)]
pub struct PluginInstallation {
    pub auth_policy: PluginAuthPolicy,
    pub app_ids: Vec<String>,
}

impl Plugins {
    pub(crate) fn new(config: ConfigStore, homes: UserHomes, marketplaces: Marketplaces) -> Self {
        let store = PluginStore::new(&homes.server);
        Self(Arc::new(PluginsInner { config, homes, store, marketplaces }))
    }

    /// Serves `plugin/list`, without the fields of a remote catalogue.
    pub fn list(&self, params: &PluginListParams) -> PluginListResponse {
        let mut listed = PluginListResponse {
            marketplaces: Vec::new(),
            marketplace_load_errors: Vec::new(),
            remote_sync_error: None,
            featured_plugin_ids: Vec::new(),
        };
        let Ok(configured) = self.configured() else { return listed };
        let cwds = params.cwds.as_deref().unwrap_or_default();
        let mut seen = HashSet::new();
        let added = self.0.marketplaces.roots();
        for path in marketplace::discover(self.0.homes.user.as_deref(), &added, cwds) {
            let Some(absolute) = AbsolutePathBuf::new(&path) else { continue };
            match marketplace::load(&path) {
                Ok(market) => {
                    let rejected = market.rejected.iter().map(|offer| MarketplaceLoadErrorInfo {
                        marketplace_path: absolute.clone(),
                        message: format!("`{}` is left out: {}", offer.name, offer.reason),
                    });
                    listed.marketplace_load_errors.extend(rejected);
                    listed.marketplaces.extend(self.entry(absolute, market, &configured, &mut seen))
                }
                Err(error) => listed.marketplace_load_errors.push(MarketplaceLoadErrorInfo {
                    marketplace_path: absolute,
                    message: error.to_string(),
                }),
            }
        }
        listed
    }

    /// Describes the plugin `name` of the marketplace in a file.
    pub fn read(&self, marketplace: &AbsolutePathBuf, name: &str) -> Result<PluginRead, PluginError> {
        let configured = self.configured()?;
        let market = marketplace::load(marketplace)?;
        let offer = find(&market, marketplace, name)?;
        PluginId::new(&offer.name, &market.name)?;
        let manifest = manifest::load(&offer.source).ok_or(PluginError::NoManifest)?;
        let contents = PluginContents::of(&offer.source, &manifest);
        let detail = PluginDetail {
            summary: self.summary(offer, &market.name, &configured),
            marketplace_path: marketplace.clone(),
            description: manifest.description.clone(),
            skills: self.skills(&contents),
            apps: Vec::new(),
            mcp_servers: contents.mcp_servers.keys().cloned().collect(),
            app_templates: Vec::new(),
            hooks: Vec::new(),
            scheduled_tasks: None,
            onboarding_skill: None,
            share_url: None,
            marketplace_name: market.name,
        };
        Ok(PluginRead { detail, app_ids: contents.apps })
    }

    /// Copies the plugin `name` of the marketplace in a file, and enables it.
    pub fn install(
        &self,
        marketplace: &AbsolutePathBuf,
        name: &str,
    ) -> Result<PluginInstallation, PluginError> {
        self.configured()?;
        let market = marketplace::load(marketplace)?;
        let offer = find(&market, marketplace, name)?;
        if offer.install_policy == PluginInstallPolicy::NotAvailable {
            return Err(PluginError::NotAvailable {
                plugin: offer.name.clone(),
                marketplace: market.name.clone(),
            });
        }
        let id = PluginId::new(&offer.name, &market.name)?;
        self.0.store.install(&id, &offer.source)?;
        self.configure(&id, Some("enabled"), Value::Bool(true)).map_err(PluginError::Persist)?;
        let installed = self.installed(&id).map(|plugin| plugin.contents.apps).unwrap_or_default();
        Ok(PluginInstallation { auth_policy: offer.auth_policy.clone(), app_ids: installed })
    }

    /// Serves `plugin/uninstall`: removes the files and the entry of a plugin, if they exist.
    pub fn uninstall(&self, id: &PluginId) -> Result<(), PluginError> {
        self.0.store.uninstall(id)?;
        self.configure(id, None, Value::Null).map_err(PluginError::Clear)
    }

    /// Returns the plugins of a configuration that are installed and enabled, sorted by id. The caller checks
    /// `Feature::Plugins`.
    pub fn enabled(&self, configured: &BTreeMap<String, PluginSettings>) -> Vec<InstalledPlugin> {
        let enabled = configured.iter().filter(|(_, plugin)| plugin.enabled);
        enabled.filter_map(|(id, _)| self.installed(&id.parse().ok()?)).collect()
    }

    /// Returns the plugins of a thread in this directory. Which are enabled is read from the current
    /// configuration; whether plugins are used at all is decided by the configuration of the thread.
    pub fn at(&self, cwd: &Path, thread: &EffectiveConfig) -> Vec<InstalledPlugin> {
        if !thread.features.enabled(Feature::Plugins) {
            return Vec::new();
        }
        let now = self.0.config.load(&ConfigQuery::at(cwd)).ok();
        self.enabled(&now.as_ref().unwrap_or(thread).settings.plugins)
    }

    /// Returns the MCP servers of the enabled plugins, in the form of `[mcp_servers.NAME]`, without those
    /// whose names the configuration uses itself. Of two servers with one name, the first is used.
    pub fn mcp_servers(&self, config: &EffectiveConfig) -> BTreeMap<String, Table> {
        if !config.features.enabled(Feature::Plugins) {
            return BTreeMap::new();
        }
        let own: HashSet<_> = config.mcp_servers().map(|(name, _)| name).collect();
        let mut servers = BTreeMap::new();
        for (name, table) in
            self.enabled(&config.settings.plugins).into_iter().flat_map(|it| it.contents.mcp_servers)
        {
            if !own.contains(name.as_str()) {
                servers.entry(name).or_insert(table);
            }
        }
        servers
    }

    fn installed(&self, id: &PluginId) -> Option<InstalledPlugin> {
        let root = self.0.store.root(id);
        let manifest = manifest::load(&root)?;
        let contents = PluginContents::of(&root, &manifest);
        Some(InstalledPlugin { id: id.clone(), manifest, contents })
    }

    /// Returns the entries of plugins in the configuration, or an error if the feature is disabled.
    fn configured(&self) -> Result<BTreeMap<String, PluginSettings>, PluginError> {
        // An invalid configuration is reported elsewhere. Then no plugin counts as installed.
        let Ok(config) = self.0.config.load(&ConfigQuery::default()) else { return Ok(BTreeMap::new()) };
        if !config.features.enabled(Feature::Plugins) {
            return Err(PluginError::Disabled);
        }
        Ok(config.settings.plugins)
    }

    fn configure(
        &self,
        id: &PluginId,
        key: Option<&str>,
        value: Value,
    ) -> Result<(), codicil_config::WriteError> {
        let id = id.to_string();
        let keys = ["plugins", &id].into_iter().chain(key);
        let path = KeyPath::from_keys(keys);
        path.map_or(Ok(()), |path| self.0.config.edit(&[KeyEdit::replace(path, value)]).map(drop))
    }

    /// Returns the entry of a marketplace. Plugins whose ids have been listed before are left out; an empty
    /// marketplace has no entry.
    fn entry(
        &self,
        path: AbsolutePathBuf,
        market: Marketplace,
        configured: &BTreeMap<String, PluginSettings>,
        seen: &mut HashSet<String>,
    ) -> Option<PluginMarketplaceEntry> {
        let summaries = market.plugins.iter().map(|offer| self.summary(offer, &market.name, configured));
        let plugins: Vec<_> = summaries.filter(|summary| seen.insert(summary.id.clone())).collect();
        let interface = market.interface;
        (!plugins.is_empty()).then_some(PluginMarketplaceEntry {
            name: market.name,
            path,
            interface,
            plugins,
        })
    }

    fn summary(
        &self,
        offer: &MarketplaceOffer,
        market: &str,
        configured: &BTreeMap<String, PluginSettings>,
    ) -> PluginSummary {
        let id = format!("{}@{market}", offer.name);
        let entry = configured.get(&id);
        let has_files = || id.parse().is_ok_and(|id| self.0.store.has(&id));
        let manifest = manifest::load(&offer.source);
        PluginSummary {
            local_version: manifest.as_ref().and_then(|manifest| manifest.version.clone()),
            keywords: manifest.map(|manifest| manifest.keywords).unwrap_or_default(),
            availability: PluginAvailability::Available,
            remote_plugin_id: None,
            version: None,
            share_context: None,
            installed_at: None,
            install_policy_source: None,
            must_show_installation_interstitial: None,
            disabled_reason: None,
            eligible_plan_types: None,
            name: offer.name.clone(),
            source: PluginSource::Local { path: offer.source.clone() },
            installed: entry.is_some() && has_files(),
            enabled: entry.is_some_and(|plugin| plugin.enabled),
            install_policy: offer.install_policy.clone(),
            auth_policy: offer.auth_policy.clone(),
            interface: offer.interface(),
            id,
        }
    }

    fn skills(&self, contents: &PluginContents) -> Vec<SkillSummary> {
        let config = self.0.config.load(&ConfigQuery::default()).ok();
        let switches =
            config.map(|config| SkillSwitches::new(&config.settings.skills.config)).unwrap_or_default();
        let roots =
            contents.skill_roots.iter().map(|path| SkillRoot { path: path.clone(), kind: RootKind::User });
        let found = roots.flat_map(|root| scan(&root).skills).map(|skill| skill.metadata);
        let mut skills: Vec<_> =
            found.map(|skill| skill_summary(switches.is_enabled(&skill), skill)).collect();
        skills.sort_by(|left, right| (&left.name, &left.path).cmp(&(&right.name, &right.path)));
        skills.dedup_by(|left, right| left.path == right.path);
        skills
    }
}

/// Returns an offered plugin, or why it is not offered.
fn find<'m>(market: &'m Marketplace, path: &Path, name: &str) -> Result<&'m MarketplaceOffer, PluginError> {
    if let Some(offer) = market.plugins.iter().find(|offer| offer.name == name) {
        return Ok(offer);
    }
    Err(match market.rejected.iter().find(|offer| offer.name == name) {
        Some(offer) => PluginError::BadMarketplace { path: path.to_owned(), reason: offer.reason.clone() },
        None => PluginError::NotFound { plugin: name.to_owned(), marketplace: market.name.clone() },
    })
}

fn skill_summary(enabled: bool, skill: SkillMetadata) -> SkillSummary {
    let SkillMetadata { name, description, short_description, interface, path, .. } = skill;
    SkillSummary { name, description, short_description, interface, path, enabled }
}
