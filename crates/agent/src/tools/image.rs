//! `view_image`: an image file becomes part of the conversation.

use codicil_protocol::{FunctionCallOutputBody, FunctionCallOutputContentItem, InputModality, ThreadItem};
use serde::Deserialize;

use super::{
    TurnTools,
    call::{Call, Cancelled, Output, say},
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
        let file = path.clone();
        let loaded = tokio::task::spawn_blocking(move || codicil_context::load_image(&file)).await;
        let image_url = match loaded {
            Ok(Ok(url)) => url,
            Ok(Err(error)) => return Ok(say(format!("unable to view `{}`: {error}", path.display()))),
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
