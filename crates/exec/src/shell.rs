//! The user's shell: which one it is, how it runs a command line, and how a command is displayed.

use std::{
    env,
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// Shells that accept POSIX-like syntax, `-c` and `-l`. Users of another shell get `bash`.
const SUPPORTED: [&str; 7] = ["bash", "zsh", "sh", "dash", "ksh", "mksh", "ash"];

/// Directories to search after those of `PATH`, which a service may not have.
const FALLBACK_DIRECTORIES: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// A shell that runs command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserShell {
    path: PathBuf,
}

/// Whether the shell reads the user's profile first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellStart {
    #[default]
    Login,
    Plain,
}

impl UserShell {
    /// Returns the user's login shell: from the user database, else `$SHELL`, else `bash`, else `sh`. Blocks while it
    /// reads the user database, which may use the network: call it once, and not on an async runtime.
    pub fn of_user() -> UserShell {
        let path = env::var_os("PATH").unwrap_or_default();
        let directories = || {
            let absolute = env::split_paths(&path).filter(|directory| directory.is_absolute());
            absolute.chain(FALLBACK_DIRECTORIES.map(PathBuf::from))
        };
        let own = passwd_shell().into_iter().chain(env::var_os("SHELL").map(PathBuf::from));
        let others = ["bash", "sh"]
            .into_iter()
            .flat_map(|name| directories().map(move |directory| directory.join(name)));
        let is_executable = |path: &Path| access(path, Access::EXEC_OK).is_ok() && path.is_file();
        UserShell { path: choose_shell(own, others, is_executable) }
    }

    /// Returns the shell at this path, as in the `shell` argument of `exec_command`.
    pub fn at(path: impl Into<PathBuf>) -> UserShell {
        UserShell { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the program and arguments that run a command line: `[shell, "-lc", line]`, or `-c` without the profile.
    pub fn argv(&self, line: &str, start: ShellStart) -> Vec<String> {
        let flag = match start {
            ShellStart::Login => "-lc",
            ShellStart::Plain => "-c",
        };
        vec![self.path.to_string_lossy().into_owned(), flag.to_owned(), line.to_owned()]
    }
}

/// Joins a command's words into one line, quoted where a shell needs it.
pub fn display<S: AsRef<str>>(argv: &[S]) -> String {
    // A word with a zero byte cannot be quoted, and could not be run either.
    shlex::try_join(argv.iter().map(AsRef::as_ref))
        .unwrap_or_else(|_| argv.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" "))
}

/// Returns the first executable path: of the user's own shells those that are supported, then of the others.
fn choose_shell(
    own: impl Iterator<Item = PathBuf>,
    others: impl Iterator<Item = PathBuf>,
    is_executable: impl Fn(&Path) -> bool,
) -> PathBuf {
    let is_supported = |path: &PathBuf| {
        path.is_absolute()
            && path.file_name().is_some_and(|name| SUPPORTED.iter().any(|known| name == *known))
    };
    let mut candidates = own.filter(is_supported).chain(others);
    candidates.find(|path| is_executable(path)).unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Returns the user's shell from the user database, which the standard library cannot read.
fn passwd_shell() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let mut buffer: Vec<u8> = vec![0; 1024];
    loop {
        // SAFETY: an all-zero `passwd` is a valid value of it: integers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the length is that of the buffer.
        let status = unsafe {
            libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &mut found)
        };
        match status {
            0 if found.is_null() || entry.pw_shell.is_null() => return None,
            0 => {
                // SAFETY: the call has set it to a terminated string inside `buffer`, which is still alive.
                let shell = unsafe { CStr::from_ptr(entry.pw_shell) };
                return Some(PathBuf::from(OsStr::from_bytes(shell.to_bytes())));
            }
            libc::ERANGE if buffer.len() < 1024 * 1024 => buffer.resize(buffer.len() * 2, 0),
            libc::EINTR => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_usable_shell_is_chosen() {
        let check = |own: &[&str], existing: &[&str], expected: &str| {
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>().into_iter();
            let others = paths(&["/usr/bin/bash", "/bin/bash", "/bin/sh"]);
            let chosen = choose_shell(paths(own), others, |path| {
                existing.iter().any(|known| path == Path::new(known))
            });
            assert_eq!(chosen, Path::new(expected), "{own:?} {existing:?}");
        };
        check(&["/bin/zsh", "/bin/bash"], &["/bin/zsh", "/bin/bash"], "/bin/zsh");
        check(&["/bin/zsh", "/bin/dash"], &["/bin/dash", "/bin/bash"], "/bin/dash");
        check(&["/usr/bin/fish"], &["/usr/bin/fish", "/bin/bash", "/bin/sh"], "/bin/bash");
        check(&["/usr/sbin/nologin"], &["/usr/sbin/nologin", "/bin/sh"], "/bin/sh");
        check(&["bash", ""], &["bash", "/usr/bin/bash"], "/usr/bin/bash");
        check(&[], &[], "/bin/sh");
    }

    #[test]
    fn a_command_is_displayed_as_it_could_be_typed() {
        let check = |line: &str, expected: &str| {
            let argv = UserShell::at("/bin/bash").argv(line, ShellStart::Login);
            assert_eq!(display(&argv), expected);
        };
        check("pwd", "/bin/bash -lc pwd");
        check("echo hi", "/bin/bash -lc 'echo hi'");
        check("touch newfile && echo ok", "/bin/bash -lc 'touch newfile && echo ok'");
        check("read line; echo got:$line", "/bin/bash -lc 'read line; echo got:$line'");
        check("find . -name '*.txt'", r#"/bin/bash -lc "find . -name '*.txt'""#);
        check(r"printf 'alpha\nbeta\n'", r#"/bin/bash -lc "printf 'alpha\\nbeta\\n'""#);
        check("sed -n '1,3p' notes.txt", r#"/bin/bash -lc "sed -n '1,3p' notes.txt""#);
        check("", "/bin/bash -lc ''");
        check("a\0b", "/bin/bash -lc a\0b");
    }

    #[test]
    fn the_profile_is_read_on_request() {
        assert_eq!(UserShell::at("/bin/sh").argv("id", ShellStart::Login), ["/bin/sh", "-lc", "id"]);
        assert_eq!(UserShell::at("/bin/sh").argv("id", ShellStart::Plain), ["/bin/sh", "-c", "id"]);
    }
}
