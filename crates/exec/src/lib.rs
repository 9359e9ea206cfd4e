//! Child processes for a server: commands by pipe and by terminal that end with whoever owns them.
//!
//! | what | where |
//! |---|---|
//! | say what to run | [`ProcessSpec`], [`UserShell`], [`EnvironmentPolicy`] |
//! | run it, read it, write to it, end it | [`Process`], [`ProcessOutput`], [`ProcessInput`], [`ProcessHandle`] |
//! | collect its output within a ceiling | [`Process::capture`], [`HeadTail`] |
//! | let it outlive the call that started it | [`TerminalSessions`] |
//!
//! How a process is owned:
//!
//! 1. Between the server and each command stands a small process, the minder (`minder.rs`). Whatever the command
//!    starts stays within the minder's reach: process groups, sessions and daemons of its own do not lead out of it.
//! 2. When the [`Process`] is dropped or terminated, the server tells the minder to end, and the minder kills
//!    everything. The minder is reaped only after that, so its id cannot meanwhile belong to another process.
//! 3. When the server is killed, the kernel tells the minder: the parent-death signal. It is tied to the thread
//!    that spawned, so one thread that lives as long as the process spawns everything (`spawner.rs`).
//!
//! The server sends signals to minders only, and a minder only to its own children. An unconfined command can kill
//! its minder, as it can kill anything of its user; then only the command itself ends with it. A sandbox keeps
//! commands from that.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod exit;
mod spec;

mod process;

mod head_tail;
mod input;
mod output;

mod child;
mod keeper;
mod minder;
mod namespaces;
mod spawner;
mod terminal;

mod environment;
mod shell;

mod memory;

mod sessions;

pub use {
    child::set_command_file_limit,
    environment::{EnvironmentPolicy, InheritPolicy, add_tool_defaults},
    exit::ProcessExit,
    head_tail::HeadTail,
    input::ProcessInput,
    memory::return_large_blocks,
    minder::{attach_minder, become_init},
    output::{OutputChunk, OutputSource, ProcessOutput},
    process::{CapturedOutput, Process, ProcessHandle, ResizeError},
    sessions::{
        SessionEnding, SessionError, SessionEvent, SessionId, SessionLimits, SessionOwner, SessionReport,
        TerminalSessions,
    },
    shell::{ShellStart, UserShell, display},
    spawner::SpawnError,
    spec::{CaptureLimit, ChildPreparation, InputSource, ProcessEnvironment, ProcessSpec, TerminalSize},
};
