//! What a command does, and whether it may run.
//!
//! | question | answer |
//! |---|---|
//! | which programs does this line start? | [`CommandLine`] |
//! | how is it shown? | [`CommandLine::display`], [`command_actions`] |
//! | does it only read? could it do harm? | [`is_known_safe`], [`is_dangerous`] |
//! | what do the user's rules say? | [`CommandRules`], [`RuleVerdict`] |
//! | may it run, must somebody be asked? | [`decide_command`], [`decide_retry`], [`decide_patch`], [`decide_permissions`] |
//! | may it reach a host? | [`decide_network`], [`settle_network`], [`DomainRules`] |
//! | what follows from the answer? | [`settle_command`], [`settle_patch`], [`ThreadGrants`], [`append_rule`] |
//!
//! Everything but [`CommandRules::load`], [`append_rule`] and [`append_network_rule`] is pure: the same input gives
//! the same answer, and nothing is looked up on the machine. A command is understood by its text alone, so
//! what it is taken for is never a reason to give it more than the policy allows.
//!
//! From a call of the model to what happens, and what an answer changes:
//!
//! ```
//! use std::path::Path;
//!
//! use codicil_policy::*;
//! use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};
//!
//! let sandbox = SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };
//! let (approval, mut rules, mut grants) = (AskForApproval::OnRequest, Rules::default(), Grants::default());
//! // In an async function by `spawn_blocking`, if `CommandLine::takes_long`.
//! let line = CommandLine::new(["/bin/bash", "-lc", "touch -c a"].map(str::to_owned).to_vec());
//! let permissions = SandboxPermissions::RequireEscalated;
//! let (cwd, justification) = (Path::new("/work"), Some("May I?"));
//! let request = CommandRequest { line: &line, cwd, permissions: &permissions, justification, prefix_rule: None };
//!
//! let policies = Policies { approval: &approval, sandbox: &sandbox, rules: &rules, grants: &grants };
//! let run = match decide_command(&request, &policies) {
//!     Decision::Run { sandboxed } => Some(sandboxed),
//!     Decision::Refuse { why } => panic!("the model is told: {why}"),
//!     Decision::Ask(question) => {
//!         assert_eq!(question.reason.as_deref(), Some("May I?"));
//!         let answer = question.decisions[1].clone(); // as if somebody had chosen the second
//!         match settle_command(&answer, &request, &question, &mut grants) {
//!             Outcome::Accepted { amendment } => {
//!                 amendment.iter().for_each(|words| rules.allow(words)); // and `append_rule`, on disk
//!                 Some(question.sandboxed)
//!             }
//!             Outcome::Declined | Outcome::Cancelled => None,
//!         }
//!     }
//! };
//! assert_eq!(run, Some(false));
//! assert_eq!(rules.judge(&line), Verdict::Allowed);
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod git_words;
mod line;
mod mentions;
mod plain;
mod quote;
mod syntax;
mod word;
mod wrappers;

mod actions;
mod options;

mod dangerous;
mod safe;
mod safe_git;

mod network;
mod rules;

mod decide;

pub use {
    actions::command_actions,
    dangerous::is_dangerous,
    decide::{
        AccessGrant, AddressReach, ApprovalOutcome, CommandDecision, CommandQuestion, CommandRequest,
        DecisionPolicies, NetworkDecision, NetworkDestination, NetworkOutcome, NetworkPolicies,
        NetworkQuestion, PatchDecision, PermissionsDecision, QuestionTopic, SandboxPermissions, ThreadGrants,
        decide_command, decide_network, decide_patch, decide_permissions, decide_retry, settle_command,
        settle_network, settle_patch, why_not_ask,
    },
    line::{CommandConnector, CommandLine, PlainCommand},
    network::{DomainPattern, DomainRules, HostName, is_public},
    quote::join,
    rules::{
        CommandRule, CommandRules, NetworkRule, RuleAppended, RuleDecision, RuleVerdict, RulesError,
        append_network_rule, append_rule,
    },
    safe::is_known_safe,
};
