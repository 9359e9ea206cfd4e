//! Decisions about commands: a row per case, for every policy.

use std::path::{Path, PathBuf};

use SandboxPermissions::{RequireEscalated, UseDefault};
use codicil_policy::{
    AccessGrant, CommandDecision, CommandLine, CommandQuestion, CommandRequest, CommandRules,
    DecisionPolicies, SandboxPermissions, ThreadGrants, decide_command, decide_retry,
};
use codicil_protocol::{
    AskForApproval, CommandExecutionApprovalDecision as Answer, NetworkAccess, PermissionGrantScope,
    ReadOnlyAccess, SandboxPolicy,
};

use crate::support::{bash, words};

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
}

fn workspace_write() -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: Vec::new(),
        read_only_access: ReadOnlyAccess::FullAccess,
        network_access: false,
        exclude_tmpdir_env_var: false,
        exclude_slash_tmp: false,
    }
}

fn restricted_reading() -> SandboxPolicy {
    let access = ReadOnlyAccess::Restricted { include_platform_defaults: true, readable_roots: Vec::new() };
    SandboxPolicy::ReadOnly { access, network_access: false }
}

const FULL: SandboxPolicy = SandboxPolicy::DangerFullAccess;
const EXTERNAL: SandboxPolicy = SandboxPolicy::ExternalSandbox { network_access: NetworkAccess::Restricted };

fn granular(sandbox_approval: bool, rules: bool, request_permissions: bool) -> AskForApproval {
    AskForApproval::Granular {
        sandbox_approval,
        rules,
        skill_approval: false,
        request_permissions,
        mcp_elicitations: false,
    }
}

/// A decision in a short form for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    Inside,
    Outside,
    Ask,
    AskThenOutside,
    Refuse,
}
use Short::*;

fn short(decision: &CommandDecision) -> Short {
    match decision {
        CommandDecision::Run { sandboxed: true } => Inside,
        CommandDecision::Run { sandboxed: false } => Outside,
        CommandDecision::Ask(CommandQuestion { sandboxed: true, .. }) => Ask,
        CommandDecision::Ask(CommandQuestion { sandboxed: false, .. }) => AskThenOutside,
        CommandDecision::Refuse { .. } => Refuse,
    }
}

struct Case<'a> {
    script: &'a str,
    permissions: SandboxPermissions,
    rules: &'a str,
    grants: ThreadGrants,
    justification: Option<&'a str>,
    prefix_rule: Option<Vec<String>>,
}

fn case(script: &str) -> Case<'_> {
    Case {
        script,
        permissions: UseDefault,
        rules: "",
        grants: ThreadGrants::default(),
        justification: None,
        prefix_rule: None,
    }
}

impl Case<'_> {
    fn escalated(mut self) -> Self {
        self.permissions = RequireEscalated;
        self
    }

    fn with_request<T>(
        &self,
        approval: &AskForApproval,
        sandbox: &SandboxPolicy,
        decide: impl Fn(&CommandRequest<'_>, &DecisionPolicies<'_>) -> T,
    ) -> T {
        let line = bash(self.script);
        let rules = CommandRules::parse(Path::new("test.rules"), self.rules).unwrap();
        let request = CommandRequest {
            line: &line,
            cwd: Path::new("/ws"),
            permissions: &self.permissions,
            justification: self.justification,
            prefix_rule: self.prefix_rule.as_deref(),
            skill_folders: &[PathBuf::from("/skills/chart")],
        };
        decide(&request, &DecisionPolicies { approval, sandbox, rules: &rules, grants: &self.grants })
    }

    fn decide(&self, approval: &AskForApproval, sandbox: &SandboxPolicy) -> CommandDecision {
        self.with_request(approval, sandbox, decide_command)
    }

    fn question(&self, approval: &AskForApproval, sandbox: &SandboxPolicy) -> CommandQuestion {
        match self.decide(approval, sandbox) {
            CommandDecision::Ask(question) => question,
            other => panic!("{}: {other:?}", self.script),
        }
    }

    /// Checks the decisions in the order of [`policies`].
    fn check(&self, sandbox: &SandboxPolicy, expected: [Short; 6]) {
        for (approval, expected) in policies().iter().zip(expected) {
            let decision = self.decide(approval, sandbox);
            assert_eq!(short(&decision), expected, "{} under {approval:?}, {sandbox:?}", self.script);
        }
    }
}

fn policies() -> [AskForApproval; 6] {
    [
        AskForApproval::Untrusted,
        AskForApproval::OnFailure,
        AskForApproval::OnRequest,
        granular(true, true, true),
        granular(false, false, false),
        AskForApproval::Never,
    ]
}

#[test]
fn commands_within_the_sandbox() {
    for sandbox in [read_only(), workspace_write()] {
        case("ls a.txt").check(&sandbox, [Inside; 6]);
        case("git status | wc -l").check(&sandbox, [Inside; 6]);
        case("touch x").check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        case("ls > x").check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        case("echo $(date)").check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        case("find . -name x -delete").check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        case("git checkout -- a").check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        case("rm -rf build").check(&sandbox, [Ask, Ask, Ask, Ask, Refuse, Refuse]);
    }
}

#[test]
fn commands_without_a_sandbox() {
    for sandbox in [FULL, EXTERNAL] {
        case("ls a.txt").check(&sandbox, [Outside; 6]);
        case("touch x").check(&sandbox, [AskThenOutside, Outside, Outside, Outside, Outside, Outside]);
        case("touch x")
            .escalated()
            .check(&sandbox, [AskThenOutside, Outside, Outside, Outside, Outside, Outside]);
        case("rm -rf build").check(
            &sandbox,
            [AskThenOutside, AskThenOutside, AskThenOutside, AskThenOutside, Refuse, Outside],
        );
        case("git checkout -- a").check(
            &sandbox,
            [AskThenOutside, AskThenOutside, AskThenOutside, AskThenOutside, Refuse, Outside],
        );
    }
}

#[test]
fn commands_that_ask_to_leave_the_sandbox() {
    let asked = [AskThenOutside, AskThenOutside, AskThenOutside, AskThenOutside, Refuse, Refuse];
    case("touch x").escalated().check(&read_only(), asked);
    case("touch x").escalated().check(&workspace_write(), asked);
    case("rm -rf x").escalated().check(&workspace_write(), asked);
    // Known to only read: no question, and no reason to leave the sandbox.
    case("echo hi").escalated().check(&read_only(), [Inside; 6]);
    // Unless the sandbox restricts reading.
    case("cat /etc/hosts").escalated().check(&restricted_reading(), asked);
}

/// A repository's configuration can make `git status` run a program. So a command that is known to only read runs without
/// a question, but never without the sandbox.
#[test]
fn no_command_leaves_the_sandbox_because_it_only_reads() {
    let scripts = [
        "ls",
        "cat a",
        "git status",
        "git diff",
        "git log --oneline -5",
        "git status | wc -l",
        "cd sub && git show HEAD",
        "rg -n x src",
        "find . -name x",
        "sort a | uniq -c",
        "echo hi",
    ];
    let unknown = SandboxPolicy::Unrecognized("later".into());
    let wider = AccessGrant { network: true, read: Vec::new(), write: vec!["/".into()] };
    let permissions = [UseDefault, RequireEscalated, SandboxPermissions::WithAdditional(wider.clone())];
    // A rule for something else changes nothing.
    let rules = ["", "prefix_rule(pattern=[\"make\"], decision=\"allow\")"];
    let mut approvals = policies().to_vec();
    approvals.push(AskForApproval::Unrecognized("later".into()));
    for script in scripts {
        assert!(bash(script).is_known_safe(), "{script}");
        for sandbox in [read_only(), workspace_write(), restricted_reading(), unknown.clone()] {
            for approval in &approvals {
                for (permissions, rules) in
                    permissions.iter().flat_map(|wanted| rules.map(|rules| (wanted, rules)))
                {
                    let mut case = Case { permissions: permissions.clone(), rules, ..case(script) };
                    case.grants.accept_access(&wider, PermissionGrantScope::Session);
                    for decide in [decide_command, decide_retry] {
                        let decision = case.with_request(approval, &sandbox, decide);
                        let stays = !matches!(decision, CommandDecision::Run { sandboxed: false });
                        assert!(stays, "{script} under {approval:?}, {sandbox:?}, {permissions:?}");
                    }
                }
            }
            let plain = case(script).decide(&AskForApproval::Untrusted, &sandbox);
            assert_eq!(short(&plain), Inside, "{script} under {sandbox:?}");
        }
    }
}

#[test]
fn commands_that_ask_for_more_permissions() {
    let wants = |write: &str| AccessGrant { network: true, read: Vec::new(), write: vec![write.into()] };
    let with = |access: AccessGrant, granted: AccessGrant| {
        let mut case = case("make");
        case.permissions = SandboxPermissions::WithAdditional(access);
        case.grants.accept_access(&granted, PermissionGrantScope::Turn);
        case
    };
    with(wants("/out"), AccessGrant::default()).check(&read_only(), [Ask, Ask, Ask, Ask, Refuse, Refuse]);
    with(wants("/out"), wants("/")).check(&read_only(), [Ask, Inside, Inside, Inside, Inside, Inside]);
    with(wants("/out"), AccessGrant::default())
        .check(&FULL, [AskThenOutside, Outside, Outside, Outside, Outside, Outside]);
    let question =
        with(wants("/out"), AccessGrant::default()).question(&AskForApproval::OnRequest, &read_only());
    // A rule is named but not offered, because a rule cannot grant permissions.
    let decisions = vec![Answer::Accept, Answer::Cancel];
    assert_eq!((question.amendment, question.decisions), (Some(vec!["make".to_owned()]), decisions));
    // The switch for permissions is for those requested ahead of commands.
    let wanted = with(wants("/out"), AccessGrant::default());
    assert_eq!(short(&wanted.decide(&granular(false, true, true), &read_only())), Refuse);
    assert_eq!(short(&wanted.decide(&granular(true, false, false), &read_only())), Ask);
    let upwards = with(wants("/granted/../etc"), wants("/granted"));
    assert_eq!(short(&upwards.decide(&AskForApproval::OnRequest, &read_only())), Ask);
}

#[test]
fn rules_of_the_user() {
    let ruled = |script, rules| Case { rules, ..case(script) };
    let allow = "prefix_rule(pattern=[\"touch\"], decision=\"allow\")";
    let prompt = "prefix_rule(pattern=[\"touch\"], decision=\"prompt\")";
    let forbid = "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\", justification=\"use the editor\")";
    for sandbox in [read_only(), workspace_write()] {
        ruled("touch x", allow).check(&sandbox, [Outside; 6]);
        ruled("touch x", allow).escalated().check(&sandbox, [Outside; 6]);
        ruled("touch x && echo ok", allow).check(&sandbox, [Outside; 6]);
        ruled("touch x && git status", allow).check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        ruled("touch x && make", allow).check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        ruled("touch x > log", allow).check(&sandbox, [Ask, Inside, Inside, Inside, Inside, Inside]);
        ruled("touch x", prompt).check(&sandbox, [Ask, Ask, Ask, Ask, Refuse, Refuse]);
        ruled("echo $(touch x)", prompt).check(&sandbox, [Ask, Ask, Ask, Ask, Refuse, Refuse]);
        ruled("touch x", forbid).check(&sandbox, [Refuse; 6]);
        ruled("ls && sudo touch x", forbid).check(&sandbox, [Refuse; 6]);
    }
    ruled("touch x", forbid).check(&FULL, [Refuse; 6]);
    let prompted = [AskThenOutside, AskThenOutside, AskThenOutside, AskThenOutside, Refuse, Refuse];
    ruled("touch x", prompt).check(&FULL, prompted);
    let why = CommandDecision::Refuse {
        why: "`/bin/bash -lc 'touch x'` is forbidden by a rule of the user: use the editor".to_owned(),
    };
    assert_eq!(ruled("touch x", forbid).decide(&AskForApproval::OnRequest, &read_only()), why);
}

#[test]
fn the_question_a_rule_asks() {
    let ask = |rules| Case { rules, ..case("touch x") }.question(&AskForApproval::OnRequest, &read_only());
    let question = ask("prefix_rule(pattern=[\"touch\"], decision=\"prompt\")");
    assert_eq!(question.reason.as_deref(), Some("`/bin/bash -lc 'touch x'` requires approval by policy"));
    assert_eq!((question.amendment, question.decisions), (None, vec![Answer::Accept, Answer::Cancel]));
    let question = ask("prefix_rule(pattern=[\"touch\"], decision=\"prompt\", justification=\"careful\")");
    assert_eq!(question.reason.as_deref(), Some("`/bin/bash -lc 'touch x'` requires approval: careful"));
}

#[test]
fn the_question_an_escalation_asks() {
    let mut case = case("touch -c a").escalated();
    case.justification = Some("May I?");
    case.prefix_rule = Some(words("touch -c"));
    let question = case.question(&AskForApproval::OnRequest, &read_only());
    let amendment = Answer::AcceptWithExecpolicyAmendment { execpolicy_amendment: words("touch -c") };
    let expected = CommandQuestion {
        reason: Some("May I?".to_owned()),
        amendment: Some(words("touch -c")),
        decisions: vec![Answer::Accept, amendment, Answer::Cancel],
        sandboxed: false,
    };
    assert_eq!(question, expected);
}

#[test]
fn a_program_named_like_a_shell_is_not_taken_for_one() {
    let is_safe =
        |shell: &str| CommandLine::new([shell, "-lc", "ls"].map(str::to_owned).to_vec()).is_known_safe();
    assert!(is_safe("bash") && is_safe("/bin/zsh") && is_safe("/usr/local/bin/bash"));
    assert!(!is_safe("./bash") && !is_safe("/ws/bash") && !is_safe("bash/sh"));
    let own = ["/home/me/.nix-profile/bin/zsh", "-lc", "ls"].map(str::to_owned).to_vec();
    assert!(!CommandLine::new(own.clone()).is_known_safe());
    assert!(CommandLine::with_own_shell(own.clone(), &own[0]).is_known_safe());
}

#[test]
fn the_question_about_an_untrusted_command() {
    let question = case("rm a.txt").question(&AskForApproval::Untrusted, &workspace_write());
    assert_eq!(question.reason, None);
    assert_eq!(question.amendment, Some(words("rm a.txt")));
    assert!(question.sandboxed);
}

/// Returns the grants of a thread after the question was answered with "for the session".
fn accepted_for_session(case: &Case<'_>, approval: &AskForApproval) -> ThreadGrants {
    case.with_request(approval, &read_only(), |request, policies| {
        let CommandDecision::Ask(question) = decide_command(request, policies) else { panic!("not asked") };
        let mut grants = ThreadGrants::default();
        grants.accept_command(request, &question);
        grants
    })
}

#[test]
fn answers_for_the_session_apply_to_the_same_command() {
    let grants = accepted_for_session(&case("touch -c same").escalated(), &AskForApproval::OnRequest);
    let rules = CommandRules::default();
    let same = bash("touch -c same");
    let other = bash("touch -c other");
    let check = |line, permissions, cwd, approval: AskForApproval, expected| {
        let request = CommandRequest {
            line,
            cwd: Path::new(cwd),
            permissions,
            justification: None,
            prefix_rule: None,
            skill_folders: &[],
        };
        let policies =
            DecisionPolicies { approval: &approval, sandbox: &read_only(), rules: &rules, grants: &grants };
        assert_eq!(short(&decide_command(&request, &policies)), expected);
    };
    check(&same, &RequireEscalated, "/ws", AskForApproval::OnRequest, Outside);
    check(&same, &RequireEscalated, "/elsewhere", AskForApproval::OnRequest, AskThenOutside);
    check(&other, &RequireEscalated, "/ws", AskForApproval::OnRequest, AskThenOutside);
    check(&same, &UseDefault, "/ws", AskForApproval::Untrusted, Inside);
}

#[test]
fn an_answer_for_a_sandboxed_command_does_not_allow_it_without() {
    let grants = accepted_for_session(&case("touch x"), &AskForApproval::Untrusted);
    let granted = Case { grants, ..case("touch x") };
    assert_eq!(short(&granted.decide(&AskForApproval::Untrusted, &read_only())), Inside);
    assert_eq!(short(&granted.escalated().decide(&AskForApproval::Untrusted, &read_only())), AskThenOutside);
}

#[test]
fn permissions_accepted_for_the_session_are_remembered() {
    let wants = |path: &str| Case {
        permissions: SandboxPermissions::WithAdditional(AccessGrant {
            write: vec![path.into()],
            ..AccessGrant::default()
        }),
        ..case("make")
    };
    let grants = accepted_for_session(&wants("/out"), &AskForApproval::OnRequest);
    let again = Case { grants: grants.clone(), ..wants("/out/deeper") };
    assert_eq!(short(&again.decide(&AskForApproval::OnRequest, &read_only())), Inside);
    let more = Case { grants, ..wants("/elsewhere") };
    assert_eq!(short(&more.decide(&AskForApproval::OnRequest, &read_only())), Ask);
}

#[test]
fn retries_after_a_sandbox_failure() {
    let retry =
        |case: &Case<'_>, approval: &AskForApproval| case.with_request(approval, &read_only(), decide_retry);
    let expected = [AskThenOutside, AskThenOutside, Refuse, AskThenOutside, Refuse, Refuse];
    for (approval, expected) in policies().iter().zip(expected) {
        assert_eq!(short(&retry(&case("touch made"), approval)), expected, "{approval:?}");
    }
    let CommandDecision::Ask(question) = retry(&case("touch made"), &AskForApproval::OnFailure) else {
        panic!("asked")
    };
    assert_eq!(question.reason.as_deref(), Some("command failed; retry without sandbox?"));
    assert_eq!(question.amendment, Some(words("touch made")));

    let grants = case("touch made").with_request(&AskForApproval::OnFailure, &read_only(), |request, _| {
        let mut grants = ThreadGrants::default();
        grants.accept_command(request, &question);
        grants
    });
    let granted = Case { grants, ..case("touch made") };
    assert_eq!(short(&retry(&granted, &AskForApproval::OnFailure)), Outside);
    assert_eq!(
        short(&case("touch made").with_request(&AskForApproval::OnFailure, &FULL, decide_retry)),
        Refuse
    );
}

#[test]
fn refusals_name_the_reason_and_an_alternative() {
    let why = |case: Case<'_>, approval| match case.decide(&approval, &read_only()) {
        CommandDecision::Refuse { why } => why,
        other => panic!("{other:?}"),
    };
    let never = why(case("touch x").escalated(), AskForApproval::Never);
    assert!(never.contains("`never`") && never.contains("leave the sandbox"), "{never}");
    let granular = why(case("touch x").escalated(), granular(false, true, true));
    assert!(granular.contains("does not allow to ask"), "{granular}");
    assert!(why(case("rm -rf x"), AskForApproval::Never).contains("cannot be undone"));
}

#[test]
fn programs_of_skills_have_a_switch_of_their_own() {
    let policy = |sandbox_approval, skill_approval| AskForApproval::Granular {
        sandbox_approval,
        rules: true,
        skill_approval,
        request_permissions: true,
        mcp_elicitations: true,
    };
    let check = |script: &'static str, only_sandbox: Short, only_skills: Short| {
        let case = case(script).escalated();
        assert_eq!(short(&case.decide(&policy(true, false), &read_only())), only_sandbox, "{script}");
        assert_eq!(short(&case.decide(&policy(false, true), &read_only())), only_skills, "{script}");
    };
    check("touch a", AskThenOutside, Refuse);
    check("/skills/chart/run.sh", Refuse, AskThenOutside);
    check("python3 ../skills/chart/scripts/plot.py --out a.png", Refuse, AskThenOutside);
    check("cd /skills/chart && ./run.sh", Refuse, AskThenOutside);
    check("/skills/charts/run.sh", AskThenOutside, Refuse);
}
