//! Constructs skills, plugins and apps together, because they depend on each other.

use std::{path::PathBuf, sync::Arc};

use codicil_config::ConfigStore;
use codicil_mcp::ServerPool;

use crate::{
    account::AccountSource,
    apps::Apps,
    marketplaces::Marketplaces,
    plugins::{Plugins, featured::FeaturedPlugins},
    skills::{Skills, roots::UserHomes},
};

/// Everything that extends an agent. Cheap to clone; construction touches neither disk nor network.
#[derive(Clone)]
pub struct Extensions {
    pub skills: Skills,
    pub plugins: Plugins,
    pub marketplaces: Marketplaces,
    pub featured: FeaturedPlugins,
    pub apps: Apps,
}

impl Extensions {
    /// `user_home` is `~`, which may hold skills for several programs. `pool` connects to the MCP server of the apps with
    /// the same account as `accounts`. `on_skills_changed` is called from any thread when watched skill files have
    /// changed.
    pub fn new(
        config: ConfigStore,
        user_home: Option<PathBuf>,
        accounts: Arc<dyn AccountSource>,
        pool: ServerPool,
        on_skills_changed: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let homes = UserHomes { server: config.home().path().to_path_buf(), user: user_home };
        let marketplaces = Marketplaces::new(config.clone());
        let plugins = Plugins::new(config.clone(), homes.clone(), marketplaces.clone());
        let skills = Skills::new(config.clone(), homes, plugins.clone(), on_skills_changed);
        let featured = FeaturedPlugins::new(accounts.clone());
        let apps = Apps::new(config, plugins.clone(), accounts, pool);
        Self { skills, plugins, marketplaces, featured, apps }
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extensions").finish_non_exhaustive()
    }
}
