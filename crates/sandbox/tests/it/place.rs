//! A place for attempts: a workspace, something outside of it, and programs that listen.
//!
//! It lies below `/var/tmp`, because `/tmp` is writable under the default policy.

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

use crate::with::User;

pub struct Place {
    user: User,
    directory: TempDir,
}

impl Place {
    /// With files of their own for each of the names.
    pub fn new(user: User, names: &[String]) -> Self {
        let directory = tempfile::Builder::new().prefix("codicil-sandbox-").tempdir_in("/var/tmp").unwrap();
        let place = Self { user, directory };
        fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
        // A link is faster than a copy, but may lead to another disk.
        let helper = env!("CARGO_BIN_EXE_sandbox-attempt");
        fs::hard_link(helper, place.helper())
            .or_else(|_| fs::copy(helper, place.helper()).map(drop))
            .unwrap();
        for directory in ["workspace", "tmpdir", "outside"] {
            fs::create_dir(place.path(directory)).unwrap();
        }
        for name in names {
            place.write(&format!("outside/{name}/file"), "kept");
            fs::create_dir(place.path(&format!("outside/{name}/folder"))).unwrap();
            place.write(&format!("workspace/src/{name}/mine"), "mine");
            if name.starts_with("git") || name.ends_with("-config") || name == "unmount" {
                place.repository(&format!("workspace/repositories/{name}"));
            }
        }
        if !names.is_empty() {
            place.write("workspace/top", "top");
            place.repository("workspace");
        }
        place.own();
        place
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

    /// Writes a file, and what must be there for it.
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

    /// Gives everything but the helper to the user.
    pub fn own(&self) {
        if let Some(id) = self.user.id() {
            for name in ["workspace", "tmpdir", "outside"] {
                walk(&self.path(name), &mut |path| lchown(path, Some(id), Some(id)).unwrap());
            }
        }
    }

    /// Everything outside the workspace, and all metadata in it. Times and modes too, if `attributes`.
    pub fn untouchable(&self, attributes: bool) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let is_kept = |path: &Path| {
            let metadata = [".git", ".codex", ".codicil", ".agents", "store"];
            let inside = path.strip_prefix(self.workspace());
            path.starts_with(self.path("outside"))
                || inside.is_ok_and(|path| path.iter().any(|part| metadata.iter().any(|name| part == *name)))
        };
        walk(&self.path(""), &mut |path| {
            if is_kept(path) {
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

/// Parents come before children, links are not followed.
fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), visit));
    }
}

/// Programs outside that could be reached: on sockets of every kind, and as a process.
pub struct Neighbours {
    victim: Child,
    variables: Vec<(&'static str, String)>,
    _scratch: TempDir,
    _pipe: fs::File,
    listeners: (TcpListener, UdpSocket, UnixListener, UnixListener, UnixDatagram, UnixListener),
    _segment: Segment,
    _terminal: fs::File,
    _shared: NamedTempFile,
}

impl Neighbours {
    pub fn new(place: &Place) -> Self {
        let mut sleep = Command::new("sleep");
        place.user().become_in(sleep.arg("1000").stdin(Stdio::null()));
        let victim = sleep.spawn().unwrap();
        let scratch = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let name = format!("codicil-{}", victim.id());
        let (socket, datagram) = (place.path("outside/socket"), place.path("outside/datagram"));
        let in_tmp = scratch.path().join("socket");
        let listeners = (
            tcp,
            udp,
            UnixListener::bind(&socket).unwrap(),
            UnixListener::bind(&in_tmp).unwrap(),
            UnixDatagram::bind(&datagram).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
        );
        for path in [&socket, &datagram, &in_tmp] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        let pipe = scratch.path().with_extension("pipe");
        let pipe = place.path("outside").join(pipe.file_name().unwrap());
        assert!(Command::new("mkfifo").args(["-m", "777"]).arg(&pipe).status().unwrap().success());
        let reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        let segment = Segment::new(place.user());
        let (terminal, terminal_path) = terminal(place.user());
        let shared = shared_file(place);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let variables = vec![
            ("SCENE_OUTSIDE", text(&place.path("outside"))),
            ("SCENE_WORKSPACE", text(&place.workspace())),
            ("SCENE_VICTIM", victim.id().to_string()),
            ("SCENE_TCP_PORT", ports.0.to_string()),
            ("SCENE_UDP_PORT", ports.1.to_string()),
            ("SCENE_SOCKET", text(&socket)),
            ("SCENE_TMP_SOCKET", text(&in_tmp)),
            ("SCENE_DATAGRAM", text(&datagram)),
            ("SCENE_ABSTRACT", name),
            ("SCENE_PIPE", text(&pipe)),
            ("SCENE_SEGMENT", segment.0.to_string()),
            ("SCENE_TERMINAL", text(&terminal_path)),
            ("SCENE_SHARED", text(shared.path())),
        ];
        Self {
            victim,
            variables,
            _scratch: scratch,
            _pipe: reader,
            listeners,
            _segment: segment,
            _terminal: terminal,
            _shared: shared,
        }
    }

    /// What has been sent to the port of a neighbour; does not wait.
    pub fn datagram(&self) -> std::io::Result<usize> {
        let (_, udp, ..) = &self.listeners;
        udp.set_nonblocking(true)?;
        udp.recv(&mut [0; 8])
    }

    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// A piece of System V memory, gone when dropped.
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
        // SAFETY: removes a piece that this made; nothing is written through the pointer.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// A terminal of the user: the controlling end, and the path of the other one.
fn terminal(user: User) -> (fs::File, PathBuf) {
    use std::os::fd::AsRawFd;

    let mut options = fs::OpenOptions::new();
    let controller = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx").unwrap();
    let (mut number, unlocked) = (0_u32, 0_i32);
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

/// A file in the memory that programs share, where there is such a place.
fn shared_file(place: &Place) -> NamedTempFile {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("codicil-");
    let file =
        builder.tempfile_in("/dev/shm").or_else(|_| builder.tempfile_in(place.path("outside"))).unwrap();
    fs::set_permissions(file.path(), PermissionsExt::from_mode(0o666)).unwrap();
    if let Some(id) = place.user().id() {
        lchown(file.path(), Some(id), Some(id)).unwrap();
    }
    file
}
