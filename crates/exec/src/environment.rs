//! Which variables a command gets: pure functions over the server's environment.

use std::{collections::BTreeMap, ffi::OsStr, fmt};

use crate::{glob::matches, spec::ProcessEnvironment};

/// Names that look like credentials.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// What a shell and its tools need to work at all.
const CORE: [&str; 12] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "USER",
    "USERNAME",
];

/// The `shell_environment_policy` of the configuration as plain data. Patterns are globs (`*`, `?`), compared
/// without regard to case.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    pub inherit: InheritPolicy,
    /// Keeps inherited names that look like credentials: `*KEY*`, `*SECRET*`, `*TOKEN*`.
    pub ignore_default_excludes: bool,
    /// Inherited names to drop.
    pub exclude: Vec<String>,
    /// Variables to add, whatever was dropped before.
    pub set: BTreeMap<String, String>,
    /// If there are any: the only names to keep, also of those in `set`.
    pub include_only: Vec<String>,
}

/// What a command starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InheritPolicy {
    #[default]
    All,
    /// `HOME`, `PATH`, `SHELL`, `USER` and the like.
    Core,
    None,
}

impl EnvironmentPolicy {
    /// The environment of a command. In this order: inherit, drop the default excludes, drop `exclude`, add
    /// `set`, keep `include_only`.
    pub fn apply(&self, server: &ProcessEnvironment) -> ProcessEnvironment {
        let mut env: ProcessEnvironment = server
            .iter()
            .filter(|(name, _)| self.inherits(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        env.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        if !self.include_only.is_empty() {
            env.retain(|name, _| fits(name, &self.include_only));
        }
        env
    }

    fn inherits(&self, name: &OsStr) -> bool {
        let inherited = match self.inherit {
            InheritPolicy::All => true,
            InheritPolicy::Core => CORE.iter().any(|core| name == *core),
            InheritPolicy::None => false,
        };
        inherited
            && (self.ignore_default_excludes || !fits(name, &DEFAULT_EXCLUDES))
            && !fits(name, &self.exclude)
    }
}

fn fits(name: &OsStr, patterns: &[impl AsRef<str>]) -> bool {
    let name = name.to_string_lossy();
    patterns.iter().any(|pattern| matches(pattern.as_ref(), &name))
}

/// What `exec_command` adds, so that tools neither page nor colour nor translate: their reader is a model.
/// `TERM` is kept, and says that the terminal can do nothing when there is none.
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

/// Values in `set` may be secret: only their names are shown.
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
    fn each_step_of_the_policy_counts() {
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
    fn what_is_set_wins_over_what_is_inherited() {
        let set = BTreeMap::from([("HOME".to_owned(), "/elsewhere".to_owned())]);
        let env = EnvironmentPolicy { set, ..Default::default() }.apply(&environment(&SERVER));
        assert_eq!(env[OsStr::new("HOME")], "/elsewhere");
    }

    #[test]
    fn tools_are_told_to_be_plain() {
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

    #[test]
    fn debug_shows_no_values() {
        let set = BTreeMap::from([("A_TOKEN".to_owned(), "s3cret".to_owned())]);
        let shown = format!("{:?}", EnvironmentPolicy { set, ..Default::default() });
        assert!(shown.contains("A_TOKEN") && !shown.contains("s3cret"), "{shown}");
    }
}
