//! The policies that a decision depends on, and the questions that they allow.

use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};

use crate::{decide::ThreadGrants, rules::CommandRules};

/// The policies, rules and grants for a decision.
#[derive(Clone, Copy, Debug)]
pub struct DecisionPolicies<'a> {
    pub approval: &'a AskForApproval,
    pub sandbox: &'a SandboxPolicy,
    pub rules: &'a CommandRules,
    /// Earlier answers of the user in this thread.
    pub grants: &'a ThreadGrants,
}

/// The topic of a question. The policy `granular` has a switch for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionTopic {
    /// Running without the sandbox, more permissions for one command, a command that could do harm, writing outside.
    Sandbox,
    /// A rule that demands a question.
    Rules,
    /// The same as for the sandbox, for a command that runs a program of a skill.
    Skills,
    /// More permissions for later commands.
    Permissions,
    /// A question of an MCP server.
    McpElicitations,
}

/// Returns why the user may not be asked about a topic, as the beginning of a sentence for the model. `None` if the user
/// may be asked.
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

    /// Returns whether every action needs a question unless it is known to only read. A policy that this version does not
    /// know is treated as the strictest one.
    pub(super) fn asks_unless_known_safe(&self) -> bool {
        matches!(self.approval, AskForApproval::Untrusted | AskForApproval::Unrecognized(_))
    }

    /// Returns whether the user is asked after the sandbox has made a command fail; `topic` is that of the question.
    pub(super) fn asks_after_failure(&self, topic: QuestionTopic) -> bool {
        match self.approval {
            AskForApproval::OnFailure | AskForApproval::Untrusted | AskForApproval::Unrecognized(_) => true,
            AskForApproval::Granular { .. } => self.why_not_ask(topic).is_none(),
            // With `on-request` the model asks beforehand; with `never` there are no questions.
            AskForApproval::OnRequest | AskForApproval::Never => false,
        }
    }

    pub(super) fn never_asks(&self) -> bool {
        matches!(self.approval, AskForApproval::Never)
    }

    /// Returns whether commands run in a sandbox of the server.
    pub(super) fn confines(&self) -> bool {
        match self.sandbox {
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => false,
            SandboxPolicy::ReadOnly { .. }
            | SandboxPolicy::WorkspaceWrite { .. }
            | SandboxPolicy::Unrecognized(_) => true,
        }
    }

    /// Returns whether commands can read everything.
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
