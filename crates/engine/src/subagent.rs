//! Subagents: which thread started them, their state, and the slots that limit their number.

use std::{collections::HashMap, sync::Arc};

use codicil_prompts::{DEFAULT_OUTPUT_TOKENS, truncate_output};
use codicil_protocol::{
    AgentPath, CollabAgentState, CollabAgentStatus, SessionSource, SubAgentSource, ThreadId,
};
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

/// The path of a thread that is not a subagent; the paths of its subagents begin with it.
pub(crate) const ROOT_PATH: &str = "/root";

/// Where a subagent's thread comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubagentOrigin {
    pub parent: ThreadId,
    /// 1 for the direct subagents of a thread that is none itself.
    pub depth: u32,
    /// The path in the tree, by the names of tasks. Only subagents with a task name have one.
    pub path: Option<String>,
    pub nickname: Option<String>,
    pub role: Option<String>,
}

impl SubagentOrigin {
    /// Returns `None` for a thread that is not a subagent.
    pub fn of(source: &SessionSource) -> Option<Self> {
        let SessionSource::SubAgent(SubAgentSource::ThreadSpawn {
            parent_thread_id,
            depth,
            agent_path,
            agent_nickname,
            agent_role,
        }) = source
        else {
            return None;
        };
        Some(Self {
            parent: parent_thread_id.clone(),
            depth: u32::try_from(*depth).unwrap_or(1),
            path: agent_path.as_ref().map(|path| path.0.clone()),
            nickname: agent_nickname.clone(),
            role: agent_role.clone(),
        })
    }

    pub fn source(&self) -> SessionSource {
        SessionSource::SubAgent(SubAgentSource::ThreadSpawn {
            parent_thread_id: self.parent.clone(),
            depth: i32::try_from(self.depth).unwrap_or(i32::MAX),
            agent_path: self.path.clone().map(AgentPath),
            agent_nickname: self.nickname.clone(),
            agent_role: self.role.clone(),
        })
    }
}

/// Returns a subagent's state without a message.
pub(crate) fn state(status: CollabAgentStatus) -> CollabAgentState {
    CollabAgentState { status, message: None }
}

/// Returns a subagent's state with its last message or error, truncated to what a tool may return.
pub(crate) fn state_with(status: CollabAgentStatus, message: &str) -> CollabAgentState {
    let message = truncate_output(message, DEFAULT_OUTPUT_TOKENS).to_string();
    CollabAgentState { status, message: Some(message) }
}

/// Returns whether there is nothing more to wait for. An interrupted subagent is not done: it was stopped to get other
/// input.
pub(crate) fn is_final(status: &CollabAgentStatus) -> bool {
    !matches!(
        status,
        CollabAgentStatus::PendingInit | CollabAgentStatus::Running | CollabAgentStatus::Interrupted
    )
}

/// The taken slots, by the thread at the root of the tree. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubagentSlots(Arc<Mutex<HashMap<ThreadId, Vec<String>>>>);

/// The slot of one loaded subagent. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct SubagentSlot {
    slots: SubagentSlots,
    root: ThreadId,
    nickname: String,
}

impl SubagentSlots {
    /// Takes a slot below `root`, with a nickname that is unique there. Returns `None` if all `max` are taken.
    pub fn take(&self, root: &ThreadId, max: usize, names: &[String]) -> Option<SubagentSlot> {
        let mut slots = self.lock();
        let taken = slots.get(root).map(Vec::as_slice).unwrap_or_default();
        if taken.len() >= max {
            return None;
        }
        let nickname = free_name(names, taken);
        slots.entry(root.clone()).or_default().push(nickname.clone());
        Some(SubagentSlot { slots: self.clone(), root: root.clone(), nickname })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<String>>> {
        self.0.lock()
    }
}

impl SubagentSlot {
    pub fn nickname(&self) -> &str {
        &self.nickname
    }

    /// Returns the thread at the root of the tree.
    pub fn root(&self) -> &ThreadId {
        &self.root
    }
}

impl Drop for SubagentSlot {
    fn drop(&mut self) {
        let mut slots = self.slots.lock();
        let Some(taken) = slots.get_mut(&self.root) else { return };
        if let Some(at) = taken.iter().position(|name| *name == self.nickname) {
            taken.swap_remove(at);
        }
        if taken.is_empty() {
            slots.remove(&self.root);
        }
    }
}

/// Nicknames of subagents: short and easy to distinguish.
const NAMES: [&str; 48] = [
    "Adele", "Anton", "Bela", "Bruno", "Carla", "Cyril", "Dalia", "Dario", "Edda", "Emil", "Farah", "Felix",
    "Gita", "Goran", "Hanna", "Hugo", "Ilse", "Ivo", "Jana", "Juri", "Kaito", "Kira", "Lena", "Luca", "Maya",
    "Milo", "Nadia", "Nils", "Olga", "Oskar", "Paula", "Pavel", "Quentin", "Rania", "Remy", "Selma", "Sven",
    "Tamar", "Theo", "Ulla", "Umar", "Vera", "Viktor", "Wanda", "Xenia", "Yara", "Yusuf", "Zora",
];

/// Returns a name that is not taken. Starts at a random one, so that subagents of different threads rarely share names.
fn free_name(names: &[String], taken: &[String]) -> String {
    let names: Vec<&str> = match names {
        [] => NAMES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let start = (Uuid::now_v7().as_u128() % names.len() as u128) as usize;
    let in_turn = || names.iter().cycle().skip(start).take(names.len());
    let is_free = |name: &String| !taken.contains(name);
    (1..)
        .flat_map(|round| {
            in_turn().map(move |name| match round {
                1 => (*name).to_owned(),
                _ => format!("{name} {round}"),
            })
        })
        .find(is_free)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_survives_being_stored() {
        let origin = SubagentOrigin {
            parent: ThreadId::from("p"),
            depth: 2,
            path: Some("/root/a/b".to_owned()),
            nickname: Some("Zora".to_owned()),
            role: None,
        };
        assert_eq!(SubagentOrigin::of(&origin.source()), Some(origin));
        assert_eq!(SubagentOrigin::of(&SessionSource::Vscode), None);
    }

    #[test]
    fn slots_are_counted_for_each_tree_and_free_again_when_dropped() {
        let slots = SubagentSlots::default();
        let root = ThreadId::from("r");
        let other = ThreadId::from("o");
        let first = slots.take(&root, 2, &[]).unwrap();
        let second = slots.take(&root, 2, &[]).unwrap();
        assert_ne!(first.nickname(), second.nickname());
        assert!(slots.take(&root, 2, &[]).is_none());
        assert!(slots.take(&other, 2, &[]).is_some());
        drop(first);
        assert!(slots.take(&root, 2, &[]).is_some());
        drop(second);
        assert!(slots.lock().is_empty(), "trees without subagents take no space");
    }

    #[test]
    fn nicknames_are_unique_even_when_they_run_out() {
        let slots = SubagentSlots::default();
        let own = ["Kim".to_owned()];
        let taken: Vec<_> = (0..3).map(|_| slots.take(&ThreadId::from("r"), 9, &own).unwrap()).collect();
        let names: Vec<_> = taken.iter().map(SubagentSlot::nickname).collect();
        assert_eq!(names, ["Kim", "Kim 2", "Kim 3"]);
    }

    #[test]
    fn a_state_is_final_if_the_subagent_does_not_continue() {
        use CollabAgentStatus::{Completed, Errored, Interrupted, NotFound, PendingInit, Running, Shutdown};
        assert!([Completed, Errored, Shutdown, NotFound].iter().all(is_final));
        assert!(![PendingInit, Running, Interrupted].iter().any(is_final));
    }
}
