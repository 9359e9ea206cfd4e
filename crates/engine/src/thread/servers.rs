//! A thread's MCP servers, looked after when a turn begins.

use codicil_config::ConfigQuery;

use super::actor::ThreadActor;
use crate::kin::SubagentOrigin;

impl ThreadActor {
    /// Starts again what has ended, and takes up a configuration that was reloaded. Waits for no server.
    pub(super) async fn refresh_servers(&mut self) {
        if self.kit.servers.is_stale() && SubagentOrigin::of(&self.state.source).is_none() {
            self.reload_servers().await;
        }
        self.kit.servers.retry();
    }

    /// A configuration that cannot be used changes nothing.
    async fn reload_servers(&mut self) {
        let (world, cwd) = (self.world.clone(), self.state.settings.cwd.clone());
        let query = ConfigQuery { cwd: Some(cwd), overrides: self.state.overrides.clone() };
        let load = move || {
            let config = world.load_config(&query).map_err(|error| error.to_string())?;
            world.server_table(&config).map_err(|error| error.to_string())
        };
        match tokio::task::spawn_blocking(load).await {
            Ok(Ok(table)) => self.kit.servers.update(&table),
            Ok(Err(error)) => tracing::warn!("MCP servers stay as they were: {error}"),
            Err(error) => tracing::error!("MCP servers stay as they were: {error}"),
        }
    }
}
