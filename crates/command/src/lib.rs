//! What a command does, and whether it may run.
//!
//! | question | answer |
//! |---|---|
//! | which programs does this line start? | [`CommandLine`] |
//! | how is it shown? | [`CommandLine::display`], [`command_actions`] |
//! | does it only read? could it do harm? | [`is_known_safe`], [`is_dangerous`] |
//! | what do the user's rules say? | [`Rules`], [`Verdict`] |
//! | may it run, must somebody be asked? | [`decide_command`], [`decide_retry`], [`decide_patch`], [`decide_permissions`] |
//! | what follows from the answer? | [`settle_command`], [`settle_patch`], [`Grants`], [`append_rule`] |
//!
//! Everything but [`Rules::load`] and [`append_rule`] is pure: the same input gives the same answer, and
//! nothing is looked up on the machine. A command is understood by its text alone, so what it is taken for
//! is never a reason to give it more than the policy allows.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod line;
mod mentions;
mod plain;
mod quote;
mod syntax;
mod word;

mod actions;
mod options;

mod dangerous;
mod safe;
mod safe_git;

mod rules;

mod decide;

pub use {
    actions::command_actions,
    dangerous::{is_dangerous, removes_by_force},
    decide::{
        Access, CommandRequest, Decision, Grants, Outcome, PatchDecision, PermissionsDecision, Policies,
        Question, SandboxPermissions, Topic, WritableRoots, decide_command, decide_patch, decide_permissions,
        decide_retry, settle_command, settle_patch, why_not_ask,
    },
    line::{CommandLine, Connector, PlainCommand},
    quote::join,
    rules::{
        Appended, NetworkRule, Rule, RuleDecision, Rules, RulesError, Verdict, append_rule,
        proposed_amendment,
    },
    safe::is_known_safe,
};
