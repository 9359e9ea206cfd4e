//! Agents of agents: which thread started which, how far each has come, and how many there may be.

use std::{collections::HashMap, sync::Arc};

use codicil_prompts::{DEFAULT_OUTPUT_TOKENS, truncate_output};
use codicil_protocol::{
    AgentPath, CollabAgentState, CollabAgentStatus, SessionSource, SubAgentSource, ThreadId,
};
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

/// The path of a thread that a person started; the paths of its agents begin with it.
pub(crate) const ROOT_PATH: &str = "/root";

/// The place of a thread that the agent of another thread started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubagentOrigin {
    pub parent: ThreadId,
    /// 1 for the agents of a thread that a person started.
    pub depth: u32,
    /// Where it stands in the tree, by the names of tasks. Only agents that were given such a name have one.
    pub path: Option<String>,
    pub nickname: Option<String>,
    pub role: Option<String>,
}

impl SubagentOrigin {
    /// `None` for a thread that no agent started.
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

/// How far an agent has come, without anything to say about it.
pub(crate) fn state(status: CollabAgentStatus) -> CollabAgentState {
    CollabAgentState { status, message: None }
}

/// The same with the agent's last words, or what went wrong; cut to what a tool may return.
pub(crate) fn state_with(status: CollabAgentStatus, message: &str) -> CollabAgentState {
    let message = truncate_output(message, DEFAULT_OUTPUT_TOKENS).to_string();
    CollabAgentState { status, message: Some(message) }
}

/// Whether there is nothing more to wait for. An interrupted agent is not done: somebody stopped it to tell
/// it something else.
pub(crate) fn is_final(status: &CollabAgentStatus) -> bool {
    !matches!(
        status,
        CollabAgentStatus::PendingInit | CollabAgentStatus::Running | CollabAgentStatus::Interrupted
    )
}

/// The places for agents, by the thread at the root of their tree. Clones are the same places.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubagentSlots(Arc<Mutex<HashMap<ThreadId, Vec<String>>>>);

/// The place of one living agent. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct SubagentSlot {
    seats: SubagentSlots,
    root: ThreadId,
    nickname: String,
}

impl SubagentSlots {
    /// A place below `root` with a name that no other agent there has. `None` when all `max` are taken.
    pub fn take(&self, root: &ThreadId, max: usize, names: &[String]) -> Option<SubagentSlot> {
        let mut seats = self.lock();
        let taken = seats.get(root).map(Vec::as_slice).unwrap_or_default();
        if taken.len() >= max {
            return None;
        }
        let nickname = free_name(names, taken);
        seats.entry(root.clone()).or_default().push(nickname.clone());
        Some(SubagentSlot { seats: self.clone(), root: root.clone(), nickname })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<String>>> {
        self.0.lock()
    }
}

impl SubagentSlot {
    pub fn nickname(&self) -> &str {
        &self.nickname
    }
}

impl Drop for SubagentSlot {
    fn drop(&mut self) {
        let mut seats = self.seats.lock();
        let Some(taken) = seats.get_mut(&self.root) else { return };
        if let Some(at) = taken.iter().position(|name| *name == self.nickname) {
            taken.swap_remove(at);
        }
        if taken.is_empty() {
            seats.remove(&self.root);
        }
    }
}

/// Names for agents: short, told apart easily, of many places.
const NAMES: [&str; 48] = [
    "Adele", "Anton", "Bela", "Bruno", "Carla", "Cyril", "Dalia", "Dario", "Edda", "Emil", "Farah", "Felix",
    "Gita", "Goran", "Hanna", "Hugo", "Ilse", "Ivo", "Jana", "Juri", "Kaito", "Kira", "Lena", "Luca", "Maya",
    "Milo", "Nadia", "Nils", "Olga", "Oskar", "Paula", "Pavel", "Quentin", "Rania", "Remy", "Selma", "Sven",
    "Tamar", "Theo", "Ulla", "Umar", "Vera", "Viktor", "Wanda", "Xenia", "Yara", "Yusuf", "Zora",
];

/// A name that nobody has. Begins somewhere, so that agents of different threads are seldom namesakes.
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
    fn an_agents_place_survives_being_stored() {
        let kin = SubagentOrigin {
            parent: ThreadId::from("p"),
            depth: 2,
            path: Some("/root/a/b".to_owned()),
            nickname: Some("Zora".to_owned()),
            role: None,
        };
        assert_eq!(SubagentOrigin::of(&kin.source()), Some(kin));
        assert_eq!(SubagentOrigin::of(&SessionSource::Vscode), None);
    }

    #[test]
    fn places_are_counted_for_each_tree_and_free_again_when_left() {
        let (seats, root, other) = (SubagentSlots::default(), ThreadId::from("r"), ThreadId::from("o"));
        let first = seats.take(&root, 2, &[]).unwrap();
        let second = seats.take(&root, 2, &[]).unwrap();
        assert_ne!(first.nickname(), second.nickname());
        assert!(seats.take(&root, 2, &[]).is_none());
        assert!(seats.take(&other, 2, &[]).is_some());
        drop(first);
        assert!(seats.take(&root, 2, &[]).is_some());
        drop(second);
        assert!(seats.lock().is_empty(), "nothing is kept of trees without agents");
    }

    #[test]
    fn names_are_never_shared_even_when_they_run_out() {
        let seats = SubagentSlots::default();
        let own = ["Kim".to_owned()];
        let taken: Vec<_> = (0..3).map(|_| seats.take(&ThreadId::from("r"), 9, &own).unwrap()).collect();
        let names: Vec<_> = taken.iter().map(SubagentSlot::nickname).collect();
        assert_eq!(names, ["Kim", "Kim 2", "Kim 3"]);
    }

    #[test]
    fn only_an_agent_that_will_not_go_on_is_done() {
        use CollabAgentStatus::{Completed, Errored, Interrupted, NotFound, PendingInit, Running, Shutdown};
        assert!([Completed, Errored, Shutdown, NotFound].iter().all(is_final));
        assert!(![PendingInit, Running, Interrupted].iter().any(is_final));
    }
}
