//! What one client has relayed: connections to nodes, threads and open server requests.

use std::collections::HashMap;

use codicil_protocol::{MessageSeq, SubscriptionScope, ThreadId};
use codicil_store::OwnerNode;

use super::{
    owner_message::ThreadMessage,
    questions::{RelayedQuestions, TakenQuestion},
    upstream_handle::UpstreamHandle,
};

#[derive(Default)]
pub struct RelayTable {
    upstreams: HashMap<OwnerAddress, UpstreamHandle>,
    threads: HashMap<ThreadId, RelayedThread>,
    /// Threads that could not be continued at the node of a connection, which sends their messages nevertheless. The client must
    /// not receive them, because there is a gap.
    ignored: HashMap<ThreadId, UpstreamHandle>,
    pub questions: RelayedQuestions,
}

/// The name and the address of a node.
type OwnerAddress = (String, String);

/// A thread that the client is subscribed to at another node.
#[derive(Clone)]
pub struct RelayedThread {
    pub upstream: UpstreamHandle,
    pub position: ThreadPosition,
    /// False for a thread that the client has left. Its owner still says what becomes of it.
    is_subscribed: bool,
}

/// How the subscription to a thread is continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPosition {
    pub thread: ThreadId,
    /// The position of the last message that the client was sent.
    pub after: Option<MessageSeq>,
    pub scope: SubscriptionScope,
}

/// The threads of a connection that is lost.
pub struct LostThreads {
    /// Those that have to be continued elsewhere.
    pub subscribed: Vec<ThreadPosition>,
    /// The open questions of threads that the client has left.
    pub questions: Vec<TakenQuestion>,
}

impl RelayTable {
    /// Returns the open connection to a node.
    pub fn open_upstream(&self, owner: &OwnerNode) -> Option<UpstreamHandle> {
        let upstream = self.upstreams.get(&address(owner))?;
        (!upstream.is_over()).then(|| upstream.clone())
    }

    pub fn add_upstream(&mut self, owner: OwnerNode, upstream: UpstreamHandle) {
        self.upstreams.insert(address(&owner), upstream);
    }

    /// Forgets a connection that is lost. The requests of its threads wait until these are continued elsewhere.
    pub fn lose_upstream(&mut self, upstream: &UpstreamHandle) -> LostThreads {
        self.upstreams.retain(|_, other| !other.is(upstream));
        self.ignored.retain(|_, other| !other.is(upstream));
        let is_left = |thread: &RelayedThread| !thread.is_subscribed && thread.upstream.is(upstream);
        let left = self.threads.extract_if(|_, thread| is_left(thread));
        let left: Vec<_> = left.map(|(thread, _)| thread).collect();
        let questions = left.iter().flat_map(|thread| self.questions.take_thread(thread)).collect();
        let lost = self.threads.values().filter(|thread| thread.upstream.is(upstream));
        let mut lost: Vec<_> = lost.map(|thread| thread.position.clone()).collect();
        // Parents first: the ids of threads begin with the time.
        lost.sort_by(|one, other| one.thread.cmp(&other.thread));
        LostThreads { subscribed: lost, questions }
    }

    /// Returns the connection to the owner of a thread that the client is subscribed to.
    pub fn upstream_of(&mut self, thread: &ThreadId) -> Option<UpstreamHandle> {
        let relayed = self.threads.get(thread).filter(|relayed| relayed.is_subscribed)?;
        let upstream = relayed.upstream.clone();
        if upstream.is_over() {
            self.threads.remove(thread);
            return None;
        }
        Some(upstream)
    }

    /// Notes that the client is subscribed to a thread.
    pub fn add_thread(&mut self, upstream: &UpstreamHandle, position: ThreadPosition) {
        self.ignored.remove(&position.thread);
        let relayed = RelayedThread { upstream: upstream.clone(), position, is_subscribed: true };
        self.threads.insert(relayed.position.thread.clone(), relayed);
    }

    /// Notes that the client has unsubscribed.
    pub fn leave_thread(&mut self, thread: &ThreadId) {
        if let Some(relayed) = self.threads.get_mut(thread) {
            relayed.is_subscribed = false;
        }
    }

    pub fn remove_thread(&mut self, thread: &ThreadId) {
        self.threads.remove(thread);
    }

    /// Drops the messages of a thread that come over a connection, until the client subscribes again.
    pub fn ignore_thread(&mut self, upstream: &UpstreamHandle, thread: ThreadId) {
        self.ignored.insert(thread, upstream.clone());
    }

    /// Returns whether a message is for the client, and notes its position. The node that sends it also sends the state of threads
    /// that the client is not subscribed to.
    pub fn accepts(&mut self, upstream: &UpstreamHandle, message: &ThreadMessage<'_>) -> bool {
        if let Some(known) = self.threads.get_mut(&message.thread) {
            let is_current = known.upstream.is(upstream);
            if is_current {
                known.position.after = known.position.after.max(message.seq);
            }
            return is_current;
        }
        let follows =
            |thread: &ThreadId| self.threads.get(thread).is_some_and(|known| known.upstream.is(upstream));
        let is_subagent = message.parent.as_ref().is_some_and(follows);
        let is_ignored = self.ignored.get(&message.thread).is_some_and(|ignored| ignored.is(upstream));
        if is_ignored || !is_subagent && !message.is_for_subscribers() {
            return false;
        }
        // A subagent of a thread, or a thread that a request has started: the owner has subscribed the client to it.
        let thread = message.thread.clone();
        let position = ThreadPosition { thread, after: message.seq, scope: SubscriptionScope::Thread };
        self.add_thread(upstream, position);
        true
    }
}

fn address(owner: &OwnerNode) -> OwnerAddress {
    (owner.name.clone(), owner.url.clone())
}
