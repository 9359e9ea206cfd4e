//! Images that the provider made: a copy of each is kept as a file.

use std::{fs, io, path::PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_protocol::ThreadItem;

use super::TurnTask;
use crate::step::TurnEvent;

impl TurnTask {
    /// Writes the images among these steps and notes where they are. An image that cannot be written is
    /// still in its item.
    pub(super) async fn keep_images(&self, steps: &mut [TurnEvent]) {
        for step in steps {
            let TurnEvent::Completed {
                item: ThreadItem::ImageGeneration { id, result, saved_path, .. }, ..
            } = step
            else {
                continue;
            };
            if result.is_empty() {
                continue;
            }
            let path = self.image_path(id);
            let (file, image) = (path.clone(), result.clone());
            match tokio::task::spawn_blocking(move || write(file, &image)).await {
                Ok(Ok(())) => *saved_path = Some(path.to_string_lossy().into_owned()),
                Ok(Err(error)) => tracing::warn!("an image could not be kept: {error}"),
                Err(error) => tracing::error!("an image could not be kept: {error}"),
            }
        }
    }

    /// The provider chooses the id, so no more of it is used than makes a name.
    fn image_path(&self, id: &str) -> PathBuf {
        let name: String =
            id.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
        let home = self.tools.thread.world.config.home().path();
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
