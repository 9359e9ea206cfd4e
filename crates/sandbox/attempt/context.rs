//! The files and processes of an attempt. The test creates them and names them in the environment.
//!
//! Each attempt has its own files, so that attempts do not influence each other.

use std::{
    env,
    ffi::CString,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub type Outcome = io::Result<()>;

pub struct AttemptContext {
    name: String,
}

impl AttemptContext {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Returns a directory outside every root, with `file` and `folder` in it.
    pub fn outside(&self) -> PathBuf {
        path("ATTEMPT_OUTSIDE").join(&self.name)
    }

    /// Returns a directory in the workspace, with the file `mine` in it.
    pub fn inside(&self) -> PathBuf {
        self.workspace().join("src").join(&self.name)
    }

    /// Returns a repository in the workspace. It has `.git`, `.codex` and so on, each with a file `config`.
    pub fn repository(&self) -> PathBuf {
        self.workspace().join("repositories").join(&self.name)
    }

    pub fn workspace(&self) -> PathBuf {
        path("ATTEMPT_WORKSPACE")
    }

    /// Returns the id of a process outside the sandbox.
    pub fn victim(&self) -> i32 {
        number("ATTEMPT_VICTIM")
    }

    /// Returns the id of the process that started the confined one.
    pub fn server(&self) -> i32 {
        number("ATTEMPT_SERVER")
    }
}

pub fn path(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set")))
}

pub fn number(variable: &str) -> i32 {
    env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{variable} is not set"))
}

pub fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Converts the result of a system call.
pub fn check(result: impl Into<i64>) -> io::Result<i64> {
    match result.into() {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Makes a system call by number. The arguments are numbers, or pointers to memory that outlives the call.
pub fn call(number: libc::c_long, arguments: &[usize]) -> io::Result<i64> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: callers pass arguments that the system call expects, or addresses that it refuses to access.
    check(unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) })
}
