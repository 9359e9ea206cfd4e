//! Rules files: their syntax, errors and verdicts, and adding rules to them.

use std::{fs, path::Path, thread};

use codicil_policy::{
    CommandLine, CommandRules, HostName, NetworkRule, RuleAppended, RuleDecision, RuleVerdict, append_rule,
};
use tempfile::TempDir;

use crate::support::{bash, words};

fn parse(text: &str) -> CommandRules {
    CommandRules::parse(Path::new("my.rules"), text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_whole_syntax() {
    let rules = parse(
        r#"
        # A comment.
        prefix_rule(pattern=["git", "push"], decision="allow")
        prefix_rule(
            pattern = ["git", ["reset", 'clean']],   # alternatives
            decision = "forbidden",
            justification = "it \"loses\" work",
            match = [["git", "reset", "--hard"], "git clean -fdx"],
            not_match = ["git status", []],
        )
        prefix_rule(pattern=["ls"], justification=None)
        network_rule(host="example.com", protocol="https", decision="deny")
        host_executable(name="git", paths=["/usr/bin/git"])
        "#,
    );
    let seen: Vec<_> =
        rules.commands.iter().map(|rule| (rule.pattern.concat().join(" "), rule.decision)).collect();
    let expected = [
        ("git push".to_owned(), RuleDecision::Allow),
        ("git reset clean".to_owned(), RuleDecision::Forbidden),
        ("ls".to_owned(), RuleDecision::Allow),
    ];
    assert_eq!(seen, expected);
    assert_eq!(rules.commands[1].justification.as_deref(), Some("it \"loses\" work"));
    let network = NetworkRule {
        host: HostName::parse("example.com").unwrap(),
        protocol: Some(codicil_protocol::NetworkApprovalProtocol::Https),
        decision: RuleDecision::Forbidden,
        justification: None,
    };
    assert_eq!(rules.networks, [network]);
}

#[test]
fn errors_have_file_and_line() {
    let check = |text: &str, expected: &str| {
        let error = CommandRules::parse(Path::new("/home/rules/my.rules"), text).unwrap_err().to_string();
        assert_eq!(error, format!("/home/rules/my.rules:{expected}"), "{text}");
    };
    check(
        "prefix_rule(pattern=[], decision=\"allow\")",
        "1: `pattern` is a list of words, or of lists of words to choose from, and not empty",
    );
    check("\n\nprefix_rule(decision=\"allow\")", "3: argument `pattern` is missing");
    check(
        "prefix_rule(pattern=[\"a\"], decision=\"maybe\")",
        "1: unknown decision `maybe`; there are `allow`, `prompt` and `forbidden`",
    );
    check("prefix_rule(pattern=[\"a\"]\n", "1: expected `,` or `)`, found the end of the file");
    check("prefix_rule(pattern=[\"a\" \"b\"])", "1: expected `,` or `]`, found a string");
    check("prefix_rule(pattern=[\"a\n\"])", "1: the string is not closed");
    check("prefix_rule(pattern=[\"\\q\"])", "1: unknown escape `\\q` in a string");
    check(
        "rule(pattern=[\"a\"])",
        "1: unknown function `rule`; there is `prefix_rule(pattern=[...], decision=\"...\")`",
    );
    check("prefix_rule(pattern=[\"a\"], color=\"red\")", "1: unknown argument `color`");
    check("prefix_rule(pattern=[\"a\"], pattern=[\"b\"])", "1: argument `pattern` is given twice");
    check("prefix_rule([\"a\"])", "1: expected an argument such as `pattern=[...]`, found `[`");
    check(
        "# fine\nprefix_rule(pattern=[\"a\"], match=[\"b\"])",
        "2: the rule does not match its own example `b`",
    );
    check(
        "prefix_rule(pattern=[\"a\"], not_match=[\"a b\"])",
        "1: the rule matches `a b`, which is listed in `not_match`",
    );
    check("prefix_rule(pattern=[[[\"a\"]]])", "1: expected a string, found `[`");
    check("x = 1", "1: expected `(`, found `=`");
    check("prefix_rule(pattern=[\"a\"], justification=[\"b\"])", "1: `justification` is a string");
    check("@", "1: unexpected `@`");
}

#[test]
fn the_strictest_rule_wins_over_every_part_of_a_line() {
    let rules = parse(
        "prefix_rule(pattern=[\"git\"], decision=\"allow\")\n\
         prefix_rule(pattern=[\"git\", \"push\"], decision=\"prompt\", justification=\"short\")\n\
         prefix_rule(pattern=[\"git\", \"push\", \"origin\"], decision=\"prompt\", justification=\"long\")\n\
         prefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n\
         prefix_rule(pattern=[\"cargo\", [\"build\", \"test\"]])",
    );
    let check =
        |script: &str, expected: RuleVerdict| assert_eq!(rules.verdict(&bash(script)), expected, "{script}");
    let prompt = |text: &str| RuleVerdict::Prompt { justification: Some(text.to_owned()) };
    let forbidden = || RuleVerdict::Forbidden { justification: None };
    check("git commit", RuleVerdict::Allowed);
    check("git push", prompt("short"));
    check("git push origin main", prompt("long"));
    check("git commit && git push", prompt("short"));
    check("git push; rm x", forbidden());
    check("/usr/bin/rm x", forbidden());
    check("/home/me/rm x", forbidden());
    check("/usr/bin/git commit", RuleVerdict::Allowed);
    check("./git commit", RuleVerdict::Unmatched);
    check("cargo build && cargo test", RuleVerdict::Allowed);
    check("cargo build | head -5", RuleVerdict::Allowed);
    check("cargo build && make", RuleVerdict::Unmatched);
    check("cargo build > log", RuleVerdict::Unmatched);
    check("cargo", RuleVerdict::Unmatched);
    check("ls", RuleVerdict::Unmatched);
    check("X=$(rm y)", forbidden());
    check("env A=b rm x", forbidden());
}

#[test]
fn a_line_is_allowed_only_when_the_rest_of_it_is_inert() {
    let rules = parse("prefix_rule(pattern=[\"make\"], decision=\"allow\")");
    let check = |expected: RuleVerdict, scripts: &[&str]| {
        for script in scripts {
            assert_eq!(rules.verdict(&bash(script)), expected, "{script}");
        }
    };
    check(
        RuleVerdict::Allowed,
        &[
            "make",
            "make -j4 && make test",
            "make -v && echo done",
            "cd sub && make",
            "pwd; make || true",
            "echo y | make config",
            "make | head -5",
            "make | tail -n 20",
            "make | tail -n +3",
            "make | head -c 100",
            "make | wc -l",
        ],
    );
    check(
        RuleVerdict::Unmatched,
        &[
            "make -v && echo x | sort -T -- -o FILE",
            "make -v && echo x | sort",
            "make | sort -u",
            "make && ls",
            "make && cat /etc/hosts",
            "make && grep -r secret /",
            "make && head -5 /etc/hosts",
            "make | head -5 /etc/hosts",
            "make | head 5",
            "make | wc -c 5",
            "make | wc --files0-from=x",
            "make && tail -n 5 x",
            "make | tail --follow=name x",
            "make && git status",
            "make && git log",
            "make && find . -name x",
            "make | tee x",
            "make | rg x",
            "make | uniq",
            "make && ps aux",
            "make && printf x",
            "make && sed -n 1p x",
            "make && echo *",
            "make && ./echo x",
            "make && /tmp/true",
            "make && env echo",
            "make && echo x > y",
            "echo $(id) && make",
            "A=b echo x && make",
            "echo x & make",
            "make && date",
            "make && stat x",
            "make && which x",
            "make && rm x",
            "echo x",
            "true && pwd",
        ],
    );
}

/// Commands that run `git push` indirectly.
const WRAPPED_PUSHES: [&str; 75] = [
    "env git push",
    "env -i git push",
    "env - git push",
    "env A=b C=d git push origin",
    "env -u X git push",
    "env -uX git push",
    "env -C dir git push",
    "env --chdir dir git push",
    "env --chd dir git push",
    "env --unset=X -- git push",
    "env -S \"git push\"",
    "env -S 'git push' origin",
    "env -S'git push'",
    "env -iS 'git push'",
    "env -i -S 'A=b git push'",
    "env -vS 'git push'",
    "env --split-string='git push'",
    "env --split-string 'git push'",
    "env --split='git push'",
    "env --s 'git push'",
    "env -S '-i git push'",
    "env -S 'env git' push",
    "env -S 'git\\_push'",
    "/usr/bin/env git push",
    "nice git push",
    "nice -n 5 git push",
    "nice -5 git push",
    "nice --adjustment 5 git push",
    "nice --adj 5 git push",
    "nohup git push",
    "timeout 5 git push",
    "timeout -k 1 -s KILL 5 git push",
    "timeout --signal KILL 5 git push",
    "timeout --sig KILL 5 git push",
    "timeout --preserve-status 5 git push",
    "setsid -w git push",
    "stdbuf -oL git push",
    "stdbuf --output L git push",
    "sudo git push",
    "sudo -u root -n git push",
    "sudo A=b git push",
    "sudo --user root git push",
    "xargs git push",
    "echo x | xargs -n 1 -I {} git push",
    "command git push",
    "command -p git push",
    "exec git push",
    "exec -a name git push",
    "builtin command git push",
    "busybox env git push",
    "time git push",
    "taskset -c 0 git push",
    "chrt -f 10 git push",
    "watch 'git push'",
    "watch -n 1 git push",
    "flock lock git push",
    "flock lock -c 'git push'",
    "su me -c 'git push'",
    "script -qc 'git push' log",
    "bash -c 'git push'",
    "bash -c -- 'git push'",
    "bash -c -o errexit 'git push'",
    "bash --norc -ec 'ls; git push'",
    "sh -c \"exec git push\"",
    "eval git push",
    "eval 'git push'",
    "find . -exec git push ';'",
    "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push",
    "nice nohup timeout 5 git push",
    "! git push",
    "(git push)",
    "ls; if true; then git push; fi",
    "A=b git push",
    "g''it pu\\sh",
    "/opt/x/git push",
];

/// Other spellings of `git push`.
const GIT_PUSHES: [&str; 29] = [
    "git -C . push",
    "git -C a -C b push",
    "git -c a=b push",
    "git -c a.b=c -c d.e=f push origin",
    "git --git-dir=.git push",
    "git --git-dir .git push",
    "git --work-tree=. push",
    "git --work-tree . push",
    "git --namespace=x push",
    "git --namespace x push",
    "git --exec-path=/x push",
    "git -p push",
    "git --paginate push",
    "git -P push",
    "git --no-pager push",
    "git --bare push",
    "git --literal-pathspecs push",
    "git --no-replace-objects --no-optional-locks push",
    "git --attr-source HEAD push",
    "git --config-env=a.b=C push",
    "env -S 'git -C . push'",
    "sudo git -c a=b push",
    "git -c alias.p=push p",
    "git -c Alias.P='push origin' p",
    "git -c alias.p='!git push' p",
    "git -c core.fsmonitor='git push' status",
    "git submodule foreach --recursive 'git push'",
    "git rebase -x 'git push' main",
    "/usr/lib/git-core/git-push origin",
];

#[test]
fn restrictive_rules_match_wrapped_commands() {
    let forbid = parse("prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")");
    let prompt = parse("prefix_rule(pattern=[\"git\", \"push\"], decision=\"prompt\")");
    for script in WRAPPED_PUSHES.iter().chain(&GIT_PUSHES) {
        let line = bash(script);
        assert_eq!(forbid.verdict(&line), RuleVerdict::Forbidden { justification: None }, "{script}");
        assert_eq!(prompt.verdict(&line), RuleVerdict::Prompt { justification: None }, "{script}");
    }
    let argv = ["env", "-S", "git push"].map(str::to_owned).to_vec();
    assert_eq!(forbid.verdict(&CommandLine::new(argv)), RuleVerdict::Forbidden { justification: None });
}

#[test]
fn rules_that_allow_do_not_match_wrapped_commands() {
    let rules = parse("prefix_rule(pattern=[\"git\", \"push\"], decision=\"allow\")");
    // These are the same words, with or without quotes.
    let is_plain = |script: &str| script == "g''it pu\\sh";
    for script in WRAPPED_PUSHES.iter().chain(&GIT_PUSHES).filter(|script| !is_plain(script)) {
        assert_eq!(rules.verdict(&bash(script)), RuleVerdict::Unmatched, "{script}");
    }
    assert_eq!(rules.verdict(&bash("git push origin")), RuleVerdict::Allowed);
    assert_eq!(rules.verdict(&bash("/usr/bin/git push")), RuleVerdict::Allowed);
}

#[test]
fn restrictive_rules_do_not_match_other_commands() {
    let rules = parse("prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")");
    for script in [
        "git status",
        "git -C push status",
        "git -c a=b log push",
        "git --git-dir push status",
        "git commit -m 'git push'",
        "git stash push",
        "echo git push",
        "env echo git push",
        "env -u git echo push",
        "sudo -n echo git push",
        "timeout 5 echo git push",
        "bash -c 'echo git push'",
        "bash -c 'echo $0' 'git push'",
        "grep -r 'git push' .",
        "command -v git push",
        "git -c alias.p=pull p",
        "git submodule update",
        "env cat -S 'git push'",
        "xargs echo git push",
    ] {
        assert_eq!(rules.verdict(&bash(script)), RuleVerdict::Unmatched, "{script}");
    }
}

#[test]
fn opaque_lines_need_a_question_if_a_rule_restricts() {
    let restricting = "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\n\
                       prefix_rule(pattern=[\"env\"])\nprefix_rule(pattern=[\"git\"])";
    let rules = parse(restricting);
    for script in [
        "env -S '${PROGRAM} push'",
        "env -S 'gi\\ct push'",
        "git --config-env=alias.p=VARIABLE p",
        "git --config-env alias.p=VARIABLE p",
        "env env env env env env git push",
        &format!("env {} git push", "--q x ".repeat(40)),
    ] {
        let verdict = rules.verdict(&bash(script));
        assert!(matches!(verdict, RuleVerdict::Prompt { justification: Some(_) }), "{script}: {verdict:?}");
    }
    let permitting = parse("prefix_rule(pattern=[\"git\"])");
    assert_eq!(permitting.verdict(&bash("git --config-env=alias.p=VARIABLE p")), RuleVerdict::Allowed);
}

#[test]
fn a_rule_for_a_whole_script_allows_that_script_only() {
    let mut rules = CommandRules::default();
    rules.allow(bash("echo a > b").argv());
    assert_eq!(rules.verdict(&bash("echo a > b")), RuleVerdict::Allowed);
    assert_eq!(rules.verdict(&bash("echo a > c")), RuleVerdict::Unmatched);
}

#[test]
fn lines_too_long_to_parse_need_a_question_if_a_rule_restricts() {
    let long = bash(&format!("git push # {}", "x".repeat(10_000)));
    assert_eq!(parse("prefix_rule(pattern=[\"ls\"])").verdict(&long), RuleVerdict::Unmatched);
    let rules = parse("prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")");
    assert!(matches!(rules.verdict(&long), RuleVerdict::Prompt { justification: Some(_) }));
}

#[test]
fn directories_are_read_in_order_and_broken_files_reported() {
    let home = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
    write("b.rules", "prefix_rule(pattern=[\"b\"])");
    write("a.rules", "prefix_rule(pattern=[\"a\"])");
    write("broken.rules", "prefix_rule(pattern=[\"c\"])\nprefix_rule(");
    write("notes.txt", "not rules");
    let (rules, errors) = CommandRules::load(&[home.path().join("missing"), home.path().to_owned()]);
    let programs: Vec<_> = rules.commands.iter().map(|rule| rule.pattern[0][0].as_str()).collect();
    assert_eq!(programs, ["a", "b"]);
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].file.clone(), errors[0].line), (home.path().join("broken.rules"), 2));
}

#[test]
fn an_amendment_is_written_once_and_loaded() {
    let home = TempDir::new().unwrap();
    let rules = home.path().join("rules");
    assert_eq!(append_rule(&rules, &words("touch -c")).unwrap(), RuleAppended::Added);
    assert_eq!(append_rule(&rules, &words("touch -c")).unwrap(), RuleAppended::AlreadyThere);
    let odd = vec!["say".to_owned(), "a \"b\"\n\\c\u{7}é".to_owned()];
    assert_eq!(append_rule(&rules, &odd).unwrap(), RuleAppended::Added);
    let text = fs::read_to_string(rules.join("default.rules")).unwrap();
    assert!(text.starts_with("prefix_rule(pattern=[\"touch\", \"-c\"], decision=\"allow\")\n"), "{text}");
    let (read, errors) = CommandRules::load(std::slice::from_ref(&rules));
    assert_eq!(errors, []);
    assert_eq!(read.commands[1].pattern.concat(), odd);
    assert_eq!(fs::read_dir(&rules).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn appending_keeps_the_contents_of_the_file() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("default.rules"), "# mine\nprefix_rule(pattern=[\"a\"])").unwrap();
    append_rule(home.path(), &words("b")).unwrap();
    let text = fs::read_to_string(home.path().join("default.rules")).unwrap();
    assert_eq!(
        text,
        "# mine\nprefix_rule(pattern=[\"a\"])\nprefix_rule(pattern=[\"b\"], decision=\"allow\")\n"
    );
}

#[test]
fn appending_to_a_link_changes_its_target() {
    let home = TempDir::new().unwrap();
    let rules = home.path().join("rules");
    fs::create_dir(&rules).unwrap();
    fs::write(home.path().join("mine"), "# mine\n").unwrap();
    std::os::unix::fs::symlink("../mine", rules.join("default.rules")).unwrap();
    append_rule(&rules, &words("b")).unwrap();
    assert!(fs::symlink_metadata(rules.join("default.rules")).unwrap().is_symlink());
    let text = fs::read_to_string(home.path().join("mine")).unwrap();
    assert_eq!(text, "# mine\nprefix_rule(pattern=[\"b\"], decision=\"allow\")\n");
}

#[test]
fn concurrent_amendments_are_all_kept() {
    let home = TempDir::new().unwrap();
    thread::scope(|scope| {
        for number in 0..16 {
            let directory = home.path();
            scope.spawn(move || append_rule(directory, &[format!("command{}", number / 2)]).unwrap());
        }
    });
    let (rules, errors) = CommandRules::load(&[home.path().to_owned()]);
    assert_eq!((rules.commands.len(), errors.len()), (8, 0));
}
