//! Confines the commands that an agent runs, so that they cannot damage the machine they run on.
//!
//! ```no_run
//! # use codicil_protocol::SandboxPolicy;
//! # use codicil_sandbox::{AccessRequest, Confinement, Grants, Probe, RootCache, ServerPlaces};
//! # fn run(policy: &SandboxPolicy) -> Result<(), Box<dyn std::error::Error>> {
//! let request = AccessRequest {
//!     policy,
//!     workspace: "/work/project".as_ref(),
//!     grants: &Grants::default(),
//!     roots: &RootCache::default(),
//!     server: &ServerPlaces::new("/home/user/.codicil".as_ref()),
//! };
//! let confinement = Confinement::new(&request, Probe::cached())?;
//! let status = confinement.command("cargo")?.arg("test").current_dir("/work/project").status()?;
//! # Ok(()) }
//! ```
//!
//! [`MachineProbe`] finds out once what the machine offers. [`Confinement`] takes the best of it, or is an error that
//! says what is missing. There is no way from a policy to a command that is confined less than it says.
//!
//! On Linux, from the best to the least:
//!
//! | | files | network off | processes | own namespaces |
//! |---|---|---|---|---|
//! | [`Kind::Bubblewrap`] | mounts | network namespace, seccomp | pid namespace | mount, pid, ipc, uts, network |
//! | [`Kind::LandlockView`] | mounts and Landlock | seccomp, Landlock | pid namespace, Landlock | mount, pid, ipc |
//! | [`Kind::Landlock`] | Landlock | seccomp, Landlock | Landlock | none |
//!
//! All three drop every capability, set `no_new_privs`, close what the server has open, and refuse with
//! `EPERM` the system calls that no build or test needs (`linux/seccomp.rs` has the list).
//!
//! # What stays read-only inside a writable root
//!
//! `.git`, `.codex`, `.codicil` and `.agents`, at the root and in the folders below it, down to a stated
//! depth and number of folders (`metadata.rs`); where `.git` is a file, also what it points to. Nothing is ever
//! created to get there, so some things are not covered, and [`Confinement::gaps`] says so:
//!
//! - Names that do not exist yet can be created. The configuration in such a folder is not obeyed until a person
//!   agrees to it, which is for the caller to see to.
//! - A symbolic link of that name can be replaced; what it leads to is protected.
//! - Repositories deeper down than the search goes are not protected.
//!
//! Landlock alone can only allow. There a folder that holds a protected name gets no right of its own: its other
//! entries can be changed, but new ones cannot be made directly in it.
//!
//! # A network behind a proxy
//!
//! [`Confinement::behind_proxy`] gives a command a network namespace of its own, in which one port leads to a
//! listener of the server (`door.rs`). What is asked of it there is the server's to decide; there is no other
//! way out. Without namespaces it is refused.
//!
//! # What belongs to the server
//!
//! [`ServerPlaces`] names the server's home and its listeners. Of the home, commands see only what is meant for
//! agents; the listeners cannot be connected to.
//!
//! # Sockets of other programs
//!
//! A daemon that obeys whoever connects (a container engine, a session bus, a terminal multiplexer) is a way out
//! of any sandbox. Without a network, `connect` is refused altogether, and with one there are no sockets of the file
//! system; pairs of sockets can be made. A policy that names a socket as a root opens it, together with a network and
//! where there are mounts of our own to cover the others.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod door;
mod error;
mod gap;
mod grants;
mod kind;
mod limits;

mod access;
mod file_access;
mod links;
mod metadata;
mod root_cache;
mod server_places;

mod confinement;
mod denied;
mod probe;
mod wrap;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(target_os = "macos", test))]
mod seatbelt;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
use macos as platform;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("commands can be confined on Linux and macOS only");

pub use {
    access::AccessRequest,
    confinement::{CommandLifetime, Confinement, PreparedConfinement, WritableFolders},
    denied::looks_denied,
    door::{PROXY, ProxyListener},
    error::{SandboxError, SetupStep},
    file_access::FileAccess,
    gap::ConfinementGap,
    grants::SandboxGrants,
    kind::ConfinementKind,
    limits::ResourceLimits,
    probe::MachineProbe,
    root_cache::RootCache,
    server_places::{ListenerAddresses, ServerPlaces},
};
