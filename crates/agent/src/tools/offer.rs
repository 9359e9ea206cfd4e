//! Which tools a turn offers to the model, in the order in which the reference server does.

use std::sync::Arc;

use codicil_config::{EffectiveConfig, Feature};
use codicil_mcp::ToolSet;
use codicil_model::{ApplyPatch, ModelInfo, ToolSpec, Tools};
use codicil_protocol::{DynamicToolSpec, WebSearchMode};

use super::{
    agents::{self, AgentOffer},
    specs,
};

/// Everything the choice depends on. Two equal offers are the same list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offer {
    pub role: Role,
    pub shell: ShellTools,
    pub exec_permissions: bool,
    pub request_permissions: bool,
    pub apply_patch: bool,
    /// `None` when the web is not to be searched; else whether it is the live one.
    pub web_search: Option<bool>,
    pub image_generation: bool,
    pub view_image: bool,
    /// `None` when there are to be no other agents.
    pub agents: Option<AgentOffer>,
    /// The tools of MCP servers; `None` without servers.
    pub mcp: Option<McpTools>,
}

/// Sets of tools are the same when they are one: nothing changes in one.
#[derive(Clone, Debug)]
pub(crate) struct McpTools(pub Arc<ToolSet>);

impl PartialEq for McpTools {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// For whom the tools are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A thread of a person's.
    Main,
    /// An agent that another one started. It asks nobody itself.
    Agent { depth: u32 },
    /// A reviewer of changes, who asks nobody and searches nothing.
    Reviewer,
}

/// How commands are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellTools {
    None,
    /// Sessions that can be typed into.
    Sessions,
    /// A call each.
    Calls,
}

impl Offer {
    pub fn new(role: Role, config: &EffectiveConfig, model: &ModelInfo) -> Self {
        let has = |feature| config.features.enabled(feature);
        let shell = match (has(Feature::ShellTool), has(Feature::UnifiedExec)) {
            (false, _) => ShellTools::None,
            (true, true) => ShellTools::Sessions,
            (true, false) => ShellTools::Calls,
        };
        let web_search = match config.web_search().unwrap_or(WebSearchMode::Cached) {
            WebSearchMode::Disabled => None,
            mode => Some(mode == WebSearchMode::Live),
        };
        Self {
            role,
            shell,
            exec_permissions: has(Feature::ExecPermissionApprovals),
            request_permissions: has(Feature::RequestPermissionsTool),
            apply_patch: model.apply_patch == ApplyPatch::Freeform || has(Feature::ApplyPatchFreeform),
            web_search,
            image_generation: has(Feature::ImageGeneration),
            view_image: config.settings.view_image(),
            mcp: None,
            agents: match role {
                Role::Main => AgentOffer::new(config, 0),
                Role::Agent { depth } => AgentOffer::new(config, depth),
                Role::Reviewer => None,
            },
        }
    }

    /// With the tools of MCP servers, where they are for.
    pub fn with_mcp(self, tools: Arc<ToolSet>) -> Self {
        let mcp = (self.role == Role::Main).then_some(McpTools(tools));
        Self { mcp, ..self }
    }

    /// The list, with the tools that the client runs at its end.
    pub fn tools(&self, dynamic: &[DynamicToolSpec]) -> Tools {
        let mut tools = self.built_in();
        if self.role == Role::Main {
            // A client that brings a tool of the same name means its own.
            tools.retain(|spec| !dynamic.iter().any(|tool| tool.name == spec.name()));
            let servers = self.mcp.iter().flat_map(|mcp| mcp.0.iter());
            tools.extend(servers.map(|tool| specs::mcp(tool)));
            let shown = dynamic.iter().filter(|tool| tool.defer_loading != Some(true));
            tools.extend(shown.map(specs::dynamic));
        }
        Tools::new(tools)
    }

    fn built_in(&self) -> Vec<ToolSpec> {
        let main = self.role == Role::Main;
        let mut tools = match self.shell {
            ShellTools::None => Vec::new(),
            ShellTools::Sessions => vec![specs::exec_command(self.exec_permissions), specs::write_stdin()],
            ShellTools::Calls => vec![specs::shell_command(self.exec_permissions)],
        };
        if self.mcp.is_some() {
            tools.extend(specs::mcp_resources());
        }
        let mut offer = |wanted: bool, spec: fn() -> ToolSpec| {
            if wanted {
                tools.push(spec());
            }
        };
        offer(true, specs::update_plan);
        offer(main, specs::request_user_input);
        offer(main && self.request_permissions, specs::request_permissions);
        offer(self.apply_patch, specs::apply_patch);
        if let (true, Some(external_web_access)) = (self.role != Role::Reviewer, self.web_search) {
            tools.push(ToolSpec::WebSearch { external_web_access });
        }
        let mut offer = |wanted: bool, spec: fn() -> ToolSpec| {
            if wanted {
                tools.push(spec());
            }
        };
        offer(main && self.image_generation, || ToolSpec::ImageGeneration);
        offer(self.view_image, specs::view_image);
        tools.extend(self.agents.iter().flat_map(agents::tools));
        tools
    }
}
