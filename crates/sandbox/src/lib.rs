//! Confines the commands that an agent runs, so that they cannot damage the machine they run on.
//!
//! ```no_run
//! # use codicil_protocol::SandboxPolicy;
//! # use codicil_sandbox::{AccessRequest, Confinement, MachineProbe, RootCache, SandboxGrants, ServerPlaces};
//! # fn run(policy: &SandboxPolicy) -> Result<(), Box<dyn std::error::Error>> {
//! let request = AccessRequest {
//!     policy,
//!     workspace: "/work/project".as_ref(),
//!     grants: &SandboxGrants::default(),
//!     roots: &RootCache::default(),
//!     server: &ServerPlaces::new("/home/user/.codicil".as_ref()),
//! };
//! let confinement = Confinement::new(&request, MachineProbe::cached())?;
//! let status = confinement.command("cargo")?.arg("test").current_dir("/work/project").status()?;
//! # Ok(()) }
//! ```
//!
//! The steps from a policy to a confined command:
//!
//! 1. [`MachineProbe`] tries once which means of confinement the machine has.
//! 2. `access.rs` resolves the policy of an [`AccessRequest`] to lists of paths, with the metadata to protect
//!    (`metadata.rs`) and the places of the server to hide (`server_places.rs`).
//! 3. [`Confinement::new`] takes the best means, or returns an error that names what is missing. It never returns a
//!    confinement that allows more than the policy, apart from the gaps below.
//! 4. [`Confinement::prepare`] does everything that can fail (`linux/`, or `macos.rs` and `seatbelt.rs`). The rest runs
//!    in the new process between `fork` and `exec`.
//!
//! [`FileAccess`] gives the same answers for files that the server itself reads and writes for a command.
//!
//! On Linux:
//!
//! | | files | network off | processes | own namespaces |
//! |---|---|---|---|---|
//! | [`ConfinementKind::LandlockView`] | mounts and Landlock | seccomp, Landlock | PID namespace, Landlock | mount, PID, IPC |
//! | [`ConfinementKind::Bubblewrap`] | mounts | network namespace, seccomp | PID namespace | mount, PID, IPC, UTS, network |
//! | [`ConfinementKind::Landlock`] | Landlock | seccomp, Landlock | Landlock | none |
//!
//! All three drop every capability, set `no_new_privs`, close the server's files, and refuse with `EPERM` the system
//! calls that no build or test needs (listed in `linux/seccomp.rs`).
//!
//! # What stays read-only inside a writable root
//!
//! `.git`, `.codex`, `.codicil` and `.agents`, at the root and in the folders below it, down to a fixed depth and number
//! of folders (`metadata.rs`). If `.git` is a file, also the directory it points to. The sandbox creates nothing to
//! protect it, so the following is not covered, and [`Confinement::gaps`] reports it:
//!
//! - Names that do not exist yet can be created. The caller must not use configuration in such a folder before the user
//!   has agreed to it.
//! - A symbolic link of such a name can be replaced. Its target is protected.
//! - Repositories below the searched depth are not protected.
//!
//! Landlock alone can only allow. There, a folder that contains a protected name gets no rights of its own: its other
//! entries can be changed, but new ones cannot be created directly in it.
//!
//! # A network behind a proxy
//!
//! [`Confinement::behind_proxy`] gives a command its own network namespace, in which one port leads to a listener of the
//! server (`proxy_listener.rs`). The server decides about each connection, and there is no other way out. Without
//! namespaces it returns an error.
//!
//! # Places of the server
//!
//! [`ServerPlaces`] names the server's home and its listeners. Commands see only those entries of the home that are
//! meant for agents, and cannot connect to the listeners.
//!
//! # Sockets of other programs
//!
//! A daemon that serves every client (a container engine, a session bus, a terminal multiplexer) is a way out of any
//! sandbox. Without a network, `connect` is refused; with one, sockets in the file system are refused. Socket pairs can
//! be created. A policy that names a socket as a writable root allows it, but only with a network and where the
//! confinement has its own mounts to cover the other sockets.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod confinement;
mod confinement_kind;
mod error;
mod limits;
mod probe;
mod proxy_listener;

mod access;
mod file_access;
mod metadata;
mod resolved_path;
mod root_cache;
mod server_places;

mod denied;

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
    access::{AccessRequest, SandboxGrants},
    confinement::{CommandLifetime, Confinement, PreparedConfinement, WritableFolders},
    confinement_kind::{ConfinementGap, ConfinementKind},
    denied::looks_denied,
    error::{SandboxError, SetupStep},
    file_access::FileAccess,
    limits::ResourceLimits,
    probe::MachineProbe,
    proxy_listener::{ProxyListener, ProxyPorts},
    root_cache::RootCache,
    server_places::{ListenerAddresses, ServerPlaces},
};
