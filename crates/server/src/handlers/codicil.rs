//! `codicil/*`: the methods of the extension.

use codicil_engine::{AnnouncedReply, ThreadSubscription};
use codicil_protocol::{CodicilSubscribeParams, SubscriptionScope};

use crate::{cx::Cx, encoded::SubscriptionJson, error::RpcError};

/// Subscribes the client to a thread at a position. Missed messages follow the response, then those of the running thread.
pub async fn subscribe(cx: Cx, params: CodicilSubscribeParams) -> Result<SubscriptionJson, RpcError> {
    if !cx.has_cursor() {
        return Err(RpcError::no_cursor());
    }
    let AnnouncedReply { answer: mut subscription, announce } =
        cx.threads().subscribe(&params.thread_id, params.after).await?;
    let subagents = match params.scope {
        SubscriptionScope::Tree => Some(cx.threads().subagent_positions(&params.thread_id).await?),
        _ => None,
    };
    // The form of the id that the thread itself uses.
    let thread_id = cx.threads().get(&params.thread_id)?.id().clone();
    let requests = cx.clients().open_requests(&thread_id);
    let replay = match &mut subscription {
        ThreadSubscription::Replay { frames, .. } => std::mem::take(frames),
        ThreadSubscription::Snapshot { .. } => Vec::new(),
    };
    let client = cx.client.clone();
    let clients = cx.clients().clone();
    let agents: Vec<_> = subagents.iter().flatten().map(|agent| agent.thread_id.clone()).collect();
    cx.after_response(move || {
        client.outbox.catch_up(&thread_id);
        replay.into_iter().for_each(|frame| client.notify(&frame.as_replay()));
        clients.subscribe_at(&client, &thread_id, &params.scope);
        agents.iter().for_each(|agent| clients.subscribe(&client, agent));
        drop(announce);
    });
    Ok(SubscriptionJson { subscription, requests, subagents })
}
