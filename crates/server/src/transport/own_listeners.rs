//! What this process itself listens on, for whatever has to keep away from it: a confined command that could
//! reach the server would act as a client without confinement.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// The list of this server's listeners. Clones share one list. A listener is on it before it accepts its first
/// connection, and stays on it.
#[derive(Clone, Debug, Default)]
pub struct OwnListeners(Arc<RwLock<ListenerAddresses>>);

/// Where a server listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerAddresses {
    /// Unix sockets: absolute paths without symbolic links.
    pub sockets: Vec<PathBuf>,
    /// TCP ports, those that the system chose included.
    pub ports: Vec<u16>,
}

impl OwnListeners {
    /// Returns what is listened on now. Empty over stdio.
    pub fn addresses(&self) -> ListenerAddresses {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_socket(&self, path: PathBuf) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).sockets.push(path);
    }

    pub(crate) fn add_port(&self, port: u16) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).ports.push(port);
    }
}
