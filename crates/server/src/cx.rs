//! What a handler is given beside its params.

use std::{path::Path, sync::Arc};

use codicil_accounts::Accounts;
use codicil_config::ConfigStore;
use codicil_engine::{Announced, Origin, Threads};
use codicil_services::feedback::Feedback;
use parking_lot::Mutex;

use crate::{
    background::Background,
    clients::{Client, Clients},
    ephemeral::EphemeralThreads,
    files::Files,
    server::Shared,
    user_agent::user_agent,
};

/// This connection and what the server holds. Cheap to clone.
#[derive(Clone)]
pub struct Cx {
    pub client: Arc<Client>,
    shared: Arc<Shared>,
    afterwards: Arc<Mutex<Vec<Afterwards>>>,
}

/// What is done once the answer is on its way.
pub type Afterwards = Box<dyn FnOnce() + Send>;

impl Cx {
    pub fn new(client: Arc<Client>, shared: Arc<Shared>) -> Self {
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

    pub fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    pub fn background(&self) -> &Background {
        &self.shared.background
    }

    pub fn accounts(&self) -> &Accounts {
        &self.shared.accounts
    }

    pub fn files(&self) -> &Files {
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
    pub fn origin(&self) -> Origin {
        match self.client.session() {
            Some(session) => Origin {
                name: session.name.clone(),
                user_agent: user_agent(session, self.announced_version()),
            },
            None => Origin::default(),
        }
    }

    /// Has something done after this request has been answered. Not done when the client is gone by then.
    pub fn after_answer(&self, work: impl FnOnce() + Send + 'static) {
        self.afterwards.lock().push(Box::new(work));
    }

    /// The answer of a thread, which goes on speaking once it has been given.
    pub fn announce<T>(&self, announced: Announced<T>) -> T {
        let Announced { answer, announce } = announced;
        self.after_answer(move || drop(announce));
        answer
    }

    pub fn take_afterwards(&self) -> Vec<Afterwards> {
        std::mem::take(&mut *self.afterwards.lock())
    }
}
