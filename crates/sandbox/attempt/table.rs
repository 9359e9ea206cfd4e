//! All attempts, and how they are made.

use std::process::{Command, ExitCode, Stdio};

use crate::{
    controls, files, kernel, metadata, network, processes,
    scene::{Outcome, Scene},
};

/// What is to come of an attempt.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Refused, and possible without a sandbox.
    Denied,
    /// Refused by the system call filter; the error tells. Without a sandbox the kernel says something else.
    Filtered,
    /// Refused. Whether it is possible without a sandbox depends on the machine.
    Forbidden,
    /// Possible.
    Allowed,
}

pub type Attempt = (&'static str, Class, fn(&Scene) -> Outcome);

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

/// Prints a name and the exit code, or the signal with a minus.
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
    match run(&Scene::new(name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::from(error.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(255))
        }
    }
}
