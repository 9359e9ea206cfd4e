//! What `thread/start`, `thread/resume` and `thread/fork` have in common: the subscription of the client, the
//! notifications after the response, and the parts of the response that depend on the client's generation.

use codicil_engine::{OpenedThread, ThreadClients, ThreadError, ThreadProfile, TurnSettings};
use codicil_protocol::{
    ConfigWarning, ConfigWarningNotification, Frame, MultiAgentMode, ProtocolGeneration, Thread,
    ThreadGoalCleared, ThreadGoalClearedNotification, ThreadGoalUpdated, ThreadGoalUpdatedNotification,
    ThreadStartResponse, ThreadStarted, ThreadStartedNotification, ThreadTokenUsageUpdated,
    ThreadTokenUsageUpdatedNotification, WarningNotification, WarningReported,
};
use codicil_store::StoredTurn;

use crate::{
    background::blocking,
    cx::Cx,
    encoded::workspace_roots,
    ephemeral,
    error::RpcError,
    generation::{show_thread, shown_effort, shown_policy, shown_reviewer, shown_tier},
};

/// Opens a new thread and subscribes the client to it. An ephemeral thread needs a slot.
pub async fn open_new(
    cx: &Cx,
    ephemeral: Option<bool>,
    open: impl Future<Output = Result<OpenedThread, ThreadError>>,
) -> Result<OpenedThread, RpcError> {
    let slot = match ephemeral {
        Some(true) => Some(ephemeral::reserve(cx).await?),
        _ => None,
    };
    let mut opened = open.await.map_err(session_error(cx))?;
    // Set if an earlier attempt of a request with a key has opened the thread.
    cx.hold(opened.announce.take());
    show_settings(cx, &mut opened);
    cx.clients().subscribe(&cx.client, &opened.thread.id);
    // After the subscription: a thread with a slot and without subscribers counts as abandoned.
    if let Some(slot) = slot {
        slot.keep(opened.thread.id.clone());
    }
    Ok(opened)
}

/// Names a malformed id as the generation of the connection does.
pub fn session_error(cx: &Cx) -> impl FnOnce(ThreadError) -> ThreadError + use<> {
    let generation = cx.generation();
    move |error| match error {
        ThreadError::MalformedId(reason) if generation == ProtocolGeneration::V166 => {
            ThreadError::MalformedSessionId(reason)
        }
        other => other,
    }
}

/// Announces a new thread to all clients. Those of the 0.166 generation expect no turns in it.
pub fn announce_started(cx: &Cx, opened: &OpenedThread) {
    let turns = opened.turns.iter().map(StoredTurn::decode).collect();
    let mut thread = Thread { turns, ..opened.thread.clone() };
    show_thread(ProtocolGeneration::V118, &mut thread);
    let started = Frame::notification::<ThreadStarted>(&ThreadStartedNotification { thread });
    let without_turns = ThreadStartedNotification { thread: opened.thread.clone() };
    let started = started.with_later_params::<ThreadStarted>(&without_turns);
    let clients = cx.clients().clone();
    let id = opened.thread.id.clone();
    cx.after_response(move || clients.notify_followers(&id, &started));
}

pub fn start_response(opened: OpenedThread) -> ThreadStartResponse {
    let runtime_workspace_roots = workspace_roots(&opened.settings);
    let TurnSettings {
        model,
        provider,
        effort,
        service_tier,
        cwd,
        approval_policy,
        approvals_reviewer,
        sandbox,
        profile,
        ..
    } = opened.settings;
    ThreadStartResponse {
        thread: opened.thread,
        model,
        model_provider: provider,
        service_tier,
        disabled_plugin_ids: Vec::new(),
        cwd: cwd.to_string_lossy().into_owned(),
        runtime_workspace_roots,
        instruction_sources: Vec::new(),
        approval_policy,
        approvals_reviewer,
        sandbox,
        active_permission_profile: profile.as_ref().map(ThreadProfile::active),
        reasoning_effort: effort,
        multi_agent_mode: MultiAgentMode::ExplicitRequestOnly,
        seq: None,
    }
}

/// Tells the subscribers of a resumed thread about its goal, and lets a thread that was loaded go on with its queue and its
/// goal. Older clients are not told that there is none.
pub fn announce_goal(cx: &Cx, opened: &mut OpenedThread) {
    let thread_id = opened.thread.id.clone();
    let goal = opened.goal.take();
    let threads = cx.threads().clone();
    let knows_goals = cx.generation() == ProtocolGeneration::V166;
    cx.after_response(move || {
        match goal {
            Some(goal) => {
                let thread_id = thread_id.clone();
                let updated = ThreadGoalUpdatedNotification { thread_id, turn_id: None, goal };
                threads.notify::<ThreadGoalUpdated>(&updated.thread_id, &updated);
            }
            None if knows_goals => {
                let cleared = ThreadGoalClearedNotification { thread_id: thread_id.clone() };
                threads.notify::<ThreadGoalCleared>(&cleared.thread_id, &cleared);
            }
            None => {}
        }
        if let Ok(thread) = threads.get(&thread_id) {
            thread.continue_work();
        }
    });
}

/// Sends the token usage of a thread that was loaded or copied. Older clients get it with the next turn.
pub fn send_usage_after_response(cx: &Cx, opened: &mut OpenedThread) {
    let usage = opened.usage.take().filter(|_| cx.generation() == ProtocolGeneration::V166);
    if let Some((turn_id, token_usage)) = usage {
        let thread_id = opened.thread.id.clone();
        let updated = ThreadTokenUsageUpdatedNotification { thread_id, turn_id, token_usage };
        cx.notify_after_response::<ThreadTokenUsageUpdated>(updated);
    }
}

/// Replaces values that the client does not know.
pub fn show_settings(cx: &Cx, opened: &mut OpenedThread) {
    let settings = &mut opened.settings;
    let generation = cx.generation();
    settings.approval_policy = shown_policy(generation, settings.approval_policy.clone());
    settings.approvals_reviewer = shown_reviewer(generation, settings.approvals_reviewer.clone());
    settings.effort = settings.effort.take().map(|effort| shown_effort(generation, effort));
    settings.service_tier = settings.service_tier.take().and_then(|tier| shown_tier(generation, tier));
}

/// Returns the files with instructions of a thread. Clients of the 0.118 generation do not know them.
pub async fn instruction_sources(cx: &Cx, opened: &OpenedThread) -> Result<Vec<String>, RpcError> {
    if cx.generation() == ProtocolGeneration::V118 {
        return Ok(Vec::new());
    }
    let threads = cx.threads().clone();
    let (settings, config) = (opened.settings.clone(), opened.config.clone());
    let search = move || Ok::<_, RpcError>(threads.instruction_sources(&settings, &config));
    let sources = blocking(search).await?;
    Ok(sources.iter().map(|path| path.to_string_lossy().into_owned()).collect())
}

/// Sends the notices about the settings of a new thread in the form of the client's generation.
pub fn send_notices_after_response(cx: &Cx, opened: &mut OpenedThread) {
    for notice in std::mem::take(&mut opened.notices) {
        match (cx.generation(), notice.config_warning) {
            (ProtocolGeneration::V166, _) => {
                let thread_id = Some(opened.thread.id.clone());
                let message = notice.message;
                cx.notify_after_response::<WarningReported>(WarningNotification { message, thread_id });
            }
            (ProtocolGeneration::V118, Some(warning)) => cx.notify_after_response::<ConfigWarning>(warning),
            (ProtocolGeneration::V118, None) => {}
        }
    }
}

/// Returns the warning about settings of a `thread/resume` that a loaded thread does not take over.
pub fn unapplied_warning(opened: &OpenedThread) -> ConfigWarningNotification {
    let names = opened.unapplied.join(", ");
    ConfigWarningNotification {
        summary: format!("thread {} is loaded already; not applied: {names}", opened.thread.id),
        details: Some(
            "The response shows the settings in force. Change settings with turn/start or thread/settings/update."
                .to_owned(),
        ),
        path: None,
        range: None,
    }
}

/// Sends the warnings about a thread's configuration that the client has not received yet.
pub fn warn_after_response(cx: &Cx, opened: &mut OpenedThread) {
    let warnings = std::mem::take(&mut opened.warnings);
    if !warnings.is_empty() {
        let client = cx.client.clone();
        cx.after_response(move || warnings.into_iter().for_each(|warning| client.warn(warning)));
    }
}
