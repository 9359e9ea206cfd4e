//! Where threads are stored: in files of the home, or in a PostgreSQL database that several servers share.
//!
//! The address of the database can contain a password, so it is never printed.

use std::{convert::Infallible, env, fmt, path::PathBuf, process, str::FromStr, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use codicil_config::{ConfigQuery, ConfigStore, StoreSettings};
use codicil_server::ListenAddress;
use codicil_store::Store;
use codicil_store_postgres::{
    BackendSettings, DatabaseAddress, PostgresBackend, PostgresStore, SharedPlaces,
};

/// The environment variable with the address of the database. An empty one counts as none.
pub const STORE_VARIABLE: &str = "CODICIL_STORE";
/// The time after which other servers take over the threads of one that does not renew its lease.
const LEASE_TIME: Duration = Duration::from_secs(6);

/// The database of a server, and how the server takes part.
#[derive(Debug, Args)]
pub struct DatabaseArgs {
    /// Keep threads in a PostgreSQL database that several servers share. CODICIL_STORE and `[codicil.store] url` mean
    /// the same and hide the password.
    #[arg(long, value_name = "URL")]
    store: Option<DatabaseUrl>,
    /// The name of this server among those that share the database [default: the host's name and the port].
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where clients and other servers reach this one [default: the address of the listener].
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
}

/// The database of a program that runs a server for itself, which other programs do not reach.
#[derive(Clone, Debug, Default, Args)]
pub struct OwnServerArgs {
    /// Keep threads in a PostgreSQL database that several servers share. CODICIL_STORE and `[codicil.store] url` mean
    /// the same and hide the password.
    #[arg(long, value_name = "URL", global = true)]
    store: Option<DatabaseUrl>,
    /// The name of the server (`--node`) whose disk this is [default: the host's name].
    #[arg(long, value_name = "NAME", global = true)]
    node: Option<String>,
}

/// The address of a database. It is checked when it is used: the parser of arguments would print one that is refused.
#[derive(Clone)]
pub struct DatabaseUrl(String);

impl FromStr for DatabaseUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl")
    }
}

impl DatabaseUrl {
    fn address(&self) -> anyhow::Result<DatabaseAddress> {
        DatabaseAddress::parse(&self.0).context("cannot use the database")
    }

    /// Connects to the database, without taking part as a server and without changing it.
    pub async fn connect(&self) -> anyhow::Result<PostgresStore> {
        PostgresStore::open_unchanged(self.address()?).await.context("cannot use the database")
    }

    /// Connects to the database to read it, without taking part as a server and without changing it.
    pub async fn open_reader(&self, settings: BackendSettings) -> anyhow::Result<PostgresBackend> {
        PostgresBackend::open_reader(self.address()?, settings).await.context("cannot use the database")
    }

    /// Connects to the database as a server with this name.
    pub async fn join(&self, settings: BackendSettings) -> anyhow::Result<PostgresBackend> {
        PostgresBackend::open(self.address()?, settings).await.context("cannot use the database")
    }
}

/// Returns the database that is chosen: by an argument, else by the environment, else by the configuration.
pub fn chosen_url(given: Option<&DatabaseUrl>, config: &ConfigStore) -> Option<DatabaseUrl> {
    let named = || env::var(STORE_VARIABLE).ok().filter(|url| !url.is_empty()).map(DatabaseUrl);
    let configured = || {
        let store = settings(config);
        store.url.map(DatabaseUrl)
    };
    given.cloned().or_else(named).or_else(configured)
}

fn settings(config: &ConfigStore) -> StoreSettings {
    // A configuration that cannot be read is reported to clients.
    let store = config.load(&ConfigQuery::default()).map(|config| config.settings.codicil.store);
    store.unwrap_or_default()
}

impl DatabaseArgs {
    /// Opens the store that is chosen.
    pub async fn open_store(&self, config: &ConfigStore, listen: &ListenAddress) -> anyhow::Result<Store> {
        let home = config.home().path().to_path_buf();
        let Some(url) = chosen_url(self.store.as_ref(), config) else { return Ok(Store::open(home)?) };
        let store = settings(config);
        let host = host_name();
        let named = self.node.clone().or(store.node);
        let settings = BackendSettings {
            // A server that has a name of its own also has a disk of its own.
            disk: named.clone().unwrap_or_else(|| host.clone()),
            name: named.unwrap_or_else(|| default_name(&host, listen)),
            url: self.advertise.clone().or(store.advertise).unwrap_or_else(|| default_url(&host, listen)),
            places: SharedPlaces(store.places),
            ttl: LEASE_TIME,
        };
        join_as(&url, settings, home).await
    }
}

impl OwnServerArgs {
    /// Opens the store that is chosen. With a database, the program takes part beside the server whose disk it uses,
    /// under a name of its own.
    pub async fn open_store(&self, config: &ConfigStore) -> anyhow::Result<Store> {
        let home = config.home().path().to_path_buf();
        let Some(url) = self.chosen_url(config) else { return Ok(Store::open(home)?) };
        join_as(&url, placed_settings(self.node.clone(), config), home).await
    }

    /// Returns the database that is chosen.
    pub fn chosen_url(&self, config: &ConfigStore) -> Option<DatabaseUrl> {
        chosen_url(self.store.as_ref(), config)
    }
}

async fn join_as(url: &DatabaseUrl, settings: BackendSettings, home: PathBuf) -> anyhow::Result<Store> {
    let name = settings.name.clone();
    let backend = url.join(settings).await?;
    tracing::info!(node = name, "threads are in PostgreSQL");
    Ok(Store::open_shared(home, Arc::new(backend))?)
}

/// Returns how a program takes part that no client reaches, with the disk and the volumes of the configuration.
pub fn placed_settings(node: Option<String>, config: &ConfigStore) -> BackendSettings {
    let store = settings(config);
    BackendSettings { places: SharedPlaces(store.places), ..program_settings(node.or(store.node)) }
}

/// Returns how a program takes part that no client reaches, with the name of the server whose disk it uses.
pub fn program_settings(node: Option<String>) -> BackendSettings {
    let disk = node.unwrap_or_else(host_name);
    BackendSettings {
        name: format!("{disk}-{}", process::id()),
        disk,
        url: String::new(),
        places: SharedPlaces::default(),
        ttl: LEASE_TIME,
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the name of a server that was given none. It differs from those of other servers on the same host.
fn default_name(host: &str, listen: &ListenAddress) -> String {
    match listen {
        ListenAddress::WebSocket(address) if address.port() != 0 => format!("{host}:{}", address.port()),
        _ => format!("{host}-{}", process::id()),
    }
}

/// Returns where others reach a server; empty if they cannot.
fn default_url(host: &str, listen: &ListenAddress) -> String {
    match listen {
        // The port is not known before the server listens.
        ListenAddress::WebSocket(address) if address.port() == 0 => String::new(),
        ListenAddress::WebSocket(address) if address.ip().is_unspecified() => {
            format!("ws://{host}:{}", address.port())
        }
        ListenAddress::WebSocket(address) => format!("ws://{address}"),
        ListenAddress::Stdio | ListenAddress::Unix(_) | ListenAddress::Control => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_database_is_never_shown() {
        let url: DatabaseUrl = "postgres://me:secret@host/db?colour=red".parse().unwrap();
        assert!(!format!("{url:?}").contains("secret"));
        let error = format!("{:?}", url.address().unwrap_err());
        assert!(error.contains("colour") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_server_is_named_after_its_host_and_port() {
        let listen = "ws://127.0.0.1:4500".parse().unwrap();
        assert_eq!(default_name("box", &listen), "box:4500");
        assert_eq!(default_url("box", &listen), "ws://127.0.0.1:4500");
        assert_eq!(default_url("box", &"ws://0.0.0.0:1".parse().unwrap()), "ws://box:1");
        assert_eq!(default_url("box", &ListenAddress::Stdio), "");
    }
}
