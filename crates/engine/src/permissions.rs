//! The permissions of a thread: restored from its records, and narrowed to those of another thread.
//!
//! A thread that is resumed or forked keeps its last permissions, unless the request names others. Permissions that the
//! administrator's requirements forbid have no effect, wherever they come from.

use codicil_config::EffectiveConfig;
use codicil_protocol::{ApprovalsReviewer, AskForApproval, NetworkAccess, ReadOnlyAccess, SandboxPolicy};
use codicil_store::StoredSettings;

use crate::{profiles::ThreadProfile, settings::TurnSettings, settings_forms::StoredSetting};

/// The permissions in a thread's records. Each is decoded on its own, so that a record of another version still gives as
/// much as it can. `None` for permissions that were never stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredPermissions {
    pub sandbox: Option<SandboxPolicy>,
    pub profile: Option<ThreadProfile>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
}

/// The permissions that a request does not name, and that the thread therefore keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InheritedPermissions {
    pub sandbox: bool,
    pub approval_policy: bool,
    pub approvals_reviewer: bool,
}

impl StoredPermissions {
    /// Decodes the permissions. A value that this version does not know becomes the strictest one.
    pub fn read(stored: Option<&StoredSettings>) -> Self {
        Self {
            sandbox: match StoredSetting::read(stored, "sandbox") {
                StoredSetting::Missing => None,
                StoredSetting::Unreadable | StoredSetting::Value(SandboxPolicy::Unrecognized(_)) => {
                    Some(read_only())
                }
                StoredSetting::Value(policy) => Some(policy),
            },
            profile: match StoredSetting::read(stored, "profile") {
                StoredSetting::Missing | StoredSetting::Unreadable => None,
                StoredSetting::Value(profile) => Some(profile),
            },
            approval_policy: match StoredSetting::read(stored, "approvalPolicy") {
                StoredSetting::Missing => None,
                StoredSetting::Unreadable | StoredSetting::Value(AskForApproval::Unrecognized(_)) => {
                    Some(AskForApproval::Untrusted)
                }
                StoredSetting::Value(policy) => Some(policy),
            },
            approvals_reviewer: match StoredSetting::read(stored, "approvalsReviewer") {
                StoredSetting::Missing => None,
                StoredSetting::Unreadable | StoredSetting::Value(ApprovalsReviewer::Unrecognized(_)) => {
                    Some(ApprovalsReviewer::User)
                }
                StoredSetting::Value(reviewer) => Some(reviewer),
            },
        }
    }
}

impl From<&TurnSettings> for StoredPermissions {
    fn from(settings: &TurnSettings) -> Self {
        Self {
            sandbox: Some(settings.sandbox.clone()),
            profile: settings.profile.clone(),
            approval_policy: Some(settings.approval_policy.clone()),
            approvals_reviewer: Some(settings.approvals_reviewer.clone()),
        }
    }
}

impl InheritedPermissions {
    pub const ALL: Self = Self { sandbox: true, approval_policy: true, approvals_reviewer: true };
}

impl TurnSettings {
    /// Restores the permissions of a stored thread. Those that its records do not have stay as configured. So does a
    /// forbidden sandbox policy, narrowed to what the thread had.
    pub(crate) fn inherit(
        &mut self,
        stored: StoredPermissions,
        which: InheritedPermissions,
        config: &EffectiveConfig,
    ) {
        let is_allowed = |policy: &SandboxPolicy| config.requirements.check_sandbox_policy(policy).is_ok();
        if let Some(sandbox) = stored.sandbox.filter(|_| which.sandbox) {
            if is_allowed(&sandbox) {
                (self.sandbox, self.profile) = (sandbox, stored.profile);
            } else {
                let narrowed = narrower_sandbox(&self.sandbox, &sandbox);
                let sandbox = if is_allowed(&narrowed) { narrowed } else { read_only() };
                (self.sandbox, self.profile) = (sandbox, None);
            }
        }
        let is_allowed = |policy: &AskForApproval| config.requirements.check_approval_policy(policy).is_ok();
        if let Some(policy) = stored.approval_policy.filter(|it| which.approval_policy && is_allowed(it)) {
            self.approval_policy = policy;
        }
        if let Some(reviewer) = stored.approvals_reviewer.filter(|_| which.approvals_reviewer) {
            self.approvals_reviewer = reviewer;
        }
    }

    /// Narrows the permissions to those that another thread has too: a subagent may do no more than its parent.
    pub(crate) fn narrow_to(&mut self, other: &StoredPermissions, which: InheritedPermissions) {
        if let Some(sandbox) = other.sandbox.as_ref().filter(|_| which.sandbox) {
            let narrowed = narrower_sandbox(&self.sandbox, sandbox);
            if narrowed != self.sandbox {
                (self.sandbox, self.profile) = (narrowed, None);
            }
        }
        if let Some(policy) = other.approval_policy.as_ref().filter(|_| which.approval_policy) {
            self.approval_policy = narrower_policy(&self.approval_policy, policy);
        }
        if other.approvals_reviewer == Some(ApprovalsReviewer::User) && which.approvals_reviewer {
            self.approvals_reviewer = ApprovalsReviewer::User;
        }
    }
}

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
}

/// Returns what both policies allow. Directories are compared by their paths as given.
fn narrower_sandbox(one: &SandboxPolicy, other: &SandboxPolicy) -> SandboxPolicy {
    use SandboxPolicy::{DangerFullAccess, ExternalSandbox, ReadOnly, Unrecognized, WorkspaceWrite};
    match (one, other) {
        (Unrecognized(_), _) | (_, Unrecognized(_)) => read_only(),
        (DangerFullAccess, policy) | (policy, DangerFullAccess) => policy.clone(),
        (ExternalSandbox { network_access: one }, ExternalSandbox { network_access: other }) => {
            let network_access = if one == other { one.clone() } else { NetworkAccess::Restricted };
            ExternalSandbox { network_access }
        }
        (ExternalSandbox { .. }, policy) | (policy, ExternalSandbox { .. }) => policy.clone(),
        (
            WorkspaceWrite {
                writable_roots,
                read_only_access,
                network_access,
                exclude_tmpdir_env_var,
                exclude_slash_tmp,
            },
            WorkspaceWrite {
                writable_roots: other_roots,
                read_only_access: other_access,
                network_access: other_network,
                exclude_tmpdir_env_var: other_tmpdir,
                exclude_slash_tmp: other_tmp,
            },
        ) => WorkspaceWrite {
            writable_roots: shared(writable_roots, other_roots),
            read_only_access: narrower_access(read_only_access, other_access),
            network_access: *network_access && *other_network,
            exclude_tmpdir_env_var: *exclude_tmpdir_env_var || *other_tmpdir,
            exclude_slash_tmp: *exclude_slash_tmp || *other_tmp,
        },
        (
            ReadOnly { access: one, network_access: network }
            | WorkspaceWrite { read_only_access: one, network_access: network, .. },
            ReadOnly { access: other, network_access: other_network }
            | WorkspaceWrite { read_only_access: other, network_access: other_network, .. },
        ) => ReadOnly { access: narrower_access(one, other), network_access: *network && *other_network },
    }
}

fn narrower_access(one: &ReadOnlyAccess, other: &ReadOnlyAccess) -> ReadOnlyAccess {
    use ReadOnlyAccess::{FullAccess, Restricted, Unrecognized};
    match (one, other) {
        (Unrecognized(_), _) | (_, Unrecognized(_)) => {
            Restricted { include_platform_defaults: true, readable_roots: Vec::new() }
        }
        (FullAccess, access) | (access, FullAccess) => access.clone(),
        (
            Restricted { include_platform_defaults, readable_roots },
            Restricted { include_platform_defaults: other_defaults, readable_roots: other_roots },
        ) => Restricted {
            include_platform_defaults: *include_platform_defaults && *other_defaults,
            readable_roots: shared(readable_roots, other_roots),
        },
    }
}

fn shared<T: PartialEq + Clone>(one: &[T], other: &[T]) -> Vec<T> {
    one.iter().filter(|root| other.contains(root)).cloned().collect()
}

/// Returns the stricter policy. `untrusted` asks before everything, `never` refuses what the others ask about. The others
/// have no order; the second one counts.
fn narrower_policy(one: &AskForApproval, other: &AskForApproval) -> AskForApproval {
    let strictest = [AskForApproval::Untrusted, AskForApproval::Never];
    let found = strictest.into_iter().find(|policy| policy == one || policy == other);
    found.unwrap_or_else(|| other.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(json: Value) -> SandboxPolicy {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_narrower_of_two_sandboxes_allows_what_both_allow() {
        let full = json!({ "type": "dangerFullAccess" });
        let outside = json!({ "type": "externalSandbox", "networkAccess": "enabled" });
        let read = json!({ "type": "readOnly" });
        let read_net = json!({ "type": "readOnly", "networkAccess": true });
        let write = json!({ "type": "workspaceWrite", "writableRoots": ["/a", "/b"], "networkAccess": true });
        let other =
            json!({ "type": "workspaceWrite", "writableRoots": ["/b", "/c"], "excludeSlashTmp": true });
        let both = json!({ "type": "workspaceWrite", "writableRoots": ["/b"], "excludeSlashTmp": true });
        let some = json!({ "type": "readOnly",
            "access": { "type": "restricted", "readableRoots": ["/a", "/b"] } });
        let less = json!({ "type": "workspaceWrite",
            "readOnlyAccess": { "type": "restricted", "readableRoots": ["/b"] } });
        let least = json!({ "type": "readOnly",
            "access": { "type": "restricted", "readableRoots": ["/b"] } });
        for (one, two, expected) in [
            (&full, &full, &full),
            (&full, &write, &write),
            (&full, &outside, &outside),
            (&outside, &read, &read),
            (&read, &write, &read),
            (&read_net, &write, &read_net),
            (&read_net, &read, &read),
            (&write, &other, &both),
            (&some, &less, &least),
            (&some, &read, &some),
            (&json!({ "type": "later" }), &full, &read),
        ] {
            let one = policy(one.clone());
            let two = policy(two.clone());
            let expected = policy(expected.clone());
            assert_eq!(narrower_sandbox(&one, &two), expected, "{one:?} and {two:?}");
            assert_eq!(narrower_sandbox(&two, &one), expected, "{two:?} and {one:?}");
        }
    }

    #[test]
    fn the_narrower_of_two_approval_policies() {
        use AskForApproval::{Never, OnFailure, OnRequest, Untrusted};
        for (one, two, expected) in [
            (OnRequest, Never, Never),
            (Never, OnRequest, Never),
            (Never, Untrusted, Untrusted),
            (OnRequest, Untrusted, Untrusted),
            (OnFailure, OnRequest, OnRequest),
        ] {
            assert_eq!(narrower_policy(&one, &two), expected, "{one:?} and {two:?}");
        }
    }

    #[test]
    fn a_record_of_another_version_is_decoded_field_by_field() {
        let read = |snapshot: Value| {
            let settings = StoredSettings { model: Some("m".to_owned()), effort: None, version: 1, snapshot };
            StoredPermissions::read(Some(&settings))
        };
        assert_eq!(read(Value::Null), StoredPermissions::default());
        assert_eq!(StoredPermissions::read(None), StoredPermissions::default());
        let partial = read(json!({ "settings": { "sandbox": { "type": "dangerFullAccess" } } }));
        let expected = SandboxPolicy::DangerFullAccess;
        assert_eq!(partial, StoredPermissions { sandbox: Some(expected), ..StoredPermissions::default() });
        let later = read(json!({ "settings": { "sandbox": { "type": "later" }, "approvalPolicy": "later",
            "approvalsReviewer": "later", "profile": "later" } }));
        assert_eq!(
            later,
            StoredPermissions {
                sandbox: Some(read_only()),
                profile: None,
                approval_policy: Some(AskForApproval::Untrusted),
                approvals_reviewer: Some(ApprovalsReviewer::User),
            }
        );
        let damaged = read(json!({ "settings": { "sandbox": 7, "approvalPolicy": [1] } }));
        assert_eq!(damaged.sandbox, Some(read_only()));
        assert_eq!(damaged.approval_policy, Some(AskForApproval::Untrusted));
    }
}
