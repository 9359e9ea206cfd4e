//! Decides whether an action may be done, needs a question to the user, or is refused.
//!
//! The policies, the user's rules, what is known about a command, and what the user has agreed to earlier come together
//! only here. All functions are pure: the caller asks the user and runs the command.

mod access;
mod command;
mod grants;
mod network;
mod outcome;
mod patch;
mod policies;

pub use {
    access::{AccessGrant, PermissionsDecision, decide_permissions},
    command::{
        CommandDecision, CommandQuestion, CommandRequest, SandboxPermissions, decide_command, decide_retry,
    },
    grants::ThreadGrants,
    network::{
        AddressReach, NetworkDecision, NetworkDestination, NetworkOutcome, NetworkPolicies, NetworkQuestion,
        decide_network, settle_network,
    },
    outcome::{ApprovalOutcome, settle_command},
    patch::{PatchDecision, decide_patch, settle_patch},
    policies::{DecisionPolicies, QuestionTopic, why_not_ask},
};
