//! A server's home, a user's home and a workspace in a temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::{ConfigQuery, ConfigSources, ConfigStore, EffectiveConfig, HomeDirectory, SystemFiles};
use codicil_extensions::{AccountSource, Extensions, NoAccount};
use codicil_mcp::{ClientIdentity, PoolOptions, ServerPool};
use codicil_model::{AccountAuth, ProviderCredentials};
use codicil_protocol::{AbsolutePathBuf, SkillMetadata, SkillScope, SkillsListEntry, SkillsListParams};
use tempfile::TempDir;

/// Directories and configuration of one test.
pub struct TestHomes {
    root: TempDir,
    pub config: ConfigStore,
    pub extensions: Extensions,
}

impl TestHomes {
    pub fn new() -> Self {
        Self::with(Arc::new(NoAccount), || {})
    }

    pub fn with(accounts: Arc<dyn AccountSource>, on_change: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_auth(accounts, None, on_change)
    }

    /// Creates homes for an account. `auth` is the same account, for the MCP server of its apps.
    pub fn with_auth(
        accounts: Arc<dyn AccountSource>,
        auth: Option<ProviderCredentials>,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        for folder in ["home", "user", "work/.git"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let machine = SystemFiles { config: vec![base.join("etc/config.toml")], requirements: Vec::new() };
        let sources = ConfigSources {
            system: machine,
            ..ConfigSources::of(HomeDirectory::new(base.join("home")).unwrap())
        };
        let config = ConfigStore::new(sources);
        let account = auth.map(|auth| Arc::new(auth) as Arc<dyn AccountAuth>);
        let pool = ServerPool::new(PoolOptions { account, ..pool_options(&base.join("home")) });
        let user = Some(base.join("user"));
        let extensions = Extensions::new(config.clone(), user, accounts, pool, on_change);
        Self { root, config, extensions }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub fn absolute(&self, name: &str) -> AbsolutePathBuf {
        AbsolutePathBuf::new(self.path(name)).unwrap()
    }

    /// Writes a file atomically, so that a watcher never reads half of it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let unfinished = path.with_file_name(".unfinished");
        fs::write(&unfinished, text).unwrap();
        fs::rename(&unfinished, &path).unwrap();
        path
    }

    /// Writes `NAME/SKILL.md` into a folder.
    pub fn skill(&self, folder: &str, name: &str) -> PathBuf {
        self.write(&format!("{folder}/{name}/SKILL.md"), &skill_text(name, "Does a thing"))
    }

    pub fn load(&self) -> EffectiveConfig {
        self.config.load(&ConfigQuery::at(self.work())).unwrap()
    }

    pub fn config_text(&self) -> String {
        fs::read_to_string(self.path("home/config.toml")).unwrap_or_default()
    }

    /// Lists the skills of a directory without the cache.
    pub fn list_at(&self, cwd: &Path) -> SkillsListEntry {
        self.list(SkillsListParams {
            cwds: Some(vec![cwd.to_string_lossy().into_owned()]),
            force_reload: Some(true),
            per_cwd_extra_user_roots: None,
        })
    }

    pub fn list(&self, params: SkillsListParams) -> SkillsListEntry {
        self.extensions.skills.list(&params, &self.work()).unwrap().data.remove(0)
    }

    /// Returns names and scopes of the skills that are not bundled.
    pub fn names(&self) -> Vec<(String, SkillScope)> {
        own(self.list_at(&self.work()).skills).into_iter().map(|skill| (skill.name, skill.scope)).collect()
    }
}

pub fn pool_options(home: &Path) -> PoolOptions {
    let identity = ClientIdentity { name: "codicil".to_owned(), version: "0".to_owned() };
    PoolOptions::new(home, identity)
}

pub fn skill_text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n\nBody of {name}.\n")
}

pub fn own(mut skills: Vec<SkillMetadata>) -> Vec<SkillMetadata> {
    skills.retain(|skill| skill.scope != SkillScope::System);
    skills
}
