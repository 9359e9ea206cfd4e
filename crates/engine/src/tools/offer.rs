//! Which tools a turn offers to the model, in the order in which the reference server does.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use codicil_config::{EffectiveConfig, Feature};
use codicil_mcp::ToolSet;
use codicil_model::{ApplyPatch, ModelInfo, ToolList, ToolSpec, joined_name};
use codicil_protocol::{DynamicToolEntry, WebSearchMode};
use parking_lot::Mutex;

use super::{
    agents::{self, AgentOffer},
    search, specs,
};

/// More tools of MCP servers than this are found by searching. A list of everything would cost more than it
/// says.
const MOST_MCP_TOOLS: usize = 100;

/// Everything the choice depends on. Two equal offers are the same list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolOffer {
    pub role: ThreadRole,
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
    /// Whether tools can be left for the model to find.
    pub search: bool,
    /// What it has found.
    pub found: Arc<BTreeSet<String>>,
}

/// Lists that were made for offers, so that they are made once and not for each turn or thread.
#[derive(Debug, Default)]
pub(crate) struct OfferCache(Mutex<VecDeque<(ToolOffer, ToolList)>>);

/// Offers that are remembered: there are as many as kinds of threads that run at a time.
const MOST_OFFERS: usize = 8;

impl OfferCache {
    /// The list of an offer with these tools of the client; they must be the same for all calls.
    pub fn tools(&self, offer: ToolOffer, dynamic: &[DynamicToolEntry]) -> ToolList {
        let mut made = self.0.lock();
        if let Some((_, tools)) = made.iter().find(|(known, _)| *known == offer) {
            return tools.clone();
        }
        let tools = offer.tools(dynamic);
        made.truncate(MOST_OFFERS - 1);
        made.push_front((offer, tools.clone()));
        tools
    }
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
pub(crate) enum ThreadRole {
    /// A thread of a person's.
    Main,
    /// An agent that another one started. It asks nobody itself.
    Agent { depth: u32 },
    /// A reviewer of changes, who asks nobody and searches nothing.
    Reviewer,
}

/// Which tools of others are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolVisibility {
    Now,
    OnceFound,
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

impl ToolOffer {
    pub fn new(role: ThreadRole, config: &EffectiveConfig, model: &ModelInfo) -> Self {
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
            search: has(Feature::ToolSearch),
            found: Arc::default(),
            agents: match role {
                ThreadRole::Main => AgentOffer::new(config, 0),
                ThreadRole::Agent { depth } => AgentOffer::new(config, depth),
                ThreadRole::Reviewer => None,
            },
        }
    }

    /// With the tools of MCP servers, where they are for.
    pub fn with_mcp(self, tools: Arc<ToolSet>) -> Self {
        let mcp = (self.role == ThreadRole::Main).then_some(McpTools(tools));
        Self { mcp, ..self }
    }

    /// Whether threads that have nothing of their own can share its list.
    pub fn is_common(&self) -> bool {
        self.mcp.is_none() && self.found.is_empty()
    }

    /// The list, with the tools that the client runs at its end.
    fn tools(&self, dynamic: &[DynamicToolEntry]) -> ToolList {
        let mut tools = self.built_in();
        if self.role == ThreadRole::Main {
            if self.search && self.of_others(dynamic, ToolVisibility::OnceFound).next().is_some() {
                tools.push(search::spec());
            }
            // A client that brings a tool of the same name means its own.
            let is_theirs = |name: &str| {
                let is_same = |entry: &DynamicToolEntry| matches!(entry, DynamicToolEntry::Tool(tool) if tool.name == name);
                dynamic.iter().any(is_same)
            };
            tools.retain(|spec| !is_theirs(spec.name()));
            tools.extend(self.of_others(dynamic, ToolVisibility::Now));
        }
        ToolList::new(grouped(tools))
    }

    /// The tools that the model has to find first, one by one: a namespace here has one tool.
    pub fn hidden(&self, dynamic: &[DynamicToolEntry]) -> Vec<ToolSpec> {
        self.of_others(dynamic, ToolVisibility::OnceFound).collect()
    }

    /// The tools of MCP servers and of the client, those that are shown or those that are not.
    fn of_others<'a>(
        &'a self,
        dynamic: &'a [DynamicToolEntry],
        shown: ToolVisibility,
    ) -> impl Iterator<Item = ToolSpec> + 'a {
        let servers = self.mcp.as_ref().map(|mcp| &mcp.0);
        let many = self.search && servers.is_some_and(|tools| tools.iter().count() > MOST_MCP_TOOLS);
        let is_asked_for = move |name: &str, is_deferred: bool| {
            let is_hidden = is_deferred && !self.found.contains(name);
            is_hidden == (shown == ToolVisibility::OnceFound)
        };
        let servers = servers.into_iter().flat_map(|tools| tools.iter());
        let servers = servers.filter(move |tool| is_asked_for(&tool.qualified_name, many));
        let dynamic = dynamic.iter().flat_map(DynamicToolEntry::tools).filter(move |(namespace, tool)| {
            let namespace = namespace.map(|namespace| namespace.name.as_str());
            is_asked_for(&joined_name(namespace, &tool.name), tool.defer_loading == Some(true))
        });
        let dynamic = dynamic.map(|(namespace, tool)| specs::dynamic(namespace, tool));
        servers.map(|tool| specs::mcp(tool)).chain(dynamic)
    }

    fn built_in(&self) -> Vec<ToolSpec> {
        let main = self.role == ThreadRole::Main;
        let mut tools = match self.shell {
            ShellTools::None => Vec::new(),
            ShellTools::Sessions => vec![specs::exec_command(self.exec_permissions), specs::write_stdin()],
            ShellTools::Calls => vec![specs::shell_command(self.exec_permissions)],
        };
        if self.mcp.is_some() {
            tools.extend(specs::mcp_resources());
        }
        tools.push(specs::update_plan());
        tools.extend(main.then(specs::request_user_input));
        tools.extend((main && self.request_permissions).then(specs::request_permissions));
        tools.extend(self.apply_patch.then(specs::apply_patch));
        if self.role != ThreadRole::Reviewer {
            let search = |external_web_access| ToolSpec::WebSearch { external_web_access };
            tools.extend(self.web_search.map(search));
        }
        tools.extend((main && self.image_generation).then_some(ToolSpec::ImageGeneration));
        tools.extend(self.view_image.then(specs::view_image));
        tools.extend(self.agents.iter().flat_map(agents::tools));
        tools
    }
}

/// The same tools, those of a namespace together where its first one is.
fn grouped(tools: Vec<ToolSpec>) -> Vec<ToolSpec> {
    let mut all: Vec<ToolSpec> = Vec::with_capacity(tools.len());
    for spec in tools {
        let ToolSpec::Namespace { name: wanted, tools: more, .. } = &spec else {
            all.push(spec);
            continue;
        };
        let known = all.iter_mut().find_map(|known| match known {
            ToolSpec::Namespace { name, tools, .. } if name == wanted => Some(tools),
            _ => None,
        });
        match known {
            Some(tools) => tools.extend_from_slice(more),
            None => all.push(spec),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(depth: u32) -> ToolOffer {
        ToolOffer {
            role: ThreadRole::Agent { depth },
            shell: ShellTools::Sessions,
            exec_permissions: false,
            request_permissions: false,
            apply_patch: true,
            web_search: None,
            image_generation: false,
            view_image: true,
            agents: None,
            mcp: None,
            search: false,
            found: Arc::default(),
        }
    }

    #[test]
    fn a_list_is_made_once_for_equal_offers_and_few_are_kept() {
        let offers = OfferCache::default();
        let first = offers.tools(offer(0), &[]);
        let is_first = |tools: &ToolList| std::ptr::eq(tools.specs(), first.specs());
        assert!(is_first(&offers.tools(offer(0), &[])));

        for depth in 1..=MOST_OFFERS as u32 {
            assert!(!is_first(&offers.tools(offer(depth), &[])));
        }
        assert!(!is_first(&offers.tools(offer(0), &[])));
        assert_eq!(offers.0.lock().len(), MOST_OFFERS);
    }
}
