//! The configuration of a loaded thread, read again when somebody asked for that.

use std::sync::Arc;

use codicil_config::ConfigQuery;

use super::actor::ThreadActor;

impl ThreadActor {
    /// What the thread was started with or told by a turn (its model, policies, directory) stays; what is looked
    /// up turn by turn (features, skills, hooks, providers, limits, requirements) is what the files say now. A
    /// configuration that cannot be used changes nothing.
    pub(super) async fn refresh_config(&mut self) {
        let reloads = self.world.config_reloads();
        if self.reloads_seen == reloads {
            return;
        }
        let (world, cwd) = (self.world.clone(), self.state.settings.cwd.clone());
        let query = ConfigQuery { cwd: Some(cwd), overrides: self.state.overrides.clone() };
        match tokio::task::spawn_blocking(move || world.load_config(&query)).await {
            Ok(Ok(config)) => {
                self.state.config = Arc::new(config);
                self.reloads_seen = reloads;
            }
            Ok(Err(error)) => tracing::warn!("the thread keeps its configuration: {error}"),
            Err(error) => tracing::error!("the thread keeps its configuration: {error}"),
        }
    }
}
