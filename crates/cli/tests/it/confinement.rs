//! What a confined command cannot do, through `codicil sandbox` and `command/exec`.
//!
//! Each attempt is a shell line. It is first run without confinement, and skipped by name if it fails there.
//! Everything is run as the user of the tests and, if that is root, as an ordinary user. The sandbox crate
//! has the long list of attempts; this one checks that both entry points apply the sandbox.

use std::{
    collections::BTreeMap,
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use codicil_sandbox::ConfinementGap;
use codicil_testkit::skipped;
use serde_json::{Value, json};

use crate::raw_server::RawServer;

/// The id of a user without privileges.
const ORDINARY_USER: u32 = 65_534;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Denied,
    /// Denied, unless the sandbox documents this gap.
    DeniedUnless(ConfinementGap),
    Allowed,
}
use Class::{Allowed, Denied, DeniedUnless};

/// `$OUT` is a directory outside, `$SRC` one of the workspace, `$REPO` a repository in it.
const ATTEMPTS: &[(&str, Class, &str)] = &[
    ("write-outside", Denied, "echo x > $OUT/file"),
    ("create-outside", Denied, "echo x > $OUT/new"),
    ("empty-outside", Denied, ": > $OUT/file"),
    ("remove-outside", Denied, "rm $OUT/file"),
    ("make-directory-outside", Denied, "mkdir $OUT/folder"),
    ("mode-outside", DeniedUnless(ConfinementGap::FileAttributes), "chmod 600 $OUT/file"),
    ("times-outside", DeniedUnless(ConfinementGap::FileAttributes), "touch -t 200001010000 $OUT/file"),
    ("write-through-symbolic-link", Denied, "ln -s $OUT/file $SRC/link && echo x > $SRC/link"),
    ("write-through-directory-link", Denied, "ln -s $OUT $SRC/link && echo x > $SRC/link/file"),
    ("write-through-hard-link", Denied, "ln $OUT/file $SRC/hard && echo x > $SRC/hard"),
    ("rename-from-outside", Denied, "mv $OUT/file $SRC/taken"),
    ("rename-to-outside", Denied, "mv $SRC/mine $OUT/given"),
    ("rename-over-outside", Denied, "mv -f $SRC/mine $OUT/file"),
    ("git-config", Denied, "echo x > $REPO/.git/config"),
    ("git-hook", Denied, "echo x > $REPO/.git/hooks/post-checkout"),
    ("git-rename", Denied, "mv $REPO/.git $REPO/moved"),
    ("proc-environment", Denied, "cat /proc/$VICTIM/environ"),
    ("proc-root", Denied, "echo x > /proc/$VICTIM/root$OUT/file"),
    ("proc-settings", Denied, "f=/proc/sys/vm/swappiness; v=$(cat $f) && echo $v > $f"),
    (
        "sys-settings",
        Denied,
        "f=/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs; v=$(cat $f) && echo $v > $f",
    ),
    ("signal", DeniedUnless(ConfinementGap::Signals), "kill -CONT $VICTIM"),
    ("user-namespace", Denied, "unshare -U true"),
    ("mount-namespace", Denied, "unshare -m true"),
    ("mount", Denied, "unshare -m mount -t tmpfs none $SRC"),
    ("tcp", Denied, "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/$TCP'"),
    ("udp", Denied, "exec bash -c 'echo x > /dev/udp/127.0.0.1/$UDP'"),
    ("netlink", Denied, "ip link show"),
    ("write-inside", Allowed, "echo x > $SRC/new && mv $SRC/new $SRC/mine && rm $SRC/mine"),
    ("read-outside", Allowed, "test \"$(cat $OUT/file)\" = kept"),
    ("write-temporary", Allowed, "f=$(mktemp /tmp/codicil-XXXXXX) && echo x > $f && rm $f"),
    ("own-child", Allowed, "sleep 100 & kill $!"),
    ("pipeline", Allowed, "echo a | tr a b | grep -q b"),
];

/// A workspace, a directory outside of it, and another process.
struct ConfinementTest {
    root: tempfile::TempDir,
    user: Option<u32>,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
}

impl ConfinementTest {
    /// Below `/var/tmp`, because `/tmp` is writable under the policy.
    fn new(user: Option<u32>) -> Self {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut sleep = Command::new("sleep");
        become_user(&mut sleep, user);
        let test = Self {
            victim: sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            root,
            user,
        };
        for (name, ..) in ATTEMPTS {
            test.write(&format!("outside/{name}/file"), "kept");
            test.write(&format!("work/{name}/src/mine"), "mine");
            test.write(&format!("work/{name}/repository/.git/config"), "kept");
            fs::create_dir(test.path(&format!("work/{name}/repository/.git/hooks"))).unwrap();
        }
        fs::create_dir(test.path("home")).unwrap();
        if let Some(user) = user {
            walk(test.root.path(), &mut |path| chown(path, Some(user), Some(user)).unwrap());
        }
        test
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn variables(&self, name: &str) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        vec![
            ("OUT", path(&format!("outside/{name}"))),
            ("SRC", path(&format!("work/{name}/src"))),
            ("REPO", path(&format!("work/{name}/repository"))),
            ("VICTIM", self.victim.id().to_string()),
            ("TCP", self.tcp.local_addr().unwrap().port().to_string()),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
        ]
    }

    /// Returns everything that no attempt may change, with its attributes.
    fn untouchable(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        walk(self.root.path(), &mut |path| {
            if path.starts_with(self.path("outside")) || path.iter().any(|part| part == ".git") {
                let is = fs::symlink_metadata(path).unwrap();
                let text = fs::read_to_string(path).unwrap_or_default();
                found.insert(path.to_owned(), format!("{:o} {} {text}", is.mode(), is.mtime()));
            }
        });
        found
    }

    /// Returns a command of the binary, in the workspace and as the user.
    fn codicil(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(arguments).current_dir(self.path("work")).stdin(Stdio::null());
        command.env("CODICIL_HOME", self.path("home")).env("HOME", self.path("home")).env_remove("RUST_LOG");
        become_user(&mut command, self.user);
        command
    }
}

impl Drop for ConfinementTest {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn become_user(command: &mut Command, user: Option<u32>) {
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
}

/// Visits parents before children. Links are not followed.
fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    visit(path);
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), visit));
    }
}

/// Returns the users to test: that of the tests and, if that is root, an ordinary one who can run the binary.
fn users() -> Vec<Option<u32>> {
    let mut users = vec![None];
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        become_user(command.arg("--version").stdout(Stdio::null()), Some(ORDINARY_USER));
        match command.current_dir("/").status() {
            Ok(status) if status.success() => users.push(Some(ORDINARY_USER)),
            other => skipped(format!("as an ordinary user, who cannot run the binary here: {other:?}")),
        }
    }
    users
}

/// Returns the report of `codicil doctor` on the sandbox; `None` if there is no sandbox.
fn report(test: &ConfinementTest) -> Option<String> {
    let output = test.codicil(&["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sandbox =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "sandbox").unwrap();
    (sandbox["status"] == "ok").then(|| sandbox.to_string())
}

/// Returns the attempts that succeed without a sandbox.
fn possible(user: Option<u32>) -> Vec<(&'static str, Class, &'static str)> {
    let test = ConfinementTest::new(user);
    let works = |(name, _, line): &&(&'static str, Class, &'static str)| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(test.path("work")).envs(test.variables(name));
        become_user(command.stdin(Stdio::null()).stdout(Stdio::null()), user);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            skipped(format!("{name} as {user:?}, which fails without a sandbox: {}", reason.trim()));
        }
        output.status.success()
    };
    ATTEMPTS.iter().filter(works).copied().collect()
}

/// Checks the results, and fails with all that are wrong.
fn check_results(
    entry_point: &str,
    test: &ConfinementTest,
    report: &str,
    before: &BTreeMap<PathBuf, String>,
    results: &[(&str, Class, bool)],
) {
    let has = |gap: ConfinementGap| report.contains(&gap.to_string());
    let expected = |class: Class| match class {
        Denied => false,
        DeniedUnless(gap) => has(gap),
        Allowed => true,
    };
    let wrong: Vec<_> = results.iter().filter(|(_, class, worked)| *worked != expected(*class)).collect();
    assert!(wrong.is_empty(), "{entry_point} as {:?}: {wrong:?}\n{report}", test.user);
    if !has(ConfinementGap::FileAttributes) {
        assert_eq!(test.untouchable(), *before, "{entry_point} as {:?}", test.user);
    }
}

#[test]
fn nothing_escapes_from_the_sandbox_command() {
    for user in users() {
        let attempts = possible(user);
        let test = ConfinementTest::new(user);
        let Some(report) = report(&test) else {
            skipped(format!("{user:?}, for whom commands cannot be confined here"));
            continue;
        };
        let before = test.untouchable();
        let mut results = Vec::new();
        for (name, class, line) in attempts {
            let mut command = test.codicil(&["sandbox", "--mode", "workspace-write", "--", "sh", "-c", line]);
            let output = command.envs(test.variables(name)).output().unwrap();
            let code = output.status.code().unwrap();
            assert_ne!(code, 125, "{name} was not run: {output:?}");
            results.push((name, class, code == 0));
        }
        check_results("codicil sandbox", &test, &report, &before, &results);
    }
}

#[tokio::test]
async fn nothing_escapes_from_a_clients_command() {
    for user in users() {
        let attempts = possible(user);
        let test = ConfinementTest::new(user);
        let Some(report) = report(&test) else {
            skipped(format!("{user:?}, for whom commands cannot be confined here"));
            continue;
        };
        let mut server = RawServer::start(&test.path("home"), |command| {
            command.current_dir(test.path("work"));
            if let Some(user) = user {
                command.uid(user).gid(user);
            }
        })
        .await;
        let before = test.untouchable();
        let mut results = Vec::new();
        for (name, class, line) in attempts {
            let env: serde_json::Map<_, _> = test
                .variables(name)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            let params = json!({
                "command": ["sh", "-c", line],
                "env": env,
                "sandboxPolicy": { "type": "workspaceWrite" },
            });
            let answer = server.call("command/exec", params).await;
            let code = answer["result"]["exitCode"].as_i64().unwrap_or_else(|| panic!("{name}: {answer}"));
            results.push((name, class, code == 0));
        }
        check_results("command/exec", &test, &report, &before, &results);
        server.close();
        server.process.expect_success().await;
    }
}

/// Checks that no files are created before, during or after a command.
#[test]
fn an_empty_workspace_stays_empty() {
    let test = ConfinementTest::new(None);
    if report(&test).is_none() {
        return skipped("commands cannot be confined here");
    }
    let empty = tempfile::tempdir_in("/var/tmp").unwrap();
    for mode in ["read-only", "workspace-write"] {
        let line = ["sandbox", "--mode", mode, "--cwd", empty.path().to_str().unwrap(), "--", "ls", "-A"];
        let output = test.codicil(&line).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{mode}: {output:?}");
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "{mode}");
    }
}
