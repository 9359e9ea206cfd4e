//! Runs a turn or a review and collects its events.

use std::{sync::Arc, time::Duration};

use codicil_protocol::{
    ReviewDelivery, ReviewStart, ReviewStartParams, ThreadId, ThreadItem, Turn, TurnId, TurnInterrupt,
    TurnInterruptParams, TurnStart, TurnStartParams,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use crate::{
    client::Client,
    collect::{CompletedTurn, TurnOutcome, session_id},
    error::ClientError,
    events::{ClientEvent, EventQueue, EventStream},
    params::IntoInput,
    routes::TurnRoute,
};

/// The result of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedReview {
    /// The reviewer's text.
    pub review_text: String,
    /// The thread of the review: the given thread, or the new thread of a detached review.
    pub review_thread_id: ThreadId,
    /// The turn of the review.
    pub run: CompletedTurn,
}

impl From<CompletedTurn> for CompletedReview {
    fn from(run: CompletedTurn) -> Self {
        let text = run.items.iter().rev().find_map(|item| match item {
            ThreadItem::ExitedReviewMode { review, .. } => Some(review.clone()),
            _ => None,
        });
        let review_text = text.unwrap_or_else(|| run.agent_message.clone());
        Self { review_text, review_thread_id: run.thread_id.clone(), run }
    }
}

impl Client {
    /// Runs a turn to its end and returns everything that happened in it.
    ///
    /// Returns an error if the turn fails, is interrupted, times out, or needs an answer that the handler does not
    /// give. The error holds the partial result. Dropping the future interrupts the turn.
    pub async fn run_turn(&self, params: TurnStartParams) -> Result<CompletedTurn, ClientError> {
        self.begin_turn(params, None).await?.finish().await
    }

    /// Starts a turn and returns a handle to follow it.
    ///
    /// ```no_run
    /// # use codicil_client::{Client, ClientEvent, protocol::ServerNotification, turn};
    /// # async fn example(client: Client, thread: codicil_client::protocol::Thread) -> Result<(), codicil_client::ClientError> {
    /// let mut running = client.turn(turn(&thread.id, "Tidy up")).await?;
    /// while let Some(event) = running.next().await {
    ///     if let ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta)) = event {
    ///         print!("{}", delta.delta);
    ///     }
    /// }
    /// let done = running.finish().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn turn(&self, params: TurnStartParams) -> Result<RunningTurn, ClientError> {
        let (queue, events) = self.shared().new_queue();
        let mut turn = self.begin_turn(params, Some(queue)).await?;
        turn.events = Some(events);
        Ok(turn)
    }

    /// Runs a review to its end and returns the reviewer's text.
    ///
    /// ```no_run
    /// use codicil_client::{Client, ClientError, protocol::*, review};
    ///
    /// # async fn example(client: Client, thread: Thread) -> Result<(), ClientError> {
    /// let done = client.run_review(review(&thread.id, ReviewTarget::UncommittedChanges)).await?;
    /// println!("{}", done.review_text);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_review(&self, params: ReviewStartParams) -> Result<CompletedReview, ClientError> {
        self.begin_review(params, None).await?.finish().await.map(CompletedReview::from)
    }

    /// Starts a review and returns a handle to follow it. [`CompletedReview::from`] converts its result.
    pub async fn review(&self, params: ReviewStartParams) -> Result<RunningTurn, ClientError> {
        let (queue, events) = self.shared().new_queue();
        let mut turn = self.begin_review(params, Some(queue)).await?;
        turn.events = Some(events);
        Ok(turn)
    }

    pub(crate) async fn begin_turn(
        &self,
        params: TurnStartParams,
        queue: Option<Arc<EventQueue>>,
    ) -> Result<RunningTurn, ClientError> {
        let thread = params.thread_id.clone();
        let (slot, end) = CollectionSlot::register(self, Some(thread.clone()), queue);
        let turn = self.call::<TurnStart>(params).await?.turn;
        // A server that does not name its turns runs one turn at a time on a thread.
        slot.route.bind(&thread, Some(&turn.id).filter(|id| !id.is_empty()));
        Ok(RunningTurn::new(slot, end, thread, turn))
    }

    async fn begin_review(
        &self,
        params: ReviewStartParams,
        queue: Option<Arc<EventQueue>>,
    ) -> Result<RunningTurn, ClientError> {
        let is_detached = params.delivery == Some(ReviewDelivery::Detached);
        let thread = (!is_detached).then(|| params.thread_id.clone());
        let (mut slot, end) = CollectionSlot::register(self, thread, queue);
        let started = self.call::<ReviewStart>(params).await?;
        let thread = started.review_thread_id;
        self.shared().routes.assign_thread(&thread, &slot.route);
        slot.thread = Some(thread.clone());
        slot.route.bind(&thread, None);
        Ok(RunningTurn::new(slot, end, thread, started.turn))
    }
}

/// The registration of a turn that is being collected; removed when dropped.
#[derive(Debug)]
struct CollectionSlot {
    client: Client,
    /// `None` until a detached review has started.
    thread: Option<ThreadId>,
    route: Arc<TurnRoute>,
    /// The number of connections that were lost when the turn was requested.
    losses: u64,
}

impl CollectionSlot {
    fn register(
        client: &Client,
        thread: Option<ThreadId>,
        queue: Option<Arc<EventQueue>>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (route, end) = TurnRoute::new(client.shared().limits.turn_bytes, queue);
        client.shared().routes.open(thread.as_ref(), &route);
        let losses = client.shared().losses();
        (Self { client: client.clone(), thread, route, losses }, end)
    }
}

impl Drop for CollectionSlot {
    fn drop(&mut self) {
        self.client.shared().routes.close(self.thread.as_ref(), &self.route);
    }
}

/// A running turn. Dropping it interrupts the turn, unless the turn has ended or was [detached](Self::detach).
#[derive(Debug)]
pub struct RunningTurn {
    slot: CollectionSlot,
    thread: ThreadId,
    turn: Turn,
    events: Option<EventStream>,
    end: oneshot::Receiver<()>,
    began: Instant,
    is_attached: bool,
}

impl RunningTurn {
    fn new(slot: CollectionSlot, end: oneshot::Receiver<()>, thread: ThreadId, turn: Turn) -> Self {
        Self { slot, thread, turn, events: None, end, began: Instant::now(), is_attached: true }
    }

    /// Returns the turn's id; empty if the server did not name the turn.
    pub fn id(&self) -> &TurnId {
        &self.turn.id
    }

    /// Returns the thread of the turn.
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread
    }

    /// Returns `<thread>-<turn>`, an identifier of this turn for logs.
    pub fn session_id(&self) -> String {
        session_id(&self.thread, &self.turn)
    }

    /// Returns the next event of this turn, or `None` when it has ended or timed out. Events that are not read in time
    /// are dropped as [`EventStream`] describes; the result includes them anyway. A client that
    /// [reconnects](crate::ClientBuilder::resilient) drops no events of the turn: the server sends them again.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        loop {
            let deadline = self.next_deadline();
            let events = self.events.as_mut()?;
            tokio::select! {
                biased;
                event = events.next() => return event,
                () = self.slot.route.clock_changed.notified() => {}
                () = reached(deadline) => self.end_if_timed_out(),
            }
        }
    }

    /// Waits for the end of the turn and returns everything that happened in it, including events that were not read.
    pub async fn finish(mut self) -> Result<CompletedTurn, ClientError> {
        self.wait_until_over().await;
        self.result()
    }

    pub(crate) async fn wait_until_over(&mut self) {
        while !self.slot.route.is_over() {
            let deadline = self.next_deadline();
            tokio::select! {
                biased;
                _ = &mut self.end => return,
                () = self.slot.route.clock_changed.notified() => {}
                () = reached(deadline) => self.end_if_timed_out(),
            }
        }
    }

    pub(crate) fn result(mut self) -> Result<CompletedTurn, ClientError> {
        self.is_attached = false;
        self.slot.route.result(self.thread.clone(), self.turn.clone())
    }

    /// Adds input to the turn.
    pub async fn steer(&self, input: impl IntoInput) -> Result<TurnId, ClientError> {
        self.slot.client.steer_turn(&self.thread, &self.turn.id, input).await
    }

    /// Requests the interruption of the turn. Its end follows as an event.
    pub async fn interrupt(&self) -> Result<(), ClientError> {
        self.slot.client.interrupt_turn(&self.thread, &self.turn.id).await
    }

    /// Stops following the turn without interrupting it.
    pub fn detach(mut self) {
        self.is_attached = false;
    }

    /// Returns whether the turn has ended with its connection, before the agent did anything that a repetition would do
    /// twice. Input and the start of the turn do not count.
    pub fn was_cut_off(&self) -> bool {
        let has_reconnected = self.slot.client.shared().losses() > self.slot.losses;
        self.slot.route.was_cut_off(has_reconnected)
    }

    /// Returns the earlier of the turn's two deadlines; `None` if it has none, waits for a person, or is over.
    fn next_deadline(&self) -> Option<TurnDeadline> {
        if self.slot.route.is_over() {
            return None;
        }
        let timeouts = &self.slot.client.options().timeouts;
        let paused = self.slot.route.paused_time()?;
        let deadline = |since: Instant, within: Option<Duration>, missing: &'static str| {
            Some(TurnDeadline { at: since.checked_add(within?)?, within: within?, missing })
        };
        let whole = self.began.checked_add(paused).and_then(|began| deadline(began, timeouts.turn, "end"));
        let silence = deadline(self.slot.route.last_message_at(), timeouts.turn_silence, "message");
        whole.into_iter().chain(silence).min_by_key(|deadline| deadline.at)
    }

    /// Ends the turn if its deadline has passed. The deadline is computed again, since messages may have arrived
    /// meanwhile.
    fn end_if_timed_out(&self) {
        let deadline = self.next_deadline().filter(|deadline| deadline.at <= Instant::now());
        if let Some(TurnDeadline { within, missing, .. }) = deadline {
            self.slot.route.end(TurnOutcome::TimedOut(format!("no {missing} within {within:?}")));
            self.send_interrupt();
        }
    }

    fn send_interrupt(&self) {
        let params = TurnInterruptParams { thread_id: self.thread.clone(), turn_id: self.turn.id.clone() };
        self.slot.client.shared().send_and_forget::<TurnInterrupt>(&params);
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        if self.is_attached && !self.slot.route.is_over() && self.slot.client.is_connected() {
            self.send_interrupt();
        }
    }
}

/// A deadline of a turn.
struct TurnDeadline {
    at: Instant,
    /// The timeout that it comes from.
    within: Duration,
    /// What has not arrived by then.
    missing: &'static str,
}

async fn reached(deadline: Option<TurnDeadline>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.at).await,
        None => std::future::pending().await,
    }
}
