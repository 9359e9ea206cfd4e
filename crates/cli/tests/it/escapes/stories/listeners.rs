//! A confined command connects to the server itself and requests a command without a sandbox.

use std::path::PathBuf;

use serde_json::Value;

use super::{Stage, is_wanted};
use crate::escapes::{
    lines::{unconfined, with_network, workspace_write},
    scene::{Run, Scene},
    server::{Listen, Server},
    ways::{Way, Workdir},
};

/// Addresses under which a server on the loopback can be reached, and the kind of socket.
const ADDRESSES: [(&str, &str); 7] = [
    ("127.0.0.1", "plain"),
    ("localhost", "plain"),
    ("0.0.0.0", "plain"),
    ("::ffff:127.0.0.1", "plain"),
    ("127.1", "plain"),
    ("127.0.0.1", "mptcp"),
    ("127.0.0.1", "fastopen"),
];

pub async fn make_all(stage: &mut Stage<'_>) {
    if is_wanted("server-socket") {
        unix_sockets(stage).await;
    }
    if is_wanted("server-port") {
        websocket(stage).await;
    }
}

async fn unix_sockets(stage: &mut Stage<'_>) {
    let scene = stage.scene;
    let run = scene.run();
    let sockets: [(&str, String, PathBuf); 4] = [
        ("server-socket-absolute", scene.path("server/a").display().to_string(), scene.path("server/a")),
        ("server-socket-relative", "relative".to_owned(), scene.path("server/relative")),
        ("server-socket-in-workspace", run.work("socket"), run.work.join("socket")),
        ("server-socket-in-tmp", scene.nested("socket").display().to_string(), scene.nested("socket")),
    ];
    for (name, address, path) in sockets {
        let listen = Listen::Unix(format!("unix://{address}"), path.clone());
        let mut server = Server::start(scene, listen, "").await;
        for (policy_name, policy) in
            [("without a network", workspace_write()), ("with a network", with_network())]
        {
            let ways: &[Way] = &[Way::Exec(Workdir::LeftOut), Way::Client];
            for way in ways.iter().filter(|way| stage.thorough || **way != Way::Client) {
                let place = path.to_str().unwrap();
                let open = reaches(&mut server, &run, *way, policy.clone(), ("unix", place, "plain")).await;
                stage.report.attempt(name, &format!("{} {policy_name}", way.name()), open, "");
            }
            // With a path that is relative to the working directory of the command.
            let relative = path.file_name().unwrap().to_str().unwrap();
            let prefix = format!("cd {} && ", path.parent().unwrap().display());
            let open = reaches_from(&mut server, &run, &prefix, policy, ("unix", relative, "plain")).await;
            stage.report.attempt(name, &format!("a relative path {policy_name}"), open, "");
        }
        end(server).await;
    }
}

async fn websocket(stage: &mut Stage<'_>) {
    let scene = stage.scene;
    let run = scene.run();
    let mut server = Server::start(scene, Listen::WebSocket, "").await;
    let port = server.address.clone().unwrap().rsplit(':').next().unwrap().to_owned();
    for (host, kind) in ADDRESSES {
        let place = format!("{host}:{port}");
        let way = Way::Exec(Workdir::LeftOut);
        let name = "server-port";
        let label = format!("exec_command to {host} ({kind})");
        if !reaches(&mut server, &run, way, unconfined(), ("tcp", &place, kind)).await {
            stage.report.skip(&format!("{name} {label}"), "fails without a sandbox");
            continue;
        }
        let open = reaches(&mut server, &run, way, with_network(), ("tcp", &place, kind)).await;
        stage.report.attempt(name, &label, open, "");
        if stage.thorough {
            let open = reaches(&mut server, &run, Way::Client, with_network(), ("tcp", &place, kind)).await;
            stage.report.attempt(name, &format!("command/exec to {host} ({kind})"), open, "");
        }
    }
    end(server).await;
}

async fn reaches(
    server: &mut Server,
    run: &Run<'_>,
    way: Way,
    policy: Value,
    to: (&str, &str, &str),
) -> bool {
    let line = client_line(run.scene, run, to);
    way.run(server, run, policy, &line).await;
    take_marker(run)
}

async fn reaches_from(
    server: &mut Server,
    run: &Run<'_>,
    prefix: &str,
    policy: Value,
    to: (&str, &str, &str),
) -> bool {
    let line = format!("{prefix}{}", client_line(run.scene, run, to));
    Way::Exec(Workdir::LeftOut).run(server, run, policy, &line).await;
    take_marker(run)
}

fn client_line(scene: &Scene, run: &Run<'_>, (way, place, kind): (&str, &str, &str)) -> String {
    let client = scene.tool("client.py");
    format!("python3 -I -S {} {way} {place} {kind} touch {}", client.display(), run.outside("marker"))
}

fn take_marker(run: &Run<'_>) -> bool {
    std::fs::remove_file(run.outside.join("marker")).is_ok()
}

async fn end(mut server: Server) {
    server.process.kill();
    server.process.wait().await;
}
