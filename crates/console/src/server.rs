//! The HTTP server: its connections to the app-server, its routes and its tasks.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    routing::{get, post},
};
use codicil_client::{
    Client, ClientBuilder, ClientError, ReconnectOptions, ServerAddress, protocol::ProtocolGeneration,
};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{SessionKey, SessionLayer, SignIn},
    actions,
    live::{self, OverviewTask, ThreadHubs},
    pages,
    questions::{LiveQuestions, QuestionBoardTask, QuestionHandler},
    state::{Console, ConsoleParts},
    thread_tokens::ThreadTokens,
};

/// How a console is reached and who may use it.
#[derive(Clone)]
pub struct ConsoleOptions {
    pub listen: SocketAddr,
    pub sign_in: SignIn,
    pub key: SessionKey,
    /// Host names under which a proxy makes the console available, beside addresses and `localhost`.
    pub host_names: Vec<String>,
    /// Whether browsers reach the console over TLS, through a proxy.
    pub is_behind_tls: bool,
}

/// The reason why a console cannot start.
#[derive(Debug, Error)]
pub enum ConsoleError {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("cannot connect to the server: {0}")]
    Connect(ClientError),
    #[error("no random numbers are available: {0}")]
    Random(io::Error),
}

/// A console that listens.
pub struct ConsoleServer {
    listener: TcpListener,
    address: SocketAddr,
    sessions: SessionLayer,
    console: Console,
    tasks: TaskTracker,
}

impl ConsoleServer {
    /// Connects to a server and begins to listen. Must be called within a tokio runtime.
    pub async fn start(server: ServerAddress, options: ConsoleOptions) -> Result<Self, ConsoleError> {
        let listening = TcpListener::bind(options.listen).await;
        let failed = |error| ConsoleError::Listen { address: options.listen, error };
        let listener = listening.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tasks = TaskTracker::new();
        let stopping = CancellationToken::new();

        let live = Arc::new(LiveQuestions::default());
        let subscriber = builder().handler(QuestionHandler(live.clone()));
        let threads_client = subscriber.connect(server.clone()).await.map_err(ConsoleError::Connect)?;
        let (client, events) = builder().connect_with_events(server).await.map_err(ConsoleError::Connect)?;
        let hubs = ThreadHubs::new(threads_client.clone(), tasks.clone(), stopping.clone());
        let (board_task, questions) =
            QuestionBoardTask::new(client.clone(), threads_client.clone(), hubs.clone(), live);
        let (overview_task, overview) = OverviewTask::new(client.clone(), events, questions.clone());
        spawn(&tasks, &stopping, board_task.run());
        spawn(&tasks, &stopping, overview_task.run());

        let sessions = SessionLayer::new(options.key, options.sign_in, address)
            .behind_proxy(options.host_names, options.is_behind_tls);
        let console = Console::new(ConsoleParts {
            access: sessions.access(),
            client,
            threads_client,
            hubs,
            overview,
            questions,
            stopping,
            models: Mutex::new(None),
            tokens: ThreadTokens::default(),
        });
        Ok(Self { listener, address, sessions, console, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a link that signs in one browser, once.
    pub fn sign_in_link(&self) -> Result<String, ConsoleError> {
        self.sessions.sign_in_link().map_err(ConsoleError::Random)
    }

    /// Serves browsers until `stop` is cancelled.
    pub async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let stopping = self.console.stopping.clone();
        let routes = self.sessions.protect(router(self.console.clone()));
        let end = async move {
            stop.cancelled().await;
            // Ends the event streams, which would keep their connections open.
            stopping.cancel();
        };
        let served = axum::serve(self.listener, routes).with_graceful_shutdown(end).await;
        self.console.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        served
    }
}

fn builder() -> ClientBuilder {
    let never_give_up = ReconnectOptions { give_up_after: None, ..ReconnectOptions::default() };
    Client::builder()
        .name("codicil-console", env!("CARGO_PKG_VERSION"))
        .title("Codicil console")
        .protocol(ProtocolGeneration::V166)
        .resilient(never_give_up)
}

fn spawn(tasks: &TaskTracker, stopping: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
    let stopping = stopping.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = task => {}
            () = stopping.cancelled() => {}
        }
    });
}

/// The whole surface of the console on one page.
fn router(console: Console) -> Router {
    Router::new()
        .route("/", get(pages::threads))
        .route("/new", get(actions::new_thread).post(actions::create_thread))
        .route("/inbox", get(pages::inbox))
        .route("/status", get(pages::status))
        .route("/questions/{key}", post(actions::answer_question))
        .route("/threads/{thread}", get(pages::thread))
        .route("/threads/{thread}/diff", get(pages::thread_diff))
        .route("/threads/{thread}/older", get(pages::older_turns))
        .route("/threads/{thread}/export", get(pages::export))
        .route("/threads/{thread}/input", post(actions::send_input))
        .route("/threads/{thread}/queue", get(pages::queue).post(actions::remove_queued))
        .route("/threads/{thread}/settings", get(pages::next_turn).post(actions::change_settings))
        .route("/threads/{thread}/rename", post(actions::rename_thread))
        .route("/threads/{thread}/archive", post(actions::archive_thread))
        .route("/threads/{thread}/unarchive", post(actions::unarchive_thread))
        .route("/threads/{thread}/delete", post(actions::delete_thread))
        .route("/threads/{thread}/fork", post(actions::fork_thread))
        .route("/threads/{thread}/undo", post(actions::undo_last_turn))
        .route("/threads/{thread}/compact", post(actions::compact_thread))
        .route("/threads/{thread}/review", post(actions::review_thread))
        .route("/threads/{thread}/terminals", get(actions::terminals).post(actions::end_terminal))
        .route("/threads/{thread}/complete/files", get(actions::complete_files))
        .route("/threads/{thread}/complete/skills", get(actions::complete_skills))
        .route("/threads/{thread}/turns/{turn}/items", get(pages::turn_items))
        .route("/threads/{thread}/turns/{turn}/diff", get(pages::turn_diff))
        .route("/threads/{thread}/turns/{turn}/fork", post(actions::fork_turn))
        .route("/threads/{thread}/turns/{turn}/revert", post(actions::revert_turn))
        .route("/threads/{thread}/turns/{turn}/items/{item}/diff", get(pages::item_diff))
        .route("/threads/{thread}/turns/{turn}/items/{item}/output", get(pages::all_output))
        .route("/threads/{thread}/turns/{turn}/items/{item}/images/{index}", get(pages::image))
        .route("/complete/directories", get(actions::complete_directories))
        .route("/events", get(live::events))
        .route("/device", get(pages::device_link))
        .with_state(console)
}
