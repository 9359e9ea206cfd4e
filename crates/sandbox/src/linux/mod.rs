//! Confinement on Linux.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | which mounts a policy needs, for both ways of making them |
//! | `sockets.rs` | which sockets belong to other programs |
//! | `bubblewrap.rs` | the plan as a `bwrap` command line |
//! | `landlock.rs` | Landlock rules |
//! | `seccomp.rs` | the system call filter |
//! | `view.rs` | the plan as mounts in a namespace of our own |
//! | `probe.rs` | what of all this the machine allows |
//! | `find.rs` | which `bwrap`, and how far it may go |
//! | `doorstep.rs` | a network of its own with a way to the proxy |
//! | `child.rs` | what a new process does to itself, in order |
//! | `enforce.rs` | plan and means together, as the rest of the crate knows them |
//! | `sys.rs` | system calls that no library wraps |

mod bubblewrap;
mod child;
mod doorstep;
mod enforce;
mod find;
mod landlock;
mod plan;
mod probe;
mod seccomp;
mod sockets;
mod sys;
mod view;

pub(crate) use {
    enforce::{Enforcement, EnforcementSteps},
    plan::is_platform_path,
    probe::MachineSupport,
};
