//! A place for attempts that nothing confines: no terminal, and as far as the user may have them, mounts, host
//! name and System V objects of its own. What succeeds here is gone with the process.

use std::{process::ExitCode, ptr};

use crate::{
    scene::{Outcome, call, check},
    table,
};

pub fn run(names: &[String]) -> ExitCode {
    // SAFETY: takes nothing.
    let _ = check(unsafe { libc::setsid() });
    // An ordinary user may not, and then cannot do what this protects from either.
    if let Err(error) = leave() {
        eprintln!("not apart: {error}");
    }
    table::try_all(names)
}

fn leave() -> Outcome {
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    call(libc::SYS_unshare, &[namespaces as usize])?;
    // SAFETY: the path is a C string; the rest is not read for this request.
    let private = unsafe {
        libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), libc::MS_REC | libc::MS_PRIVATE, ptr::null())
    };
    check(private).map(drop)
}
