//! The skills and plugins of a thread.

use super::actor::ThreadActor;
use crate::abilities::ExtensionSources;

impl ThreadActor {
    /// Skills and plugins where the thread works now.
    pub(super) fn abilities(&self) -> ExtensionSources {
        ExtensionSources {
            extensions: self.world.extensions.clone(),
            config: self.state.config.clone(),
            cwd: self.state.settings.cwd.clone(),
        }
    }

    /// Watches the skills where the thread works now; a turn may have moved it.
    pub(super) fn follow_skills(&mut self) {
        let cwd = &self.state.settings.cwd;
        if self.skills.cwd() != cwd {
            self.skills = self.world.extensions.skills.watch(cwd);
        }
    }
}
