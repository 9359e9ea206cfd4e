//! The table of built-in tools.
//!
//! A built-in tool is one type: its name, its spec, its hook view and what a call does are in one file. The list of
//! tools for the model, the dispatch of calls and the hooks around them all walk [`BUILTIN_TOOLS`]. Tools of MCP
//! servers (`mcp/`) and of the client (`dynamic.rs`) are not in the table.

use codicil_model::ToolSpec;
use codicil_protocol::WebSearchMode;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{
    TurnTools,
    agents::{
        AssignTask, CloseAgent, ListAgents, ResumeAgent, SendInput, SendMessage, SpawnAgent, WaitAgent,
    },
    apply_patch::ApplyPatch,
    call::{ToolCall, ToolError, ToolResult},
    command::{ExecCommand, ShellCommand, WriteStdin},
    goals::{CreateGoal, GetGoal, UpdateGoal},
    mcp::{ListMcpResourceTemplates, ListMcpResources, ReadMcpResource},
    offer::{ThreadRole, ToolOffer},
    request_permissions::RequestPermissions,
    request_user_input::RequestUserInput,
    tool_search::ToolSearch,
    update_plan::UpdatePlan,
    view_image::ViewImage,
};

/// A tool that the engine brings along.
pub(super) trait BuiltinTool: Send + Sync {
    /// Returns the name by which the model calls the tool.
    fn name(&self) -> &'static str;

    /// Describes the tool to the model; `None` where it is not offered.
    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec>;

    /// Whether calls run at the same time as other calls of this kind. All other calls run alone.
    fn runs_in_parallel(&self) -> bool {
        false
    }

    /// Whether a call may have effects as soon as it runs. Other tools have none, or call [`TurnTools::begin`] before them.
    fn begins_at_once(&self) -> bool {
        true
    }

    /// Whether calls are accepted even where the tool is not offered.
    fn accepts_unoffered_calls(&self, _turn: &TurnTools) -> bool {
        false
    }

    /// Returns the call as hooks see it; `None` for tools that affect nothing but the conversation.
    fn hook_view(&self, _call: &ToolCall) -> Option<HookView> {
        None
    }

    /// Runs a call. The default rejects it: the provider runs the tool itself and sends no calls.
    fn run<'a>(&'a self, _turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { Err(unsupported_call(call)) })
    }
}

/// A tool call as hooks see it.
#[derive(Debug)]
pub(super) struct HookView {
    /// The name that hook matchers are compared with.
    pub tool: String,
    pub input: Value,
}

/// The built-in tools, in the order in which the model sees them.
pub(super) static BUILTIN_TOOLS: &[&dyn BuiltinTool] = &[
    &ExecCommand,
    &WriteStdin,
    &ShellCommand,
    &ListMcpResources,
    &ListMcpResourceTemplates,
    &ReadMcpResource,
    &UpdatePlan,
    &RequestUserInput,
    &RequestPermissions,
    &ApplyPatch,
    &WebSearch,
    &ImageGeneration,
    &ViewImage,
    &SpawnAgent,
    &SendInput,
    &SendMessage,
    &AssignTask,
    &ResumeAgent,
    &WaitAgent,
    &CloseAgent,
    &ListAgents,
    &ToolSearch,
    &CreateGoal,
    &GetGoal,
    &UpdateGoal,
];

pub(super) fn builtin_tool(name: &str) -> Option<&'static dyn BuiltinTool> {
    BUILTIN_TOOLS.iter().copied().find(|tool| tool.name() == name)
}

pub(super) fn unsupported_call(call: &ToolCall) -> ToolError {
    ToolError::Failed(format!("unsupported call: {}", call.name))
}

// The provider runs these two tools itself. Their results arrive as items of the response, so they have a spec only.

/// Web search by the provider.
struct WebSearch;

impl BuiltinTool for WebSearch {
    fn name(&self) -> &'static str {
        "web_search"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let is_offered = offer.role != ThreadRole::Reviewer && offer.web_search != WebSearchMode::Disabled;
        let external_web_access = offer.web_search == WebSearchMode::Live;
        let settings = offer.web_search_settings.clone();
        is_offered.then_some(ToolSpec::WebSearch { external_web_access, settings })
    }
}

/// Image generation by the provider.
struct ImageGeneration;

impl BuiltinTool for ImageGeneration {
    fn name(&self) -> &'static str {
        "image_generation"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        (offer.is_main() && offer.image_generation).then_some(ToolSpec::ImageGeneration)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tools::offer::tests::everything_offered;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = BUILTIN_TOOLS.iter().map(|tool| tool.name()).collect();
        assert_eq!(names.len(), BUILTIN_TOOLS.len());
    }

    #[test]
    fn a_spec_has_the_name_of_its_tool() {
        let offer = everything_offered();
        for tool in BUILTIN_TOOLS {
            if let Some(spec) = tool.spec(&offer) {
                assert_eq!(spec.name(), tool.name());
            }
        }
    }

    /// Providers cache requests by their beginning, so another order would cost every running thread its cache.
    #[test]
    fn the_order_of_the_table_is_pinned() {
        let names: Vec<_> = BUILTIN_TOOLS.iter().map(|tool| tool.name()).collect();
        assert_eq!(
            names.join(" "),
            "exec_command write_stdin shell_command list_mcp_resources list_mcp_resource_templates \
             read_mcp_resource update_plan request_user_input request_permissions apply_patch web_search \
             image_generation view_image spawn_agent send_input send_message assign_task resume_agent wait_agent \
             close_agent list_agents tool_search create_goal get_goal update_goal"
        );
    }

    #[test]
    fn commands_and_images_run_in_parallel_and_nothing_else_does() {
        let parallel: Vec<_> =
            BUILTIN_TOOLS.iter().filter(|tool| tool.runs_in_parallel()).map(|tool| tool.name()).collect();
        assert_eq!(parallel, ["exec_command", "write_stdin", "view_image"]);
    }
}
