//! Child processes for a server: commands by pipe and by terminal that end with whoever owns them.
//!
//! | what | where |
//! |---|---|
//! | say what to run | [`Spec`], [`Shell`], [`EnvironmentPolicy`] |
//! | run it, read it, write to it, end it | [`Process`], [`Output`], [`Stdin`], [`ProcessHandle`] |
//! | collect its output within a ceiling | [`Process::capture`], [`HeadTail`] |
//! | let it outlive the call that started it | [`Sessions`] |
//!
//! How a process is owned, from the inside out:
//!
//! 1. Each process leads a session and a process group of its own. The group is killed when the [`Process`] is
//!    dropped. The leader is reaped only after that, so its id cannot meanwhile belong to somebody else.
//! 2. When the server is killed, the kernel kills the leader: the parent-death signal. It is tied to the thread
//!    that spawned, so one thread that lives as long as the process spawns everything (`spawner.rs`).
//! 3. That signal reaches the leader alone. A small process beside the server, the guard, kills the rest of each
//!    group when it sees the server's end of a pipe close (`guard.rs`).
//!
//! Signals go only to process groups that this crate created, and never to an id of 1 or less; `group.rs`
//! sends them for the server, `guard.rs` when there is none any more. A caller may extend this to the groups
//! that programs make inside a session of this crate ([`Reach::Session`]). What makes a session of its own (a
//! daemon) leaves its group and is not reached; a process namespace, which is the sandbox's business, holds
//! these too.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod exit;
mod spec;

mod process;

mod head_tail;
mod input;
mod output;

mod child;
mod group;
mod guard;
mod keeper;
mod spawner;
mod terminal;

mod environment;
mod glob;
mod shell;

mod memory;

mod sessions;

pub use {
    environment::{EnvironmentPolicy, Inherit, add_tool_defaults},
    exit::Exit,
    head_tail::HeadTail,
    input::Stdin,
    memory::return_large_blocks,
    output::{Chunk, Output, Source},
    process::{Captured, Process, ProcessHandle, ResizeError},
    sessions::{Ending, Limits, Owner, Report, SessionError, SessionEvent, SessionId, Sessions},
    shell::{Shell, Start, display},
    spawner::SpawnError,
    spec::{Cap, Environment, Input, Prepare, Reach, Size, Spec},
};
