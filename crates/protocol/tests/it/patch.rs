//! Absent, null and a value are distinguished.

use codicil_protocol::{Patch, ThreadMetadataGitInfoUpdateParams, ThreadStartParams};
use serde_json::{Value, json};

fn git(value: Value) -> ThreadMetadataGitInfoUpdateParams {
    serde_json::from_value(value).unwrap()
}

#[test]
fn all_three_are_distinguished_and_written_back() {
    for value in [
        json!({}),
        json!({ "branch": null }),
        json!({ "branch": "main" }),
        json!({ "sha": "", "branch": null, "originUrl": "x" }),
    ] {
        assert_eq!(serde_json::to_value(git(value.clone())).unwrap(), value);
    }
    let read = git(json!({ "sha": null, "branch": "main" }));
    assert_eq!(read.sha, Patch::Null);
    assert_eq!(read.branch, Patch::Value("main".to_owned()));
    assert_eq!(read.origin_url, Patch::Missing);
}

#[test]
fn a_patch_is_applied_to_the_previous_value() {
    let before = || Some("old".to_owned());
    assert_eq!(Patch::Missing.apply(before()), before());
    assert_eq!(Patch::Null.apply(before()), None);
    assert_eq!(Patch::Value("new".to_owned()).apply(before()), Some("new".to_owned()));
    assert_eq!(Patch::<String>::Missing.apply(None), None);
}

#[test]
fn options_treat_null_as_absent() {
    let read = |value: Value| serde_json::from_value::<ThreadStartParams>(value).unwrap();
    assert_eq!(read(json!({ "cwd": null })), read(json!({})));
    assert_ne!(read(json!({ "serviceTier": null })), read(json!({})));
    assert_eq!(
        serde_json::to_value(read(json!({ "cwd": null, "serviceTier": null }))).unwrap(),
        json!({
            "serviceTier": null, "experimentalRawEvents": false, "persistExtendedHistory": false,
        })
    );
}
