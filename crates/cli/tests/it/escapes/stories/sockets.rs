//! Sockets that another program binds while a command runs, or inside a writable root.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{Stage, file_appears, is_wanted, make_directory};
use crate::escapes::{
    lines::{unconfined, with_network, workspace_write},
    server::ToolCall,
    ways::{Way, Workdir, exec},
};

/// When the socket is bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Before,
    During,
}

const ATTEMPTS: &[(&str, Bound, &str, &str)] = &[
    ("socket-bound-later", Bound::During, "{out}", "STREAM"),
    ("socket-datagram-bound-later", Bound::During, "{out}", "DGRAM"),
    ("socket-bound-later-inside", Bound::During, "{work}", "STREAM"),
    ("socket-bound-later-in-tmp", Bound::During, "{tmp}", "STREAM"),
    ("socket-bound-before-inside", Bound::Before, "{work}", "STREAM"),
    ("socket-datagram-bound-before-inside", Bound::Before, "{work}", "DGRAM"),
    ("socket-bound-before-in-tmp", Bound::Before, "{tmp}", "STREAM"),
];

const BIND: &str = "import os, socket, sys
os.chdir(sys.argv[1])
kept = []
for name in sys.argv[3:]:
    s = socket.socket(socket.AF_UNIX, getattr(socket, 'SOCK_' + sys.argv[2]))
    s.bind(os.path.join(sys.argv[1], name) if len(sys.argv) > 4 else name)
    if sys.argv[2] == 'STREAM': s.listen()
    kept.append(s)
print('bound', flush=True)
sys.stdin.read()
";

const CONNECT: &str = "import os, socket, sys
s = socket.socket(socket.AF_UNIX, getattr(socket, \"SOCK_\" + sys.argv[2]))
s.settimeout(5)
os.chdir(sys.argv[1])
s.connect(\"later\")
s.send(b\"x\")
print(\"conn\" + \"ected\")
";

pub async fn make_all(stage: &mut Stage<'_>) {
    for attempt in ATTEMPTS.iter().filter(|(name, ..)| is_wanted(name)) {
        if !connects(stage, attempt, true).await {
            stage.report.skip(attempt.0, "fails without a sandbox");
            continue;
        }
        let open = connects(stage, attempt, false).await;
        stage.report.attempt(attempt.0, "exec_command", open, "");
    }
    for (name, policy) in
        [("socket-one-of-many", workspace_write()), ("network-socket-one-of-many", with_network())]
    {
        if is_wanted(name) {
            let open = connects_to_one_of_many(stage, policy).await;
            stage.report.attempt(name, "exec_command", open, "");
        }
    }
}

const CONNECT_TO_ANY: &str = "import os, socket, sys
for name in os.listdir(sys.argv[1]):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    try: s.connect(os.path.join(sys.argv[1], name))
    except OSError: continue
    print(\"conn\" + \"ected\")
    break
";

/// Many sockets must not exhaust a list of those to block.
async fn connects_to_one_of_many(stage: &mut Stage<'_>, policy: Value) -> bool {
    let run = stage.scene.run();
    let place = run.outside("many");
    make_directory(stage.scene, Path::new(&place));
    let names: Vec<_> = (0..600).map(|number| format!("{number:03}")).collect();
    let mut binder = bind(stage, &place, "STREAM", &names);
    let line = format!("python3 -I -S -c '{CONNECT_TO_ANY}' {place}");
    let output = Way::Exec(Workdir::LeftOut).run(stage.server, &run, policy, &line).await;
    drop(binder.stdin.take());
    let _ = binder.wait();
    output.contains("connected")
}

async fn connects(stage: &mut Stage<'_>, attempt: &(&str, Bound, &str, &str), is_proof: bool) -> bool {
    let (_, bound, place, kind) = attempt;
    let run = stage.scene.run();
    let place = place.replace("{out}", run.outside.to_str().unwrap());
    let place = place.replace("{work}", run.work.to_str().unwrap());
    let place = place.replace("{tmp}", stage.scene.nested("").to_str().unwrap());
    let socket = Path::new(&place).join("later");
    let mut binder = (*bound == Bound::Before).then(|| bind(stage, &place, kind, &["later".to_owned()]));
    let started = run.work("started");
    let go = run.work("go");
    let line = format!(
        "touch {started}; until test -e {go}; do sleep 0.02; done; python3 -I -S -c '{CONNECT}' {place} {kind}"
    );
    let policy = if is_proof { unconfined() } else { workspace_write() };
    let mut thread = stage.server.start_thread(&run.work, policy, json!({})).await;
    let calls = vec![exec(&line, None, json!({})), ToolCall::AwaitSession];
    let prompt = stage.server.start_turn(&mut thread, calls).await;
    assert!(file_appears(Path::new(&started)).await, "the command starts");
    if *bound == Bound::During {
        binder = Some(bind(stage, &place, kind, &["later".to_owned()]));
    }
    std::fs::write(&go, "").unwrap();
    stage.server.end_of_turn(&thread.id).await;
    let connected = stage.server.outputs(&prompt).concat().contains("connected");
    if let Some(mut binder) = binder {
        drop(binder.stdin.take());
        let _ = binder.wait();
    }
    let _ = std::fs::remove_file(socket);
    connected
}

/// Starts a program of the server's user that listens: on one socket by a relative path, on several by
/// absolute paths.
fn bind(stage: &Stage<'_>, place: &str, kind: &str, names: &[String]) -> Child {
    let mut command = Command::new("/usr/bin/env");
    command.args(["python3", "-I", "-S", "-c", BIND, place, kind]).env("PATH", "/usr/bin:/bin");
    command.args(names).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(user) = stage.scene.mode.user_id() {
        command.uid(user).gid(user);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "bound\n");
    child
}
