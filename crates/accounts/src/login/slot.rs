//! The one sign-in that may be under way.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::LoginError;

/// Who has the seat now. Clones are the same slot.
#[derive(Clone, Default)]
pub(crate) struct LoginSlot(Arc<Mutex<Option<ActiveLogin>>>);

struct ActiveLogin {
    id: Uuid,
    stop: oneshot::Sender<LoginError>,
    ended: CancellationToken,
}

/// Held by the sign-in; let go, the slot is free.
pub(crate) struct LoginPermit {
    id: Uuid,
    slot: LoginSlot,
    _ended: DropGuard,
}

impl LoginSlot {
    /// Takes the seat. Who sat there has to have gone.
    pub fn sit(&self) -> (LoginPermit, oneshot::Receiver<LoginError>) {
        let (stop, stopped) = oneshot::channel();
        let (id, ended) = (Uuid::now_v7(), CancellationToken::new());
        *self.lock() = Some(ActiveLogin { id, stop, ended: ended.clone() });
        (LoginPermit { id, slot: self.clone(), _ended: ended.drop_guard() }, stopped)
    }

    /// Ends the sign-in under way, if there is one, and waits until it has let go of its port.
    pub async fn clear(&self, why: LoginError) {
        let Some(sitting) = self.lock().take() else { return };
        // It may be ending by itself in this very moment.
        let _ = sitting.stop.send(why);
        sitting.ended.cancelled().await;
    }

    /// Ends the sign-in with this id. False when there is none.
    pub fn cancel(&self, id: Uuid) -> bool {
        let taken = self.lock().take_if(|sitting| sitting.id == id);
        match taken {
            Some(sitting) => sitting.stop.send(LoginError::NotCompleted).is_ok(),
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActiveLogin>> {
        self.0.lock()
    }
}

impl LoginPermit {
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// From here on the sign-in cannot be stopped any more. False when it has been already.
    pub fn commit(&self) -> bool {
        self.slot.lock().take_if(|sitting| sitting.id == self.id).is_some()
    }
}

impl Drop for LoginPermit {
    fn drop(&mut self) {
        self.slot.lock().take_if(|sitting| sitting.id == self.id);
    }
}
