//! Images that the provider generated. A copy of each is saved below the home directory.

use std::{fs, io, path::PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_protocol::ThreadItem;

use super::TurnTask;
use crate::turn_channel::TurnEvent;

impl TurnTask {
    /// Saves the images among these events and sets their paths. An image that cannot be saved is still in its item.
    pub(super) async fn save_images(&self, events: &mut [TurnEvent]) {
        for event in events {
            let TurnEvent::Completed { item, .. } = event else { continue };
            let ThreadItem::ImageGeneration { id, result, saved_path, .. } = &mut **item else { continue };
            if result.is_empty() {
                continue;
            }
            let path = self.image_path(id);
            let file = path.clone();
            let image = result.clone();
            match tokio::task::spawn_blocking(move || write(file, &image)).await {
                Ok(Ok(())) => *saved_path = Some(path.to_string_lossy().into_owned()),
                Ok(Err(error)) => tracing::warn!("failed to save a generated image: {error}"),
                Err(error) => tracing::error!("failed to save a generated image: {error}"),
            }
        }
    }

    /// Returns where an image is saved. The provider chooses the id, so characters that are unsafe in a file name
    /// are replaced.
    fn image_path(&self, id: &str) -> PathBuf {
        let name: String =
            id.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
        let home = self.tools.thread.engine.config.home().path();
        home.join("generated_images").join(&self.thread[..]).join(format!("{name}.png"))
    }
}

fn write(path: PathBuf, image: &str) -> io::Result<()> {
    let bytes = BASE64_STANDARD.decode(image).map_err(io::Error::other)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, bytes)
}
