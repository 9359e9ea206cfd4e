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

use tokio::time::{Instant, sleep, timeout};

use super::{report::Report, scene::Scene, server::Server};

pub use configuration::trusted_projects;

/// How long the server may take to answer what must not hang, and processes to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a story is told with.
pub struct Stage<'a> {
    pub server: &'a mut Server,
    pub scene: &'a Scene,
    pub report: &'a mut Report,
    /// Whether every variant is tried, or one for each kind.
    pub thorough: bool,
}

/// Whether `CODICIL_ESCAPES` asks for attempts of this name, or for a longer name that begins with it.
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
    // These end servers of their own.
    daemons::make_all(stage).await;
}

/// Waits until a file is there. Nothing tells when a command makes one, so this looks again and again.
async fn file_appears(path: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if fs::symlink_metadata(path).is_ok() {
            return true;
        }
        sleep(Duration::from_millis(10)).await;
    }
    false
}

/// The result of what must come to its end soon.
async fn soon<T>(work: impl Future<Output = T>) -> Option<T> {
    timeout(PATIENCE, work).await.ok()
}

/// Makes a directory of the server's user.
fn make_directory(scene: &Scene, path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    scene.give(path);
}
