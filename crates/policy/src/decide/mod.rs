//! May this run? The one place where policies, rules, what is known of a command, and what people have
//! already agreed to come together. Pure functions over plain data; asking and running are the caller's.

mod access;
mod answer;
mod command;
mod grants;
mod network;
mod patch;
mod permissions;
mod policy;

pub use {
    access::AccessGrant,
    answer::{ApprovalOutcome, settle_command, settle_patch},
    command::{
        CommandDecision, CommandQuestion, CommandRequest, SandboxPermissions, decide_command, decide_retry,
    },
    grants::ThreadGrants,
    network::{
        AddressReach, NetworkDecision, NetworkDestination, NetworkOutcome, NetworkPolicies, NetworkQuestion,
        decide_network, settle_network,
    },
    patch::{PatchDecision, decide_patch},
    permissions::{PermissionsDecision, decide_permissions},
    policy::{DecisionPolicies, QuestionTopic, why_not_ask},
};
