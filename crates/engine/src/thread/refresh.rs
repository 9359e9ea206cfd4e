//! What a thread looks at again before a turn: its configuration, MCP servers, skills and repository.

use std::sync::Arc;

use codicil_config::ConfigQuery;
use codicil_mcp::{APP_SERVER, ServerConfig};
use codicil_store::Record;

use super::actor::ThreadActor;
use crate::{git, subagent::SubagentOrigin};

impl ThreadActor {
    /// Reloads the configuration if a client has asked for that. Settings of the thread and its turns (model,
    /// policies, directory) stay; features, hooks, providers, limits and requirements come from the new configuration.
    pub(super) async fn refresh_config(&mut self) {
        let reloads = self.engine.config_reloads();
        if self.reloads_seen == reloads {
            return;
        }
        let engine = self.engine.clone();
        let query = self.config_query();
        match tokio::task::spawn_blocking(move || engine.load_config(&query)).await {
            Ok(Ok(config)) => {
                self.state.config = Arc::new(config);
                self.reloads_seen = reloads;
            }
            Ok(Err(error)) => {
                tracing::warn!("failed to reload the configuration, keeping the previous one: {error}")
            }
            Err(error) => {
                tracing::error!("failed to reload the configuration, keeping the previous one: {error}")
            }
        }
    }

    /// Restarts MCP servers that have ended, and applies a reloaded configuration. Does not wait for any server. A
    /// subagent keeps the configuration that it was started with.
    pub(super) async fn refresh_servers(&mut self) {
        let app_server = self.engine.extensions.apps.server(&self.state.config).await;
        if self.tools.servers.is_stale() && SubagentOrigin::of(&self.state.source).is_none() {
            self.reload_servers(app_server.clone()).await;
        }
        // The account and the features may have changed since the last turn.
        self.tools.servers.set_app_server(app_server.as_ref());
        self.tools.servers.retry();
    }

    async fn reload_servers(&mut self, app_server: Option<Arc<ServerConfig>>) {
        let engine = self.engine.clone();
        let query = self.config_query();
        let load = move || {
            let config = engine.load_config(&query).map_err(|error| error.to_string())?;
            let mut table = engine.server_table(&config).map_err(|error| error.to_string())?;
            table.extend(app_server.map(|server| (APP_SERVER, server)));
            Ok::<_, String>(table)
        };
        match tokio::task::spawn_blocking(load).await {
            Ok(Ok(table)) => self.tools.servers.update(&table),
            Ok(Err(error)) => tracing::warn!("failed to reload the MCP servers, keeping them: {error}"),
            Err(error) => tracing::error!("failed to reload the MCP servers, keeping them: {error}"),
        }
    }

    /// Returns how the thread's configuration is read.
    pub(super) fn config_query(&self) -> ConfigQuery {
        let cwd = self.state.settings.cwd.clone();
        ConfigQuery { cwd: Some(cwd), overrides: self.state.overrides.clone() }
    }

    /// Watches the skills of the thread's directory, which a turn may have changed.
    pub(super) fn watch_skills(&mut self) {
        let cwd = &self.state.settings.cwd;
        if self.skills.cwd() != cwd {
            self.skills = self.engine.extensions.skills.watch(cwd);
        }
    }

    /// Returns the record of the repository. It is read once, with the thread's first message.
    pub(super) async fn git_record(&mut self) -> Option<Record> {
        if self.state.preview.is_some() || self.state.git.is_some() || self.state.log.is_none() {
            return None;
        }
        let cwd = self.state.settings.cwd.clone();
        let git = tokio::task::spawn_blocking(move || git::info(&cwd)).await.ok()??;
        self.state.git = Some(git.clone());
        Some(Record::Git { git: Some(git) })
    }
}
