//! Makes attempts without a sandbox, where they do no harm: without a terminal and, as far as the user may create them,
//! in own mount, UTS and IPC namespaces. What succeeds there is gone when the process exits.

use std::{process::ExitCode, ptr};

use crate::{
    context::{Outcome, call, check},
    table,
};

pub fn run(names: &[String]) -> ExitCode {
    // SAFETY: takes nothing.
    let _ = check(unsafe { libc::setsid() });
    // An ordinary user may not create namespaces, and then cannot do harm with the attempts either.
    if let Err(error) = enter_namespaces() {
        eprintln!("no own namespaces: {error}");
    }
    table::try_all(names)
}

fn enter_namespaces() -> Outcome {
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    call(libc::SYS_unshare, &[namespaces as usize])?;
    // SAFETY: the path is a C string; the rest is not read for this request.
    let private = unsafe {
        libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), libc::MS_REC | libc::MS_PRIVATE, ptr::null())
    };
    check(private).map(drop)
}
