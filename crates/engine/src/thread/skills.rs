//! The skills and plugins of a thread.

use super::actor::ThreadActor;

impl ThreadActor {
    /// Watches the skills where the thread works now; a turn may have moved it.
    pub(super) fn watch_skills(&mut self) {
        let cwd = &self.state.settings.cwd;
        if self.skills.cwd() != cwd {
            self.skills = self.world.extensions.skills.watch(cwd);
        }
    }
}
