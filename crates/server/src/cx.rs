//! What a handler is given beside its params.

use std::{path::Path, sync::Arc};

use codicil_accounts::Accounts;
use codicil_config::ConfigStore;
use codicil_engine::{AnnouncedReply, Threads, TurnOrigin};
use parking_lot::Mutex;

use crate::{
    background::BackgroundTasks,
    clients::{ClientRegistry, ConnectedClient},
    ephemeral::EphemeralThreads,
    feedback::Feedback,
    files::FileServices,
    server::ServerShared,
    user_agent::user_agent,
};

/// This connection and what the server holds. Cheap to clone.
#[derive(Clone)]
pub struct Cx {
    pub client: Arc<ConnectedClient>,
    shared: Arc<ServerShared>,
    afterwards: Arc<Mutex<Vec<AfterReply>>>,
}

/// What is done once the answer is on its way.
pub type AfterReply = Box<dyn FnOnce() + Send>;

impl Cx {
    pub fn new(client: Arc<ConnectedClient>, shared: Arc<ServerShared>) -> Self {
        Self { client, shared, afterwards: Arc::default() }
    }

    /// The directory with configuration, credentials and threads.
    pub fn home(&self) -> &Path {
        self.shared.home()
    }

    /// Where threads work that name no directory.
    pub fn cwd(&self) -> &Path {
        &self.shared.setup.cwd
    }

    /// The version of the protocol that clients are told they talk to.
    pub fn announced_version(&self) -> &str {
        &self.shared.setup.announced_version
    }

    pub fn config(&self) -> &ConfigStore {
        &self.shared.setup.config
    }

    pub fn clients(&self) -> &ClientRegistry {
        &self.shared.clients
    }

    pub fn background(&self) -> &BackgroundTasks {
        &self.shared.background
    }

    pub fn accounts(&self) -> &Accounts {
        &self.shared.accounts
    }

    pub fn files(&self) -> &FileServices {
        &self.shared.files
    }

    pub fn feedback(&self) -> &Feedback {
        &self.shared.feedback
    }

    pub fn threads(&self) -> &Threads {
        self.shared.threads()
    }

    pub fn ephemeral_threads(&self) -> &Arc<EphemeralThreads> {
        &self.shared.ephemeral_threads
    }

    /// On whose behalf turns are run.
    pub fn origin(&self) -> TurnOrigin {
        match self.client.session() {
            Some(session) => TurnOrigin {
                name: session.name.clone(),
                user_agent: user_agent(session, self.announced_version()),
            },
            None => TurnOrigin::default(),
        }
    }

    /// Has something done after this request has been answered. Not done when the client is gone by then.
    pub fn after_answer(&self, work: impl FnOnce() + Send + 'static) {
        self.afterwards.lock().push(Box::new(work));
    }

    /// The answer of a thread, which goes on speaking once it has been given.
    pub fn announce<T>(&self, announced: AnnouncedReply<T>) -> T {
        let AnnouncedReply { answer, announce } = announced;
        self.after_answer(move || drop(announce));
        answer
    }

    pub fn take_afterwards(&self) -> Vec<AfterReply> {
        std::mem::take(&mut *self.afterwards.lock())
    }
}
