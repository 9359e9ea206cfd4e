//! `view_image`: an image file becomes part of the conversation.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use codicil_protocol::{FunctionCallOutputBody, FunctionCallOutputContentItem, InputModality, ThreadItem};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use super::{
    TurnTools,
    call::{Call, Cancelled, Output, say},
    file_access::AccessSources,
};

#[derive(Deserialize)]
struct Arguments {
    path: String,
}

impl TurnTools {
    pub(super) async fn view_image(&self, call: &Call) -> Result<Output, Cancelled> {
        let arguments: Arguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let model = self.kit.world.catalogue().look_up(&self.settings.model);
        if !model.takes(&InputModality::Image) {
            return Ok(say("view_image is not allowed because you do not support image inputs"));
        }
        let path = self.path(&arguments.path);
        let (file, sources) = (path.clone(), self.access_sources(self.kit.grants().access()));
        let load = move || {
            let file = open_readable(&file, &sources)?;
            codicil_context::read_image(file).map_err(|error| error.to_string())
        };
        let image_url = match tokio::task::spawn_blocking(load).await {
            Ok(Ok(url)) => url,
            Ok(Err(why)) => return Ok(say(format!("unable to view `{}`: {why}", path.display()))),
            // Only a panic ends up here.
            Err(_) => return Ok(say(format!("unable to view `{}`", path.display()))),
        };
        let item = ThreadItem::ImageView { id: call.item_id(), path: path.to_string_lossy().into_owned() };
        self.started(item.clone()).await;
        self.completed(item).await;
        let image = FunctionCallOutputContentItem::InputImage { image_url, detail: None };
        Ok(FunctionCallOutputBody::Content(vec![image]))
    }
}

/// Opens a file that commands of the turn may read. The open file is asked where it is, so that a link that is put in
/// its place meanwhile leads nowhere.
fn open_readable(path: &Path, sources: &AccessSources) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| io::Error::from(error).to_string())?;
    let file = File::from(file);
    let place = real_path(&file).map_err(|error| error.to_string())?;
    let files = sources.files().map_err(|error| error.to_string())?;
    match files.can_read(&place) {
        true => Ok(file),
        false => Err("the sandbox does not let it be read".to_owned()),
    }
}

/// Where an open file is, free of links.
#[cfg(target_os = "linux")]
fn real_path(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn real_path(file: &File) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(file)?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}
