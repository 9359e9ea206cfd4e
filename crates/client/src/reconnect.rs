//! Opens a connection again and continues where the last one ended.
//!
//! In this order: open the transport, `initialize`, subscribe to each followed thread at its position, wait for the
//! answers, answer open server requests, repeat the pending requests that have keys. Only then are new messages written.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use codicil_protocol::{
    Frame, Initialize, InitializeParams, InitializeResponse, Initialized,
    rpc::{Message, RequestId},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    builder::ClientBuilder,
    endpoint::{Endpoint, ServerAddress},
    error::{DisconnectCause, Disconnected},
    options::{ClientLimits, backoff},
    receiver::MessageReceiver,
    resilient::{ReconnectOptions, Resilience},
    transport::{self, TransportLink},
};

/// How and where a connection is opened again.
pub struct ConnectionRecovery {
    pub address: ServerAddress,
    pub initialize: InitializeParams,
    pub limits: ClientLimits,
    pub options: ReconnectOptions,
    /// The time for one attempt.
    pub within: Duration,
    pub state: Arc<Resilience>,
    /// The attempts since the last stable connection.
    pub attempts: u32,
    /// The end of the last stable connection; `None` before the first end.
    pub since: Option<Instant>,
}

impl ConnectionRecovery {
    pub fn new(builder: &ClientBuilder, address: ServerAddress, state: Arc<Resilience>) -> Self {
        Self {
            address,
            initialize: builder.initialize_params(),
            limits: builder.limits.clone(),
            options: builder.reconnect.clone().unwrap_or_default(),
            within: builder.timeouts.connect,
            state,
            attempts: 0,
            since: None,
        }
    }

    /// Notes the end of a connection that began at this time.
    pub fn note_end(&mut self, began: Instant) {
        if self.since.is_none() || began.elapsed() >= self.options.stable_after {
            self.attempts = 0;
            self.since = Some(Instant::now());
        }
        self.state.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a connection that continues the last one, or the reason why there is none.
    pub async fn reconnect(
        &mut self,
        receiver: &mut MessageReceiver,
        mut reason: Disconnected,
    ) -> Result<TransportLink, Disconnected> {
        let since = self.since.unwrap_or_else(Instant::now);
        while self.options.allows(self.attempts, since) {
            let attempt = self.attempts;
            self.attempts += 1;
            sleep(backoff(self.options.first_delay, self.options.max_delay, attempt)).await;
            match self.open_in_time(receiver).await {
                Ok(link) => {
                    tracing::info!(attempt, "connected again");
                    self.state.connections.send_modify(|count| *count += 1);
                    return Ok(link);
                }
                Err(error) => {
                    tracing::debug!(attempt, "cannot connect again yet: {error}");
                    reason.cause = DisconnectCause::Failed(error);
                }
            }
        }
        Err(reason)
    }

    /// Opens the connection, within the time for one attempt.
    pub async fn open_in_time(&self, receiver: &mut MessageReceiver) -> Result<TransportLink, String> {
        let opened = timeout(self.within, self.open(receiver)).await;
        opened.unwrap_or_else(|_| Err("the server does not respond".to_owned()))
    }

    async fn open(&self, receiver: &mut MessageReceiver) -> Result<TransportLink, String> {
        let endpoint = Endpoint::from(self.address.clone());
        let mut link = transport::open(endpoint, &self.limits).await.map_err(|error| error.to_string())?;
        self.initialize(&mut link, receiver).await?;
        let mut messages = vec![Frame::notification::<Initialized>(&Default::default()).bytes().clone()];
        receiver.begin_recovery();
        for (thread, after) in self.state.positions_at(receiver.connection()) {
            messages.push(receiver.subscribe(&thread, after));
        }
        link.sink.send(&mut messages).await?;
        while receiver.is_subscribing() {
            receive(&mut link, |message| receiver.receive(message)).await?;
        }
        let mut messages = receiver.end_recovery();
        if receiver.connection().is_first() {
            messages.extend(receiver.shared().pending.keyed_messages());
        }
        link.sink.send(&mut messages).await?;
        Ok(link)
    }

    async fn initialize(
        &self,
        link: &mut TransportLink,
        receiver: &mut MessageReceiver,
    ) -> Result<(), String> {
        let id = RequestId::String("initialize".to_owned());
        let request = Frame::request::<Initialize>(&id, &self.initialize);
        link.sink.send(&mut vec![request.bytes().clone()]).await?;
        let mut answer = None;
        while answer.is_none() {
            receive(link, |message| match answer_to(&id, message) {
                Some(found) => answer = Some(found),
                None => receiver.receive(message),
            })
            .await?;
        }
        let server = answer.unwrap_or_else(|| Err("no answer".to_owned()))?;
        if server.codicil.is_none() {
            Err("the server has no extension `codicil`".to_owned())
        } else {
            Ok(())
        }
    }
}

/// Passes the messages that arrive next on.
async fn receive(link: &mut TransportLink, mut take: impl FnMut(&Bytes)) -> Result<(), String> {
    let filled = link.source.fill().await;
    while let Some(message) = link.source.take() {
        take(&message);
    }
    filled.map_err(|cause| Disconnected { cause, stderr_tail: String::new() }.to_string())
}

/// Returns the answer to `initialize`; `None` for other messages.
fn answer_to(id: &RequestId, message: &Bytes) -> Option<Result<InitializeResponse, String>> {
    let text = std::str::from_utf8(message).ok()?;
    match Message::parse(text).ok()? {
        Message::Response { id: found, result } if found == *id => {
            Some(serde_json::from_str(result.get()).map_err(|error| error.to_string()))
        }
        Message::Error { id: found, error } if found == *id => Some(Err(error.message)),
        _ => None,
    }
}
