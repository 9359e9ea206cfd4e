//! The sandbox of macOS: a profile in its own language, passed to `sandbox-exec`.
//!
//! Paths are parameters of the profile, so that no path can inject rules into it. Protected names are matched by
//! patterns, which also cover names that do not exist yet and nested repositories at any depth.

use std::{ffi::OsString, fmt::Write as _, path::PathBuf};

use crate::{
    access::{CommandAccess, ReadAccess, RootRole, WritableRoot},
    metadata::{self, ProjectMetadata},
};

/// Rules that every program needs to start, to communicate with its own processes and to use a terminal.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read-metadata)
(allow file-read* file-write* file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/tty")
  (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.PowerManagement.control"))
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
(allow system-socket (socket-domain AF_UNIX))
"#;

/// Rules for the network, and for the services that look up names and certificates.
const NETWORK: &str = r#"(allow network-outbound)
(allow network-inbound)
(allow network-bind)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.networkd")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.trustd.agent"))
"#;

/// Paths that programs need to run at all, where reading is restricted.
const PLATFORM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/opt",
    "/private/etc",
    "/private/var/db",
    "/Applications/Xcode.app",
];

/// Returns whether programs need a path to run at all.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn is_platform_path(path: &std::path::Path) -> bool {
    PLATFORM.iter().any(|platform| path.starts_with(platform))
}

/// A profile and the paths that are its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatbeltProfile {
    text: String,
    parameters: Vec<(String, PathBuf)>,
}

impl SeatbeltProfile {
    pub(crate) fn new(access: &CommandAccess, metadata: &ProjectMetadata) -> Self {
        let mut profile = Self { text: BASE.to_owned(), parameters: Vec::new() };
        profile.add_read_rules(access);
        profile.add_write_rules(access, metadata);
        if access.network {
            profile.text.push_str(NETWORK);
        }
        profile.hide_server(access);
        profile
    }

    /// Returns the arguments of `sandbox-exec` before the command.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("-p"), OsString::from(&self.text)];
        for (name, path) in &self.parameters {
            let mut definition = OsString::from(format!("-D{name}="));
            definition.push(path);
            arguments.push(definition);
        }
        arguments.push("--".into());
        arguments
    }

    fn add_read_rules(&mut self, access: &CommandAccess) {
        let ReadAccess::Only { platform, roots } = &access.reads else {
            self.text.push_str("(allow file-read*)\n");
            return;
        };
        let platform = platform.then_some(PLATFORM).into_iter().flatten().map(PathBuf::from);
        let roots = roots.iter().cloned().chain(access.roots.iter().map(|root| root.path.clone()));
        for path in platform.chain(roots) {
            let name = self.parameter("READ", path);
            self.line(&format!("(allow file-read* (subpath (param \"{name}\")))"));
        }
    }

    fn add_write_rules(&mut self, access: &CommandAccess, metadata: &ProjectMetadata) {
        let protected = metadata.paths.iter();
        let protected: Vec<_> = protected.map(|path| (path, self.parameter("KEEP", path.clone()))).collect();
        for root in &access.roots {
            let name = self.parameter("WRITE", root.path.clone());
            let mut rule = format!("(allow file-write* (require-all (subpath (param \"{name}\"))");
            // A root may itself lie inside a protected folder, so its pattern matches names below it only.
            let _ = write!(rule, " (require-not (regex #\"{}\"))", protected_pattern(root));
            for (_, name) in protected.iter().filter(|(path, _)| !root.path.starts_with(path)) {
                let _ = write!(rule, " (require-not (subpath (param \"{name}\")))");
            }
            rule.push_str("))");
            self.line(&rule);
        }
    }

    /// Adds the rules that hide the server's places. They come last, because the last rule that matches is applied.
    fn hide_server(&mut self, access: &CommandAccess) {
        let hidden = &access.hidden;
        if let Some(home) = &hidden.home {
            let name = self.parameter("HOME", home.clone());
            self.line(&format!("(deny file-read* file-write* (subpath (param \"{name}\")))"));
            for entry in &hidden.readable {
                let name = self.parameter("HOME", entry.path.clone());
                self.line(&format!("(allow file-read* (subpath (param \"{name}\")))"));
            }
            for root in access.roots.iter().filter(|root| hidden.contains(&root.path)) {
                let name = self.parameter("HOME", root.path.clone());
                self.line(&format!("(allow file-read* file-write* (subpath (param \"{name}\")))"));
            }
        }
        for socket in &hidden.sockets {
            let name = self.parameter("SOCKET", socket.clone());
            self.line(&format!("(deny network-outbound (remote unix-socket (literal (param \"{name}\"))))"));
        }
        for port in &hidden.ports {
            self.line(&format!("(deny network-outbound (remote tcp \"*:{port}\"))"));
        }
    }

    fn parameter(&mut self, prefix: &str, path: PathBuf) -> String {
        let name = format!("{prefix}_{}", self.parameters.len());
        self.parameters.push((name.clone(), path));
        name
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }
}

/// Returns a pattern for the protected names below a root: at its top, and at any depth unless it is a scratch directory.
/// Letters match in both cases, because `.GIT` and `.git` are the same file on most disks.
fn protected_pattern(root: &WritableRoot) -> String {
    let names = metadata::NAMES.map(|name| name.chars().map(either_case).collect::<String>()).join("|");
    let between = if root.role == RootRole::Scratch { "" } else { "(.*/)?" };
    format!("^{}/{between}({names})(/.*)?$", escape(&root.path.to_string_lossy()))
}

/// Returns the pattern for a letter in both cases, or for another character.
fn either_case(character: char) -> String {
    match character {
        letter if letter.is_ascii_alphabetic() => format!("[{letter}{}]", letter.to_ascii_uppercase()),
        other => format!("[{other}]"),
    }
}

/// Escapes a path for a pattern. Letters, digits and a few other characters stand for themselves. A quote would end the
/// pattern, so it becomes "any character", which protects slightly more than needed.
fn escape(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for character in path.chars() {
        match character {
            '/' | '_' | '-' | ' ' => pattern.push(character),
            character if character.is_alphanumeric() => pattern.push(character),
            '"' | '\\' | '^' | ']' | '[' => pattern.push('.'),
            character => {
                let _ = write!(pattern, "[{character}]");
            }
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::server_places::HiddenPlaces;

    fn access(reads: ReadAccess, roots: &[(&str, RootRole)], network: bool) -> CommandAccess {
        let roots =
            roots.iter().map(|(path, role)| WritableRoot { path: path.into(), role: *role }).collect();
        CommandAccess { reads, roots, network, hidden: HiddenPlaces::default() }
    }

    fn profile(access: &CommandAccess) -> SeatbeltProfile {
        SeatbeltProfile::new(access, &metadata::find(&access.roots))
    }

    fn text_after_base(access: &CommandAccess) -> String {
        profile(access).text.strip_prefix(BASE).unwrap().to_owned()
    }

    #[test]
    fn read_only_allows_reading_and_nothing_else() {
        assert_eq!(text_after_base(&access(ReadAccess::Everywhere, &[], false)), "(allow file-read*)\n");
        assert_eq!(
            text_after_base(&access(ReadAccess::Everywhere, &[], true)),
            format!("(allow file-read*)\n{NETWORK}")
        );
    }

    #[test]
    fn a_root_is_writable_except_for_protected_names() {
        let text =
            text_after_base(&access(ReadAccess::Everywhere, &[("/no/w.x", RootRole::Workspace)], false));
        let names = "([.][gG][iI][tT]|[.][cC][oO][dD][eE][xX]|[.][cC][oO][dD][iI][cC][iI][lL]|\
                     [.][aA][gG][eE][nN][tT][sS])";
        assert_eq!(
            text,
            format!(
                "(allow file-read*)\n\
                 (allow file-write* (require-all (subpath (param \"WRITE_0\")) \
                 (require-not (regex #\"^/no/w[.]x/(.*/)?{names}(/.*)?$\"))))\n"
            )
        );
        let scratch =
            text_after_base(&access(ReadAccess::Everywhere, &[("/no/tmp", RootRole::Scratch)], false));
        assert!(scratch.contains(&format!("^/no/tmp/{names}(/.*)?$")));
    }

    #[test]
    fn the_target_of_a_git_file_is_protected_in_every_root() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("store")).unwrap();
        fs::write(base.join(".git"), "gitdir: store").unwrap();
        for role in [RootRole::Workspace, RootRole::Named] {
            let profile = profile(&access(ReadAccess::Everywhere, &[(base.to_str().unwrap(), role)], false));
            let is_store =
                |(name, path): &&(String, PathBuf)| name.starts_with("KEEP") && path.ends_with("store");
            let (name, _) = profile.parameters.iter().find(is_store).unwrap();
            let rule = format!("(require-not (subpath (param \"{name}\")))");
            assert!(profile.text.contains(&rule), "{role:?}: {}", profile.text);
        }
    }

    #[test]
    fn a_named_root_inside_a_protected_folder_is_writable() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join(".codex/memories")).unwrap();
        let memories = base.join(".codex/memories");
        let roots =
            [(base.to_str().unwrap(), RootRole::Workspace), (memories.to_str().unwrap(), RootRole::Named)];
        let text = text_after_base(&access(ReadAccess::Everywhere, &roots, false));
        let [of_workspace, of_memories] = ["WRITE_1", "WRITE_2"].map(|name| {
            text.lines().find(|line| line.contains(name)).unwrap().contains("(param \"KEEP_0\")")
        });
        assert!(of_workspace && !of_memories, "{text}");
    }

    #[test]
    fn the_servers_places_are_hidden_by_the_last_rules() {
        let mut access = access(
            ReadAccess::Everywhere,
            &[("/h", RootRole::Workspace), ("/h/.codicil/memories", RootRole::Named)],
            true,
        );
        access.hidden.home = Some("/h/.codicil".into());
        access.hidden.ports = vec![4500];
        let profile = profile(&access);
        let end = "(deny file-read* file-write* (subpath (param \"HOME_2\")))\n\
                   (allow file-read* file-write* (subpath (param \"HOME_3\")))\n\
                   (deny network-outbound (remote tcp \"*:4500\"))\n";
        assert!(profile.text.ends_with(end), "{}", profile.text);
    }

    #[test]
    fn restricted_reading_lists_the_readable_paths() {
        let reads = ReadAccess::Only { platform: true, roots: vec!["/srv".into()] };
        let profile = profile(&access(reads, &[], false));
        assert!(!profile.text.contains("(allow file-read*)\n"));
        let paths: Vec<_> = profile.parameters.iter().map(|(_, path)| path.to_str().unwrap()).collect();
        assert!(paths.contains(&"/usr") && paths.contains(&"/srv"), "{paths:?}");
    }

    #[test]
    fn a_path_cannot_inject_rules() {
        let profile = profile(&access(
            ReadAccess::Everywhere,
            &[("/w\") (allow default) (\"", RootRole::Workspace)],
            false,
        ));
        assert!(!profile.text.contains("(allow default)"), "{}", profile.text);
        let arguments = profile.arguments();
        assert_eq!(arguments.last().unwrap(), "--");
        assert!(arguments.contains(&OsString::from("-DWRITE_0=/w\") (allow default) (\"")));
    }
}
