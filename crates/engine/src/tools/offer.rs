//! Which tools a turn offers to the model: built-in ones, then those of MCP servers and of the client.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use codicil_config::{EffectiveConfig, Feature};
use codicil_mcp::ToolSet;
use codicil_model::{ApplyPatch, ModelInfo, ToolList, ToolSpec, joined_name};
use codicil_protocol::{DynamicToolEntry, WebSearchMode, WebSearchToolConfig};
use parking_lot::Mutex;

use super::{agents::AgentOffer, builtin::BUILTIN_TOOLS, dynamic, mcp};

/// With more MCP tools than this, the model has to search for them. A full list would take too much of its context.
const MAX_LISTED_MCP_TOOLS: usize = 100;

/// Everything that the list of tools depends on. Equal offers have equal lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolOffer {
    pub role: ThreadRole,
    pub shell: ShellTools,
    /// Whether commands may ask for single permissions instead of leaving the sandbox altogether.
    pub exec_permissions: bool,
    pub request_permissions: bool,
    pub apply_patch: bool,
    pub web_search: WebSearchMode,
    pub web_search_settings: WebSearchToolConfig,
    pub image_generation: bool,
    pub view_image: bool,
    pub update_plan: bool,
    pub request_user_input: bool,
    /// Whether the model may read and change the goal of the thread.
    pub goals: bool,
    /// `None` where subagents cannot be started.
    pub agents: Option<AgentOffer>,
    /// The tools of MCP servers; `None` without servers.
    pub mcp: Option<SharedTools<ToolSet>>,
    /// The tools that the client runs; `None` without any.
    pub dynamic: Option<SharedTools<[DynamicToolEntry]>>,
    /// Whether tools can be left out of the list until the model searches for them.
    pub tool_search: bool,
    /// Names of deferred tools that the model has found by searching.
    pub discovered: Arc<BTreeSet<String>>,
}

/// A set of tools that never changes. Equal only to its own clones, so that offers are cheap to compare.
#[derive(Debug)]
pub(crate) struct SharedTools<T: ?Sized>(pub Arc<T>);

impl<T: ?Sized> Clone for SharedTools<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> PartialEq for SharedTools<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The kind of thread that the tools are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadRole {
    /// A thread that a client started.
    Main,
    /// A subagent. It cannot ask the user.
    Agent { depth: u32 },
    /// A reviewer of changes. It can neither ask the user nor search the web.
    Reviewer,
}

/// The tools that run commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellTools {
    None,
    /// Commands run in sessions that accept input and may outlive their call.
    Sessions,
    /// Each call waits for its command.
    Calls,
}

/// Whether a tool of an MCP server or of the client is on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolVisibility {
    Listed,
    /// The model has to search for it first.
    Deferred,
}

impl ToolOffer {
    pub fn new(role: ThreadRole, config: &EffectiveConfig, model: &ModelInfo) -> Self {
        let has = |feature| config.features.enabled(feature);
        let shell = if !has(Feature::ShellTool) {
            ShellTools::None
        } else if has(Feature::UnifiedExec) {
            ShellTools::Sessions
        } else {
            ShellTools::Calls
        };
        Self {
            role,
            shell,
            exec_permissions: has(Feature::ExecPermissionApprovals),
            request_permissions: has(Feature::RequestPermissionsTool),
            apply_patch: (config.features.configured(Feature::ApplyPatchFreeform))
                .unwrap_or(model.apply_patch == ApplyPatch::Freeform),
            web_search: config.web_search().unwrap_or(WebSearchMode::Cached),
            web_search_settings: config.web_search_settings(),
            image_generation: has(Feature::ImageGeneration),
            view_image: config.settings.view_image() && has(Feature::ViewImage),
            update_plan: config.settings.update_plan(),
            request_user_input: config.settings.request_user_input(),
            goals: false,
            agents: match role {
                ThreadRole::Main => AgentOffer::new(config, 0),
                ThreadRole::Agent { depth } => AgentOffer::new(config, depth),
                ThreadRole::Reviewer => None,
            },
            mcp: None,
            dynamic: None,
            tool_search: has(Feature::ToolSearch),
            discovered: Arc::default(),
        }
    }

    /// Removes the tools that run commands and use files of the server.
    pub fn without_environment(self) -> Self {
        let shell = ShellTools::None;
        Self {
            shell,
            exec_permissions: false,
            request_permissions: false,
            apply_patch: false,
            view_image: false,
            ..self
        }
    }

    /// Adds the tools of MCP servers, which reviewers do not have.
    pub fn with_mcp(self, tools: Arc<ToolSet>) -> Self {
        let mcp = self.has_external_tools().then_some(SharedTools(tools));
        Self { mcp, ..self }
    }

    /// Adds the tools of the client.
    pub fn with_dynamic(self, tools: Arc<[DynamicToolEntry]>) -> Self {
        let dynamic = (!tools.is_empty()).then_some(SharedTools(tools));
        Self { dynamic, ..self }
    }

    /// Whether the offer holds nothing that belongs to a single thread.
    pub fn is_thread_independent(&self) -> bool {
        self.mcp.is_none() && self.dynamic.is_none() && self.discovered.is_empty()
    }

    /// Whether tools of MCP servers and of the client are offered.
    pub fn has_external_tools(&self) -> bool {
        self.role != ThreadRole::Reviewer
    }

    pub fn is_main(&self) -> bool {
        self.role == ThreadRole::Main
    }

    /// Returns the tools that the model has to search for. A namespace in this list has one tool.
    pub fn deferred_tools(&self) -> Vec<ToolSpec> {
        self.external_tools(ToolVisibility::Deferred).collect()
    }

    pub fn has_deferred_tools(&self) -> bool {
        self.external_tools(ToolVisibility::Deferred).next().is_some()
    }

    fn tool_list(&self) -> ToolList {
        let mut specs: Vec<_> = BUILTIN_TOOLS.iter().filter_map(|tool| tool.spec(self)).collect();
        if self.has_external_tools() {
            specs.retain(|spec| !self.is_replaced_by_client(spec.name()));
            specs.extend(self.external_tools(ToolVisibility::Listed));
        }
        ToolList::new(merge_namespaces(specs))
    }

    /// Whether the client brings a tool of this name, which then takes the place of the built-in one.
    fn is_replaced_by_client(&self, name: &str) -> bool {
        self.dynamic_entries()
            .iter()
            .any(|entry| matches!(entry, DynamicToolEntry::Tool(tool) if tool.name == name))
    }

    /// Returns the tools of MCP servers and of the client that have this visibility.
    fn external_tools(&self, visibility: ToolVisibility) -> impl Iterator<Item = ToolSpec> {
        let mcp_tools = self.mcp.as_ref().map(|mcp| &mcp.0);
        let defers_mcp =
            self.tool_search && mcp_tools.is_some_and(|tools| tools.iter().count() > MAX_LISTED_MCP_TOOLS);
        let is_included = move |name: &str, is_deferrable: bool| {
            let is_deferred = is_deferrable && !self.discovered.contains(name);
            is_deferred == (visibility == ToolVisibility::Deferred)
        };
        let mcp_tools = mcp_tools.into_iter().flat_map(|tools| tools.iter());
        let mcp_tools = mcp_tools.filter(move |tool| is_included(&tool.qualified_name, defers_mcp));
        let entries = self.dynamic_entries().iter().flat_map(DynamicToolEntry::tools);
        let dynamic_tools = entries.filter(move |(namespace, tool)| {
            let namespace = namespace.map(|namespace| namespace.name.as_str());
            is_included(&joined_name(namespace, &tool.name), tool.defer_loading == Some(true))
        });
        let dynamic_tools = dynamic_tools.map(|(namespace, tool)| dynamic::tool_spec(namespace, tool));
        mcp_tools.map(|tool| mcp::tool_spec(tool)).chain(dynamic_tools)
    }

    fn dynamic_entries(&self) -> &[DynamicToolEntry] {
        self.dynamic.as_ref().map(|tools| &*tools.0).unwrap_or_default()
    }
}

/// Moves all tools of a namespace to its first occurrence.
fn merge_namespaces(specs: Vec<ToolSpec>) -> Vec<ToolSpec> {
    let mut merged: Vec<ToolSpec> = Vec::with_capacity(specs.len());
    for spec in specs {
        let ToolSpec::Namespace { name: wanted, tools: more, .. } = &spec else {
            merged.push(spec);
            continue;
        };
        let known = merged.iter_mut().find_map(|known| match known {
            ToolSpec::Namespace { name, tools, .. } if name == wanted => Some(tools),
            _ => None,
        });
        match known {
            Some(tools) => tools.extend_from_slice(more),
            None => merged.push(spec),
        }
    }
    merged
}

/// The tool lists of recent offers, which turns and threads with equal offers share.
#[derive(Debug, Default)]
pub(crate) struct OfferCache(Mutex<VecDeque<(ToolOffer, ToolList)>>);

/// One entry for each kind of thread that is likely to run at the same time.
const MAX_CACHED_OFFERS: usize = 8;

impl OfferCache {
    pub fn tools(&self, offer: ToolOffer) -> ToolList {
        let mut cached = self.0.lock();
        if let Some((_, tools)) = cached.iter().find(|(known, _)| *known == offer) {
            return tools.clone();
        }
        let tools = offer.tool_list();
        cached.truncate(MAX_CACHED_OFFERS - 1);
        cached.push_front((offer, tools.clone()));
        tools
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A main thread's offer with every optional built-in tool except `tool_search`, which needs deferred tools.
    pub fn everything_offered() -> ToolOffer {
        ToolOffer {
            role: ThreadRole::Main,
            shell: ShellTools::Sessions,
            exec_permissions: true,
            request_permissions: true,
            apply_patch: true,
            web_search: WebSearchMode::Live,
            web_search_settings: WebSearchToolConfig::default(),
            image_generation: true,
            view_image: true,
            update_plan: true,
            request_user_input: true,
            goals: true,
            agents: Some(AgentOffer { by_path: false, roles: Vec::new() }),
            mcp: Some(SharedTools(Arc::default())),
            dynamic: None,
            tool_search: true,
            discovered: Arc::default(),
        }
    }

    fn subagent(depth: u32) -> ToolOffer {
        let role = ThreadRole::Agent { depth };
        ToolOffer { role, goals: false, agents: None, mcp: None, ..everything_offered() }
    }

    fn dynamic_tool(name: &str, is_deferred: bool) -> DynamicToolEntry {
        let tool = serde_json::json!({
            "name": name, "description": "", "inputSchema": {}, "deferLoading": is_deferred,
        });
        serde_json::from_value(tool).unwrap()
    }

    fn check(offer: ToolOffer, expected: &str) {
        let tools = offer.tool_list();
        let names: Vec<_> = tools.specs().iter().map(ToolSpec::name).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn tools_are_offered_in_a_fixed_order() {
        check(
            everything_offered(),
            "exec_command write_stdin list_mcp_resources list_mcp_resource_templates read_mcp_resource \
             update_plan request_user_input request_permissions apply_patch web_search image_generation \
             view_image spawn_agent send_input resume_agent wait_agent close_agent \
             create_goal get_goal update_goal",
        );
        let by_path = AgentOffer { by_path: true, roles: Vec::new() };
        check(
            ToolOffer {
                shell: ShellTools::Calls,
                mcp: None,
                request_permissions: false,
                apply_patch: false,
                image_generation: false,
                goals: false,
                agents: Some(by_path),
                ..everything_offered()
            },
            "shell_command update_plan request_user_input web_search view_image spawn_agent send_message \
             assign_task wait_agent close_agent list_agents",
        );
    }

    #[test]
    fn subagents_and_reviewers_are_offered_less() {
        check(subagent(1), "exec_command write_stdin update_plan apply_patch web_search view_image");
        let reviewer = ToolOffer { role: ThreadRole::Reviewer, ..subagent(0) };
        check(reviewer, "exec_command write_stdin update_plan apply_patch view_image");
        let disabled = ToolOffer {
            shell: ShellTools::None,
            web_search: WebSearchMode::Disabled,
            view_image: false,
            apply_patch: false,
            ..subagent(1)
        };
        check(disabled.clone(), "update_plan");
        check(ToolOffer { update_plan: false, ..disabled }, "");
        let no_questions =
            ToolOffer { request_user_input: false, agents: None, mcp: None, ..everything_offered() };
        check(
            no_questions,
            "exec_command write_stdin update_plan request_permissions apply_patch web_search image_generation \
             view_image create_goal get_goal update_goal",
        );
    }

    #[test]
    fn subagents_have_the_tools_of_mcp_servers_and_reviewers_do_not() {
        let resources = "list_mcp_resources list_mcp_resource_templates read_mcp_resource";
        check(
            subagent(2).with_mcp(Arc::default()),
            &format!("exec_command write_stdin {resources} update_plan apply_patch web_search view_image"),
        );
        let reviewer = ToolOffer { role: ThreadRole::Reviewer, ..subagent(0) };
        assert!(reviewer.with_mcp(Arc::default()).mcp.is_none());
    }

    #[test]
    fn tools_of_the_client_come_last_and_replace_built_in_ones() {
        let tools =
            [dynamic_tool("rare", true), dynamic_tool("view_image", false), dynamic_tool("own", false)];
        let offer = ToolOffer { mcp: None, agents: None, ..everything_offered() };
        let offer = offer.with_dynamic(Arc::from(tools));
        let built_in = "exec_command write_stdin update_plan request_user_input request_permissions apply_patch \
                        web_search image_generation";
        let goals = "create_goal get_goal update_goal";
        check(offer.clone(), &format!("{built_in} tool_search {goals} view_image own"));

        let discovered = Arc::new(BTreeSet::from(["rare".to_owned()]));
        check(ToolOffer { discovered, ..offer }, &format!("{built_in} {goals} rare view_image own"));
    }

    #[test]
    fn equal_offers_share_a_list_and_few_lists_are_cached() {
        let cache = OfferCache::default();
        let first = cache.tools(subagent(0));
        let is_first = |tools: &ToolList| std::ptr::eq(tools.specs(), first.specs());
        assert!(is_first(&cache.tools(subagent(0))));

        for depth in 1..=MAX_CACHED_OFFERS as u32 {
            assert!(!is_first(&cache.tools(subagent(depth))));
        }
        assert!(!is_first(&cache.tools(subagent(0))));
        assert_eq!(cache.0.lock().len(), MAX_CACHED_OFFERS);
    }
}
