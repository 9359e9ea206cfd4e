//! The slot for the one interactive login that may be active.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::LoginError;

/// The active login, if there is one. Clones share the slot.
#[derive(Clone, Default)]
pub(crate) struct LoginSlot(Arc<Mutex<Option<ActiveLogin>>>);

struct ActiveLogin {
    id: Uuid,
    stop: oneshot::Sender<LoginError>,
    ended: CancellationToken,
}

/// Held by the active login. Dropping it frees the slot.
pub(crate) struct LoginPermit {
    id: Uuid,
    slot: LoginSlot,
    _ended: DropGuard,
}

impl LoginSlot {
    /// Occupies the slot, which the caller has emptied with [`Self::clear`]. The receiver gets the reason when
    /// the login is stopped.
    pub fn acquire(&self) -> (LoginPermit, oneshot::Receiver<LoginError>) {
        let id = Uuid::now_v7();
        let ended = CancellationToken::new();
        let (stop, stopped) = oneshot::channel();
        *self.0.lock() = Some(ActiveLogin { id, stop, ended: ended.clone() });
        (LoginPermit { id, slot: self.clone(), _ended: ended.drop_guard() }, stopped)
    }

    /// Stops the active login, if there is one, and waits until it has closed its port.
    pub async fn clear(&self, reason: LoginError) {
        let Some(active) = self.0.lock().take() else { return };
        // Fails if the login has just ended by itself.
        let _ = active.stop.send(reason);
        active.ended.cancelled().await;
    }

    /// Stops the login with this id. Returns false if it is not active.
    pub fn cancel(&self, id: Uuid) -> bool {
        let active = self.0.lock().take_if(|active| active.id == id);
        active.is_some_and(|active| active.stop.send(LoginError::NotCompleted).is_ok())
    }
}

impl LoginPermit {
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Makes the login unstoppable, before its tokens are stored. Returns false if it was stopped already.
    pub fn commit(&self) -> bool {
        self.slot.0.lock().take_if(|active| active.id == self.id).is_some()
    }
}

impl Drop for LoginPermit {
    fn drop(&mut self) {
        self.slot.0.lock().take_if(|active| active.id == self.id);
    }
}
