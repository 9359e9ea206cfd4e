//! The files for a test: a workspace, a folder outside of it, and programs outside that listen on sockets.
//!
//! The tree is below `/var/tmp`, because `/tmp` is writable under the default policy. What else is in `/tmp` must not
//! matter: another program may have left a protected name such as `.codex` there, and then Landlock alone refuses new
//! entries directly in `/tmp`. So each tree also has its own folder below `/tmp`.

use std::{
    collections::BTreeMap,
    fs,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown},
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::{NamedTempFile, TempDir};

use crate::backend::User;

pub struct TestTree {
    user: User,
    directory: TempDir,
    /// A folder below `/tmp`.
    scratch: TempDir,
}

impl TestTree {
    /// Creates a tree with separate files for each of the names.
    pub fn new(user: User, names: &[String]) -> Self {
        let create = |parent: &str| {
            let directory = tempfile::Builder::new().prefix("codicil-sandbox-").tempdir_in(parent).unwrap();
            fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
            directory
        };
        let tree = Self { user, directory: create("/var/tmp"), scratch: create("/tmp") };
        // A hard link is faster than a copy, but does not work between two file systems.
        let helper = env!("CARGO_BIN_EXE_sandbox-attempt");
        fs::hard_link(helper, tree.helper()).or_else(|_| fs::copy(helper, tree.helper()).map(drop)).unwrap();
        for directory in ["workspace", "tmpdir", "outside"] {
            fs::create_dir(tree.path(directory)).unwrap();
        }
        for name in names {
            tree.write(&format!("outside/{name}/file"), "kept");
            fs::create_dir(tree.path(&format!("outside/{name}/folder"))).unwrap();
            tree.write(&format!("workspace/src/{name}/mine"), "mine");
            if name.starts_with("git") || name.ends_with("-config") || name == "unmount" {
                tree.repository(&format!("workspace/repositories/{name}"));
            }
        }
        if !names.is_empty() {
            tree.write("workspace/top", "top");
            tree.repository("workspace");
        }
        tree.own();
        tree
    }

    pub fn user(&self) -> User {
        self.user
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    pub fn helper(&self) -> PathBuf {
        self.path("helper")
    }

    /// Returns a folder below `/tmp`.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a file, and creates its parent folders.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn repository(&self, name: &str) {
        for file in [".git/config", ".codex/config", ".codicil/config", ".agents/config", "store/config"] {
            self.write(&format!("{name}/{file}"), "kept");
        }
        fs::create_dir(self.path(&format!("{name}/.git/hooks"))).unwrap();
        self.write(&format!("{name}/tree/.git"), "gitdir: ../store\n");
    }

    /// Makes the user the owner of everything except the helper.
    pub fn own(&self) {
        if let Some(id) = self.user.id() {
            let folders = ["workspace", "tmpdir", "outside"].map(|name| self.path(name));
            for folder in folders.iter().map(PathBuf::as_path).chain([self.scratch()]) {
                walk(folder, &mut |path| lchown(path, Some(id), Some(id)).unwrap());
            }
        }
    }

    /// Returns the contents of everything outside the workspace and of the metadata in it, and with `attributes` also
    /// modes, times and owners.
    pub fn untouchable(&self, attributes: bool) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let is_untouchable = |path: &Path| {
            let metadata = [".git", ".codex", ".codicil", ".agents", "store"];
            let inside = path.strip_prefix(self.workspace());
            path.starts_with(self.path("outside"))
                || inside.is_ok_and(|path| path.iter().any(|part| metadata.iter().any(|name| part == *name)))
        };
        walk(&self.path(""), &mut |path| {
            if is_untouchable(path) {
                let is = fs::symlink_metadata(path).unwrap();
                let text = if is.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
                let details =
                    attributes.then(|| format!("{:o} {:?} {}", is.mode(), is.modified().unwrap(), is.uid()));
                found.insert(path.to_path_buf(), format!("{:?} {text} {details:?}", is.file_type()));
            }
        });
        found
    }
}

/// Visits parents before children. Does not follow links.
fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), visit));
    }
}

/// Programs outside the sandbox: a process, and listeners on sockets of every kind.
pub struct OutsidePrograms {
    victim: Child,
    variables: Vec<(&'static str, String)>,
    udp: UdpSocket,
    _tcp: TcpListener,
    _unix: [UnixListener; 3],
    _datagram: UnixDatagram,
    _pipe: fs::File,
    _segment: Segment,
    _terminal: fs::File,
    _shared: NamedTempFile,
}

impl OutsidePrograms {
    pub fn new(tree: &TestTree) -> Self {
        let mut sleep = Command::new("sleep");
        tree.user().become_in(sleep.arg("1000").stdin(Stdio::null()));
        let victim = sleep.spawn().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let abstract_name = format!("codicil-{}", victim.id());
        let socket = tree.path("outside/socket");
        let datagram_socket = tree.path("outside/datagram");
        let scratch_socket = tree.scratch().join("socket");
        let unix = [
            UnixListener::bind(&socket).unwrap(),
            UnixListener::bind(&scratch_socket).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
        ];
        let datagram = UnixDatagram::bind(&datagram_socket).unwrap();
        for path in [&socket, &datagram_socket, &scratch_socket] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        let pipe = tree.path("outside/pipe");
        assert!(Command::new("mkfifo").args(["-m", "777"]).arg(&pipe).status().unwrap().success());
        let reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        let segment = Segment::new(tree.user());
        let (terminal, terminal_path) = terminal(tree.user());
        let shared = shared_file(tree);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let variables = vec![
            ("ATTEMPT_OUTSIDE", text(&tree.path("outside"))),
            ("ATTEMPT_WORKSPACE", text(&tree.workspace())),
            ("ATTEMPT_TMP", text(tree.scratch())),
            ("ATTEMPT_VICTIM", victim.id().to_string()),
            ("ATTEMPT_TCP_PORT", tcp.local_addr().unwrap().port().to_string()),
            ("ATTEMPT_UDP_PORT", udp.local_addr().unwrap().port().to_string()),
            ("ATTEMPT_SOCKET", text(&socket)),
            ("ATTEMPT_TMP_SOCKET", text(&scratch_socket)),
            ("ATTEMPT_DATAGRAM", text(&datagram_socket)),
            ("ATTEMPT_ABSTRACT", abstract_name),
            ("ATTEMPT_PIPE", text(&pipe)),
            ("ATTEMPT_SEGMENT", segment.0.to_string()),
            ("ATTEMPT_TERMINAL", text(&terminal_path)),
            ("ATTEMPT_SHARED", text(shared.path())),
        ];
        Self {
            victim,
            variables,
            udp,
            _tcp: tcp,
            _unix: unix,
            _datagram: datagram,
            _pipe: reader,
            _segment: segment,
            _terminal: terminal,
            _shared: shared,
        }
    }

    /// Receives what has been sent to the UDP port. Does not wait.
    pub fn received_datagram(&self) -> std::io::Result<usize> {
        self.udp.set_nonblocking(true)?;
        self.udp.recv(&mut [0; 8])
    }

    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl Drop for OutsidePrograms {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// A segment of System V memory, removed on drop.
struct Segment(i32);

impl Segment {
    fn new(user: User) -> Self {
        // SAFETY: plain numbers; the structure is filled by the first call and read by the second.
        let id = unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
            assert_ne!(id, -1, "System V memory");
            let mut is: libc::shmid_ds = std::mem::zeroed();
            assert_eq!(libc::shmctl(id, libc::IPC_STAT, &mut is), 0);
            if let Some(user) = user.id() {
                is.shm_perm.uid = user;
                assert_eq!(libc::shmctl(id, libc::IPC_SET, &mut is), 0);
            }
            id
        };
        Self(id)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: removes a segment that this type created; nothing is written through the pointer.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Opens a terminal of the user. Returns the controlling end and the path of the other one.
fn terminal(user: User) -> (fs::File, PathBuf) {
    use std::os::fd::AsRawFd;

    let mut options = fs::OpenOptions::new();
    let controller = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx").unwrap();
    let mut number = 0_u32;
    let unlocked = 0_i32;
    // SAFETY: these two requests read and write one int each.
    unsafe {
        assert_eq!(libc::ioctl(controller.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked), 0);
        assert_eq!(libc::ioctl(controller.as_raw_fd(), libc::TIOCGPTN, &raw mut number), 0);
    }
    let path = PathBuf::from(format!("/dev/pts/{number}"));
    if let Some(id) = user.id() {
        lchown(&path, Some(id), Some(id)).unwrap();
    }
    (controller, path)
}

/// Creates a file in shared memory, or in the tree if the machine has no `/dev/shm`.
fn shared_file(tree: &TestTree) -> NamedTempFile {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("codicil-");
    let file =
        builder.tempfile_in("/dev/shm").or_else(|_| builder.tempfile_in(tree.path("outside"))).unwrap();
    fs::set_permissions(file.path(), PermissionsExt::from_mode(0o666)).unwrap();
    if let Some(id) = tree.user().id() {
        lchown(file.path(), Some(id), Some(id)).unwrap();
    }
    file
}
