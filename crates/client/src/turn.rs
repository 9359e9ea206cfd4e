//! Running a turn or a review and collecting what happens in it.

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

/// A review that completed.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedReview {
    /// The reviewer's whole text.
    pub review_text: String,
    /// Where it ran: the thread itself, or the new one of a detached review.
    pub review_thread_id: ThreadId,
    /// All that happened in it.
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
    /// A turn that fails, is interrupted, takes too long or needs an answer that this client does not give is an
    /// error; it holds what there was. Dropping the future interrupts the turn.
    pub async fn run_turn(&self, params: TurnStartParams) -> Result<CompletedTurn, ClientError> {
        self.begin(params, None).await?.finish().await
    }

    /// Starts a turn to be followed while it runs.
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
        let (queue, events) = EventQueue::new(&self.shared().limits);
        let mut turn = self.begin(params, Some(queue)).await?;
        turn.events = Some(events);
        Ok(turn)
    }

    /// Runs a review to its end, with the reviewer's text.
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

    /// Starts a review to be followed while it runs; [`CompletedReview::from`] makes a review of its result.
    pub async fn review(&self, params: ReviewStartParams) -> Result<RunningTurn, ClientError> {
        let (queue, events) = EventQueue::new(&self.shared().limits);
        let mut turn = self.begin_review(params, Some(queue)).await?;
        turn.events = Some(events);
        Ok(turn)
    }

    pub(crate) async fn begin(
        &self,
        params: TurnStartParams,
        queue: Option<Arc<EventQueue>>,
    ) -> Result<RunningTurn, ClientError> {
        let thread = params.thread_id.clone();
        let (place, end) = CollectionSlot::take(self, Some(thread.clone()), queue);
        let turn = self.call::<TurnStart>(params).await?.turn;
        // Servers that do not name their turns run one at a time on a thread.
        place.route.bind(&thread, Some(&turn.id).filter(|id| !id.is_empty()));
        Ok(RunningTurn::new(place, end, thread, turn))
    }

    async fn begin_review(
        &self,
        params: ReviewStartParams,
        queue: Option<Arc<EventQueue>>,
    ) -> Result<RunningTurn, ClientError> {
        let is_detached = params.delivery == Some(ReviewDelivery::Detached);
        let thread = (!is_detached).then(|| params.thread_id.clone());
        let (mut place, end) = CollectionSlot::take(self, thread, queue);
        let started = self.call::<ReviewStart>(params).await?;
        let thread = started.review_thread_id;
        self.shared().routes.place(&thread, &place.route);
        place.thread = Some(thread.clone());
        place.route.bind(&thread, None);
        Ok(RunningTurn::new(place, end, thread, started.turn))
    }
}

/// A turn's place among those that are being collected; given up when dropped.
#[derive(Debug)]
struct CollectionSlot {
    client: Client,
    /// Not known before a detached review has started.
    thread: Option<ThreadId>,
    route: Arc<TurnRoute>,
}

impl CollectionSlot {
    fn take(
        client: &Client,
        thread: Option<ThreadId>,
        queue: Option<Arc<EventQueue>>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (route, end) = TurnRoute::new(client.shared().limits.turn_bytes, queue);
        client.shared().routes.open(thread.as_ref(), &route);
        (Self { client: client.clone(), thread, route }, end)
    }
}

impl Drop for CollectionSlot {
    fn drop(&mut self) {
        self.client.shared().routes.close(self.thread.as_ref(), &self.route);
    }
}

/// A turn while it runs. Dropping it interrupts the turn, unless it has ended or was
/// [detached](Self::detach).
#[derive(Debug)]
pub struct RunningTurn {
    place: CollectionSlot,
    thread: ThreadId,
    turn: Turn,
    events: Option<EventStream>,
    end: oneshot::Receiver<()>,
    began: Instant,
    is_attached: bool,
}

impl RunningTurn {
    fn new(place: CollectionSlot, end: oneshot::Receiver<()>, thread: ThreadId, turn: Turn) -> Self {
        Self { place, thread, turn, events: None, end, began: Instant::now(), is_attached: true }
    }

    /// As the server named it; empty if it did not.
    pub fn id(&self) -> &TurnId {
        &self.turn.id
    }

    /// The thread that it runs on.
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread
    }

    /// `<thread>-<turn>`, a name for this piece of work in logs.
    pub fn session_id(&self) -> String {
        session_id(&self.thread, &self.turn)
    }

    /// The next event of this turn; `None` when it has ended, or its time is up. Events that are not read in
    /// time are dropped as [`EventStream`] says, and are part of the result all the same.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        loop {
            let limit = self.limit();
            let events = self.events.as_mut()?;
            tokio::select! {
                biased;
                event = events.next() => return event,
                () = reached(limit) => self.give_up_if_late(),
            }
        }
    }

    /// Waits for the end and returns everything that happened, however much of it was read.
    pub async fn finish(mut self) -> Result<CompletedTurn, ClientError> {
        self.until_over().await;
        self.result()
    }

    pub(crate) async fn until_over(&mut self) {
        while !self.place.route.is_over() {
            let limit = self.limit();
            tokio::select! {
                biased;
                _ = &mut self.end => return,
                () = reached(limit) => self.give_up_if_late(),
            }
        }
    }

    pub(crate) fn result(mut self) -> Result<CompletedTurn, ClientError> {
        self.is_attached = false;
        self.place.route.result(self.thread.clone(), self.turn.clone())
    }

    /// Adds input to the turn.
    pub async fn steer(&self, input: impl IntoInput) -> Result<TurnId, ClientError> {
        self.place.client.steer_turn(&self.thread, &self.turn.id, input).await
    }

    /// Stops the turn; its end follows.
    pub async fn interrupt(&self) -> Result<(), ClientError> {
        self.place.client.interrupt_turn(&self.thread, &self.turn.id).await
    }

    /// Lets go of the turn without stopping it.
    pub fn detach(mut self) {
        self.is_attached = false;
    }

    /// Whether the agent may have done anything that another try would do twice. Input and the start of the
    /// turn do not count.
    pub fn has_begun(&self) -> bool {
        self.place.route.has_begun()
    }

    /// When the turn takes too long, if it ever does.
    fn limit(&self) -> Option<(Instant, Duration)> {
        let timeouts = &self.place.client.options().timeouts;
        let whole = timeouts.turn.and_then(|time| Some((self.began.checked_add(time)?, time)));
        let heard = self.place.route.last_heard();
        let silence = timeouts.turn_silence.and_then(|time| Some((heard.checked_add(time)?, time)));
        whole.into_iter().chain(silence).min()
    }

    /// Messages may have come since the limit was worked out.
    fn give_up_if_late(&self) {
        if let Some((limit, time)) = self.limit().filter(|(limit, _)| *limit <= Instant::now()) {
            let kind = if limit == self.began + time { "no end" } else { "no message" };
            self.place.route.end(TurnOutcome::TimedOut(format!("{kind} within {time:?}")));
            self.stop();
        }
    }

    fn stop(&self) {
        let (thread_id, turn_id) = (self.thread.clone(), self.turn.id.clone());
        self.place.client.fire::<TurnInterrupt>(&TurnInterruptParams { thread_id, turn_id });
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        if self.is_attached && !self.place.route.is_over() && self.place.client.is_connected() {
            self.stop();
        }
    }
}

async fn reached(limit: Option<(Instant, Duration)>) {
    match limit {
        Some((instant, _)) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
