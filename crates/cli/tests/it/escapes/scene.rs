//! The files of the attempts: the server's home, another running program, and, for each run of attempts, a
//! workspace and a directory that they must not change.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, lchown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;
use tempfile::TempDir;

use super::mode::Mode;

/// Used for every credential: in the server's environment, in its home, in files that must not be read.
pub const SECRET: &str = "escape-secret-value";

const TOOLS: [(&str, &str); 6] = [
    ("escape.py", include_str!("tools/escape.py")),
    ("neighbour.py", include_str!("tools/neighbour.py")),
    ("without.py", include_str!("tools/without.py")),
    ("client.py", include_str!("tools/client.py")),
    ("daemon.py", include_str!("tools/daemon.py")),
    ("flip.py", include_str!("tools/flip.py")),
];

/// The files that all runs of one mode share.
pub struct Scene {
    root: TempDir,
    /// Below `/tmp`, which is itself a writable root, for workspaces inside another root.
    nested: TempDir,
    pub mode: Mode,
    home: PathBuf,
    neighbour: Child,
    /// Variables with the addresses of the other program's resources.
    neighbour_things: Vec<(String, String)>,
    runs: AtomicUsize,
}

impl Scene {
    /// Most of it is below `/var/tmp`, because `/tmp` is writable under the policies.
    pub fn new(mode: Mode) -> Self {
        Self::with_home(mode, "home")
    }

    /// A scene whose server's home is inside a directory that can be a workspace.
    pub fn with_home_inside(mode: Mode) -> Self {
        Self::with_home(mode, "shared/home")
    }

    fn with_home(mode: Mode, home: &str) -> Self {
        let root = directory_in("/var/tmp");
        let nested = directory_in("/tmp");
        for name in ["server", "person", "tools", "scripts", "runs", "neighbour", "granted"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        fs::create_dir(nested.path().join("tmpdir")).unwrap();
        for (name, text) in TOOLS {
            fs::write(root.path().join("tools").join(name), text).unwrap();
        }
        let home = root.path().join(home);
        fill_home(&home);
        for path in [root.path(), nested.path()] {
            give(path, mode.user_id());
        }
        // A setuid program, if the tester may create one.
        let _ = fs::copy("/usr/bin/id", root.path().join("setuid-id"));
        let _ = fs::set_permissions(root.path().join("setuid-id"), PermissionsExt::from_mode(0o4755));
        let (neighbour, neighbour_things) = start_neighbour(mode, root.path());
        Self { root, nested, mode, home, neighbour, neighbour_things, runs: AtomicUsize::new(0) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A directory below `/tmp`.
    pub fn nested(&self, name: &str) -> PathBuf {
        self.nested.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.home.clone()
    }

    /// The server's `TMPDIR`, below `/tmp`.
    pub fn tmpdir(&self) -> PathBuf {
        self.nested("tmpdir")
    }

    /// Restores `TMPDIR` if an attempt has replaced it.
    pub fn restore_tmpdir(&self) {
        if fs::remove_file(self.tmpdir()).is_ok() {
            fs::create_dir(self.tmpdir()).unwrap();
            self.give(&self.tmpdir());
        }
    }

    /// Recreates a home inside a workspace, and with it the workspace.
    pub fn reset_home(&self) {
        let shared = self.home.parent().unwrap();
        let _ = fs::remove_dir_all(shared);
        fill_home(&self.home);
        self.give(shared);
    }

    /// Returns a run in this directory, which is removed afterwards.
    pub fn workspace_run(&self, work: &Path) -> Run<'_> {
        let number = self.number();
        let outside = self.path("runs").join(&number).join("outside");
        Run::new(self, number, work.to_owned(), outside)
    }

    pub fn tool(&self, name: &str) -> PathBuf {
        self.path("tools").join(name)
    }

    /// Writes a file that every user can read.
    pub fn write(&self, path: &Path, text: &str) {
        write(path, text);
        self.give(path);
    }

    /// Makes the server's user the owner, of everything below as well.
    pub fn give(&self, path: &Path) {
        give(path, self.mode.user_id());
    }

    /// Returns a new run with a workspace in the usual place.
    pub fn run(&self) -> Run<'_> {
        let number = self.number();
        let base = self.path("runs").join(&number);
        Run::new(self, number, base.join("work"), base.join("outside"))
    }

    /// Returns a new run whose workspace is below `/tmp`, and so within another writable root.
    pub fn nested_run(&self) -> Run<'_> {
        let number = self.number();
        let outside = self.path("runs").join(&number).join("outside");
        Run::new(self, number.clone(), self.nested(&number).join("work"), outside)
    }

    /// Returns a run in a trusted project, `projects/NAME`.
    pub fn project_run(&self, name: &str) -> Run<'_> {
        let base = self.path("projects").join(name);
        Run::new(self, self.number(), base.join("work"), base.join("outside"))
    }

    fn number(&self) -> String {
        self.runs.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // At the end of its input, the other program removes its files outside of the scene.
        drop(self.neighbour.stdin.take());
        let _ = self.neighbour.wait();
    }
}

/// A workspace and a directory outside of it.
pub struct Run<'s> {
    pub scene: &'s Scene,
    pub number: String,
    pub work: PathBuf,
    pub outside: PathBuf,
}

impl<'s> Run<'s> {
    fn new(scene: &'s Scene, number: String, work: PathBuf, outside: PathBuf) -> Self {
        write(&work.join("mine"), "mine");
        write(&work.join("sub/mine"), "mine");
        write(&outside.join("file"), "kept");
        write(&outside.join("secret"), SECRET);
        symlink(&outside, work.join("link")).unwrap();
        for path in [&work, &outside] {
            scene.give(path);
            give_one(path.parent().unwrap(), scene.mode.user_id());
        }
        Self { scene, number, work, outside }
    }

    pub fn work(&self, name: &str) -> String {
        self.work.join(name).to_str().unwrap().to_owned()
    }

    pub fn outside(&self, name: &str) -> String {
        self.outside.join(name).to_str().unwrap().to_owned()
    }

    /// Creates the files of an attempt that its line refers to: a directory outside, one in the workspace,
    /// and a repository.
    pub fn prepare(&self, name: &str, line: &str) {
        let outside = self.outside.join(name);
        let inside = self.work.join(name);
        if line.contains("OUT") {
            write(&outside.join("file"), "kept");
            fs::create_dir(outside.join("folder")).unwrap();
            self.scene.give(&outside);
        }
        if line.contains("SRC") {
            write(&inside.join("mine"), "mine");
        }
        if line.contains("REPO") {
            for place in [".git", ".codex", ".codicil", ".agents"] {
                write(&inside.join("repo").join(place).join("config"), "kept");
            }
            fs::create_dir(inside.join("repo/.git/hooks")).unwrap();
        }
        if inside.exists() {
            self.scene.give(&inside);
        }
    }

    /// Returns the variables that all attempts of the run share.
    pub fn variables(&self, server: u32) -> Vec<(String, String)> {
        let scene = self.scene;
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut variables = vec![
            ("OUTSIDE".to_owned(), text(&self.outside)),
            ("WORK".to_owned(), text(&self.work)),
            ("SERVER".to_owned(), server.to_string()),
            ("SERVER_HOME".to_owned(), text(&scene.home())),
            ("SETUID_ID".to_owned(), text(&scene.path("setuid-id"))),
            ("TOOLS".to_owned(), text(&scene.path("tools"))),
        ];
        variables.extend(scene.neighbour_things.iter().cloned());
        variables
    }

    /// Returns everything that no attempt may change: contents, modes and times of all files outside of the
    /// workspace, and of protected files in it. The key is the path below the run.
    pub fn untouchable(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for root in [&self.outside, &self.work] {
            walk(root, &mut |path| {
                let is_protected = |part: &Path| part.iter().any(|name| PROTECTED.iter().any(|p| name == *p));
                let below = path.strip_prefix(root).unwrap();
                if root == &self.work && !is_protected(below) {
                    return;
                }
                let (Ok(is), base) = (fs::symlink_metadata(path), root.file_name().unwrap()) else { return };
                let text = if is.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
                let text = String::from_utf8_lossy(&text).into_owned();
                let key = format!("{}/{}", base.to_str().unwrap(), below.display());
                found.insert(key, format!("{:o} {} {text}", is.mode(), is.mtime()));
            });
        }
        found
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        for path in [&self.work, &self.outside] {
            let _ = fs::remove_dir_all(path);
            let _ = fs::remove_file(path);
        }
    }
}

const PROTECTED: [&str; 4] = [".git", ".codex", ".codicil", ".agents"];

fn fill_home(home: &Path) {
    write(&home.join("auth.json"), &format!(r#"{{"OPENAI_API_KEY":"{SECRET}"}}"#));
    write(&home.join(".credentials.json"), &format!(r#"{{"x":"{SECRET}"}}"#));
}

fn directory_in(place: &str) -> TempDir {
    let directory = tempfile::Builder::new().prefix("escape-").tempdir_in(place).unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn give(path: &Path, user: Option<u32>) {
    if user.is_some() {
        walk(path, &mut |path| give_one(path, user));
    }
}

fn give_one(path: &Path, user: Option<u32>) {
    if let Some(user) = user {
        // A command may be moving the file at the same time.
        let _ = lchown(path, Some(user), Some(user));
    }
}

/// Visits parents before children and follows no links.
pub fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| walk(&entry.path(), visit));
    }
}

fn start_neighbour(mode: Mode, root: &Path) -> (Child, Vec<(String, String)>) {
    let mut command = Command::new("/usr/bin/env");
    command.args(["python3", "-I", "-S"]).arg(root.join("tools/neighbour.py")).arg(root.join("neighbour"));
    command.env("PATH", "/usr/bin:/bin").env("NEIGHBOUR_SECRET", SECRET);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(user) = mode.user_id() {
        command.uid(user).gid(user);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let things: serde_json::Map<String, Value> = serde_json::from_str(&line).expect("the neighbour starts");
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (child, things.into_iter().map(|(name, value)| (name, text(value))).collect())
}
