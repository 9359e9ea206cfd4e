//! Shortcuts for threads and turns.

use codicil_protocol::{
    Thread, ThreadRead, ThreadReadParams, ThreadResume, ThreadResumeParams, ThreadStart, ThreadStartParams,
    ThreadStarted, Turn, TurnCompleted, TurnInterrupt, TurnInterruptParams, TurnStart, TurnStartParams,
    TurnStatus, UserInput,
};

use super::client::TestClient;

impl TestClient {
    /// Starts a thread in the workspace and reads its announcement.
    pub async fn start_thread(&mut self) -> Thread {
        self.start_thread_with(ThreadStartParams::default()).await
    }

    /// Starts a thread with settings and reads its announcement. The default working directory is the workspace.
    pub async fn start_thread_with(&mut self, mut params: ThreadStartParams) -> Thread {
        let workspace = self.workspace().to_string_lossy().into_owned();
        params.cwd.get_or_insert(workspace);
        let thread = self.call::<ThreadStart>(params).await.thread;
        if !self.has_opted_out_of::<ThreadStarted>() {
            self.take::<ThreadStarted>().await;
        }
        thread
    }

    /// Starts a turn with a line of text.
    pub async fn start_turn(&mut self, thread: &Thread, text: &str) -> Turn {
        let turn = self.call::<TurnStart>(turn_params(thread, text)).await.turn;
        self.inbox.running.insert(turn.id.to_string(), thread.id.to_string());
        turn
    }

    /// Starts a turn and reads everything up to its end.
    pub async fn run_turn(&mut self, thread: &Thread, text: &str) -> Turn {
        let turn = self.start_turn(thread, text).await;
        self.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await.turn
    }

    /// Interrupts a turn that this client has seen start.
    pub async fn interrupt(&mut self, turn: &Turn) {
        let thread = self.inbox.running.get(&*turn.id).expect("the turn is running").as_str();
        let params = TurnInterruptParams { thread_id: thread.into(), turn_id: turn.id.clone() };
        self.call::<TurnInterrupt>(params).await;
    }

    /// Reads a thread with its turns, without loading it.
    pub async fn read(&mut self, thread: &Thread) -> Thread {
        let params = ThreadReadParams { thread_id: thread.id.clone(), include_turns: true };
        self.call::<ThreadRead>(params).await.thread
    }

    /// Loads a stored thread, or joins a loaded one.
    pub async fn resume(&mut self, thread: &Thread) -> Thread {
        let thread = self.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await.thread;
        let running = thread.turns.iter().filter(|turn| turn.status == TurnStatus::InProgress);
        self.inbox.running.extend(running.map(|turn| (turn.id.to_string(), thread.id.to_string())));
        thread
    }
}

/// Returns the params of a turn with one text.
fn turn_params(thread: &Thread, text: &str) -> TurnStartParams {
    let input = UserInput::Text { text: text.to_owned(), text_elements: Vec::new() };
    TurnStartParams::new(thread.id.clone(), vec![input])
}
