//! `thread/*`.
//!
//! A handler finds the thread and posts to its mailbox before its first `.await`, so that requests reach a thread
//! in the order in which the client sent them.

pub mod attachment;
pub mod attachment_owner;
pub mod queue;
pub mod read_state;
pub mod section;
pub mod timeline;

use codicil_engine::{
    BuiltinProfile, ElicitationChange, ForkName, IncludeTurns, InputAccepted, OpenedThread, RevertedThread,
    ThreadClients, ThreadError, ThreadRead, TurnSettings, parse_injected_items,
};
use codicil_engine::{RealtimeForm, realtime_voices};
use codicil_protocol::{
    ConfigWarning, ConfigWarningNotification, DeprecationNotice, Frame, ItemId, Method, MultiAgentMode,
    ProtocolGeneration, SortDirection, Thread, ThreadArchiveParams, ThreadArchiveResponse, ThreadArchived,
    ThreadArchivedNotification, ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse,
    ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse,
    ThreadCompactStartParams, ThreadCompactStartResponse, ThreadDecrementElicitationParams,
    ThreadDecrementElicitationResponse, ThreadDeleteParams, ThreadDeleteResponse, ThreadDeleted,
    ThreadDeletedNotification, ThreadForkParams, ThreadGoalClearParams, ThreadGoalClearResponse,
    ThreadGoalCleared, ThreadGoalClearedNotification, ThreadGoalGetParams, ThreadGoalGetResponse,
    ThreadGoalSetParams, ThreadGoalSetResponse, ThreadGoalUpdated, ThreadGoalUpdatedNotification, ThreadId,
    ThreadIncrementElicitationParams, ThreadIncrementElicitationResponse, ThreadInjectItemsParams,
    ThreadInjectItemsResponse, ThreadItemsList, ThreadItemsListParams, ThreadItemsListResponse,
    ThreadItemsReadParams, ThreadItemsReadResponse, ThreadListParams, ThreadListResponse,
    ThreadLoadedListParams, ThreadLoadedListResponse, ThreadMetadataUpdateParams,
    ThreadMetadataUpdateResponse, ThreadNameUpdated, ThreadNameUpdatedNotification, ThreadReadParams,
    ThreadRealtimeAppendAudioParams, ThreadRealtimeAppendAudioResponse, ThreadRealtimeAppendTextParams,
    ThreadRealtimeAppendTextResponse, ThreadRealtimeStartParams, ThreadRealtimeStartResponse,
    ThreadRealtimeStopParams, ThreadRealtimeStopResponse, ThreadResumeParams, ThreadRevertParams,
    ThreadRevertResponse, ThreadRollbackParams, ThreadRollbackResponse, ThreadSampleCancelParams,
    ThreadSampleCancelResponse, ThreadSampleParams, ThreadSampleResponse, ThreadSearchOccurrence,
    ThreadSearchOccurrencesParams, ThreadSearchOccurrencesResponse, ThreadSearchParams, ThreadSearchResponse,
    ThreadSetNameParams, ThreadSetNameResponse, ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse,
    ThreadSettingsUpdated, ThreadSettingsUpdatedNotification, ThreadShellCommandParams,
    ThreadShellCommandResponse, ThreadStartParams, ThreadStartResponse, ThreadStarted,
    ThreadStartedNotification, ThreadTokenUsageUpdated, ThreadTokenUsageUpdatedNotification, ThreadTurnsList,
    ThreadTurnsListParams, ThreadTurnsListResponse, ThreadUnarchiveParams, ThreadUnarchiveResponse,
    ThreadUnarchived, ThreadUnarchivedNotification, ThreadUnsubscribeParams, ThreadUnsubscribeResponse,
    ThreadUnsubscribeStatus, TurnItemsView, TurnStartParams, WarningNotification, WarningReported,
};
use codicil_protocol::{
    ThreadApproveGuardianDeniedActionParams, ThreadApproveGuardianDeniedActionResponse,
    ThreadMemoryModeSetParams, ThreadMemoryModeSetResponse, ThreadMemoryReadParams, ThreadMemoryReadResponse,
    ThreadPredictionRequestParams, ThreadPredictionRequestResponse, ThreadRealtimeAppendSpeechParams,
    ThreadRealtimeAppendSpeechResponse, ThreadRealtimeListVoicesParams, ThreadRealtimeListVoicesResponse,
};
use codicil_store::{MessageMatch, StoredTurn};

use crate::{
    background::blocking,
    cx::Cx,
    encoded::{OpenedJson, ReadJson, ResumedMembers, workspace_roots},
    ephemeral,
    error::RpcError,
    generation::{show_thread, shown_effort, shown_policy, shown_tier},
    guardian_denial::GuardianDenial,
    paging::{self, HistoryPage},
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
    let start = Box::pin(cx.threads().start(params, cx.origin().name, attempt.thread_id));
    let mut opened = open_new(cx, ephemeral, start).await?;
    announce_started(cx, &opened);
    warn_after_response(cx, &mut opened);
    for message in std::mem::take(&mut opened.notices) {
        let thread_id = Some(opened.thread.id.clone());
        cx.notify_after_response::<WarningReported>(WarningNotification { message, thread_id });
    }
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
    let mut opened = cx.threads().resume(params, cx.generation()).await?;
    show_settings(&cx, &mut opened);
    cx.clients().subscribe(&cx.client, &opened.thread.id);
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
    if !exclude_turns || resumed.initial_turns_page.is_some() {
        send_usage_after_response(&cx, &mut opened);
    }
    if exclude_turns {
        opened.turns.clear();
    }
    show_thread(cx.generation(), &mut opened.thread);
    let seq = cx.has_cursor().then_some(opened.position);
    let instruction_sources = instruction_sources(&cx, &opened).await?;
    Ok(OpenedJson { opened, instruction_sources, resumed: Some(resumed), seq })
}

/// Sends the token usage of a thread that was loaded or copied. Older clients get it with the next turn.
fn send_usage_after_response(cx: &Cx, opened: &mut OpenedThread) {
    let usage = opened.usage.take().filter(|_| cx.generation() == ProtocolGeneration::V166);
    if let Some((turn_id, token_usage)) = usage {
        let thread_id = opened.thread.id.clone();
        let updated = ThreadTokenUsageUpdatedNotification { thread_id, turn_id, token_usage };
        cx.notify_after_response::<ThreadTokenUsageUpdated>(updated);
    }
}

pub async fn fork(cx: Cx, params: ThreadForkParams) -> Result<OnceResponse<OpenedJson>, RpcError> {
    let creates = Creates::thread(params.ephemeral);
    carry_out_once(&cx, creates, |attempt| fork_once(&cx, params, attempt)).await
}

async fn fork_once(cx: &Cx, params: ThreadForkParams, attempt: Attempt) -> Result<OpenedJson, RpcError> {
    let exclude_turns = params.exclude_turns;
    let ephemeral = params.ephemeral;
    // The reference keeps names since a release between 0.118 and 0.166.
    let fork_name = match cx.generation() {
        ProtocolGeneration::V118 => ForkName::Dropped,
        ProtocolGeneration::V166 => ForkName::Kept,
    };
    let fork = cx.threads().fork(params, fork_name, attempt.thread_id);
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
    let seq = cx.has_cursor().then_some(opened.position);
    let instruction_sources = instruction_sources(cx, &opened).await?;
    Ok(OpenedJson { opened, instruction_sources, resumed: None, seq })
}

/// Tells the subscribers of a resumed thread about its goal, and lets a thread that was loaded go on with it. Older clients are
/// not told that there is none.
fn announce_goal(cx: &Cx, opened: &mut OpenedThread) {
    let thread_id = opened.thread.id.clone();
    let goal = opened.goal.take();
    let threads = cx.threads().clone();
    let knows_goals = cx.generation() == ProtocolGeneration::V166;
    cx.after_response(move || match goal {
        Some(goal) => {
            let updated = ThreadGoalUpdatedNotification { thread_id: thread_id.clone(), turn_id: None, goal };
            threads.notify::<ThreadGoalUpdated>(&thread_id, &updated);
            if let Ok(thread) = threads.get(&thread_id) {
                thread.continue_goal();
            }
        }
        None if knows_goals => {
            let cleared = ThreadGoalClearedNotification { thread_id };
            threads.notify::<ThreadGoalCleared>(&cleared.thread_id, &cleared);
        }
        None => {}
    });
}

/// Sends the warnings about a thread's configuration that the client has not received yet.
fn warn_after_response(cx: &Cx, opened: &mut OpenedThread) {
    let warnings = std::mem::take(&mut opened.warnings);
    if !warnings.is_empty() {
        let client = cx.client.clone();
        cx.after_response(move || warnings.into_iter().for_each(|warning| client.warn(warning)));
    }
}

pub async fn list(cx: Cx, params: ThreadListParams) -> Result<ThreadListResponse, RpcError> {
    let mut listed = cx.threads().list(params).await?;
    listed.data.iter_mut().for_each(|thread| show_thread(cx.generation(), thread));
    Ok(listed)
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

pub async fn read(cx: Cx, params: ThreadReadParams) -> Result<ReadJson, RpcError> {
    let turns = if params.include_turns { IncludeTurns::Included } else { IncludeTurns::LeftOut };
    let mut read = cx.threads().read(&params.thread_id, turns).await?;
    show_thread(cx.generation(), &mut read.thread);
    Ok(ReadJson(read))
}

/// Reads a thread with its turns, for a method that ephemeral threads do not support.
async fn read_turns(cx: &Cx, thread_id: &ThreadId, method: &'static str) -> Result<ThreadRead, ThreadError> {
    let read = cx.threads().read(thread_id, IncludeTurns::Included).await;
    read.map_err(|error| match error {
        ThreadError::EphemeralTurns(_) => ThreadError::EphemeralTurns(method),
        other => other,
    })
}

pub async fn turns_list(cx: Cx, params: ThreadTurnsListParams) -> Result<ThreadTurnsListResponse, RpcError> {
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let read = read_turns(&cx, &params.thread_id, ThreadTurnsList::NAME).await?;
    let page = HistoryPage::new(read.turns.len(), params.cursor.as_deref(), params.limit, direction)?;
    let default_view = match cx.generation() {
        ProtocolGeneration::V118 => TurnItemsView::Full,
        ProtocolGeneration::V166 => TurnItemsView::Summary,
    };
    Ok(page.turns(&read.turns, params.items_view.unwrap_or(default_view)))
}

pub async fn items_list(cx: Cx, params: ThreadItemsListParams) -> Result<ThreadItemsListResponse, RpcError> {
    let read = read_turns(&cx, &params.thread_id, ThreadItemsList::NAME).await?;
    let wanted = read.turns.iter().filter(|turn| params.turn_id.as_ref().is_none_or(|id| turn.id == *id));
    let items: Vec<_> =
        wanted.flat_map(|turn| (0..turn.items.len()).map(move |index| (turn, index))).collect();
    let page = HistoryPage::of_items(&items, &params)?;
    Ok(page.items(&items))
}

/// Returns items of one turn, in the order of the ids.
pub async fn items_read(cx: Cx, params: ThreadItemsReadParams) -> Result<ThreadItemsReadResponse, RpcError> {
    if !(1..=MAX_READ_ITEMS).contains(&params.item_ids.len()) {
        return Err(ItemsReadError::Count.into());
    }
    let read = cx.threads().read(&params.thread_id, IncludeTurns::Included).await?;
    let turn = read.turns.iter().find(|turn| turn.id == params.turn_id);
    let entry = |turn: &StoredTurn, index: usize| paging::item_entry(turn, index);
    let entries: Vec<_> =
        turn.into_iter().flat_map(|turn| (0..turn.items.len()).filter_map(|at| entry(turn, at))).collect();
    let find = |id: &ItemId| entries.iter().find(|entry| entry.item.id() == Some(id)).cloned();
    Ok(ThreadItemsReadResponse { data: params.item_ids.iter().filter_map(find).collect() })
}

/// Why items of a turn cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ItemsReadError {
    #[error("itemIds must contain 1 to {MAX_READ_ITEMS} IDs")]
    Count,
}

/// The items that one request reads at most.
const MAX_READ_ITEMS: usize = 100;

pub async fn search(cx: Cx, params: ThreadSearchParams) -> Result<ThreadSearchResponse, RpcError> {
    Ok(cx.threads().search(params).await?)
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

/// Asks the model once. `thread/sample/cancel` or the end of the connection ends it.
pub async fn sample(cx: Cx, params: ThreadSampleParams) -> Result<ThreadSampleResponse, RpcError> {
    let running = cx.client.samples.begin(cx.request_id());
    Ok(cx.threads().sample(params, running.cancelled()).await?)
}

pub async fn sample_cancel(
    cx: Cx,
    params: ThreadSampleCancelParams,
) -> Result<ThreadSampleCancelResponse, RpcError> {
    cx.client.samples.cancel(&params.request_id);
    Ok(ThreadSampleCancelResponse {})
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
            result => result?,
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
        let thread = match cx.threads().unarchive(&thread_id).await {
            Err(ThreadError::NotArchived(id)) if attempt.is_repeated => {
                cx.threads().read(&id, IncludeTurns::LeftOut).await?.thread
            }
            result => result?,
        };
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
    let name = cx.threads().set_name(&params.thread_id, &params.name, cx.key()).await?;
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
    Ok(ThreadMetadataUpdateResponse { thread: cx.threads().update_metadata(params).await? })
}

/// Changes the settings that `turn/start` can change, without a turn.
pub async fn settings_update(
    cx: Cx,
    params: ThreadSettingsUpdateParams,
) -> Result<ThreadSettingsUpdateResponse, RpcError> {
    let thread = cx.thread(&params.thread_id)?;
    let change = TurnStartParams {
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
        collaboration_mode: params.collaboration_mode,
        ..TurnStartParams::new(params.thread_id.clone(), Vec::new())
    };
    let settings = thread.update_settings(change).await?;
    let updated = ThreadSettingsUpdatedNotification {
        thread_id: params.thread_id,
        thread_settings: settings.into_wire(),
    };
    let threads = cx.threads().clone();
    cx.after_response(move || threads.notify::<ThreadSettingsUpdated>(&updated.thread_id, &updated));
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
    Ok(ThreadRollbackResponse { thread: cx.announce(announced) })
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
    let announced = cx.thread(&params.thread_id)?.shell_command(params.command).await?;
    cx.announce(announced);
    Ok(ThreadShellCommandResponse {})
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

pub async fn background_terminals_clean(
    cx: Cx,
    params: ThreadBackgroundTerminalsCleanParams,
) -> Result<ThreadBackgroundTerminalsCleanResponse, RpcError> {
    cx.threads().get(&params.thread_id)?.clean_terminals().await?;
    Ok(ThreadBackgroundTerminalsCleanResponse {})
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

/// Sets the goal. The thread notifies every client after the response: a goal, like a name, is shown in lists of threads.
pub async fn goal_set(cx: Cx, params: ThreadGoalSetParams) -> Result<ThreadGoalSetResponse, RpcError> {
    let announced = cx.threads().set_goal(params, cx.origin(), cx.key()).await?;
    Ok(ThreadGoalSetResponse { goal: cx.announce(announced) })
}

pub async fn goal_get(cx: Cx, params: ThreadGoalGetParams) -> Result<ThreadGoalGetResponse, RpcError> {
    Ok(ThreadGoalGetResponse { goal: cx.threads().goal(&params.thread_id).await? })
}

pub async fn goal_clear(cx: Cx, params: ThreadGoalClearParams) -> Result<ThreadGoalClearResponse, RpcError> {
    let cleared = cx.threads().clear_goal(&params.thread_id, cx.key()).await?;
    if cleared {
        let cleared = ThreadGoalClearedNotification { thread_id: params.thread_id };
        let threads = cx.threads().clone();
        cx.after_response(move || {
            threads.broadcast::<ThreadGoalCleared>(&cleared.thread_id, &cleared);
        });
    }
    Ok(ThreadGoalClearResponse { cleared })
}

/// Opens a realtime session after the response. Its outcome, failure included, arrives as notifications.
pub async fn realtime_start(
    cx: Cx,
    params: ThreadRealtimeStartParams,
) -> Result<ThreadRealtimeStartResponse, RpcError> {
    let form = match cx.generation() {
        ProtocolGeneration::V166 => RealtimeForm::Timeline,
        ProtocolGeneration::V118 => RealtimeForm::Updates,
    };
    let missing = match form {
        RealtimeForm::Timeline => params.output_modality.is_none().then_some("outputModality"),
        RealtimeForm::Updates => params.prompt.is_none().then_some("prompt"),
    };
    if let Some(missing) = missing {
        return Err(RpcError::malformed(format_args!("missing field `{missing}`")));
    }
    let voice = cx.threads().voice(&params.thread_id).await?;
    let origin = cx.origin();
    cx.after_response(move || voice.start(params, origin, form));
    Ok(ThreadRealtimeStartResponse {})
}

pub async fn realtime_append_audio(
    cx: Cx,
    params: ThreadRealtimeAppendAudioParams,
) -> Result<ThreadRealtimeAppendAudioResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    if voice.append_audio(params.audio)? == InputAccepted::NotRunning {
        cx.after_response(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendAudioResponse {})
}

pub async fn realtime_append_text(
    cx: Cx,
    params: ThreadRealtimeAppendTextParams,
) -> Result<ThreadRealtimeAppendTextResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    if voice.append_text(params.text, params.role.unwrap_or_default())? == InputAccepted::NotRunning {
        cx.after_response(move || voice.complain());
    }
    Ok(ThreadRealtimeAppendTextResponse {})
}

pub async fn realtime_stop(
    cx: Cx,
    params: ThreadRealtimeStopParams,
) -> Result<ThreadRealtimeStopResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    cx.after_response(move || voice.stop());
    Ok(ThreadRealtimeStopResponse {})
}

/// Returns the voices of the provider's voice models.
pub async fn realtime_list_voices(
    _cx: Cx,
    _params: ThreadRealtimeListVoicesParams,
) -> Result<ThreadRealtimeListVoicesResponse, RpcError> {
    Ok(ThreadRealtimeListVoicesResponse { voices: realtime_voices() })
}

/// Has the voice model say something. Without a session the request fails; nothing else happens to the thread.
pub async fn realtime_append_speech(
    cx: Cx,
    params: ThreadRealtimeAppendSpeechParams,
) -> Result<ThreadRealtimeAppendSpeechResponse, RpcError> {
    let voice = cx.threads().voice(&params.thread_id).await?;
    match voice.append_speech(params.text)? {
        InputAccepted::Yes => Ok(ThreadRealtimeAppendSpeechResponse {}),
        InputAccepted::NotRunning => Err(ThreadError::NoRealtimeSession.into()),
    }
}

/// Sets whether memories are made of a thread. This server makes none, so that the thread only has to exist.
pub async fn memory_mode_set(
    cx: Cx,
    params: ThreadMemoryModeSetParams,
) -> Result<ThreadMemoryModeSetResponse, RpcError> {
    cx.threads().check_exists(&params.thread_id).await?;
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

/// Opens a new thread and subscribes the client to it. An ephemeral thread needs a slot.
async fn open_new(
    cx: &Cx,
    ephemeral: Option<bool>,
    open: impl Future<Output = Result<OpenedThread, ThreadError>>,
) -> Result<OpenedThread, RpcError> {
    let slot = match ephemeral {
        Some(true) => Some(ephemeral::reserve(cx).await?),
        _ => None,
    };
    let mut opened = open.await?;
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

/// Replaces values that the client does not know.
fn show_settings(cx: &Cx, opened: &mut OpenedThread) {
    let settings = &mut opened.settings;
    let generation = cx.generation();
    settings.approval_policy = shown_policy(generation, settings.approval_policy.clone());
    settings.effort = settings.effort.take().map(|effort| shown_effort(generation, effort));
    settings.service_tier = settings.service_tier.take().and_then(|tier| shown_tier(generation, tier));
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

/// Announces a new thread to all clients. Those of the 0.166 generation expect no turns in it.
fn announce_started(cx: &Cx, opened: &OpenedThread) {
    let turns = opened.turns.iter().map(StoredTurn::decode).collect();
    let mut thread = Thread { turns, ..opened.thread.clone() };
    show_thread(ProtocolGeneration::V118, &mut thread);
    let started = Frame::notification::<ThreadStarted>(&ThreadStartedNotification { thread });
    let without_turns = ThreadStartedNotification { thread: opened.thread.clone() };
    let started = started.with_later_params::<ThreadStarted>(&without_turns);
    let clients = cx.clients().clone();
    cx.after_response(move || clients.notify_all(&started));
}

/// Returns the warning about settings of a `thread/resume` that a loaded thread does not take over.
fn unapplied_warning(opened: &OpenedThread) -> ConfigWarningNotification {
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

/// Returns the files with instructions of a thread. Clients of the 0.118 generation do not know them.
async fn instruction_sources(cx: &Cx, opened: &OpenedThread) -> Result<Vec<String>, RpcError> {
    if cx.generation() == ProtocolGeneration::V118 {
        return Ok(Vec::new());
    }
    let threads = cx.threads().clone();
    let (settings, config) = (opened.settings.clone(), opened.config.clone());
    let search = move || Ok::<_, RpcError>(threads.instruction_sources(&settings, &config));
    let sources = blocking(search).await?;
    Ok(sources.iter().map(|path| path.to_string_lossy().into_owned()).collect())
}

fn start_response(opened: OpenedThread) -> ThreadStartResponse {
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
        active_permission_profile: profile.map(BuiltinProfile::active),
        reasoning_effort: effort,
        multi_agent_mode: MultiAgentMode::ExplicitRequestOnly,
        seq: None,
    }
}
