//! What the policies say by themselves, whatever the command.

use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};

use crate::{decide::Grants, rules::Rules};

/// What a decision is made under.
#[derive(Clone, Copy, Debug)]
pub struct Policies<'a> {
    pub approval: &'a AskForApproval,
    pub sandbox: &'a SandboxPolicy,
    pub rules: &'a Rules,
    /// What people have agreed to earlier in the thread.
    pub grants: &'a Grants,
}

/// What a question is about; `granular` has a switch for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// A rule says to ask.
    Rule,
    /// Leaving the sandbox, or doing harm in it.
    Sandbox,
    /// More permissions within the sandbox.
    Permissions,
    /// Not known to only read.
    Trust,
}

impl Policies<'_> {
    /// Why nobody may be asked, if so.
    pub(super) fn no_question(&self, topic: Topic) -> Option<&'static str> {
        match (self.approval, topic) {
            (AskForApproval::Never, _) => Some("the approval policy is `never`"),
            (AskForApproval::Granular { rules: false, .. }, Topic::Rule)
            | (AskForApproval::Granular { sandbox_approval: false, .. }, Topic::Sandbox | Topic::Trust)
            | (AskForApproval::Granular { request_permissions: false, .. }, Topic::Permissions) => {
                Some("the approval policy does not allow to ask about it")
            }
            _ => None,
        }
    }

    /// Whether everything that is not known to only read is asked about. A policy that this version does
    /// not know is taken for the most careful one.
    pub(super) fn trusts_nothing(&self) -> bool {
        matches!(self.approval, AskForApproval::Untrusted | AskForApproval::Unrecognized(_))
    }

    /// Whether a question follows when the sandbox has stopped something.
    pub(super) fn asks_after_failure(&self) -> bool {
        match self.approval {
            AskForApproval::OnFailure | AskForApproval::Untrusted | AskForApproval::Unrecognized(_) => true,
            AskForApproval::Granular { sandbox_approval, .. } => *sandbox_approval,
            // Here the model asks beforehand, or nobody does.
            AskForApproval::OnRequest | AskForApproval::Never => false,
        }
    }

    pub(super) fn never_asks(&self) -> bool {
        matches!(self.approval, AskForApproval::Never)
    }

    /// Whether commands run in a sandbox of ours.
    pub(super) fn confines(&self) -> bool {
        match self.sandbox {
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => false,
            SandboxPolicy::ReadOnly { .. }
            | SandboxPolicy::WorkspaceWrite { .. }
            | SandboxPolicy::Unrecognized(_) => true,
        }
    }

    /// Whether the sandbox lets everything be read.
    pub(super) fn reads_everything(&self) -> bool {
        match self.sandbox {
            SandboxPolicy::ReadOnly { access, .. }
            | SandboxPolicy::WorkspaceWrite { read_only_access: access, .. } => {
                matches!(access, ReadOnlyAccess::FullAccess)
            }
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => true,
            SandboxPolicy::Unrecognized(_) => false,
        }
    }
}
