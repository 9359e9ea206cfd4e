//! A server for unit tests, in a home that goes away with it.

use codicil_config::{ConfigStore, Home, Sources, SystemFiles};
use codicil_store::Store;
use tempfile::TempDir;

use crate::server::{PROTOCOL_VERSION, Server, Setup};

pub fn server() -> (Server, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
    let sources = Sources { system, ..Sources::of(Home::new(home.path()).unwrap()) };
    let server = Server::new(Setup {
        config: ConfigStore::new(sources),
        store: Store::open(home.path()).unwrap(),
        cwd: home.path().to_owned(),
        announced_version: PROTOCOL_VERSION.to_owned(),
        allow_unauthenticated: false,
    });
    (server, home)
}
