//! Expensive patches: matching is linear, and too large ones are refused with their limit.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant},
};

use codicil_patch::{
    DiskFiles, Durability, LARGEST_PATCH, MOST_LINES, MOST_OPERATIONS, Patch, TurnDiff, apply,
};

use crate::support::{Workspace, patch};

/// Sufficient without optimisation. A quadratic search takes minutes.
const SOON: Duration = Duration::from_secs(10);

/// Returns the processor time of this thread, which does not depend on other load. Where the system does not show it,
/// returns the time since the first call.
fn processor_time() -> Duration {
    static FIRST_CALL: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = statistics.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| FIRST_CALL.elapsed(), Duration::from_nanos)
}

fn check_time(what: &str, began: Duration) {
    let elapsed = processor_time() - began;
    assert!(elapsed < SOON, "{what}: {elapsed:?}");
    println!("{what}: {elapsed:?}");
}

/// Plans, displays and applies a patch of the file `f`.
fn run(what: &str, file: &str, body: &str) -> Result<(), String> {
    let workspace = Workspace::new(&[("f", file)]);
    let began = processor_time();
    let plan = workspace.plan(&format!("*** Update File: f\n{body}"));
    check_time(what, began);
    let plan = plan?;
    let _ = plan.file_changes();
    check_time(what, began);
    apply(&plan, &DiskFiles, Durability::Cached).unwrap();
    let mut diff = TurnDiff::new(workspace.path());
    diff.record(&plan);
    diff.diff(&DiskFiles).unwrap();
    check_time(what, began);
    Ok(())
}

#[test]
fn many_equal_lines_are_searched_in_linear_time() {
    let file = "x\n".repeat(300_000);
    let context = " x\n".repeat(5_000);
    run("a match", &file, &format!("@@\n{context}-x\n+y")).unwrap();
    run("no match", &file, &format!("@@\n{context}-y\n+z")).unwrap_err();
    run("no match at the end", &format!("{file}y\nz\n"), &format!("@@\n{context}-z\n+y")).unwrap_err();
    run("looser reading", &"x \n".repeat(300_000), &format!("@@\n{context}-x\n+y")).unwrap();
    run("loosest reading", &"\tx\n".repeat(300_000), &format!("@@\n{context}-x\n+y")).unwrap();
    run("at the end", &file, &format!("@@\n{context}-x\n+y\n*** End of File")).unwrap();
}

#[test]
fn many_sections_are_placed_in_linear_time() {
    let file: String = (0..30_000).map(|number| format!("line {}\n", number % 5_000)).collect();
    let forwards: String =
        (0..4_000).map(|number| format!("@@\n line {number}\n+more\n")).collect::<Vec<_>>().concat();
    run("forwards", &file, &forwards).unwrap();
    let backwards: String =
        (0..2_000).rev().map(|number| format!("@@\n-line {number}\n+more\n")).collect::<Vec<_>>().concat();
    run("backwards", &file, &backwards).unwrap();
    let equal = "@@\n-x\n+y\n".repeat(5_000);
    run("equal sections", &"x\n".repeat(100_000), &equal).unwrap();
    run("equal sections without place", &"x\n".repeat(4_999), &equal).unwrap_err();
}

#[test]
fn a_patch_that_replaces_everything_is_displayed_in_time() {
    let old: String = (0..10_000).map(|number| format!("{}\n", number * 7 % 1_000)).collect();
    let new: String = (0..10_000).map(|number| format!("+{}\n", number * 13 % 1_000)).collect();
    let workspace = Workspace::new(&[("f", &old)]);
    let began = processor_time();
    let plan = workspace.plan(&format!("*** Add File: f\n{new}")).unwrap();
    let _ = plan.file_changes();
    check_time("a new text", began);
}

#[test]
fn many_files_are_planned_in_time() {
    let workspace = Workspace::new(&[]);
    let body: String = (0..MOST_OPERATIONS).map(|number| format!("*** Add File: f{number}\n+x\n")).collect();
    let began = processor_time();
    workspace.plan(&body).unwrap();
    check_time("many files", began);
    let error = Patch::parse(&patch(&format!("{body}*** Add File: one/more\n+x\n"))).unwrap_err();
    assert!(error.to_string().contains("more than 5000 files; split it"), "{error}");
}

#[test]
fn too_large_patches_are_refused_with_their_limit() {
    let check = |error: String, part: &str| assert!(error.contains(part), "{error}");
    let long = patch(&format!("*** Add File: a\n+{}", "x".repeat(LARGEST_PATCH)));
    check(Patch::parse(&long).unwrap_err().to_string(), "the patch is longer than 16777216 bytes");

    let workspace = Workspace::new(&[("lines", &"\n".repeat(MOST_LINES + 1))]);
    let error = workspace.plan("*** Update File: lines\n+x").unwrap_err();
    check(error, "`lines` is too large to be patched: the limit is 67108864 bytes or 4000000 lines");

    for number in 0..5 {
        let file = fs::File::create(workspace.path().join(format!("sparse{number}"))).unwrap();
        file.set_len(60 << 20).unwrap();
    }
    let body: String = (0..5).map(|number| format!("*** Delete File: sparse{number}\n")).collect();
    check(workspace.plan(&body).unwrap_err(), "have more than 268435456 bytes; split it");
}

#[test]
fn a_patch_in_too_many_directories_changes_nothing() {
    let workspace = Workspace::new(&[]);
    let body: String = (0..300).map(|number| format!("*** Add File: {number}/f\n+x\n")).collect();
    let error = workspace.apply(&body).unwrap_err();
    assert!(error.contains("files in at most 256 directories; split it"), "{error}");
    assert!(workspace.tree().is_empty());
}
