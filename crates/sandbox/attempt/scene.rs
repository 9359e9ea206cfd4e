//! Where attempts are made. The test prepares the place and tells of it in the environment.
//!
//! Each attempt has files of its own, so that one does not change what the next one finds.

use std::{
    env,
    ffi::CString,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub type Outcome = io::Result<()>;

pub struct Scene {
    name: String,
}

impl Scene {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// A directory outside every root: `file` and `folder` are in it.
    pub fn outside(&self) -> PathBuf {
        path("SCENE_OUTSIDE").join(&self.name)
    }

    /// A directory of the workspace: `mine` is in it.
    pub fn inside(&self) -> PathBuf {
        self.workspace().join("src").join(&self.name)
    }

    /// A repository of its own in the workspace: `.git`, `.codex` and so on, each with a file `config`.
    pub fn repository(&self) -> PathBuf {
        self.workspace().join("repositories").join(&self.name)
    }

    pub fn workspace(&self) -> PathBuf {
        path("SCENE_WORKSPACE")
    }

    /// A process outside.
    pub fn victim(&self) -> i32 {
        number("SCENE_VICTIM")
    }

    /// The process that started the confined one.
    pub fn server(&self) -> i32 {
        number("SCENE_SERVER")
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

/// The result of a system call.
pub fn check(result: impl Into<i64>) -> io::Result<i64> {
    match result.into() {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A system call by number. The arguments are numbers, or pointers to what outlives the call.
pub fn call(number: libc::c_long, arguments: &[usize]) -> io::Result<i64> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: callers pass what the system call expects, or something it refuses to touch.
    check(unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) })
}
