//! Nodes as processes that are killed and stopped at any moment, on a database that crashes.
//!
//! A node is this test program again, with [`NODE`] set. It notes in a file when it acts, and each line once the line was
//! reported as stored, as a server would tell its clients. At the end, each noted line is in the database once, and no
//! owner of a tree has acted after the next one.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, OpenOptions},
    io::{Read, Write, stdin},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use codicil_store_postgres::{
    Claim, LineBatch, NewThread, NodeLease, NodeSettings, PostgresError, PostgresStore, TreeLease,
};
use futures_util::future::join_all;
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use tokio::time;
use uuid::Uuid;

use crate::database::{TestDatabase, TestPostgres, batch, new_thread, node_settings, open_store, read_all};

/// The variable with the name of the node, the address of its database, its file of notes and the roots of its threads,
/// separated by newlines.
const NODE: &str = "CODICIL_TEST_NODE";
const TTL: Duration = Duration::from_millis(1500);
const WORKERS: usize = 4;

/// The kinds of notes: a line was stored in a thread; the owner of a tree acted, at an epoch and a time.
const STORED: &str = "stored ";
const ACTS: &str = "acts ";

/// The lines that have to be stored between two events.
const PROGRESS: usize = 40;

/// What happens to the nodes, while all that can go on goes on.
#[derive(Clone, Copy, Debug)]
enum NodeEvent {
    Kill(usize),
    /// For longer than the lease is valid.
    Stop(usize),
    CrashDatabase,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_written_twice_when_nodes_and_the_database_die() {
    let Some(server) = TestPostgres::start() else { return };
    let database = TestDatabase::create_on(Arc::new(server)).await;
    let store = database.open_store().await;
    let roots = create_released_threads(&store, 12).await;
    let notes = tempfile::tempdir().unwrap();
    let start = |at: usize| NodeProcess::start(&database, &roots, &format!("node{at}"), notes.path());
    let mut nodes = [0, 1, 2].map(start);

    use NodeEvent::{CrashDatabase, Kill, Stop};
    for event in [Kill(0), Stop(1), CrashDatabase, Kill(2), Stop(0), CrashDatabase, Kill(1)] {
        until_progress(notes.path()).await;
        match event {
            // The file of notes is continued, and the lease of the dead run has to end first.
            Kill(at) => nodes[at] = start(at),
            Stop(at) => {
                nodes[at].signal(Signal::STOP);
                time::sleep(TTL * 2).await;
                nodes[at].signal(Signal::CONT);
            }
            CrashDatabase => {
                let server = database.server.clone();
                tokio::task::spawn_blocking(move || server.crash_and_restart()).await.unwrap();
            }
        }
    }
    until_progress(notes.path()).await;
    drop(nodes);

    take_everything(&store, &roots).await;
    check_stored_lines(&store, notes.path()).await;
    check_one_node_acts(notes.path());
    database.check().await;
}

/// Creates threads that no node owns.
async fn create_released_threads(store: &PostgresStore, count: usize) -> Vec<Uuid> {
    let creator = NodeLease::register(store, node_settings("creator", 600)).await.unwrap();
    let threads: Vec<_> = (0..count).map(|_| new_thread()).collect();
    for thread in &threads {
        store.create(creator.identity(), thread).await.unwrap();
    }
    creator.release().await.unwrap();
    threads.iter().map(|thread| thread.id).collect()
}

/// Takes every tree from the dead nodes.
async fn take_everything(store: &PostgresStore, roots: &[Uuid]) {
    let last = NodeLease::register(store, node_settings("last", 600)).await.unwrap();
    for root in roots {
        while let Claim::OwnedElsewhere(_) = store.claim(last.identity(), *root).await.unwrap() {
            time::sleep(TTL / 10).await;
        }
    }
    assert_eq!(store.nodes().await.unwrap().first().map(|node| node.trees), Some(roots.len() as i64));
}

/// Waits until the nodes have stored some more lines.
async fn until_progress(notes: &Path) {
    let before = read_notes(notes, STORED).len();
    while read_notes(notes, STORED).len() < before + PROGRESS {
        time::sleep(Duration::from_millis(20)).await;
    }
}

async fn check_stored_lines(store: &PostgresStore, notes: &Path) {
    let notes = read_notes(notes, STORED);
    assert!(notes.len() >= 7 * PROGRESS);
    let mut threads: Vec<Uuid> = notes.iter().map(|(thread, _)| *thread).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        let text = read_all(store, thread).await;
        for (_, line) in notes.iter().filter(|(noted, _)| *noted == thread) {
            assert_eq!(text.lines().filter(|stored| stored == line).count(), 1, "{thread}: {line}");
        }
    }
}

/// Checks that no owner of a tree has acted after the next one began: a node stops before others may take over.
fn check_one_node_acts(notes: &Path) {
    let mut trees: BTreeMap<Uuid, BTreeMap<i64, (u64, u64)>> = BTreeMap::new();
    for (root, act) in read_notes(notes, ACTS) {
        let (epoch, at) = act.split_once(' ').unwrap();
        let at: u64 = at.parse().unwrap();
        let (first, last) = trees.entry(root).or_default().entry(epoch.parse().unwrap()).or_insert((at, at));
        *first = at.min(*first);
        *last = at.max(*last);
    }
    for (root, acts) in trees {
        assert!(acts.values().is_sorted_by(|(_, last), (first, _)| last < first), "{root}: {acts:?}");
    }
}

/// Returns the nanoseconds since the machine was started.
fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// Returns the notes of all nodes of a kind, each with its thread. A note that was cut off was not made.
fn read_notes(notes: &Path, kind: &str) -> Vec<(Uuid, String)> {
    let mut found = Vec::new();
    for file in fs::read_dir(notes).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        found.extend(whole.filter_map(|line| {
            let (thread, note) = line.strip_prefix(kind)?.split_once(' ')?;
            Some((thread.parse().ok()?, note.to_owned()))
        }));
    }
    found
}

/// A running node. Dropping it kills it.
struct NodeProcess(Child);

impl NodeProcess {
    fn start(database: &TestDatabase, roots: &[Uuid], name: &str, notes: &Path) -> Self {
        let notes = notes.join(format!("{name}-{}", Uuid::now_v7()));
        let roots: Vec<_> = roots.iter().map(Uuid::to_string).collect();
        let settings = [name.to_owned(), database.address(), notes.display().to_string(), roots.join("\n")];
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "node_processes::node"]).env(NODE, settings.join("\n"));
        // The node ends with its standard input, should the tests be killed.
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The program of a node. Without its variable, this is an empty test.
#[test]
fn node() {
    let Ok(settings) = env::var(NODE) else { return };
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut settings = settings.lines().map(str::to_owned);
    let mut next = || settings.next().unwrap();
    let (name, address, notes) = (next(), next(), PathBuf::from(next()));
    let roots = settings.map(|root| root.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(TestNode { name, notes, roots }.run(&address));
}

struct TestNode {
    name: String,
    notes: PathBuf,
    roots: Vec<Uuid>,
}

impl TestNode {
    async fn run(&self, address: &str) {
        let store = open_store(address).await;
        let mut lease = self.register(&store).await;
        loop {
            let workers = join_all((0..WORKERS).map(|worker| self.work(&store, &lease, worker)));
            // The workers, and what they wait for, end with the lease.
            tokio::select! {
                () = lease.lost() => {}
                _ = workers => {}
            }
            drop(lease);
            lease = self.register(&store).await;
        }
    }

    /// Registers, as soon as an earlier run of this name has expired.
    async fn register(&self, store: &PostgresStore) -> NodeLease {
        loop {
            let settings = NodeSettings { ttl: TTL, ..node_settings(&self.name, 0) };
            match NodeLease::register(store, settings).await {
                Ok(lease) => return lease,
                Err(PostgresError::NameInUse { .. } | PostgresError::Unavailable(_)) => {
                    time::sleep(TTL / 10).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Writes to some of the threads, in turns with other nodes.
    async fn work(&self, store: &PostgresStore, lease: &NodeLease, worker: usize) {
        loop {
            let mine: Vec<_> = self.roots.iter().skip(worker).step_by(WORKERS).collect();
            let root = **fastrand::choice(&mine).unwrap();
            match self.work_on(store, lease, root).await {
                Ok(())
                | Err(
                    PostgresError::Overtaken { .. }
                    | PostgresError::Unavailable(_)
                    | PostgresError::Exists(_),
                ) => {}
                Err(error) => panic!("{error}"),
            }
            time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
        }
    }

    async fn work_on(
        &self,
        store: &PostgresStore,
        lease: &NodeLease,
        root: Uuid,
    ) -> Result<(), PostgresError> {
        let Claim::Held(tree) = store.claim(lease.identity(), root).await? else { return Ok(()) };
        let threads = store.tree(&tree).await?;
        if threads.len() < 4 && fastrand::u8(0..8) == 0 {
            store.spawn_child(&tree, &NewThread { parent: Some(root), ..new_thread() }).await?;
        }
        let thread = threads[fastrand::usize(0..threads.len())];
        for ordinal in (thread.next..).take(3) {
            let at = boot_time();
            if !lease.may_act() {
                return Ok(());
            }
            self.note(ACTS, root, &format!("{} {at}", tree.epoch.0));
            self.append(store, &tree, thread.id, ordinal).await?;
        }
        if fastrand::u8(0..4) == 0 {
            store.release(&tree).await?;
        }
        Ok(())
    }

    /// Appends a line that no other append writes, and notes it.
    async fn append(
        &self,
        store: &PostgresStore,
        tree: &TreeLease,
        thread: Uuid,
        ordinal: u64,
    ) -> Result<(), PostgresError> {
        let line = format!("{{\"ordinal\":{ordinal},\"line\":\"{}\"}}", Uuid::now_v7());
        let lines = format!("{line}\n").into_bytes();
        store.append(LineBatch { lines, ..batch(thread, tree.epoch, ordinal) }).await?;
        self.note(STORED, thread, &line);
        Ok(())
    }

    fn note(&self, kind: &str, thread: Uuid, note: &str) {
        let mut notes = OpenOptions::new().create(true).append(true).open(&self.notes).unwrap();
        notes.write_all(format!("{kind}{thread} {note}\n").as_bytes()).unwrap();
    }
}
