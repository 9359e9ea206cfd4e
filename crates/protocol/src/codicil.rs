//! The extension of the protocol: `capabilities.codicil` of `initialize` and the methods `codicil/*`.
//!
//! The tables here are separate from those of the published protocol and are exported only on request. A method of this
//! extension is refused on a connection that did not send the capability. `docs/extensions.md` describes it for users.

use serde_json::Value;

use crate::{methods::requests, *};

/// The version of the extension that this crate describes.
pub const CODICIL_VERSION: u32 = 1;

requests! {
    /// The requests of the extension.
    CODICIL_REQUESTS;

    /// Subscribes to a thread, from a position in its messages on.
    both extension CodicilSubscribe = "codicil/subscribe" (CodicilSubscribeParams) -> CodicilSubscribeResponse;
    /// Lists the server requests that wait for an answer.
    both extension CodicilRequestList = "codicil/request/list" (CodicilRequestListParams) -> CodicilRequestListResponse;
    /// Answers a server request, from any connection.
    both extension CodicilRequestAnswer = "codicil/request/answer" (CodicilRequestAnswerParams) -> CodicilRequestAnswerResponse;
    /// Returns the tokens that threads have used.
    both extension CodicilUsageRead = "codicil/usage/read" (CodicilUsageReadParams) -> CodicilUsageReadResponse;
    /// Returns turns of a thread by their ids, with their plans.
    both extension CodicilTurnRead = "codicil/turn/read" (CodicilTurnReadParams) -> CodicilTurnReadResponse;
    /// Returns how the server confines commands.
    both extension CodicilSandboxRead = "codicil/sandbox/read" (CodicilSandboxReadParams) -> CodicilSandboxReadResponse;
    /// Moves the workspace of a thread to this server, because the server that has it is gone.
    both extension CodicilThreadRehome = "codicil/thread/rehome" (CodicilThreadRehomeParams) -> CodicilThreadRehomeResponse;
}

/// Messages of a thread were dropped because the client reads too slowly, or are no longer valid. There are no
/// notifications of the thread until the client subscribes again.
#[derive(Clone, Copy, Debug)]
pub struct CodicilBehind;

impl NotificationMethod for CodicilBehind {
    const NAME: &'static str = "codicil/behind";
    const GENERATIONS: MethodGenerations = MethodGenerations::Both;
    type Params = CodicilBehindNotification;
}

/// The notifications of the extension.
pub const CODICIL_NOTIFICATIONS: &[MethodInfo] = &[MethodInfo {
    name: CodicilBehind::NAME,
    generations: MethodGenerations::Both,
    stability: Stability::Extension,
    is_served: true,
    params: Some(TypeInfo::of::<CodicilBehindNotification>()),
    has_optional_params: false,
    response: None,
}];

/// The types of the extension that belong to no method: the capability and its answer, and the data of an error.
pub const CODICIL_TYPES: &[TypeInfo] = &[
    TypeInfo::of::<CodicilCapabilities>(),
    TypeInfo::of::<CodicilSupport>(),
    TypeInfo::of::<CodicilMovedThread>(),
];

/// What a client asks of the extension, in `capabilities.codicil`.
#[wire(sparse)]
#[derive(Default)]
pub struct CodicilCapabilities {
    /// The version that the client speaks. The server answers with its own.
    pub version: u32,
    /// Adds `seq` to the messages of threads, and allows `codicil/subscribe`.
    #[serde(default)]
    pub cursor: bool,
    /// Answers requests for a thread that another server owns with the address of that server ([`CodicilMovedThread`]).
    #[serde(default)]
    pub redirect: bool,
    /// Set by a server that relays the messages of a client to this one.
    pub relay: Option<RelayedClient>,
}

/// The client whose messages another server relays. The rest of `initialize` is that of the client.
#[wire]
pub struct RelayedClient {
    /// Whether the client itself uses the extension.
    pub extension: bool,
    /// The generation of the client's connection, such as `0.166.0`.
    pub generation: String,
}

/// What the server offers of the extension, in the result of `initialize`.
#[wire]
pub struct CodicilSupport {
    /// The version that the server speaks.
    pub version: u32,
    /// The names of the features, for example `cursor`. Names that a client does not know have no effect on it.
    pub features: Vec<String>,
    pub limits: CodicilLimits,
}

/// The limits of the extension.
#[wire(sparse)]
#[derive(Default)]
pub struct CodicilLimits {
    /// Messages of a running turn that are replayed exactly as they were sent.
    pub recent_messages: Option<u32>,
    /// The longest replay in messages. A longer one is a snapshot.
    pub replay_messages: Option<u32>,
    /// The longest replay in bytes.
    pub replay_bytes: Option<u32>,
}

/// The thread and the position from which its messages are wanted.
#[wire(sparse)]
pub struct CodicilSubscribeParams {
    pub thread_id: ThreadId,
    /// The `seq` of the last message that the client has. Without it, the answer is a snapshot.
    pub after: Option<MessageSeq>,
    #[serde(default)]
    pub scope: SubscriptionScope,
    /// The number of turns in a snapshot, counted from the newest. Without it, a snapshot has all turns.
    pub turns: Option<u32>,
    /// The number of items in a snapshot, counted from the newest. Of the turn that the limit cuts, the snapshot has the last
    /// items. Turns without items in the snapshot are left out, except the newest. Without it, turns have all their items.
    pub items: Option<u32>,
}

impl CodicilSubscribeParams {
    /// Returns params that ask for a whole snapshot of one thread.
    pub fn new(thread_id: ThreadId) -> Self {
        Self { thread_id, after: None, scope: SubscriptionScope::Thread, turns: None, items: None }
    }
}

/// The threads of a subscription.
#[wire(open, rename_all = "camelCase")]
#[derive(Default, Eq)]
pub enum SubscriptionScope {
    /// The thread alone.
    #[default]
    Thread,
    /// The thread and the subagents below it, those of the future included.
    Tree,
}

/// The beginning of a subscription. The messages after `at` follow as they happen.
#[wire(tag = "mode", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CodicilSubscribeResponse {
    /// The missed messages follow, each with `replay: true`.
    Replay {
        /// The position after which the replay begins: the client's `after`.
        from: MessageSeq,
        /// The position that the client has reached after the replay.
        at: MessageSeq,
        /// The open server requests.
        requests: Vec<CodicilOpenRequest>,
        /// The subagents, for the scope `tree`.
        #[omit]
        subagents: Option<Vec<SubagentPosition>>,
    },
    /// The thread as it is at `at`. The client replaces what it knows.
    Snapshot {
        at: MessageSeq,
        /// The thread with all its turns, or with the newest ones if the client limits their number.
        thread: Box<Thread>,
        /// The cursor with which `thread/turns/list` returns the turns before those of the snapshot, newest first; absent if
        /// there are none.
        #[omit]
        older_turns: Option<String>,
        /// The cursor with which `thread/items/list` returns the items before those of the snapshot, newest first; absent if
        /// there are none.
        #[omit]
        older_items: Option<String>,
        /// The last plan of each turn of the snapshot that has one; absent if none has.
        #[omit]
        plans: Option<Vec<TurnPlanUpdatedNotification>>,
        /// The items of the running turn that have started and not completed, as far as they have come.
        open: Vec<ThreadItem>,
        /// The open server requests.
        requests: Vec<CodicilOpenRequest>,
        /// The reason why the answer is not a replay; absent if the client gave no position.
        #[omit]
        why: Option<SnapshotReason>,
        /// The subagents, for the scope `tree`.
        #[omit]
        subagents: Option<Vec<SubagentPosition>>,
    },
}

/// The reason for a snapshot instead of a replay.
#[wire(open, rename_all = "camelCase")]
#[derive(Eq)]
pub enum SnapshotReason {
    /// The replay would be longer than the limits.
    TooFar,
    /// Turns were removed from the thread after the position.
    RolledBack,
    /// The thread has no such position.
    Unknown,
}

/// A server request without an answer. It is answered by a response with this id.
#[wire]
pub struct CodicilOpenRequest {
    pub id: rpc::RequestId,
    pub method: String,
    pub params: Value,
    pub seq: MessageSeq,
}

/// A subagent of a subscription and the position of its last message.
#[wire]
pub struct SubagentPosition {
    pub thread_id: ThreadId,
    pub at: MessageSeq,
}

/// The position to subscribe again from.
#[wire]
pub struct CodicilBehindNotification {
    pub thread_id: ThreadId,
    /// The client has all messages up to here.
    pub after: MessageSeq,
}
