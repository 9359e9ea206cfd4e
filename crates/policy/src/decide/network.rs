//! Decisions about hosts that a sandboxed command wants to reach.

use codicil_protocol::{
    AskForApproval, CommandExecutionApprovalDecision as Answer, NetworkApprovalProtocol as Protocol,
    NetworkPolicyAmendment, NetworkPolicyRuleAction as Action,
};

use crate::{
    decide::{ThreadGrants, policy::QuestionTopic, why_not_ask},
    network::{DomainRules, HostName},
    rules::{CommandRules, NetworkRule, RuleDecision},
};

/// Where a command wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDestination {
    pub host: HostName,
    pub port: u16,
    pub protocol: Protocol,
}

/// What a decision about a host is made under.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPolicies<'a> {
    pub approval: &'a AskForApproval,
    pub rules: &'a CommandRules,
    pub domains: &'a DomainRules,
    pub grants: &'a ThreadGrants,
    /// What the command itself may have beyond its policy includes all of the network.
    pub is_open: bool,
}

/// What is to happen to a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkDecision {
    Connect(AddressReach),
    Ask(NetworkQuestion),
    /// The command is told `why`, and so is the model.
    Refuse {
        why: String,
    },
}

/// Which addresses of a host count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    /// Only those that are out in the open: a name may lead anywhere.
    Public,
    /// Also those of this machine and its networks, which was said in so many words.
    Anywhere,
}

/// What somebody is asked about a host.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkQuestion {
    pub reason: String,
    /// Rules that would make the question unnecessary, one of which may be the answer.
    pub amendments: Vec<NetworkPolicyAmendment>,
    /// The answers to offer.
    pub decisions: Vec<Answer>,
    /// Which addresses count once it is accepted.
    pub reach: AddressReach,
}

/// What follows from an answer about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkOutcome {
    /// For the command that asked; with a rule, for everybody from now on.
    Accepted { rule: Option<NetworkRule> },
    /// Not for this command; with a rule, for nobody from now on.
    Declined { rule: Option<NetworkRule> },
    /// And the turn ends.
    Cancelled,
}

/// May a command reach this host?
pub fn decide_network(to: &NetworkDestination, policies: &NetworkPolicies<'_>) -> NetworkDecision {
    let NetworkPolicies { rules, domains, grants, .. } = *policies;
    let refuse = |why: String| NetworkDecision::Refuse { why };
    let host = &to.host;
    if domains.deny(host) {
        return refuse(format!("{host} is denied by the configuration"));
    }
    let rule = rules.judge_host(host, &to.protocol);
    if let Some(RuleDecision::Forbidden) = rule {
        return refuse(format!("{host} is denied by a rule of the user"));
    }
    if grants.denies_host(to) {
        return refuse(format!("{host} was denied by the user"));
    }
    let is_allowed = rule == Some(RuleDecision::Allow);
    // A pattern such as `*` does not mean the machine itself.
    let is_named = is_allowed || domains.name(host);
    if host.is_local() && !domains.local && !is_named {
        return refuse(format!("{host} is not a public host, and the configuration does not name it"));
    }
    let reach = match domains.local || (host.is_local() && is_named) {
        true => AddressReach::Anywhere,
        false => AddressReach::Public,
    };
    if rule != Some(RuleDecision::Prompt) && (is_allowed || domains.allow(host) || policies.is_open) {
        return NetworkDecision::Connect(reach);
    }
    if grants.allows_host(to) {
        return NetworkDecision::Connect(reach);
    }
    if domains.is_complete {
        return refuse(format!("{host} is not among the hosts that the administrator allows"));
    }
    match why_not_ask(policies.approval, QuestionTopic::Sandbox) {
        Some(cause) => refuse(format!("{cause}, and {host} is not among the allowed hosts")),
        None => NetworkDecision::Ask(NetworkQuestion::new(host, reach)),
    }
}

/// Takes an answer about a host. An answer counts whether or not it was among those offered; one that this
/// version does not know is a no, and a rule about another host is no rule.
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
