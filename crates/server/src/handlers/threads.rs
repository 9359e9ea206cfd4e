//! `thread/*`.

use codicil_engine::{BuiltinProfile, IncludeTurns, OpenedThread, ThreadError, TurnSettings};
use codicil_protocol::{
    DeprecationNotice, Frame, NotificationMethod, ThreadArchiveParams, ThreadArchiveResponse, ThreadArchived,
    ThreadArchivedNotification, ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse,
    ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse,
    ThreadCompactStartParams, ThreadCompactStartResponse, ThreadDecrementElicitationParams,
    ThreadDecrementElicitationResponse, ThreadDeleteParams, ThreadDeleteResponse, ThreadDeleted,
    ThreadDeletedNotification, ThreadForkParams, ThreadGoalUpdated, ThreadGoalUpdatedNotification, ThreadId,
    ThreadIncrementElicitationParams, ThreadIncrementElicitationResponse, ThreadListParams,
    ThreadListResponse, ThreadLoadedListParams, ThreadLoadedListResponse, ThreadMetadataUpdateParams,
    ThreadMetadataUpdateResponse, ThreadNameUpdated, ThreadNameUpdatedNotification, ThreadReadParams,
    ThreadResumeParams, ThreadRollbackParams, ThreadRollbackResponse, ThreadSetNameParams,
    ThreadSetNameResponse, ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse, ThreadSettingsUpdated,
    ThreadSettingsUpdatedNotification, ThreadShellCommandParams, ThreadShellCommandResponse,
    ThreadStartParams, ThreadStartResponse, ThreadStarted, ThreadStartedNotification, ThreadUnarchiveParams,
    ThreadUnarchiveResponse, ThreadUnarchived, ThreadUnarchivedNotification, ThreadUnsubscribeParams,
    ThreadUnsubscribeResponse, ThreadUnsubscribeStatus, TurnStartParams,
};

use crate::{
    cx::Cx,
    encoded::{OpenedJson, ReadJson},
    ephemeral,
    error::RpcError,
    handlers::history,
};

pub async fn start(cx: Cx, params: ThreadStartParams) -> Result<ThreadStartResponse, RpcError> {
    let opened = open_new(&cx, params.ephemeral, cx.threads().start(params)).await?;
    say_started(&cx, &opened);
    for notice in &opened.deprecations {
        let (client, frame) = (cx.client.clone(), Frame::notification::<DeprecationNotice>(notice));
        cx.after_answer(move || client.notify(&frame));
    }
    Ok(response(opened))
}

/// The turns are in the answer as they are in the store.
pub async fn resume(cx: Cx, params: ThreadResumeParams) -> Result<OpenedJson, RpcError> {
    let (exclude_turns, page) = (params.exclude_turns, params.initial_turns_page.clone());
    let mut opened = cx.threads().resume(params).await?;
    cx.clients().subscribe(&cx.client, &opened.thread.id);
    let announce = opened.announce.take();
    cx.after_answer(move || drop(announce));
    let page = page.map(|page| history::initial_page(&opened.turns, page));
    // Who listens to a thread listens to its agents: they may have questions too.
    for agent in cx.threads().agents_of(&opened.thread.id) {
        cx.clients().subscribe(&cx.client, &agent);
    }
    if let Some(goal) = opened.goal.take() {
        let told = ThreadGoalUpdatedNotification { thread_id: goal.thread_id.clone(), turn_id: None, goal };
        let (client, frame) = (cx.client.clone(), Frame::notification::<ThreadGoalUpdated>(&told));
        cx.after_answer(move || client.notify(&frame));
    }
    if exclude_turns {
        opened.turns.clear();
    }
    Ok(OpenedJson { opened, initial_turns_page: page })
}

pub async fn fork(cx: Cx, params: ThreadForkParams) -> Result<OpenedJson, RpcError> {
    let exclude_turns = params.exclude_turns;
    let mut opened = open_new(&cx, params.ephemeral, cx.threads().fork(params)).await?;
    if exclude_turns {
        opened.turns.clear();
    }
    say_started(&cx, &opened);
    Ok(OpenedJson { opened, initial_turns_page: None })
}

pub async fn read(cx: Cx, params: ThreadReadParams) -> Result<ReadJson, RpcError> {
    let turns = if params.include_turns { IncludeTurns::Included } else { IncludeTurns::LeftOut };
    Ok(ReadJson(cx.threads().read(&params.thread_id, turns).await?))
}

pub async fn list(cx: Cx, params: ThreadListParams) -> Result<ThreadListResponse, RpcError> {
    Ok(cx.threads().list(params).await?)
}

pub async fn loaded_list(
    cx: Cx,
    params: ThreadLoadedListParams,
) -> Result<ThreadLoadedListResponse, RpcError> {
    let mut data = cx.threads().loaded(params.cursor.as_deref())?;
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let next_cursor = (data.len() > limit).then(|| data.get(limit - 1).map(ThreadId::to_string)).flatten();
    data.truncate(limit);
    Ok(ThreadLoadedListResponse { data, next_cursor })
}

pub async fn archive(cx: Cx, params: ThreadArchiveParams) -> Result<ThreadArchiveResponse, RpcError> {
    cx.threads().archive(&params.thread_id).await?;
    broadcast_later::<ThreadArchived>(&cx, ThreadArchivedNotification { thread_id: params.thread_id });
    Ok(ThreadArchiveResponse {})
}

/// Also for threads that are put away. Agents go with the thread that started them, and each is told of.
pub async fn delete(cx: Cx, params: ThreadDeleteParams) -> Result<ThreadDeleteResponse, RpcError> {
    for thread_id in cx.threads().delete(&params.thread_id).await? {
        broadcast_later::<ThreadDeleted>(&cx, ThreadDeletedNotification { thread_id });
    }
    Ok(ThreadDeleteResponse {})
}

pub async fn unarchive(cx: Cx, params: ThreadUnarchiveParams) -> Result<ThreadUnarchiveResponse, RpcError> {
    let thread = cx.threads().unarchive(&params.thread_id).await?;
    broadcast_later::<ThreadUnarchived>(&cx, ThreadUnarchivedNotification { thread_id: params.thread_id });
    Ok(ThreadUnarchiveResponse { thread })
}

/// The last subscriber takes the thread with it, and hears how a turn that is running ends.
pub async fn unsubscribe(
    cx: Cx,
    params: ThreadUnsubscribeParams,
) -> Result<ThreadUnsubscribeResponse, RpcError> {
    let id = params.thread_id;
    let status = match cx.threads().get(&id) {
        Err(error @ ThreadError::MalformedId(_)) => return Err(error.into()),
        Err(_) => ThreadUnsubscribeStatus::NotLoaded,
        Ok(thread) if cx.clients().is_last_subscriber(cx.client.id, thread.id()) => {
            let (threads, clients) = (cx.threads().clone(), cx.clients().clone());
            let (id, client) = (thread.id().clone(), cx.client.id);
            let leave = async move {
                let agents = threads.agents_of(&id);
                threads.close(&id).await;
                for thread in agents.iter().chain([&id]) {
                    clients.unsubscribe(client, thread);
                }
            };
            // Ends by itself; the threads own what it waits for.
            cx.after_answer(move || drop(tokio::spawn(leave)));
            ThreadUnsubscribeStatus::Unsubscribed
        }
        Ok(thread) if !cx.clients().unsubscribe(cx.client.id, thread.id()) => {
            ThreadUnsubscribeStatus::NotSubscribed
        }
        Ok(thread) => {
            for agent in cx.threads().agents_of(thread.id()) {
                cx.clients().unsubscribe(cx.client.id, &agent);
            }
            ThreadUnsubscribeStatus::Unsubscribed
        }
    };
    Ok(ThreadUnsubscribeResponse { status })
}

pub async fn name_set(cx: Cx, params: ThreadSetNameParams) -> Result<ThreadSetNameResponse, RpcError> {
    let name = cx.threads().set_name(&params.thread_id, &params.name).await?;
    let params = ThreadNameUpdatedNotification { thread_id: params.thread_id, thread_name: Some(name) };
    broadcast_later::<ThreadNameUpdated>(&cx, params);
    Ok(ThreadSetNameResponse {})
}

pub async fn metadata_update(
    cx: Cx,
    params: ThreadMetadataUpdateParams,
) -> Result<ThreadMetadataUpdateResponse, RpcError> {
    Ok(ThreadMetadataUpdateResponse { thread: cx.threads().update_metadata(params).await? })
}

pub async fn compact_start(
    cx: Cx,
    params: ThreadCompactStartParams,
) -> Result<ThreadCompactStartResponse, RpcError> {
    let announced = cx.threads().get(&params.thread_id)?.compact(cx.origin()).await?;
    cx.announce(announced);
    Ok(ThreadCompactStartResponse {})
}

pub async fn rollback(cx: Cx, params: ThreadRollbackParams) -> Result<ThreadRollbackResponse, RpcError> {
    let announced = cx.threads().get(&params.thread_id)?.rollback(params.num_turns).await?;
    Ok(ThreadRollbackResponse { thread: cx.announce(announced) })
}

pub async fn shell_command(
    cx: Cx,
    params: ThreadShellCommandParams,
) -> Result<ThreadShellCommandResponse, RpcError> {
    let announced = cx.threads().get(&params.thread_id)?.shell_command(params.command).await?;
    cx.announce(announced);
    Ok(ThreadShellCommandResponse {})
}

pub async fn background_terminals_clean(
    cx: Cx,
    params: ThreadBackgroundTerminalsCleanParams,
) -> Result<ThreadBackgroundTerminalsCleanResponse, RpcError> {
    cx.threads().get(&params.thread_id)?.clean_terminals().await?;
    Ok(ThreadBackgroundTerminalsCleanResponse {})
}

pub async fn background_terminals_list(
    cx: Cx,
    params: ThreadBackgroundTerminalsListParams,
) -> Result<ThreadBackgroundTerminalsListResponse, RpcError> {
    let data = cx.threads().get(&params.thread_id)?.terminals().await?;
    Ok(ThreadBackgroundTerminalsListResponse { data, next_cursor: None })
}

pub async fn background_terminals_terminate(
    cx: Cx,
    params: ThreadBackgroundTerminalsTerminateParams,
) -> Result<ThreadBackgroundTerminalsTerminateResponse, RpcError> {
    let terminated = cx.threads().get(&params.thread_id)?.end_terminal(params.process_id).await?;
    Ok(ThreadBackgroundTerminalsTerminateResponse { terminated })
}

/// The same as what `turn/start` may set, without a turn.
pub async fn settings_update(
    cx: Cx,
    params: ThreadSettingsUpdateParams,
) -> Result<ThreadSettingsUpdateResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let change = TurnStartParams {
        thread_id: params.thread_id.clone(),
        input: Vec::new(),
        cwd: params.cwd,
        approval_policy: params.approval_policy,
        approvals_reviewer: params.approvals_reviewer,
        sandbox_policy: params.sandbox_policy,
        permissions: params.permissions,
        model: params.model,
        service_tier: params.service_tier,
        effort: params.effort,
        summary: params.summary,
        personality: params.personality,
        output_schema: None,
        collaboration_mode: params.collaboration_mode,
    };
    let settings = thread.update_settings(change).await?;
    let told = ThreadSettingsUpdatedNotification {
        thread_id: params.thread_id,
        thread_settings: settings.into_wire(),
    };
    let clients = cx.clients().clone();
    cx.after_answer(move || {
        let audience: &dyn codicil_engine::ThreadClients = &clients;
        audience.notify::<ThreadSettingsUpdated>(&told.thread_id, &told);
    });
    Ok(ThreadSettingsUpdateResponse {})
}

pub async fn increment_elicitation(
    cx: Cx,
    params: ThreadIncrementElicitationParams,
) -> Result<ThreadIncrementElicitationResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let count = thread.count_elicitation(codicil_engine::ElicitationChange::Begun).await?;
    Ok(ThreadIncrementElicitationResponse { count, paused: count > 0 })
}

pub async fn decrement_elicitation(
    cx: Cx,
    params: ThreadDecrementElicitationParams,
) -> Result<ThreadDecrementElicitationResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let count = thread.count_elicitation(codicil_engine::ElicitationChange::Ended).await?;
    Ok(ThreadDecrementElicitationResponse { count, paused: count > 0 })
}

/// Opens a new thread and subscribes the client to it. An ephemeral one needs a slot.
async fn open_new(
    cx: &Cx,
    ephemeral: Option<bool>,
    open: impl Future<Output = Result<OpenedThread, ThreadError>>,
) -> Result<OpenedThread, RpcError> {
    let slot = match ephemeral {
        Some(true) => Some(ephemeral::reserve(cx).await?),
        _ => None,
    };
    let opened = open.await?;
    cx.clients().subscribe(&cx.client, &opened.thread.id);
    // After that: a thread that has a slot and no subscriber counts as left behind.
    if let Some(slot) = slot {
        slot.keep(opened.thread.id.clone());
    }
    Ok(opened)
}

fn say_started(cx: &Cx, opened: &OpenedThread) {
    let turns = opened.turns.iter().map(codicil_store::StoredTurn::decode).collect();
    let thread = codicil_protocol::Thread { turns, ..opened.thread.clone() };
    broadcast_later::<ThreadStarted>(cx, ThreadStartedNotification { thread });
}

fn broadcast_later<N: NotificationMethod>(cx: &Cx, params: N::Params) {
    let clients = cx.clients().clone();
    cx.after_answer(move || {
        let audience: &dyn codicil_engine::ThreadClients = &clients;
        audience.broadcast::<N>(&params);
    });
}

fn response(opened: OpenedThread) -> ThreadStartResponse {
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
        cwd: cwd.to_string_lossy().into_owned(),
        approval_policy,
        approvals_reviewer,
        sandbox,
        active_permission_profile: profile.map(BuiltinProfile::active),
        reasoning_effort: effort,
    }
}
