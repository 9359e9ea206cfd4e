//! `thread/*`.
//!
//! A handler finds the thread and posts to its mailbox before its first `.await`, so that requests reach a thread
//! in the order in which the client sent them.

pub mod attachment;
pub mod attachment_owner;
pub mod background_terminals;
pub mod goal;
pub mod items;
pub mod queue;
pub mod read_state;
pub mod realtime;
pub mod sample;
pub mod section;
pub mod timeline;
pub mod turns;

use std::time::Duration;

use codicil_engine::{
    ElicitationChange, IncludeTurns, ListedForks, MetadataError, RevertedThread, ThreadError,
    parse_injected_items,
};
use codicil_protocol::{
    ConfigWarning, DeprecationNotice, Patch, ProtocolGeneration, Thread,
    ThreadApproveGuardianDeniedActionParams, ThreadApproveGuardianDeniedActionResponse, ThreadArchiveParams,
    ThreadArchiveResponse, ThreadArchived, ThreadArchivedNotification, ThreadCompactStartParams,
    ThreadCompactStartResponse, ThreadDecrementElicitationParams, ThreadDecrementElicitationResponse,
    ThreadDeleteParams, ThreadDeleteResponse, ThreadDeleted, ThreadDeletedNotification, ThreadForkParams,
    ThreadId, ThreadIncrementElicitationParams, ThreadIncrementElicitationResponse, ThreadInjectItemsParams,
    ThreadInjectItemsResponse, ThreadListParams, ThreadListResponse, ThreadLoadedListParams,
    ThreadLoadedListResponse, ThreadMemoryModeSetParams, ThreadMemoryModeSetResponse, ThreadMemoryReadParams,
    ThreadMemoryReadResponse, ThreadMetadataUpdateParams, ThreadMetadataUpdateResponse, ThreadNameUpdated,
    ThreadNameUpdatedNotification, ThreadPredictionRequestParams, ThreadPredictionRequestResponse,
    ThreadReadParams, ThreadResumeParams, ThreadRevertParams, ThreadRevertResponse, ThreadRollbackParams,
    ThreadRollbackResponse, ThreadSearchOccurrence, ThreadSearchOccurrencesParams,
    ThreadSearchOccurrencesResponse, ThreadSearchParams, ThreadSearchResponse, ThreadSetNameParams,
    ThreadSetNameResponse, ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse,
    ThreadShellCommandParams, ThreadShellCommandResponse, ThreadStartParams, ThreadStartResponse,
    ThreadUnarchiveParams, ThreadUnarchiveResponse, ThreadUnarchived, ThreadUnarchivedNotification,
    ThreadUnsubscribeParams, ThreadUnsubscribeResponse, ThreadUnsubscribeStatus, TurnStartParams,
};
use codicil_store::MessageMatch;

use crate::{
    commands::CommandError,
    cx::Cx,
    encoded::{OpenedJson, ReadJson, ResumedMembers},
    error::RpcError,
    generation::{show_thread, show_turns},
    guardian_denial::GuardianDenial,
    opening::{
        announce_goal, announce_started, instruction_sources, open_new, send_notices_after_response,
        send_usage_after_response, session_error, show_settings, start_response, unapplied_warning,
        warn_after_response,
    },
    paging,
    refusals::ServiceRefusal,
    request_keys::{Attempt, Creates, OnceResponse, carry_out_once},
};

pub async fn start(cx: Cx, params: ThreadStartParams) -> Result<OnceResponse<ThreadStartResponse>, RpcError> {
    let creates = Creates::thread(params.ephemeral);
    carry_out_once(&cx, creates, |attempt| Box::pin(start_once(&cx, params, attempt))).await
}

async fn start_once(
    cx: &Cx,
    params: ThreadStartParams,
    attempt: Attempt,
) -> Result<ThreadStartResponse, RpcError> {
    let ephemeral = params.ephemeral;
    // The future is large.
    let start = Box::pin(cx.threads().start(params, cx.origin().name, cx.generation(), attempt.thread_id));
    let mut opened = open_new(cx, ephemeral, start).await?;
    announce_started(cx, &opened);
    warn_after_response(cx, &mut opened);
    send_notices_after_response(cx, &mut opened);
    for notice in std::mem::take(&mut opened.deprecations) {
        cx.notify_after_response::<DeprecationNotice>(notice);
    }
    show_thread(cx.generation(), &mut opened.thread);
    let seq = cx.has_cursor().then_some(opened.position);
    let instruction_sources = instruction_sources(cx, &opened).await?;
    Ok(ThreadStartResponse { seq, instruction_sources, ..start_response(opened) })
}

/// Subscribes the client to a thread and its subagents, and loads the thread if necessary. The items of the
/// response are the stored JSON.
pub async fn resume(cx: Cx, params: ThreadResumeParams) -> Result<OpenedJson, RpcError> {
    let exclude_turns = params.exclude_turns;
    let page_params = params.initial_turns_page.clone();
    let mut opened = cx.threads().resume(params, cx.generation()).await.map_err(session_error(&cx))?;
    show_settings(&cx, &mut opened);
    show_turns(cx.history_form(), &mut opened.turns);
    cx.clients().subscribe(&cx.client, &opened.thread.id);
    let (client, thread_id) = (cx.client.clone(), opened.thread.id.clone());
    // Like a subscription at a position, the response is where the client continues.
    cx.after_response(move || client.outbox.catch_up(&thread_id));
    cx.hold(opened.announce.take());
    if !opened.unapplied.is_empty() {
        cx.notify_after_response::<ConfigWarning>(unapplied_warning(&opened));
    }
    warn_after_response(&cx, &mut opened);
    let items = opened.turns.iter().map(|turn| turn.items.len()).sum();
    let resumed = ResumedMembers {
        turns_backwards_cursor: paging::newest_entry_cursor(opened.turns.len()),
        items_backwards_cursor: paging::newest_entry_cursor(items),
        initial_turns_page: page_params.map(|params| paging::initial_turns_page(&opened.turns, params)),
    };
    // Subagents have questions for the same user.
    for agent in cx.threads().agents_of(&opened.thread.id) {
        cx.clients().subscribe(&cx.client, &agent);
    }
    announce_goal(&cx, &mut opened);
    send_usage_after_response(&cx, &mut opened);
    if exclude_turns {
        opened.turns.clear();
    }
    if cx.generation() == ProtocolGeneration::V166 {
        opened.thread.cwd = opened.settings.cwd.to_string_lossy().into_owned();
    }
    show_thread(cx.generation(), &mut opened.thread);
    let seq = cx.has_cursor().then_some(opened.position);
    cx.note_position(&opened.thread.id, opened.position);
    let instruction_sources = instruction_sources(&cx, &opened).await?;
    Ok(OpenedJson { opened, instruction_sources, resumed: Some(resumed), seq })
}

pub async fn fork(cx: Cx, params: ThreadForkParams) -> Result<OnceResponse<OpenedJson>, RpcError> {
    let creates = Creates::thread(params.ephemeral);
    carry_out_once(&cx, creates, |attempt| Box::pin(fork_once(&cx, params, attempt))).await
}

async fn fork_once(cx: &Cx, params: ThreadForkParams, attempt: Attempt) -> Result<OpenedJson, RpcError> {
    let exclude_turns = params.exclude_turns;
    let ephemeral = params.ephemeral;
    let fork = Box::pin(cx.threads().fork(params, cx.generation(), attempt.thread_id));
    let mut opened = open_new(cx, ephemeral, fork).await?;
    if exclude_turns {
        opened.turns.clear();
    }
    announce_started(cx, &opened);
    if !exclude_turns {
        send_usage_after_response(cx, &mut opened);
    }
    warn_after_response(cx, &mut opened);
    show_thread(cx.generation(), &mut opened.thread);
    show_turns(cx.history_form(), &mut opened.turns);
    let seq = cx.has_cursor().then_some(opened.position);
    let instruction_sources = instruction_sources(cx, &opened).await?;
    Ok(OpenedJson { opened, instruction_sources, resumed: None, seq })
}

pub async fn list(cx: Cx, params: ThreadListParams) -> Result<ThreadListResponse, RpcError> {
    cx.client.note_listing();
    let mut listed = cx.threads().list(params, listed_forks(&cx)).await?;
    listed.data.iter_mut().for_each(|thread| show_listed(&cx, thread));
    Ok(listed)
}

/// Returns which forks the client expects in a list.
fn listed_forks(cx: &Cx) -> ListedForks {
    if cx.is_plain_later() { ListedForks::WithOwnTurns } else { ListedForks::All }
}

/// Shows a thread as part of a list. In 0.166, lists do not tell where a thread comes from.
fn show_listed(cx: &Cx, thread: &mut Thread) {
    show_thread(cx.generation(), thread);
    if cx.is_plain_later() {
        thread.forked_from_id = None;
        thread.thread_source = None;
    }
}

pub async fn loaded_list(
    cx: Cx,
    params: ThreadLoadedListParams,
) -> Result<ThreadLoadedListResponse, RpcError> {
    cx.client.note_listing();
    let mut data = cx.threads().loaded(params.cursor.as_deref())?;
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let next_cursor = (data.len() > limit).then(|| data.get(limit - 1).map(ThreadId::to_string)).flatten();
    data.truncate(limit);
    Ok(ThreadLoadedListResponse { data, next_cursor })
}

pub async fn read(cx: Cx, params: ThreadReadParams) -> Result<ReadJson, RpcError> {
    let turns = if params.include_turns { IncludeTurns::Included } else { IncludeTurns::LeftOut };
    let mut read = cx.threads().read(&params.thread_id, turns).await?;
    if cx.generation() == ProtocolGeneration::V166 {
        show_current_cwd(&mut read.thread);
    }
    show_thread(cx.generation(), &mut read.thread);
    show_turns(cx.history_form(), &mut read.turns);
    Ok(ReadJson(read))
}

/// Shows the directory that a loaded thread works in now. Lists show the one that it started in.
fn show_current_cwd(thread: &mut Thread) {
    if let Some(environment) = thread.environments.iter().flatten().next() {
        thread.cwd.clone_from(&environment.cwd.0);
    }
}

pub async fn search(cx: Cx, params: ThreadSearchParams) -> Result<ThreadSearchResponse, RpcError> {
    let mut found = cx.threads().search(params).await?;
    found.data.iter_mut().for_each(|result| show_listed(&cx, &mut result.thread));
    Ok(found)
}

pub async fn search_occurrences(
    cx: Cx,
    params: ThreadSearchOccurrencesParams,
) -> Result<ThreadSearchOccurrencesResponse, RpcError> {
    let (matches, next_cursor) = cx.threads().search_occurrences(&params).await?;
    let occurrence = |found: MessageMatch| ThreadSearchOccurrence {
        turn_id: found.turn_id,
        item_id: found.item_id,
        snippet: found.text.snippet,
        snippet_match_range: found.text.range,
        turn_cursor: paging::turn_cursor(found.turn_index),
    };
    let data = matches.into_iter().map(occurrence).collect();
    Ok(ThreadSearchOccurrencesResponse { data, next_cursor })
}

/// Unsubscribes the client. In the 0.118 generation, the last subscriber unloads the thread and still receives the end of
/// a running turn. In the 0.166 generation, the turn goes on and the thread stays loaded for a while.
pub async fn unsubscribe(
    cx: Cx,
    params: ThreadUnsubscribeParams,
) -> Result<ThreadUnsubscribeResponse, RpcError> {
    let status = match cx.threads().get(&params.thread_id) {
        Err(error @ ThreadError::MalformedId(_)) => return Err(error.into()),
        Err(_) => ThreadUnsubscribeStatus::NotLoaded,
        Ok(thread) if unloads_thread(&cx, thread.id()) => {
            unload_after_response(&cx, thread.id().clone());
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

pub async fn archive(
    cx: Cx,
    params: ThreadArchiveParams,
) -> Result<OnceResponse<ThreadArchiveResponse>, RpcError> {
    let thread_id = params.thread_id;
    let archive = async |attempt: Attempt| {
        match cx.threads().archive(&thread_id, cx.generation()).await {
            Err(ThreadError::NotStored(_))
                if attempt.is_repeated && cx.threads().is_archived(&thread_id).await => {}
            result => result.map_err(session_error(&cx))?,
        }
        let archived = ThreadArchivedNotification { thread_id: thread_id.clone() };
        cx.broadcast_after_response::<ThreadArchived>(archived);
        Ok(ThreadArchiveResponse {})
    };
    carry_out_once(&cx, Creates::Nothing, archive).await
}

pub async fn unarchive(
    cx: Cx,
    params: ThreadUnarchiveParams,
) -> Result<OnceResponse<ThreadUnarchiveResponse>, RpcError> {
    let thread_id = params.thread_id;
    let unarchive = async |attempt: Attempt| {
        let mut thread = match cx.threads().unarchive(&thread_id).await {
            Err(ThreadError::NotArchived(id)) if attempt.is_repeated => {
                cx.threads().read(&id, IncludeTurns::LeftOut).await?.thread
            }
            result => result.map_err(session_error(&cx))?,
        };
        show_thread(cx.generation(), &mut thread);
        let unarchived = ThreadUnarchivedNotification { thread_id: thread_id.clone() };
        cx.broadcast_after_response::<ThreadUnarchived>(unarchived);
        Ok(ThreadUnarchiveResponse { thread })
    };
    carry_out_once(&cx, Creates::Nothing, unarchive).await
}

/// Deletes a thread, archived or not, and its subagents. Each deleted thread is announced.
pub async fn delete(
    cx: Cx,
    params: ThreadDeleteParams,
) -> Result<OnceResponse<ThreadDeleteResponse>, RpcError> {
    let delete = async |attempt: Attempt| {
        cx.threads().check_writer(&params.thread_id, cx.generation()).await?;
        let deleted = match cx.threads().delete(&params.thread_id).await {
            Err(ThreadError::NotStored(id)) if attempt.is_repeated => vec![id],
            result => result?,
        };
        for thread_id in deleted {
            cx.broadcast_after_response::<ThreadDeleted>(ThreadDeletedNotification { thread_id });
        }
        Ok(ThreadDeleteResponse {})
    };
    carry_out_once(&cx, Creates::Nothing, delete).await
}

pub async fn name_set(cx: Cx, params: ThreadSetNameParams) -> Result<ThreadSetNameResponse, RpcError> {
    let name = match cx.threads().set_name(&params.thread_id, &params.name, cx.key()).await {
        Err(ThreadError::NotFound(id)) if cx.generation() == ProtocolGeneration::V166 => {
            return Err(ThreadError::NotStored(id).into());
        }
        result => result?,
    };
    let updated = ThreadNameUpdatedNotification { thread_id: params.thread_id, thread_name: Some(name) };
    let threads = cx.threads().clone();
    cx.after_response(move || {
        threads.broadcast::<ThreadNameUpdated>(&updated.thread_id, &updated);
    });
    Ok(ThreadSetNameResponse {})
}

pub async fn metadata_update(
    cx: Cx,
    params: ThreadMetadataUpdateParams,
) -> Result<ThreadMetadataUpdateResponse, RpcError> {
    // In 0.166, null is no project, and a request without any member is refused in words of its own.
    let has_project = match params.project_id {
        Patch::Value(_) => true,
        Patch::Null => !cx.is_plain_later(),
        Patch::Missing => false,
    };
    if cx.generation() == ProtocolGeneration::V166 && !has_project && params.git_info.is_none() {
        return Err(ThreadError::from(MetadataError::Empty).into());
    }
    let mut thread = match cx.threads().update_metadata(params).await {
        Err(ThreadError::NotFound(id)) if cx.generation() == ProtocolGeneration::V166 => {
            return Err(ThreadError::NotStored(id).into());
        }
        result => result?,
    };
    // The response is the stored thread, as in lists.
    thread.can_accept_direct_input = None;
    show_thread(cx.generation(), &mut thread);
    Ok(ThreadMetadataUpdateResponse { thread })
}

/// Changes the settings that `turn/start` can change, without a turn. What changes is announced before the response.
pub async fn settings_update(
    cx: Cx,
    params: ThreadSettingsUpdateParams,
) -> Result<ThreadSettingsUpdateResponse, RpcError> {
    let thread = cx.thread(&params.thread_id)?;
    // A relative path begins at the directory of the server, as in `thread/start`.
    let cwd = params.cwd.map(|cwd| cx.cwd().join(cwd).to_string_lossy().into_owned());
    let change = TurnStartParams {
        cwd,
        approval_policy: params.approval_policy,
        approvals_reviewer: params.approvals_reviewer,
        sandbox_policy: params.sandbox_policy,
        permissions: params.permissions,
        model: params.model,
        service_tier: params.service_tier,
        effort: params.effort,
        summary: params.summary,
        personality: params.personality,
        collaboration_mode: params.collaboration_mode,
        disabled_plugin_ids: params.disabled_plugin_ids,
        ..TurnStartParams::new(params.thread_id.clone(), Vec::new())
    };
    thread.update_settings(change).await?;
    Ok(ThreadSettingsUpdateResponse {})
}

pub async fn compact_start(
    cx: Cx,
    params: ThreadCompactStartParams,
) -> Result<ThreadCompactStartResponse, RpcError> {
    let announced = cx.thread(&params.thread_id)?.compact(cx.origin()).await?;
    cx.announce(announced);
    Ok(ThreadCompactStartResponse {})
}

pub async fn rollback(cx: Cx, params: ThreadRollbackParams) -> Result<ThreadRollbackResponse, RpcError> {
    let announced = cx.thread(&params.thread_id)?.rollback(params.num_turns).await?;
    let mut thread = cx.announce(announced);
    show_thread(cx.generation(), &mut thread);
    Ok(ThreadRollbackResponse { thread })
}

/// Drops a turn and all after it. `thread/reverted` follows the response.
pub async fn revert(cx: Cx, params: ThreadRevertParams) -> Result<ThreadRevertResponse, RpcError> {
    let announced = cx.thread(&params.thread_id)?.revert(params.before_turn_id).await?;
    let RevertedThread { thread, turns, items } = cx.announce(announced);
    Ok(ThreadRevertResponse {
        thread,
        turns_backwards_cursor: paging::newest_entry_cursor(turns),
        items_backwards_cursor: paging::newest_entry_cursor(items),
    })
}

pub async fn inject_items(
    cx: Cx,
    params: ThreadInjectItemsParams,
) -> Result<ThreadInjectItemsResponse, RpcError> {
    let thread = cx.thread(&params.thread_id)?;
    let items = parse_injected_items(params.items).map_err(ThreadError::from)?;
    thread.inject(items).await?;
    Ok(ThreadInjectItemsResponse {})
}

pub async fn shell_command(
    cx: Cx,
    params: ThreadShellCommandParams,
) -> Result<ThreadShellCommandResponse, RpcError> {
    let timeout = match params.timeout_ms {
        None => None,
        Some(limit) => {
            let limit = u64::try_from(limit).map_err(|_| CommandError::NegativeTimeout(limit))?;
            Some(Duration::from_millis(limit))
        }
    };
    let announced = cx.thread(&params.thread_id)?.shell_command(params.command, timeout).await?;
    cx.announce(announced);
    Ok(ThreadShellCommandResponse {})
}

pub async fn increment_elicitation(
    cx: Cx,
    params: ThreadIncrementElicitationParams,
) -> Result<ThreadIncrementElicitationResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let count = thread.count_elicitation(ElicitationChange::Begun).await?;
    Ok(ThreadIncrementElicitationResponse { count, paused: count > 0 })
}

pub async fn decrement_elicitation(
    cx: Cx,
    params: ThreadDecrementElicitationParams,
) -> Result<ThreadDecrementElicitationResponse, RpcError> {
    let thread = cx.threads().get(&params.thread_id)?;
    let count = thread.count_elicitation(ElicitationChange::Ended).await?;
    Ok(ThreadDecrementElicitationResponse { count, paused: count > 0 })
}

/// Sets whether memories are made of a thread. This server makes none, so that the thread only has to exist.
pub async fn memory_mode_set(
    cx: Cx,
    params: ThreadMemoryModeSetParams,
) -> Result<ThreadMemoryModeSetResponse, RpcError> {
    cx.threads().check_exists(&params.thread_id).await?;
    if let Ok(thread) = cx.threads().get(&params.thread_id)
        && thread.snapshot().await?.thread.ephemeral
    {
        return Err(ThreadError::from(MetadataError::Ephemeral(thread.id().clone())).into());
    }
    Ok(ThreadMemoryModeSetResponse {})
}

/// Returns what is remembered of a loaded thread: nothing.
pub async fn memory_read(
    cx: Cx,
    params: ThreadMemoryReadParams,
) -> Result<ThreadMemoryReadResponse, RpcError> {
    cx.threads().get(&params.thread_id)?;
    Ok(ThreadMemoryReadResponse { summary: None })
}

pub async fn prediction_request(
    _cx: Cx,
    _params: ThreadPredictionRequestParams,
) -> Result<ThreadPredictionRequestResponse, RpcError> {
    Err(ServiceRefusal::Prediction.into())
}

/// Tells the model that the user allows an action which the guardian has denied. The action runs when the model tries again.
pub async fn approve_guardian_denied_action(
    cx: Cx,
    params: ThreadApproveGuardianDeniedActionParams,
) -> Result<ThreadApproveGuardianDeniedActionResponse, RpcError> {
    let denial = GuardianDenial::parse(params.event)?;
    cx.thread(&params.thread_id)?.inject(denial.to_items()?).await?;
    Ok(ThreadApproveGuardianDeniedActionResponse {})
}

/// Returns whether a client unloads a thread when it unsubscribes.
fn unloads_thread(cx: &Cx, thread_id: &ThreadId) -> bool {
    cx.generation() == ProtocolGeneration::V118 && cx.clients().is_last_subscriber(cx.client.id, thread_id)
}

/// Unloads a thread with its subagents. The client stays subscribed until they have ended.
fn unload_after_response(cx: &Cx, thread_id: ThreadId) {
    let threads = cx.threads().clone();
    let clients = cx.clients().clone();
    let client_id = cx.client.id;
    let unload = async move {
        let agents = threads.agents_of(&thread_id);
        threads.close(&thread_id).await;
        for thread in agents.iter().chain([&thread_id]) {
            clients.unsubscribe(client_id, thread);
        }
    };
    // Detached: it only waits for threads, and stopping the server ends those.
    cx.after_response(move || drop(tokio::spawn(unload)));
}
