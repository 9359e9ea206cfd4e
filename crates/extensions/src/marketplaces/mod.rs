//! The marketplaces of the user: `[marketplaces.NAME]` in the configuration.
//!
//! A local directory is used in place. A git repository is copied to `marketplaces/NAME` in the home. An upgrade makes a new
//! copy in a staging folder and then replaces the old copy, so that a failed upgrade leaves the old copy as it was.

mod git;
mod source;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::{ConfigQuery, ConfigStore, KeyEdit, KeyPath, MarketplaceSettings, WriteError};
use codicil_protocol::{
    AbsolutePathBuf, MarketplaceAddParams, MarketplaceAddResponse, MarketplaceRemoveResponse,
    MarketplaceUpgradeErrorInfo, MarketplaceUpgradeResponse,
};
use serde_json::{Map, Value, json};
use tokio::{sync::Mutex, task::spawn_blocking};

use self::source::{GitSource, MarketplaceSource};
use crate::plugins::{PluginError, marketplace};

/// The folder of copies in the home.
const FOLDER: &str = "marketplaces";

/// Reasons why a marketplace cannot be added, removed or upgraded. Clients match on most of these texts.
#[derive(Debug, thiserror::Error)]
pub enum MarketplaceError {
    #[error("marketplace source must not be empty")]
    EmptySource,
    #[error("invalid marketplace source format; expected owner/repo, a git URL, or a local marketplace path")]
    SourceFormat,
    #[error("failed to resolve local marketplace source path: {0}")]
    Unresolved(io::Error),
    #[error("local marketplace source must be a directory")]
    NotADirectory,
    #[error("--ref is only supported for git marketplace sources")]
    LocalReference,
    #[error("--sparse is only supported for git marketplace sources")]
    LocalSparsePaths,
    #[error("invalid git reference `{0}`")]
    Reference(String),
    #[error(
        "marketplace `{0}` is already added from a different source; remove it before adding this source"
    )]
    OtherSource(String),
    #[error("marketplace `{0}` is not configured or installed")]
    NotConfigured(String),
    #[error("marketplace `{0}` is not configured as a Git marketplace")]
    NotGit(String),
    #[error(transparent)]
    Manifest(#[from] PluginError),
    #[error("git {command} failed: {reason}")]
    Git { command: String, reason: String },
    #[error("the repository is too large for a marketplace: {files} files with {bytes} bytes")]
    TooLarge { files: usize, bytes: u64 },
    #[error("failed to install the marketplace: {0}")]
    Install(io::Error),
    #[error("failed to write the marketplace to the configuration: {0}")]
    Write(#[from] WriteError),
    #[error("the server is ending")]
    Ending,
}

/// Adds, removes and upgrades marketplaces. Cheap to clone.
#[derive(Clone)]
pub struct Marketplaces(Arc<MarketplacesInner>);

struct MarketplacesInner {
    config: ConfigStore,
    /// Held during a change: all changes use the same staging folder.
    changing: Mutex<()>,
}

impl Marketplaces {
    pub(crate) fn new(config: ConfigStore) -> Self {
        Self(Arc::new(MarketplacesInner { config, changing: Mutex::default() }))
    }

    /// Serves `marketplace/add`. A relative path is resolved against `cwd`.
    pub async fn add(
        &self,
        params: MarketplaceAddParams,
        cwd: &Path,
    ) -> Result<MarketplaceAddResponse, MarketplaceError> {
        let _changing = self.0.changing.lock().await;
        let sparse_paths = params.sparse_paths.unwrap_or_default();
        let source =
            MarketplaceSource::parse(&params.source, params.ref_name.as_deref(), &sparse_paths, cwd)?;
        match source {
            MarketplaceSource::Local(root) => {
                let this = self.clone();
                blocking(move || this.add_local(root)).await
            }
            MarketplaceSource::Git(source) => self.add_git(source).await,
        }
    }

    fn add_local(&self, root: PathBuf) -> Result<MarketplaceAddResponse, MarketplaceError> {
        let name = name_at(&root)?;
        let source = MarketplaceSource::Local(root.clone());
        let already_added = self.is_added(&name, &source)?;
        if !already_added {
            self.write(&name, &source)?;
        }
        Ok(response(name, &root, already_added))
    }

    async fn add_git(&self, source: GitSource) -> Result<MarketplaceAddResponse, MarketplaceError> {
        let staging = self.stage(&source).await?;
        let this = self.clone();
        blocking(move || {
            let name = name_at(&staging.0)?;
            let root = this.root(&name);
            let source = MarketplaceSource::Git(source);
            let already_added = this.is_added(&name, &source)? && root.is_dir();
            if !already_added {
                staging.replace(&root).map_err(MarketplaceError::Install)?;
                this.write(&name, &source)?;
            }
            Ok(response(name, &root, already_added))
        })
        .await
    }

    /// Serves `marketplace/remove`: removes the entry, and the copy of a repository.
    pub async fn remove(&self, name: String) -> Result<MarketplaceRemoveResponse, MarketplaceError> {
        let _changing = self.0.changing.lock().await;
        crate::plugins::check_marketplace_name(&name)?;
        let this = self.clone();
        blocking(move || {
            let root = this.root(&name);
            let is_configured = this.settings().contains_key(&name);
            let has_copy = root.is_dir();
            if !is_configured && !has_copy {
                return Err(MarketplaceError::NotConfigured(name));
            }
            if has_copy {
                fs::remove_dir_all(&root).map_err(MarketplaceError::Install)?;
            }
            if is_configured {
                this.edit(&name, Value::Null)?;
            }
            let installed_root = has_copy.then(|| AbsolutePathBuf::new(root)).flatten();
            Ok(MarketplaceRemoveResponse { marketplace_name: name, installed_root })
        })
        .await
    }

    /// Serves `marketplace/upgrade`: copies the repositories again and reports those that have changed. If one of them fails,
    /// the others are still upgraded.
    pub async fn upgrade(
        &self,
        name: Option<String>,
    ) -> Result<MarketplaceUpgradeResponse, MarketplaceError> {
        let _changing = self.0.changing.lock().await;
        let this = self.clone();
        let mut repositories = blocking(move || Ok(this.repositories())).await?;
        if let Some(name) = name {
            repositories.retain(|(found, _)| *found == name);
            if repositories.is_empty() {
                return Err(MarketplaceError::NotGit(name));
            }
        }
        let mut upgraded = MarketplaceUpgradeResponse {
            selected_marketplaces: repositories.iter().map(|(name, _)| name.clone()).collect(),
            upgraded_roots: Vec::new(),
            errors: Vec::new(),
        };
        for (name, source) in repositories {
            match self.upgrade_one(&name, &source).await {
                Ok(changed) => upgraded.upgraded_roots.extend(changed),
                Err(error) => upgraded
                    .errors
                    .push(MarketplaceUpgradeErrorInfo { marketplace_name: name, message: error.to_string() }),
            }
        }
        Ok(upgraded)
    }

    /// Upgrades a copy and returns its folder if it has changed.
    async fn upgrade_one(
        &self,
        name: &str,
        source: &GitSource,
    ) -> Result<Option<AbsolutePathBuf>, MarketplaceError> {
        let root = self.root(name);
        let before = git::head(&root).await.ok();
        let staging = self.stage(source).await?;
        let after = git::head(&staging.0).await?;
        if before.as_deref() == Some(&after) {
            return Ok(None);
        }
        let name = name.to_owned();
        blocking(move || {
            let found = name_at(&staging.0)?;
            if found != name {
                let reason = format!("its name is `{found}` now, not `{name}`");
                return Err(PluginError::BadMarketplace { path: root, reason }.into());
            }
            staging.replace(&root).map_err(MarketplaceError::Install)?;
            Ok(AbsolutePathBuf::new(root))
        })
        .await
    }

    /// Copies a repository into a staging folder.
    async fn stage(&self, source: &GitSource) -> Result<StagingFolder, MarketplaceError> {
        let folder = self.folder();
        let made = blocking(move || StagingFolder::new(&folder).map_err(MarketplaceError::Install)).await?;
        git::clone(source, &made.0).await?;
        Ok(made)
    }

    /// Returns the roots of the marketplaces, sorted by name. Blocks on the configuration.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let sources = self.settings().into_iter().filter_map(|(name, settings)| {
            match MarketplaceSource::configured(&settings)? {
                MarketplaceSource::Local(root) => Some(root),
                MarketplaceSource::Git(_) => Some(self.root(&name)),
            }
        });
        sources.collect()
    }

    fn repositories(&self) -> Vec<(String, GitSource)> {
        let of_git = |(name, settings)| match MarketplaceSource::configured(&settings) {
            Some(MarketplaceSource::Git(source)) => Some((name, source)),
            _ => None,
        };
        self.settings().into_iter().filter_map(of_git).collect()
    }

    /// Returns whether a marketplace is configured with this source.
    fn is_added(&self, name: &str, source: &MarketplaceSource) -> Result<bool, MarketplaceError> {
        match self.settings().get(name).map(MarketplaceSource::configured) {
            None => Ok(false),
            Some(found) if found.as_ref() == Some(source) => Ok(true),
            Some(_) => Err(MarketplaceError::OtherSource(name.to_owned())),
        }
    }

    /// Returns the configured marketplaces; none if the configuration is invalid, which is reported where it is loaded.
    fn settings(&self) -> std::collections::BTreeMap<String, MarketplaceSettings> {
        let config = self.0.config.load(&ConfigQuery::default());
        config.map(|config| config.settings.marketplaces).unwrap_or_default()
    }

    fn write(&self, name: &str, source: &MarketplaceSource) -> Result<(), MarketplaceError> {
        let entry = match source {
            MarketplaceSource::Local(root) => json!({ "source_type": "local", "source": root }),
            MarketplaceSource::Git(source) => {
                let mut entry = Map::new();
                entry.insert("source_type".to_owned(), json!("git"));
                entry.insert("source".to_owned(), json!(source.url));
                entry.extend(source.reference.as_ref().map(|name| ("ref".to_owned(), json!(name))));
                if !source.sparse_paths.is_empty() {
                    entry.insert("sparse_paths".to_owned(), json!(source.sparse_paths));
                }
                Value::Object(entry)
            }
        };
        self.edit(name, entry)
    }

    fn edit(&self, name: &str, entry: Value) -> Result<(), MarketplaceError> {
        let Some(path) = KeyPath::from_keys(["marketplaces", name]) else { return Ok(()) };
        self.0.config.edit(&[KeyEdit::replace(path, entry)])?;
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.0.config.home().path().join(FOLDER)
    }

    fn root(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }
}

/// Returns the name in the marketplace file below a root. The name is valid as the name of a folder.
fn name_at(root: &Path) -> Result<String, MarketplaceError> {
    let no_manifest = || PluginError::BadMarketplace {
        path: root.to_owned(),
        reason: "marketplace root does not contain a supported manifest".to_owned(),
    };
    let market = marketplace::load(&marketplace::file_at(root).ok_or_else(no_manifest)?)?;
    crate::plugins::check_marketplace_name(&market.name)?;
    Ok(market.name)
}

fn response(name: String, root: &Path, already_added: bool) -> MarketplaceAddResponse {
    let installed_root = AbsolutePathBuf::new(root).expect("the home and resolved paths are absolute");
    MarketplaceAddResponse { marketplace_name: name, installed_root, already_added }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MarketplaceError> + Send + 'static,
) -> Result<T, MarketplaceError> {
    spawn_blocking(work).await.unwrap_or(Err(MarketplaceError::Ending))
}

/// The staging folder of a new copy. Removed when dropped, unless [`replace`](Self::replace) has moved it.
struct StagingFolder(PathBuf);

impl StagingFolder {
    /// Returns a folder that does not exist yet. A folder that a killed process has left there is removed.
    fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!(".staging-{}", std::process::id()));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self(path)),
        }
    }

    /// Moves the folder to `root`. The previous folder there is renamed before and removed afterwards.
    fn replace(self, root: &Path) -> io::Result<()> {
        let old = self.0.with_extension("old");
        if root.exists() {
            let _ = fs::remove_dir_all(&old);
            fs::rename(root, &old)?;
        }
        fs::rename(&self.0, root).inspect_err(|_| _ = fs::rename(&old, root))?;
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
