//! Decisions about hosts, and the effects of answers.

use codicil_policy::*;
use codicil_protocol::{
    AskForApproval, CommandExecutionApprovalDecision as Answer, NetworkApprovalProtocol as Protocol,
    NetworkPolicyAmendment, NetworkPolicyRuleAction as Action,
};

use std::path::Path;

fn to(host: &str) -> NetworkDestination {
    NetworkDestination { host: HostName::parse(host).unwrap(), port: 443, protocol: Protocol::Https }
}

fn patterns(written: &[&str]) -> Vec<DomainPattern> {
    written.iter().map(|pattern| DomainPattern::parse(pattern).unwrap()).collect()
}

struct Case {
    approval: AskForApproval,
    rules: CommandRules,
    domains: DomainRules,
    grants: ThreadGrants,
    is_open: bool,
}

fn case() -> Case {
    Case {
        approval: AskForApproval::OnRequest,
        rules: CommandRules::default(),
        domains: DomainRules::default(),
        grants: ThreadGrants::default(),
        is_open: false,
    }
}

impl Case {
    fn decide(&self, to: &NetworkDestination) -> NetworkDecision {
        let Self { approval, rules, domains, grants, is_open } = self;
        decide_network(to, &NetworkPolicies { approval, rules, domains, grants, is_open: *is_open })
    }

    #[track_caller]
    fn check(&self, host: &str, expected: &str) {
        let decided = match self.decide(&to(host)) {
            NetworkDecision::Connect(AddressReach::Public) => "connect".to_owned(),
            NetworkDecision::Connect(AddressReach::Anywhere) => "connect anywhere".to_owned(),
            NetworkDecision::Ask(_) => "ask".to_owned(),
            NetworkDecision::Refuse { why } => why,
        };
        assert_eq!(decided, expected, "{host}");
    }
}

fn rules(text: &str) -> CommandRules {
    CommandRules::parse(Path::new("test.rules"), text).unwrap()
}

#[test]
fn unknown_hosts_need_a_question() {
    let case = case();
    case.check("example.com", "ask");
    let NetworkDecision::Ask(question) = case.decide(&to("example.com")) else { panic!("not asked") };
    assert_eq!(question.reason, "example.com is not in the allowed_domains");
    let amendment = |action| NetworkPolicyAmendment { host: "example.com".to_owned(), action };
    assert_eq!(question.amendments, [amendment(Action::Allow), amendment(Action::Deny)]);
    let allow = Answer::ApplyNetworkPolicyAmendment { network_policy_amendment: amendment(Action::Allow) };
    assert_eq!(question.decisions, [Answer::Accept, Answer::AcceptForSession, allow, Answer::Cancel]);
}

#[test]
fn without_questions_unknown_hosts_are_refused() {
    let mut case = case();
    case.approval = AskForApproval::Never;
    case.check(
        "example.com",
        "the approval policy is `never`, and example.com is not among the allowed hosts",
    );
    case.domains.allowed = patterns(&["example.com"]);
    case.check("example.com", "connect");
    case.approval = AskForApproval::Granular {
        sandbox_approval: false,
        rules: true,
        skill_approval: true,
        request_permissions: true,
        mcp_elicitations: true,
    };
    case.check(
        "other.example",
        "the approval policy does not allow to ask about it, and other.example is not among the allowed hosts",
    );
    case.approval = AskForApproval::OnRequest;
    case.domains.is_complete = true;
    case.check("other.example", "other.example is not among the hosts that the administrator allows");
}

#[test]
fn users_do_not_extend_the_list_of_the_administrator() {
    let mut case = case();
    case.domains.allowed = patterns(&["good.example"]);
    case.domains.is_complete = true;
    case.rules = rules(r#"network_rule(host="other.example", protocol="https", decision="allow")"#);
    case.is_open = true;
    case.check("good.example", "connect");
    case.check("other.example", "other.example is not among the hosts that the administrator allows");
    case.domains.is_complete = false;
    case.check("other.example", "connect");
}

#[test]
fn denied_hosts_take_precedence() {
    let mut case = case();
    case.domains.allowed = patterns(&["*"]);
    case.domains.denied = patterns(&["**.evil.example"]);
    case.check("good.example", "connect");
    case.check("evil.example", "evil.example is denied by the configuration");
    case.check("a.evil.example", "a.evil.example is denied by the configuration");
    case.is_open = true;
    case.check("evil.example", "evil.example is denied by the configuration");
    case.rules = rules("network_rule(host=\"good.example\", protocol=\"http\", decision=\"deny\")");
    case.check("good.example", "good.example is denied by a rule of the user");
}

#[test]
fn rules_allow_their_own_protocol_only() {
    let mut case = case();
    case.rules = rules(
        "network_rule(host=\"a.example\", protocol=\"https\", decision=\"allow\")\n\
         network_rule(host=\"b.example\", protocol=\"http\", decision=\"allow\")\n\
         network_rule(host=\"c.example\", protocol=\"https\", decision=\"prompt\")\n\
         network_rule(host=\"127.0.0.1\", decision=\"allow\")",
    );
    case.check("a.example", "connect");
    case.check("sub.a.example", "ask");
    case.check("b.example", "ask");
    case.domains.allowed = patterns(&["*"]);
    case.check("c.example", "ask");
    case.check("127.0.0.1", "connect anywhere");
}

#[test]
fn this_machine_must_be_named() {
    let mut case = case();
    let why = "localhost is not a public host, and the configuration does not name it";
    case.check("localhost", why);
    case.domains.allowed = patterns(&["*"]);
    case.check("localhost", why);
    case.is_open = true;
    case.check(
        "169.254.169.254",
        "169.254.169.254 is not a public host, and the configuration does not name it",
    );
    case.domains.allowed = patterns(&["localhost"]);
    case.check("localhost", "connect anywhere");
    // The name may resolve to any address; the proxy checks them later.
    case.domains.allowed = patterns(&["intranet.example"]);
    case.check("intranet.example", "connect");
    case.domains.local = true;
    case.is_open = false;
    case.check("localhost", "ask");
    case.check("intranet.example", "connect anywhere");
}

#[test]
fn answers_have_their_lifetime() {
    let mut case = case();
    let host = to("example.com");
    let settle = |case: &mut Case, answer: Answer| settle_network(&answer, &host, &mut case.grants);
    assert_eq!(settle(&mut case, Answer::Accept), NetworkOutcome::Accepted { rule: None });
    case.check("example.com", "ask");
    assert_eq!(settle(&mut case, Answer::Decline), NetworkOutcome::Declined { rule: None });
    case.check("example.com", "ask");
    assert_eq!(settle(&mut case, Answer::Cancel), NetworkOutcome::Cancelled);
    assert_eq!(settle(&mut case, Answer::AcceptForSession), NetworkOutcome::Accepted { rule: None });
    case.check("example.com", "connect");
    assert!(matches!(case.decide(&NetworkDestination { port: 80, ..host.clone() }), NetworkDecision::Ask(_)));
}

#[test]
fn an_amendment_adds_a_rule_for_the_host_of_the_question() {
    let home = tempfile::TempDir::new().unwrap();
    let host = to("example.com");
    let amend = |named: &str, action| {
        let amendment = NetworkPolicyAmendment { host: named.to_owned(), action };
        let answer = Answer::ApplyNetworkPolicyAmendment { network_policy_amendment: amendment };
        settle_network(&answer, &host, &mut ThreadGrants::default())
    };
    assert_eq!(amend("other.example", Action::Allow), NetworkOutcome::Accepted { rule: None });
    let NetworkOutcome::Accepted { rule: Some(allow) } = amend("Example.com", Action::Allow) else {
        panic!()
    };
    let NetworkOutcome::Declined { rule: Some(deny) } = amend("example.com", Action::Deny) else { panic!() };
    assert_eq!(append_network_rule(home.path(), &allow).unwrap(), RuleAppended::Added);
    assert_eq!(append_network_rule(home.path(), &allow).unwrap(), RuleAppended::AlreadyThere);
    let text = std::fs::read_to_string(home.path().join("default.rules")).unwrap();
    assert_eq!(
        text,
        "network_rule(host=\"example.com\", protocol=\"https\", decision=\"allow\", \
         justification=\"Allow https_connect access to example.com\")\n"
    );
    let load = || CommandRules::load(&[home.path().to_owned()]).0;
    let mut case = case();
    case.rules = load();
    case.check("example.com", "connect");
    append_network_rule(home.path(), &deny).unwrap();
    case.rules = load();
    case.check("example.com", "example.com is denied by a rule of the user");
}

#[test]
fn rules_with_invalid_hosts_are_errors() {
    let refused = |text: &str| CommandRules::parse(Path::new("test.rules"), text).unwrap_err().to_string();
    let wild = refused("network_rule(host=\"*.example.com\", protocol=\"https\", decision=\"allow\")");
    assert_eq!(wild, "test.rules:1: `*.example.com` is not the name or the address of one host");
    let odd = refused("network_rule(host=\"a.example\", protocol=\"gopher\", decision=\"allow\")");
    assert!(odd.contains("unknown protocol `gopher`"), "{odd}");
}
