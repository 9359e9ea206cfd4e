//! What a command does, and whether it may run.
//!
//! | question | answered by |
//! |---|---|
//! | Which programs does a command line start? | [`CommandLine`] |
//! | How is it displayed? | [`CommandLine::display`], [`command_actions`] |
//! | Does it only read? Could it do harm? | [`is_known_safe`], [`is_dangerous`] |
//! | What do the user's rules say about it? | [`CommandRules`], [`RuleVerdict`] |
//! | May it run, or must the user be asked? | [`decide_command`], [`decide_retry`], [`decide_patch`], [`decide_permissions`] |
//! | May it connect to a host? | [`decide_network`], [`settle_network`], [`DomainRules`] |
//! | What follows from the user's answer? | [`settle_command`], [`settle_patch`], [`ThreadGrants`], [`append_rule`] |
//!
//! Everything except [`CommandRules::load`], [`append_rule`] and [`append_network_rule`] is pure: the same input gives the
//! same result, and nothing is looked up on the machine. A command is classified by its text alone, which can be wrong.
//! So the classification decides whether the user is asked, never whether a command gets more than the policy allows.
//!
//! The shell is not parsed by a library alone: `tree-sitter-bash` proposes where the words are, and `plain_commands.rs` and
//! `shell_word.rs`, written by hand, accept only what every shell reads in the same way.
//!
//! From a model's call to a decision, and the effect of an answer:
//!
//! ```
//! use std::path::Path;
//!
//! use codicil_policy::*;
//! use codicil_protocol::{AskForApproval, ReadOnlyAccess, SandboxPolicy};
//!
//! let sandbox = SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };
//! let approval = AskForApproval::OnRequest;
//! let mut rules = CommandRules::default();
//! let mut grants = ThreadGrants::default();
//! // In an async function, call this in `spawn_blocking`: a malformed line can take long.
//! let line = CommandLine::new(["/bin/bash", "-lc", "touch -c a"].map(str::to_owned).to_vec());
//! let request = CommandRequest {
//!     line: &line,
//!     cwd: Path::new("/work"),
//!     permissions: &SandboxPermissions::RequireEscalated,
//!     justification: Some("May I?"),
//!     prefix_rule: None,
//!     skill_folders: &[],
//! };
//!
//! let policies =
//!     DecisionPolicies { approval: &approval, sandbox: &sandbox, rules: &rules, grants: &grants };
//! let run = match decide_command(&request, &policies) {
//!     CommandDecision::Run { sandboxed } => Some(sandboxed),
//!     CommandDecision::Refuse { why } => panic!("an error for the model: {why}"),
//!     CommandDecision::Ask(question) => {
//!         assert_eq!(question.reason.as_deref(), Some("May I?"));
//!         let answer = question.decisions[1].clone(); // as if the user had chosen the second one
//!         match settle_command(&answer, &request, &question, &mut grants) {
//!             ApprovalOutcome::Accepted { amendment } => {
//!                 amendment.iter().for_each(|words| rules.allow(words)); // and `append_rule`, on disk
//!                 Some(question.sandboxed)
//!             }
//!             ApprovalOutcome::Declined | ApprovalOutcome::Cancelled => None,
//!         }
//!     }
//! };
//! assert_eq!(run, Some(false));
//! assert_eq!(rules.verdict(&line), RuleVerdict::Allowed);
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod command_line;
mod plain_commands;
mod shell_word;
mod syntax;

mod git_words;
mod mentioned_commands;
mod options;
mod wrappers;

mod actions;

mod dangerous;
mod safe;
mod safe_git;

mod network;
mod rules;

mod decide;

pub use {
    actions::command_actions,
    command_line::{CommandConnector, CommandLine, PlainCommand, join},
    dangerous::is_dangerous,
    decide::{
        AccessGrant, AddressReach, ApprovalOutcome, CommandDecision, CommandQuestion, CommandRequest,
        DecisionPolicies, NetworkDecision, NetworkDestination, NetworkOutcome, NetworkPolicies,
        NetworkQuestion, PatchDecision, PermissionsDecision, QuestionTopic, SandboxPermissions, ThreadGrants,
        decide_command, decide_network, decide_patch, decide_permissions, decide_retry, settle_command,
        settle_network, settle_patch, why_not_ask,
    },
    network::{DomainPattern, DomainRules, HostName, is_public},
    rules::{
        CommandRule, CommandRules, NetworkRule, RuleAppended, RuleDecision, RuleVerdict, RulesError,
        append_network_rule, append_rule,
    },
    safe::is_known_safe,
};
