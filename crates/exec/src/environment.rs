//! The environment of a command: pure functions over the server's environment.

use std::{collections::BTreeMap, ffi::OsStr, fmt, sync::LazyLock};

use globset::{GlobBuilder, GlobMatcher};

use crate::spec::ProcessEnvironment;

/// Names that look like credentials.
static DEFAULT_EXCLUDES: LazyLock<NamePatterns> =
    LazyLock::new(|| NamePatterns::new(&["*KEY*", "*SECRET*", "*TOKEN*"]));

/// Variables with credentials of the server itself. No process that it starts inherits them, whatever the configuration
/// says.
pub const SERVER_CREDENTIALS: [&str; 3] =
    ["CODICIL_STORE", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// Returns the variables of this process that those it starts may inherit.
#[allow(clippy::disallowed_methods, reason = "the one place that decides what is inherited")]
pub fn inherited_environment() -> ProcessEnvironment {
    let mut env: ProcessEnvironment = std::env::vars_os().collect();
    SERVER_CREDENTIALS.iter().for_each(|name| drop(env.remove(OsStr::new(name))));
    env
}

/// Variables that a shell and its tools need to work at all.
const CORE: [&str; 12] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "USER",
    "USERNAME",
];

/// The `shell_environment_policy` of the configuration as plain data. Patterns are globs of `*` and `?` that match the
/// whole name and ignore case; every other character stands for itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    pub inherit: InheritPolicy,
    /// Whether to keep inherited names that look like credentials: `*KEY*`, `*SECRET*`, `*TOKEN*`.
    pub ignore_default_excludes: bool,
    /// Patterns of inherited names to drop.
    pub exclude: Vec<String>,
    /// Variables to add, including ones dropped before.
    pub set: BTreeMap<String, String>,
    /// Patterns of the only names to keep, including those in `set`. Empty to keep all.
    pub include_only: Vec<String>,
}

/// Which of the server's variables a command starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InheritPolicy {
    #[default]
    All,
    /// `HOME`, `PATH`, `SHELL`, `USER` and similar ones.
    Core,
    None,
}

impl EnvironmentPolicy {
    /// Returns the environment of a command. The steps, in order: inherit, drop the default excludes, drop `exclude`,
    /// add `set`, keep `include_only`.
    pub fn apply(&self, server: &ProcessEnvironment) -> ProcessEnvironment {
        let excluded = NamePatterns::new(&self.exclude);
        let mut env: ProcessEnvironment = server
            .iter()
            .filter(|(name, _)| self.inherits(name) && !excluded.may_match(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        env.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        if !self.include_only.is_empty() {
            let included = NamePatterns::new(&self.include_only);
            env.retain(|name, _| included.matches(name));
        }
        env
    }

    fn inherits(&self, name: &OsStr) -> bool {
        let is_inherited = match self.inherit {
            InheritPolicy::All => true,
            InheritPolicy::Core => CORE.iter().any(|core| name == *core),
            InheritPolicy::None => false,
        };
        is_inherited && (self.ignore_default_excludes || !DEFAULT_EXCLUDES.may_match(name))
    }
}

/// Compiled patterns for names of variables.
struct NamePatterns {
    matchers: Vec<GlobMatcher>,
    /// Whether a pattern could not be compiled, which only its size can cause.
    has_unusable: bool,
}

impl NamePatterns {
    fn new(patterns: &[impl AsRef<str>]) -> Self {
        let mut compiled = Self { matchers: Vec::with_capacity(patterns.len()), has_unusable: false };
        for pattern in patterns {
            match GlobBuilder::new(&to_glob(pattern.as_ref())).backslash_escape(false).build() {
                Ok(glob) => compiled.matchers.push(glob.compile_matcher()),
                Err(error) => {
                    tracing::warn!(%error, "unusable pattern in shell_environment_policy");
                    compiled.has_unusable = true;
                }
            }
        }
        compiled
    }

    fn matches(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy().to_lowercase();
        self.matchers.iter().any(|matcher| matcher.is_match(&name))
    }

    /// As [`NamePatterns::matches`], and true for every name if a pattern is unusable: such a pattern must not let a
    /// variable through that it was meant to exclude.
    fn may_match(&self, name: &OsStr) -> bool {
        self.has_unusable || self.matches(name)
    }
}

/// Translates a pattern to the syntax of `globset`, in which brackets and braces are special and `**` is a path
/// operator. Case is folded here, because `globset` folds that of ASCII letters only.
fn to_glob(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    for character in pattern.to_lowercase().chars() {
        match character {
            '*' if glob.ends_with('*') => {}
            '[' | ']' | '{' | '}' => glob.extend(['[', character, ']']),
            character => glob.push(character),
        }
    }
    glob
}

/// Adds the variables that `exec_command` sets so that tools do not page, colour or translate their output, which a
/// model reads. `TERM` is kept, or set to `dumb` if there is none.
pub fn add_tool_defaults(env: &mut ProcessEnvironment) {
    const ADDED: [(&str, &str); 9] = [
        ("NO_COLOR", "1"),
        ("COLORTERM", ""),
        ("LANG", "C.UTF-8"),
        ("LC_CTYPE", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GH_PAGER", "cat"),
        ("CODEX_CI", "1"),
    ];
    env.extend(ADDED.map(|(name, value)| (name.into(), value.into())));
    env.entry("TERM".into()).or_insert_with(|| "dumb".into());
}

/// Prints only the names in `set`. Values may be secret.
impl fmt::Debug for EnvironmentPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvironmentPolicy")
            .field("inherit", &self.inherit)
            .field("ignore_default_excludes", &self.ignore_default_excludes)
            .field("exclude", &self.exclude)
            .field("set", &self.set.keys().collect::<Vec<_>>())
            .field("include_only", &self.include_only)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SERVER: [(&str, &str); 7] = [
        ("PATH", "/bin"),
        ("HOME", "/home/me"),
        ("EDITOR", "vi"),
        ("OPENAI_API_KEY", "k"),
        ("db_secret", "s"),
        ("GITHUB_TOKEN", "t"),
        ("AWS_REGION", "r"),
    ];

    fn environment(pairs: &[(&str, &str)]) -> ProcessEnvironment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn names(policy: &EnvironmentPolicy) -> String {
        let env = policy.apply(&environment(&SERVER));
        env.keys().map(|name| name.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn each_step_of_the_policy_has_its_effect() {
        let policy = EnvironmentPolicy::default;
        let set = || {
            BTreeMap::from([("MY_TOKEN".to_owned(), "x".to_owned()), ("PATH".to_owned(), "/o".to_owned())])
        };
        let check =
            |policy: EnvironmentPolicy, expected: &str| assert_eq!(names(&policy), expected, "{policy:?}");

        check(policy(), "AWS_REGION EDITOR HOME PATH");
        check(
            EnvironmentPolicy { ignore_default_excludes: true, ..policy() },
            "AWS_REGION EDITOR GITHUB_TOKEN HOME OPENAI_API_KEY PATH db_secret",
        );
        check(EnvironmentPolicy { inherit: InheritPolicy::Core, ..policy() }, "HOME PATH");
        check(EnvironmentPolicy { inherit: InheritPolicy::None, ..policy() }, "");
        check(EnvironmentPolicy { exclude: strings(&["aws_*", "E?ITOR"]), ..policy() }, "HOME PATH");
        check(EnvironmentPolicy { inherit: InheritPolicy::None, set: set(), ..policy() }, "MY_TOKEN PATH");
        check(EnvironmentPolicy { set: set(), exclude: strings(&["PATH"]), ..policy() }, {
            "AWS_REGION EDITOR HOME MY_TOKEN PATH"
        });
        check(EnvironmentPolicy { set: set(), include_only: strings(&["*PATH*"]), ..policy() }, "PATH");
    }

    #[test]
    fn set_variables_replace_inherited_ones() {
        let set = BTreeMap::from([("HOME".to_owned(), "/elsewhere".to_owned())]);
        let env = EnvironmentPolicy { set, ..Default::default() }.apply(&environment(&SERVER));
        assert_eq!(env[OsStr::new("HOME")], "/elsewhere");
    }

    #[test]
    fn tool_defaults_replace_everything_but_term() {
        let mut env = environment(&[("TERM", "xterm"), ("PAGER", "less"), ("HOME", "/h")]);
        add_tool_defaults(&mut env);

        let expected = environment(&[
            ("CODEX_CI", "1"),
            ("COLORTERM", ""),
            ("GH_PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("HOME", "/h"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C.UTF-8"),
            ("LC_CTYPE", "C.UTF-8"),
            ("NO_COLOR", "1"),
            ("PAGER", "cat"),
            ("TERM", "xterm"),
        ]);
        assert_eq!(env, expected);

        let mut bare = ProcessEnvironment::new();
        add_tool_defaults(&mut bare);
        assert_eq!(bare[OsStr::new("TERM")], "dumb");
    }

    fn matches(pattern: &str, name: &str) -> bool {
        NamePatterns::new(&[pattern]).matches(OsStr::new(name))
    }

    #[test]
    fn patterns_match_the_whole_name() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        };
        check("PATH", "PATH", true);
        check("path", "PATH", true);
        check("PATH", "PATHS", false);
        check("AWS_*", "AWS_REGION", true);
        check("AWS_*", "AWS_", true);
        check("AWS_*", "MY_AWS_", false);
        check("*KEY*", "OPENAI_API_KEY", true);
        check("*KEY*", "monkeys", true);
        check("*KEY*", "KE", false);
        check("?", "A", true);
        check("?", "", false);
        check("A?C", "ABC", true);
        check("A*B*C", "AxxBxBxC", true);
        check("A*B*C", "AxxBxBx", false);
        check("*", "", true);
        check("*", "A/B", true);
        check("**", "anything", true);
        check("", "", true);
        check("", "A", false);
        check("ÄRGER*", "ärgernis", true);
        check("[AB]", "A", false);
        check("[AB]", "[ab]", true);
        check("{A,B}", "A", false);
        check("A\\*", "A\\B", true);
    }

    #[test]
    fn patterns_with_many_stars_are_fast() {
        assert!(!matches(&"*a".repeat(500), &"a".repeat(499)));
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &"a".repeat(5_000)));
    }

    /// The definition of a pattern, without regard to speed.
    fn matches_by_definition(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], name) => name.is_empty(),
            (['*', rest @ ..], name) => {
                (0..=name.len()).any(|skipped| matches_by_definition(rest, &name[skipped..]))
            }
            ([wanted, rest @ ..], [found, more @ ..]) => {
                (*wanted == '?' || wanted == found) && matches_by_definition(rest, more)
            }
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_by_their_definition(
            pattern in "[aB_*?/.\\[\\]{},!^\\\\-]{0,8}",
            name in "[Ab_/.\\[\\]{},!^\\\\-]{0,8}",
        ) {
            let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
            let expected = matches_by_definition(&letters(&pattern), &letters(&name));
            prop_assert_eq!(matches(&pattern, &name), expected);
        }

        #[test]
        fn stars_match_any_characters(pattern in "[aÄß€*]{0,6}", name in "[Aäß€]{0,8}") {
            let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
            let expected = matches_by_definition(&letters(&pattern), &letters(&name));
            prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }

    #[test]
    fn debug_shows_no_values() {
        let set = BTreeMap::from([("A_TOKEN".to_owned(), "s3cret".to_owned())]);
        let shown = format!("{:?}", EnvironmentPolicy { set, ..Default::default() });
        assert!(shown.contains("A_TOKEN") && !shown.contains("s3cret"), "{shown}");
    }
}
