//! Attempts to escape from the sandbox, through the built server with a scripted model.
//!
//! | what | where |
//! |---|---|
//! | shell lines, attempts and controls, run by one command for each way | `lines/` |
//! | patches, and the ways in which a model submits them | `patches.rs` |
//! | attempts that take several steps of the protocol | `stories/` |
//! | the ways in which a line is run: tools, `workdir`, agents, `command/exec` | `ways.rs` |
//! | confinements and users | `mode.rs` |
//! | programs that attempts are made with | `tools/` |
//!
//! A new attempt is a line of one of the tables. Each is first made without a sandbox, through the same
//! server, and skipped by name if it fails there. With Landlock in a mount namespace and as the user of the
//! tests, everything is tried in every way. In the other modes every line and patch is tried in one way, the
//! lines of [`lines::REPRESENTATIVES`] in every way, and stories without their variants. All modes print one
//! line for each wrong result: `open: NAME via WAY in MODE`, or `broken: …` for legitimate work.
//!
//! `CODICIL_ESCAPES=NAME` makes only the attempts whose names contain it. `CODICIL_TEST_BWRAP` names a
//! directory with `bwrap`; without it the installed one is used, and hidden from the modes that are tested
//! without it.

mod lines;
mod mode;
mod patches;
mod report;
mod scene;
mod server;
mod stories;
mod ways;

use codicil_testkit::skipped;

use mode::{Confinement, Mode, User};
use report::Report;
use scene::Scene;
use server::{Listen, Server};

/// Which attempts a test makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Shell lines.
    Lines,
    /// Patches and stories.
    Others,
    /// Both, each in one way except for the representatives.
    Sample,
}

async fn make_attempts(confinement: Confinement, user: User, part: Part) {
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
    let config = format!("[features]\ncodex_hooks = true\n{}", stories::trusted_projects(&scene));
    let mut server = Server::start(&scene, Listen::Stdio, &config).await;
    let thorough = part != Part::Sample;
    if part != Part::Others {
        lines::make_all((&mut server, &scene), thorough, &sandbox, &mut report).await;
    }
    if part != Part::Lines {
        patches::make_all(&mut server, &scene, thorough, &mut report).await;
        let mut stage = stories::Stage { server: &mut server, scene: &scene, report: &mut report, thorough };
        stories::make_all(&mut stage).await;
    }
    report.finish();
}

#[tokio::test]
async fn no_line_escapes_with_mounts_by_any_way() {
    make_attempts(Confinement::Mounts, User::Tester, Part::Lines).await;
}

#[tokio::test]
async fn no_patch_or_story_escapes_with_mounts_by_any_way() {
    make_attempts(Confinement::Mounts, User::Tester, Part::Others).await;
}

#[tokio::test]
async fn nothing_escapes_with_mounts_as_an_ordinary_user() {
    make_attempts(Confinement::Mounts, User::Ordinary, Part::Sample).await;
}

#[tokio::test]
async fn nothing_escapes_with_landlock_alone() {
    make_attempts(Confinement::LandlockAlone, User::Tester, Part::Sample).await;
}

#[tokio::test]
async fn nothing_escapes_with_landlock_alone_as_an_ordinary_user() {
    make_attempts(Confinement::LandlockAlone, User::Ordinary, Part::Sample).await;
}

#[tokio::test]
async fn nothing_escapes_with_bubblewrap() {
    make_attempts(Confinement::Bubblewrap, User::Tester, Part::Sample).await;
}

#[tokio::test]
async fn nothing_escapes_with_bubblewrap_as_an_ordinary_user() {
    make_attempts(Confinement::Bubblewrap, User::Ordinary, Part::Sample).await;
}
