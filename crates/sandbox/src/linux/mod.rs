//! Confinement on Linux.
//!
//! | file | contents |
//! |---|---|
//! | `enforce.rs` | [`Enforcement`], the interface to the rest of the crate: a plan and the means to enforce it |
//! | `plan.rs` | the mounts that a policy needs, for both ways of making them |
//! | `sockets.rs` | the sockets of other programs |
//! | `child.rs` | the steps by which a new process confines itself, in their order |
//! | `mount_view.rs` | the plan as mounts in a namespace of the new process |
//! | `landlock.rs` | Landlock rules |
//! | `seccomp.rs` | the system call filter |
//! | `listener_sender.rs` | the new process's end of the connection to the proxy |
//! | `bubblewrap.rs` | the plan as a `bwrap` command line |
//! | `probe.rs` | which of these means the machine allows |
//! | `find_bubblewrap.rs` | which `bwrap` to use, and what it is allowed to do |
//! | `sys.rs` | system calls that no library wraps |

mod enforce;
mod plan;
mod sockets;

mod child;
mod landlock;
mod listener_sender;
mod mount_view;
mod seccomp;

mod bubblewrap;
mod find_bubblewrap;
mod probe;
mod sys;

pub(crate) use {
    enforce::{Enforcement, EnforcementSteps},
    plan::is_platform_path,
    probe::MachineSupport,
};
