//! What a handler is given beside its params.

use std::{path::Path, sync::Arc};

use crate::{clients::Client, server::Shared};

/// This connection and what the server holds. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cx {
    pub client: Arc<Client>,
    shared: Arc<Shared>,
}

impl Cx {
    pub fn new(client: Arc<Client>, shared: Arc<Shared>) -> Self {
        Self { client, shared }
    }

    /// The directory with configuration, credentials and threads.
    pub fn home(&self) -> &Path {
        &self.shared.setup.home
    }

    /// The version of the protocol that clients are told they talk to.
    pub fn announced_version(&self) -> &str {
        &self.shared.setup.announced_version
    }
}
