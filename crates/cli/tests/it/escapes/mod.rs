//! Ways out of the sandbox, tried as a model would try them: through the built server, with a scripted model.
mod lines;
mod mode;
mod patches;
mod report;
mod scene;
mod server;
mod ways;

use codicil_testkit::skipped;

use mode::{Confinement, Mode, User};
use report::Report;
use scene::Scene;
use server::{Listen, Server};

async fn make_attempts(confinement: Confinement, user: User) {
    let mode = Mode { confinement, user };
    if let Some(reason) = mode.missing() {
        return skipped(format!("{}: {reason}", mode.name()));
    }
    let scene = Scene::new(mode);
    let sandbox = match mode.report(&scene) {
        Ok(report) => report,
        Err(reason) => return skipped(format!("{}: {reason}", mode.name())),
    };
    let mut report = Report::new(mode.name());
    let every_way = mode == Mode { confinement: Confinement::Mounts, user: User::Tester };
    let mut server = Server::start(&scene, Listen::Stdio, "").await;
    lines::make_all((&mut server, &scene), every_way, &sandbox, &mut report).await;
    patches::make_all(&mut server, &scene, every_way, &mut report).await;
    report.finish();
}

#[tokio::test]
async fn nothing_escapes_with_mounts() {
    make_attempts(Confinement::Mounts, User::Tester).await;
}
