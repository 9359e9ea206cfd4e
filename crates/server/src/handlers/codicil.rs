//! `codicil/*`: the extension of the protocol.

use codicil_engine::{
    AnnouncedReply, AnswerOutcome, ClientAnswer, RequestError, ThreadError, ThreadRequest,
    ThreadSubscription, WaitingRequest,
};
use codicil_protocol::{
    CodicilRequestAnswerParams, CodicilRequestAnswerResponse, CodicilRequestListParams,
    CodicilRequestListResponse, CodicilSandboxReadParams, CodicilSandboxReadResponse, CodicilSubscribeParams,
    CodicilThreadRehomeParams, CodicilThreadRehomeResponse, CodicilTurnEntry, CodicilTurnRead,
    CodicilTurnReadParams, CodicilTurnReadResponse, CodicilUsageReadParams, CodicilUsageReadResponse,
    CodicilWaitingRequest, Method, SubscriptionScope, TurnId,
};
use codicil_sandbox::MachineProbe;
use codicil_store::StoredTurn;
use serde_json::value::to_raw_value;

use crate::{
    cx::Cx,
    encoded::SubscriptionJson,
    error::RpcError,
    generation::show_turns,
    handlers::thread::turns::read_turns,
    paging::{newest_entry_cursor, turn_head},
};

/// The number of requests on a page, unless the client asks for less.
const PAGE: usize = 100;

/// The threads that one `codicil/usage/read` reads.
const MAX_USAGE_THREADS: usize = 200;

/// The turns that one `codicil/turn/read` reads.
const MAX_READ_TURNS: usize = 100;

/// Moves the workspace of a thread to this server.
pub async fn thread_rehome(
    cx: Cx,
    params: CodicilThreadRehomeParams,
) -> Result<CodicilThreadRehomeResponse, RpcError> {
    let opened = cx.threads().rehome(&params.thread_id, params.cwd).await?;
    Ok(CodicilThreadRehomeResponse { thread: opened.thread })
}

/// Subscribes the client to a thread at a position. Missed messages follow the response, then those of the running thread.
pub async fn subscribe(cx: Cx, params: CodicilSubscribeParams) -> Result<SubscriptionJson, RpcError> {
    if !cx.has_cursor() && !cx.is_relayed() {
        return Err(RpcError::no_cursor());
    }
    subscribe_client(&cx, params).await
}

/// Subscribes the client, whether it has a cursor or not.
pub async fn subscribe_client(cx: &Cx, params: CodicilSubscribeParams) -> Result<SubscriptionJson, RpcError> {
    let (thread_id, AnnouncedReply { answer: mut subscription, announce }) =
        cx.threads().subscribe(&params.thread_id, params.after).await?;
    // The thread sends nothing before the announcement. A subagent that starts meanwhile is included in this way.
    cx.clients().subscribe_at(&cx.client, &thread_id, &params.scope);
    let subagents = match params.scope {
        SubscriptionScope::Tree => {
            let subscribe = |agent: &_| cx.clients().subscribe(&cx.client, agent);
            Some(cx.threads().subscribe_to_subagents(&thread_id, subscribe).await?)
        }
        _ => None,
    };
    let requests = cx.clients().open_requests(&thread_id);
    let mut left_out = LeftOut::default();
    let replay = match &mut subscription {
        ThreadSubscription::Replay { frames, .. } => std::mem::take(frames),
        ThreadSubscription::Snapshot { turns, .. } => {
            left_out = leave_out_oldest(turns, params.turns, params.items);
            show_turns(cx.history_form(), turns);
            Vec::new()
        }
    };
    let client = cx.client.clone();
    cx.after_response(move || {
        client.outbox.catch_up(&thread_id);
        replay.into_iter().for_each(|frame| client.notify(&frame.as_replay()));
        drop(announce);
    });
    let older_turns = newest_entry_cursor(left_out.turns);
    let older_items = newest_entry_cursor(left_out.items);
    Ok(SubscriptionJson { subscription, older_turns, older_items, requests, subagents })
}

/// The number of turns and items of a thread that a snapshot does not have.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOut {
    turns: usize,
    items: usize,
}

/// Leaves out the oldest turns and items beyond the client's limits.
fn leave_out_oldest(turns: &mut Vec<StoredTurn>, max_turns: Option<u32>, max_items: Option<u32>) -> LeftOut {
    let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
    let count_items = |turns: &[StoredTurn]| turns.iter().map(|turn| turn.items.len()).sum::<usize>();
    let all_items = count_items(turns);
    let mut room = limit(max_items);
    let mut kept_turns = 0;
    for turn in turns.iter_mut().rev().take(limit(max_turns)) {
        if room == 0 && kept_turns > 0 {
            break;
        }
        turn.leave_out_first(turn.items.len().saturating_sub(room));
        room -= turn.items.len();
        kept_turns += 1;
    }
    let left_out = turns.len() - kept_turns;
    turns.drain(..left_out);
    LeftOut { turns: left_out, items: all_items - count_items(turns) }
}

pub async fn request_list(
    cx: Cx,
    params: CodicilRequestListParams,
) -> Result<CodicilRequestListResponse, RpcError> {
    let limit = params.limit.map_or(PAGE, |limit| (limit.max(1) as usize).min(PAGE));
    let page =
        cx.threads().waiting_requests(params.thread_id.as_ref(), params.cursor.as_deref(), limit).await?;
    let data = page.requests.into_iter().map(shown).collect();
    Ok(CodicilRequestListResponse { data, next_cursor: page.next_cursor })
}

fn shown(ThreadRequest { thread_id, waiting }: ThreadRequest) -> CodicilWaitingRequest {
    let WaitingRequest { turn_id, asked, asked_at } = waiting;
    CodicilWaitingRequest {
        thread_id,
        turn_id,
        request: asked.request,
        method: asked.method,
        params: asked.params,
        asked_at,
        deadline: asked.deadline_ms.map(|at| at.div_euclid(1000)),
    }
}

pub async fn request_answer(
    cx: Cx,
    params: CodicilRequestAnswerParams,
) -> Result<CodicilRequestAnswerResponse, RpcError> {
    let CodicilRequestAnswerParams { thread_id, request, result, error } = params;
    let reply = match (result, error) {
        (Some(result), None) => Ok(to_raw_value(&result).map_err(|_| no_answer())?),
        (None, Some(error)) => Err(error),
        (Some(_), Some(_)) | (None, None) => return Err(no_answer()),
    };
    let answer = ClientAnswer { reply, by: cx.origin().name };
    Ok(match cx.threads().answer_request(&thread_id, request, answer, cx.key()).await? {
        AnswerOutcome::Accepted => CodicilRequestAnswerResponse::Accepted {},
        AnswerOutcome::AlreadyResolved { by, at } => CodicilRequestAnswerResponse::AlreadyResolved { by, at },
    })
}

/// Returns turns without their items, with their plans.
pub async fn turn_read(cx: Cx, params: CodicilTurnReadParams) -> Result<CodicilTurnReadResponse, RpcError> {
    let read = read_turns(&cx, &params.thread_id, CodicilTurnRead::NAME).await?;
    let entry = |id: &TurnId| {
        let found = read.turns.iter().find(|turn| turn.id == *id)?;
        let plan = found.plan.clone().map(|plan| plan.into_notification(read.thread.id.clone()));
        Some(CodicilTurnEntry { turn: turn_head(found), plan })
    };
    Ok(CodicilTurnReadResponse {
        data: params.turn_ids.iter().take(MAX_READ_TURNS).filter_map(entry).collect(),
    })
}

pub async fn usage_read(
    cx: Cx,
    params: CodicilUsageReadParams,
) -> Result<CodicilUsageReadResponse, RpcError> {
    let mut data = Vec::new();
    for thread in params.thread_ids.iter().take(MAX_USAGE_THREADS) {
        data.extend(cx.threads().token_usage(thread, params.since).await?);
    }
    Ok(CodicilUsageReadResponse { data })
}

/// Returns what the first probe of the machine has found. It may be this one, which blocks for some milliseconds.
pub async fn sandbox_read(
    _cx: Cx,
    _params: CodicilSandboxReadParams,
) -> Result<CodicilSandboxReadResponse, RpcError> {
    let probe = tokio::task::spawn_blocking(MachineProbe::cached).await.map_err(|_| RpcError::panicked())?;
    let verdict = probe.verdict();
    Ok(CodicilSandboxReadResponse {
        is_available: verdict.is_ok(),
        summary: verdict.unwrap_or_else(|refusal| refusal),
        details: probe.details(),
    })
}

fn no_answer() -> RpcError {
    ThreadError::from(RequestError::NoAnswer).into()
}
