//! Decisions about hosts that a sandboxed command wants to connect to.

use codicil_protocol::{
    AskForApproval, CommandExecutionApprovalDecision as Answer, NetworkApprovalProtocol as Protocol,
    NetworkPolicyAmendment, NetworkPolicyRuleAction as Action,
};

use crate::{
    decide::{ThreadGrants, policies::QuestionTopic, why_not_ask},
    network::{DomainRules, HostName},
    rules::{CommandRules, NetworkRule, RuleDecision},
};

/// A destination that a command wants to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDestination {
    pub host: HostName,
    pub port: u16,
    pub protocol: Protocol,
}

/// The policies, rules and grants for a decision about a host.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPolicies<'a> {
    pub approval: &'a AskForApproval,
    pub rules: &'a CommandRules,
    pub domains: &'a DomainRules,
    pub grants: &'a ThreadGrants,
    /// Whether the command's own permissions include the whole network.
    pub is_open: bool,
}

/// The decision about a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkDecision {
    Connect(AddressReach),
    Ask(NetworkQuestion),
    /// The command and the model get `why`.
    Refuse {
        why: String,
    },
}

/// The addresses that a connection to a host may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    /// Public addresses only. A name may resolve to any address.
    Public,
    /// Also addresses of this machine and of private networks, because the host was allowed explicitly.
    Anywhere,
}

/// A question to the user about a host.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkQuestion {
    pub reason: String,
    /// Rules that would make the question unnecessary, and are offered as answers.
    pub amendments: Vec<NetworkPolicyAmendment>,
    /// The answers to offer.
    pub decisions: Vec<Answer>,
    /// The addresses that the connection may use once it is accepted.
    pub reach: AddressReach,
}

/// The outcome of a question about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkOutcome {
    /// This command may connect. With a rule, all commands may from now on.
    Accepted { rule: Option<NetworkRule> },
    /// This command may not connect. With a rule, no command may from now on.
    Declined { rule: Option<NetworkRule> },
    /// The command may not connect, and the turn ends.
    Cancelled,
}

/// Decides whether a command may connect to a host.
pub fn decide_network(to: &NetworkDestination, policies: &NetworkPolicies<'_>) -> NetworkDecision {
    let NetworkPolicies { rules, domains, grants, .. } = *policies;
    let refuse = |why: String| NetworkDecision::Refuse { why };
    let host = &to.host;
    if domains.denies(host) {
        return refuse(format!("{host} is denied by the configuration"));
    }
    let rule = rules.decision_for_host(host, &to.protocol);
    if let Some(RuleDecision::Forbidden) = rule {
        return refuse(format!("{host} is denied by a rule of the user"));
    }
    if grants.denies_host(to) {
        return refuse(format!("{host} was denied by the user"));
    }
    // The administrator's list is final: no rule, grant or permission of the user extends it.
    if domains.is_complete && !domains.allows(host) {
        return refuse(format!("{host} is not among the hosts that the administrator allows"));
    }
    let is_allowed = rule == Some(RuleDecision::Allow);
    // A pattern such as `*` does not include this machine.
    let is_named = is_allowed || domains.allows_by_name(host);
    if host.is_local() && !domains.local && !is_named {
        return refuse(format!("{host} is not a public host, and the configuration does not name it"));
    }
    let reach = if domains.local || (host.is_local() && is_named) {
        AddressReach::Anywhere
    } else {
        AddressReach::Public
    };
    if rule != Some(RuleDecision::Prompt) && (is_allowed || domains.allows(host) || policies.is_open) {
        return NetworkDecision::Connect(reach);
    }
    if grants.allows_host(to) {
        return NetworkDecision::Connect(reach);
    }
    match why_not_ask(policies.approval, QuestionTopic::Sandbox) {
        Some(cause) => refuse(format!("{cause}, and {host} is not among the allowed hosts")),
        None => NetworkDecision::Ask(NetworkQuestion::new(host, reach)),
    }
}

/// Applies an answer about a host. An answer is valid even if it was not offered; one that this version does not know
/// declines. An amendment for another host adds no rule.
pub fn settle_network(answer: &Answer, to: &NetworkDestination, grants: &mut ThreadGrants) -> NetworkOutcome {
    match answer {
        Answer::Accept | Answer::AcceptWithExecpolicyAmendment { .. } => {
            NetworkOutcome::Accepted { rule: None }
        }
        Answer::AcceptForSession => {
            grants.allow_host(to);
            NetworkOutcome::Accepted { rule: None }
        }
        Answer::ApplyNetworkPolicyAmendment { network_policy_amendment: amendment } => {
            let is_same = HostName::parse(&amendment.host).as_ref() == Some(&to.host);
            let rule = |decision| is_same.then(|| NetworkRule::amendment(to, decision));
            match amendment.action {
                Action::Allow => {
                    grants.allow_host(to);
                    NetworkOutcome::Accepted { rule: rule(RuleDecision::Allow) }
                }
                Action::Deny | Action::Unrecognized(_) => {
                    grants.deny_host(to);
                    NetworkOutcome::Declined { rule: rule(RuleDecision::Forbidden) }
                }
            }
        }
        Answer::Decline | Answer::Unrecognized(_) => NetworkOutcome::Declined { rule: None },
        Answer::Cancel => NetworkOutcome::Cancelled,
    }
}

impl NetworkQuestion {
    fn new(host: &HostName, reach: AddressReach) -> Self {
        let amendment = |action| NetworkPolicyAmendment { host: host.to_string(), action };
        let allow = amendment(Action::Allow);
        let decisions = vec![
            Answer::Accept,
            Answer::AcceptForSession,
            Answer::ApplyNetworkPolicyAmendment { network_policy_amendment: allow.clone() },
            Answer::Cancel,
        ];
        let reason = format!("{host} is not in the allowed_domains");
        Self { reason, amendments: vec![allow, amendment(Action::Deny)], decisions, reach }
    }
}
