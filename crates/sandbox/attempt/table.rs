//! The table of all attempts, and how they are made.

use std::process::{Command, ExitCode, Stdio};

use crate::{
    context::{AttemptContext, Outcome},
    controls, files, kernel, metadata, network, processes,
};

/// The expected result of an attempt.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Refused in a sandbox, possible without one.
    Denied,
    /// Refused by the system call filter with its own error number. Without a sandbox the result is another one.
    Filtered,
    /// Refused in a sandbox. Without one, the result depends on the machine.
    Forbidden,
    /// Possible in a sandbox and without one.
    Allowed,
}

pub type Attempt = (&'static str, Class, fn(&AttemptContext) -> Outcome);

fn all() -> impl Iterator<Item = &'static Attempt> {
    [
        files::ATTEMPTS,
        metadata::ATTEMPTS,
        processes::ATTEMPTS,
        network::ATTEMPTS,
        kernel::ATTEMPTS,
        controls::ATTEMPTS,
    ]
    .into_iter()
    .flatten()
}

pub fn list() -> ExitCode {
    all().for_each(|(name, class, _)| println!("{name} {class:?}"));
    ExitCode::SUCCESS
}

/// Prints each name with the exit code, or with the negative number of the signal that ended the attempt.
pub fn try_all(names: &[String]) -> ExitCode {
    for name in names {
        use std::os::unix::process::ExitStatusExt;
        let mut command = Command::new("/proc/self/exe");
        let status = command.args(["one", name]).stdin(Stdio::null()).status().unwrap();
        println!("{name} {}", status.code().unwrap_or_else(|| -status.signal().unwrap()));
    }
    ExitCode::SUCCESS
}

pub fn one(name: &str) -> ExitCode {
    let (_, _, run) = all().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("no attempt {name}"));
    match run(&AttemptContext::new(name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::from(error.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(255))
        }
    }
}
