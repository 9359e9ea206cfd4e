//! `view_image`: an image file becomes part of the conversation.

use codicil_model::ToolSpec;
use codicil_protocol::{FunctionCallOutputBody, FunctionCallOutputContentItem, InputModality, ThreadItem};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult},
    offer::ToolOffer,
    schema::{function, string},
};

pub(super) struct ViewImage;

#[derive(Deserialize)]
struct ViewImageArguments {
    path: String,
}

impl BuiltinTool for ViewImage {
    fn name(&self) -> &'static str {
        "view_image"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let properties = json!({ "path": string("The image file on this machine.") });
        let description = "Looks at an image file. Use it when the user names a file that is not in the \
                           conversation yet.";
        offer.view_image.then(|| function(self.name(), description, properties, &["path"]))
    }

    fn runs_in_parallel(&self) -> bool {
        true
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: ViewImageArguments = call.arguments()?;
    let model = turn.thread.engine.catalogue().look_up(&turn.settings.model);
    if !model.accepts(&InputModality::Image) {
        let why = "view_image is not allowed because you do not support image inputs";
        return Err(ToolError::Failed(why.to_owned()));
    }
    let path = turn.path(&arguments.path);
    let file_path = path.clone();
    let sources = turn.access_sources(turn.thread.grants().access());
    let load = move || {
        let file = sources.open(&file_path).map_err(|error| error.to_string())?;
        codicil_prompts::read_image(file).map_err(|error| error.to_string())
    };
    let image_url = match tokio::task::spawn_blocking(load).await {
        Ok(Ok(url)) => url,
        Ok(Err(why)) => return Err(ToolError::Failed(format!("unable to view `{}`: {why}", path.display()))),
        Err(_panic) => return Err(ToolError::Failed(format!("unable to view `{}`", path.display()))),
    };
    let item = ThreadItem::ImageView { id: call.item_id(), path: path.to_string_lossy().into_owned() };
    turn.emit_started(item.clone()).await;
    turn.emit_completed(item).await;
    let image = FunctionCallOutputContentItem::image(image_url);
    Ok(FunctionCallOutputBody::Content(vec![image]))
}
