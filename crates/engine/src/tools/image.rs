//! `view_image`: an image file becomes part of the conversation.

use codicil_protocol::{FunctionCallOutputBody, FunctionCallOutputContentItem, InputModality, ThreadItem};
use serde::Deserialize;

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};

#[derive(Deserialize)]
struct ViewImageArguments {
    path: String,
}

impl TurnTools {
    pub(super) async fn view_image(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: ViewImageArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let model = self.kit.engine.catalogue().look_up(&self.settings.model);
        if !model.takes(&InputModality::Image) {
            return Ok(say("view_image is not allowed because you do not support image inputs"));
        }
        let path = self.path(&arguments.path);
        let (file, sources) = (path.clone(), self.access_sources(self.kit.grants().access()));
        let load = move || {
            let file = sources.open(&file).map_err(|error| error.to_string())?;
            codicil_prompts::read_image(file).map_err(|error| error.to_string())
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
