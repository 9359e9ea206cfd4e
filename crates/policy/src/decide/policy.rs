//! What the policies say by themselves, whatever the command.

use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};

use crate::{decide::ThreadGrants, rules::CommandRules};

/// What a decision is made under.
#[derive(Clone, Copy, Debug)]
pub struct DecisionPolicies<'a> {
    pub approval: &'a AskForApproval,
    pub sandbox: &'a SandboxPolicy,
    pub rules: &'a CommandRules,
    /// What people have agreed to earlier in the thread.
    pub grants: &'a ThreadGrants,
}

/// What a question is about; `granular` has a switch for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionTopic {
    /// Leaving the sandbox, more permissions in it for one command, doing harm in it, writing outside it.
    Sandbox,
    /// A rule says to ask.
    Rules,
    /// Running what a skill brings along.
    Skills,
    /// More permissions for commands to come.
    Permissions,
    /// A question of an MCP server.
    McpElicitations,
}

/// Why nobody may be asked about a topic, if so: for the model, as the beginning of a sentence.
pub fn why_not_ask(approval: &AskForApproval, topic: QuestionTopic) -> Option<&'static str> {
    let may_ask = match approval {
        AskForApproval::Never => return Some("the approval policy is `never`"),
        AskForApproval::Granular {
            sandbox_approval,
            rules,
            skill_approval,
            request_permissions,
            mcp_elicitations,
        } => match topic {
            QuestionTopic::Sandbox => *sandbox_approval,
            QuestionTopic::Rules => *rules,
            QuestionTopic::Skills => *skill_approval,
            QuestionTopic::Permissions => *request_permissions,
            QuestionTopic::McpElicitations => *mcp_elicitations,
        },
        AskForApproval::Untrusted
        | AskForApproval::OnFailure
        | AskForApproval::OnRequest
        | AskForApproval::Unrecognized(_) => true,
    };
    (!may_ask).then_some("the approval policy does not allow to ask about it")
}

impl DecisionPolicies<'_> {
    pub(super) fn why_not_ask(&self, topic: QuestionTopic) -> Option<&'static str> {
        why_not_ask(self.approval, topic)
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
