//! Attempts and controls that are one shell line each.
//!
//! All lines of a group are run by one command, so that each way and mode needs one command instead of a
//! hundred. A line has these variables: `$OUT` is a directory outside with `file` and `folder`, `$SRC` one of
//! the workspace with `mine`, `$REPO` a repository in it; they belong to this line alone. `$WORK` is the
//! workspace, `$SERVER` the server's process, `$SERVER_HOME` its home, `$NEIGHBOUR` another program of the
//! user with `$SOCKETS`, `$TERMINAL` and so on (`tools/neighbour.py`). A line is for bash; one that begins
//! with `py:` is Python, with the names of `tools/escape.py`.

mod controls;
mod files;
mod home;
mod kernel;
mod processes;
mod reading;
mod sockets;

use std::collections::BTreeMap;

use codicil_sandbox::ConfinementGap;
use serde_json::{Value, json};

use super::{
    mode::{Confinement, SandboxReport},
    report::{Report, Verdict},
    scene::{Run, Scene},
    server::Server,
    ways::{self, Way, Workdir},
};

/// The expected result of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Denied,
    /// Denied, unless this gap is documented.
    DeniedUnless(ConfinementGap),
    /// Fails with and without a sandbox.
    Absent,
    /// Like `Absent`, for commands of models.
    AbsentForModels,
    Allowed,
    /// Allowed, except with Landlock alone, as documented.
    AllowedWithMounts,
}
use Class::{Absent, AbsentForModels, Allowed, AllowedWithMounts, Denied, DeniedUnless};

pub type Line = (&'static str, Class, &'static str);

/// Lines that are run under the same policy.
pub struct Group {
    name: &'static str,
    tables: &'static [&'static [Line]],
    policy: fn(&Run<'_>) -> Value,
}

pub const GROUPS: &[Group] = &[
    Group {
        name: "workspace",
        tables: &[
            files::LINES,
            processes::LINES,
            kernel::LINES,
            sockets::LINES,
            home::LINES,
            controls::LINES,
        ],
        policy: |_| workspace_write(),
    },
    Group { name: "network", tables: &[sockets::WITH_NETWORK], policy: |_| with_network() },
    Group { name: "restricted", tables: &[reading::RESTRICTED], policy: restricted },
    Group { name: "read-only", tables: &[reading::READ_ONLY], policy: |_| json!({ "type": "readOnly" }) },
];

pub fn workspace_write() -> Value {
    json!({ "type": "workspaceWrite" })
}

pub fn with_network() -> Value {
    json!({ "type": "workspaceWrite", "networkAccess": true })
}

pub fn unconfined() -> Value {
    json!({ "type": "dangerFullAccess" })
}

/// Returns a policy that restricts reading to the workspace, system programs, and the tools of the attempts.
pub fn restricted(run: &Run<'_>) -> Value {
    let scene = run.scene;
    let roots = [run.work.clone(), scene.path("tools"), scene.path("scripts"), scene.path("programs")];
    let access = json!({ "type": "restricted", "readableRoots": roots });
    json!({ "type": "workspaceWrite", "readOnlyAccess": access })
}

/// The exit code of each line, and the end of its standard error.
type Results = BTreeMap<String, (i32, String)>;

impl Group {
    fn lines(&self) -> impl Iterator<Item = &'static Line> {
        let wanted = std::env::var("CODICIL_ESCAPES").unwrap_or_default();
        self.tables.iter().copied().flatten().filter(move |(name, ..)| name.contains(&wanted))
    }

    /// Returns the lines that succeed without a sandbox. The others are skipped.
    pub async fn possible(&self, server: &mut Server, scene: &Scene, report: &Report) -> Vec<&'static Line> {
        let lines: Vec<_> = self.lines().filter(|(name, ..)| !name.is_empty()).collect();
        let run = scene.run();
        lines.iter().for_each(|(name, _, line)| run.prepare(name, line));
        let way = Way::Exec(Workdir::LeftOut);
        let results = make(server, way, &run, unconfined(), &lines).await;
        let works = |(name, class, _): &&&'static Line| {
            let (code, message) = results.get(*name).cloned().unwrap_or((-1, "was not run".to_owned()));
            if matches!(class, Absent | AbsentForModels) || code == 0 {
                return true;
            }
            report.skip(name, &format!("fails without a sandbox: {message}"));
            false
        };
        lines.iter().filter(works).copied().collect()
    }

    /// Makes the attempts in one way and adds the results to the report.
    pub async fn attempt(
        &self,
        (server, scene): (&mut Server, &Scene),
        way: Way,
        lines: &[&'static Line],
        sandbox: &SandboxReport,
        report: &mut Report,
    ) {
        let run = scene.run();
        lines.iter().for_each(|(name, _, line)| run.prepare(name, line));
        let before = run.untouchable();
        let results = make(server, way, &run, (self.policy)(&run), lines).await;
        let after = run.untouchable();
        let way_name = match self.name {
            "workspace" => way.name(),
            name => format!("{} ({name})", way.name()),
        };
        let all = before.keys().chain(after.keys());
        let changed: Vec<_> = all.filter(|path| before.get(*path) != after.get(*path)).collect();
        for (name, class, _) in lines {
            let Some((code, message)) = results.get(*name) else {
                report.add(Verdict::Broken, name, &way_name, "was not run");
                continue;
            };
            let has_changed = changed.iter().any(|path| path.contains(&format!("/{name}/")));
            let worked = *code == 0 || has_changed;
            let detail = if *code == 0 { "" } else { message.as_str() };
            match class {
                Denied | Absent => report.attempt(name, &way_name, worked, ""),
                AbsentForModels => report.attempt(name, &way_name, worked && !way.is_client(), ""),
                DeniedUnless(gap) if worked && sandbox.documents(*gap) => {
                    report.add(Verdict::Documented, name, &way_name, gap.to_string());
                }
                DeniedUnless(_) => report.attempt(name, &way_name, worked, ""),
                AllowedWithMounts if scene.mode.confinement == Confinement::LandlockAlone => {}
                Allowed | AllowedWithMounts => report.control(name, &way_name, *code == 0, detail),
            }
        }
    }
}

/// Runs lines with one command.
async fn make(server: &mut Server, way: Way, run: &Run<'_>, policy: Value, lines: &[&Line]) -> Results {
    if lines.is_empty() {
        return Results::new();
    }
    let script = run.scene.path("scripts").join(format!("{}.json", run.number));
    let attempts: Vec<_> = lines.iter().map(|(name, _, line)| (name, line)).collect();
    let variables: BTreeMap<_, _> = run.variables(server.pid).into_iter().collect();
    run.scene.write(&script, &json!({ "variables": variables, "attempts": attempts }).to_string());
    let driver = run.scene.tool("escape.py");
    let line = format!("python3 -I -S {} {}", driver.display(), script.display());
    let output = way.run(server, run, policy, &line).await;
    let results = parse(&output);
    if !results.contains_key("end") {
        eprintln!("{} did not come to its end: {output}", way.name());
    }
    results
}

fn parse(output: &str) -> Results {
    let result = |line: &str| {
        let mut words = line.trim().strip_prefix("RESULT ")?.splitn(3, ' ');
        let name = words.next()?.to_owned();
        let code = words.next()?.parse().ok()?;
        Some((name, (code, words.next().unwrap_or_default().to_owned())))
    };
    output.lines().filter_map(result).collect()
}

/// Attempts that are tried in every way in modes that do not try everything.
pub const REPRESENTATIVES: [&str; 7] = [
    "write-outside",
    "git-hook",
    "read-credentials",
    "tcp-connect",
    "socket-stream",
    "write-inside",
    "write-elsewhere-in-workspace",
];

/// Tries all lines in the first way, and the representatives in every other way; or everything in every way.
pub async fn make_all(
    (server, scene): (&mut Server, &Scene),
    every_way: bool,
    sandbox: &SandboxReport,
    report: &mut Report,
) {
    for group in GROUPS {
        let possible = group.possible(server, scene, report).await;
        for (number, way) in ways::ALL.iter().enumerate() {
            let is_chosen = |(name, ..): &&&Line| every_way || number == 0 || REPRESENTATIVES.contains(name);
            let chosen: Vec<_> = possible.iter().filter(is_chosen).copied().collect();
            if !chosen.is_empty() {
                group.attempt((server, scene), *way, &chosen, sandbox, report).await;
            }
        }
    }
}
