//! A server for unit tests, with a temporary home.

use codicil_config::{ConfigSources, ConfigStore, HomeDirectory, SystemFiles};
use codicil_store::Store;
use tempfile::TempDir;

use crate::{
    generation::ProtocolDefaults,
    server::{Server, ServerSetup},
};

pub fn server() -> (Server, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
    let sources = ConfigSources { system, ..ConfigSources::of(HomeDirectory::new(home.path()).unwrap()) };
    let server = Server::new(ServerSetup {
        config: ConfigStore::new(sources),
        store: Store::open(home.path()).unwrap(),
        cwd: home.path().to_owned(),
        protocol: ProtocolDefaults::default(),
        allow_unauthenticated: false,
    });
    (server, home)
}
