//! One model request on the finished history of a thread: `thread/sample`. Nothing of it is stored or announced.

use std::sync::Arc;

use codicil_model::{HistoryItem, ModelError, ModelEvent, ModelProvider, ModelRequest, StreamFlow, ToolList};
use codicil_protocol::{ThreadSampleParams, ThreadSampleResponse, ThreadStatus, TurnId};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{SampleError, ThreadError},
    threads::Threads,
};

/// The longest prompt.
const MAX_PROMPT_BYTES: usize = 4000;

/// The request of a sample, and the provider that answers it.
pub(crate) struct SampleRequest {
    pub provider: Arc<dyn ModelProvider>,
    pub request: ModelRequest,
}

impl Threads {
    /// Asks the model once, with the history up to the latest finished turn and a prompt.
    pub async fn sample(
        &self,
        params: ThreadSampleParams,
        cancel: CancellationToken,
    ) -> Result<ThreadSampleResponse, ThreadError> {
        let is_sound = !params.expected_turn_id.is_empty()
            && !params.prompt.trim().is_empty()
            && params.prompt.len() <= MAX_PROMPT_BYTES;
        if !is_sound {
            return Err(SampleError::Params(MAX_PROMPT_BYTES).into());
        }
        let thread = self.get(&params.thread_id).map_err(|_| SampleError::NotLoaded)?;
        if thread.shown().is_some_and(|shown| matches!(shown.status, ThreadStatus::Active { .. })) {
            return Err(SampleError::Busy.into());
        }
        if thread.snapshot().await?.thread.ephemeral {
            return Err(SampleError::Ephemeral.into());
        }
        let SampleRequest { provider, mut request } = thread.sample_request(params.effort.clone()).await?;
        let stored = self.engine().store.load(thread.id()).await?;
        if stored.thread.turns.is_empty() {
            return Err(SampleError::NoTurns(thread.id().clone()).into());
        }
        let finished = stored.thread.turns.iter().rev().find(|turn| turn.ended).map(|turn| &turn.id);
        if finished != Some(&params.expected_turn_id) {
            return Err(SampleError::OtherTurn.into());
        }
        let history = stored.history.into_iter().take(stored.finished);
        let prompt = codicil_prompts::user_text_message(params.prompt);
        request.input = history.chain([prompt]).map(HistoryItem::from).collect();
        request.tools = ToolList::default();
        let mut metadata = serde_json::json!({ "thread_id": params.thread_id, "request_kind": "sample" });
        if let Some(members) = metadata.as_object_mut() {
            let labels = [("thread_source", params.thread_source), ("turn_trigger", params.turn_trigger)];
            members.extend(
                labels.into_iter().filter_map(|(name, label)| Some((name.to_owned(), label?.into()))),
            );
            let client = params.responsesapi_client_metadata.into_iter().flatten();
            members.extend(client.map(|(name, value)| (name, value.into())));
        }
        request.set_header("x-codex-turn-metadata", &metadata.to_string());
        let answer = run(&*provider, request, params.expected_turn_id);
        cancel.run_until_cancelled(answer).await.unwrap_or_else(|| Err(SampleError::Canceled.into()))
    }
}

async fn run(
    provider: &dyn ModelProvider,
    request: ModelRequest,
    source_turn_id: TurnId,
) -> Result<ThreadSampleResponse, ThreadError> {
    let mut stream = provider.stream(request);
    let mut events = Vec::new();
    let mut text = String::new();
    loop {
        let flow = stream.next(&mut events).await;
        for event in events.drain(..) {
            match event {
                ModelEvent::ItemDone { item, .. } => text.push_str(&codicil_prompts::message_text(&item)),
                ModelEvent::Completed { response_id, usage } => {
                    return Ok(ThreadSampleResponse {
                        source_turn_id,
                        response_id,
                        text: Some(text).filter(|text| !text.is_empty()),
                        input_tokens: usage.as_ref().map(|usage| usage.input_tokens),
                        cached_input_tokens: usage.as_ref().map(|usage| usage.cached_input_tokens),
                        output_tokens: usage.as_ref().map(|usage| usage.output_tokens),
                    });
                }
                _ => {}
            }
        }
        let failed = |error: ModelError| SampleError::Model(error.to_string());
        if flow.map_err(failed)? == StreamFlow::Done {
            return Err(SampleError::Model("the response ended early".to_owned()).into());
        }
    }
}
