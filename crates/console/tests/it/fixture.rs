//! A server with a scripted model, and a console in front of it.

use std::{fs, time::Duration};

use codicil_client::{Client, InProcessServer, ServerAddress, protocol::*};
use codicil_config::{ConfigSources, ConfigStore, HomeDirectory};
use codicil_console::{ConsoleOptions, ConsoleServer, SessionKey, SignIn};
use codicil_server::{Server, ServerSetup, connect};
use codicil_store::Store;
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::browser::{Browser, EventReader, PageEvent};

/// A server and its console.
pub struct Fixture {
    pub home: TempDir,
    /// The directory of threads. Commands cannot reach the home.
    pub work: TempDir,
    pub server: Server,
    pub link: String,
    pub browser: Browser,
    stop: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

impl Fixture {
    /// Starts a server whose model follows a script.
    pub async fn start(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let script_file = home.path().join("script.toml");
        fs::write(&script_file, script).unwrap();
        let work = tempfile::tempdir().unwrap();
        let config = format!(
            "model = \"scripted\"\nmodel_provider = \"script\"\napproval_policy = \"untrusted\"\nsandbox_mode = \"workspace-write\"\n\
             allow_login_shell = false\n[model_providers.script]\nname = \"script\"\nwire_api = \"scripted\"\nscript = {script_file:?}\n"
        );
        fs::write(home.path().join("config.toml"), config).unwrap();
        Self::open(home, work).await
    }

    async fn open(home: TempDir, work: TempDir) -> Self {
        let sources = ConfigSources::of(HomeDirectory::new(home.path()).unwrap());
        let setup = ServerSetup {
            cwd: work.path().to_path_buf(),
            store: Store::open(home.path().to_path_buf()).unwrap(),
            config: ConfigStore::new(sources),
            protocol: codicil_server::ProtocolDefaults::default(),
            allow_unauthenticated: false,
        };
        let server = Server::new(setup);
        let options = ConsoleOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            sign_in: SignIn::Links,
            key: SessionKey::at(&home.path().join("console.key")).unwrap(),
            host_names: Vec::new(),
            is_behind_tls: false,
        };
        let console = ConsoleServer::start(address(&server), options).await.unwrap();
        let link = console.sign_in_link().unwrap();
        let first = console.sign_in_link().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(console.serve(stop.clone()));
        let browser = Browser::sign_in(&first).await;
        Self { home, work, server, link, browser, stop, task }
    }

    /// Starts a client of the same server that answers nothing.
    pub async fn client(&self) -> Client {
        let builder = Client::builder().handler(codicil_client::ask(|_| std::future::pending()));
        builder.connect(address(&self.server)).await.unwrap()
    }

    /// Starts a thread through the console. Returns its id.
    pub async fn new_thread(&self, text: &str) -> ThreadId {
        let cwd = self.work.path().to_str().unwrap();
        let response = self.browser.post("/new", &[("cwd", cwd), ("text", text)]).await;
        assert_eq!(response.status, 303, "{response:?}");
        ThreadId::from(response.header("location").unwrap().strip_prefix("/threads/").unwrap())
    }

    /// Ends the console and the server, and starts both again on the same home.
    pub async fn restart(self) -> Self {
        let Self { home, work, server, stop, task, .. } = self;
        stop.cancel();
        task.await.unwrap().unwrap();
        server.stop().await;
        Self::open(home, work).await
    }

    pub async fn stop(self) {
        self.stop.cancel();
        soon(self.task).await.unwrap().unwrap();
        self.server.stop().await;
    }
}

fn address(server: &Server) -> ServerAddress {
    let server = server.clone();
    InProcessServer::new(move || connect(&server).split()).into()
}

/// Waits for something that is about to happen. The limit is far above what any machine needs.
pub async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(120), future).await.expect("it takes too long")
}

/// Reads events until one fulfils a condition. Returns all of them.
pub async fn read_until(
    events: &mut EventReader,
    mut is_last: impl FnMut(&PageEvent) -> bool,
) -> Vec<PageEvent> {
    let mut read = Vec::new();
    loop {
        let event = soon(events.next()).await.expect("the stream has ended");
        let is_done = is_last(&event);
        read.push(event);
        if is_done {
            return read;
        }
    }
}
