//! Attempts that take several steps of the protocol.

mod configuration;
mod controls;
mod daemons;
mod hangs;
mod home_inside;
mod listeners;
mod races;
mod reading;
mod replaced_roots;
mod settings;
mod sockets;

use std::{fs, future::Future, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use tokio::time::timeout;

use super::{report::Report, scene::Scene, server::Server};
use crate::wait;

pub use configuration::trusted_projects;

/// Maximum time for a request that must not hang, and for processes to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the attempts use.
pub struct Stage<'a> {
    pub server: &'a mut Server,
    pub scene: &'a Scene,
    pub report: &'a mut Report,
    /// Whether every variant is tried, or one of each kind.
    pub thorough: bool,
}

/// Returns whether `CODICIL_ESCAPES` selects attempts of this name, or a longer name that begins with it.
pub fn is_wanted(name: &str) -> bool {
    let wanted = std::env::var("CODICIL_ESCAPES").unwrap_or_default();
    name.contains(&wanted) || wanted.starts_with(name)
}

pub async fn make_all(stage: &mut Stage<'_>) {
    replaced_roots::make_all(stage).await;
    configuration::make_all(stage).await;
    settings::make_all(stage).await;
    reading::make_all(stage).await;
    sockets::make_all(stage).await;
    races::make_all(stage).await;
    hangs::make_all(stage).await;
    controls::make_all(stage).await;
    listeners::make_all(stage).await;
    home_inside::make_all(stage).await;
    // These end their own servers.
    daemons::make_all(stage).await;
}

/// Waits until a file exists. Returns false if it does not within [`PATIENCE`].
async fn file_appears(path: &Path) -> bool {
    soon(wait::for_path(path)).await.is_some()
}

/// Returns the result of work that must end within [`PATIENCE`].
async fn soon<T>(work: impl Future<Output = T>) -> Option<T> {
    timeout(PATIENCE, work).await.ok()
}

/// Creates a directory of the server's user.
fn make_directory(scene: &Scene, path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    scene.give(path);
}
