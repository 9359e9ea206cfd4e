//! `web_search` and `image_generation`: tools that the provider runs itself. Their results arrive as items of the
//! response, so they have a spec and no calls.

use codicil_model::ToolSpec;
use codicil_protocol::WebSearchMode;

use super::{
    builtin::BuiltinTool,
    offer::{ThreadRole, ToolOffer},
};

pub(super) struct WebSearch;

impl BuiltinTool for WebSearch {
    fn name(&self) -> &'static str {
        "web_search"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let is_offered = offer.role != ThreadRole::Reviewer && offer.web_search != WebSearchMode::Disabled;
        let external_web_access = offer.web_search == WebSearchMode::Live;
        is_offered.then_some(ToolSpec::WebSearch { external_web_access })
    }
}

pub(super) struct ImageGeneration;

impl BuiltinTool for ImageGeneration {
    fn name(&self) -> &'static str {
        "image_generation"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        (offer.is_main() && offer.image_generation).then_some(ToolSpec::ImageGeneration)
    }
}
