//! Child processes of a server: commands with pipes or a terminal that end, with everything they started, when their
//! owner drops them or the server dies.
//!
//! | task | types |
//! |---|---|
//! | describe a command | [`ProcessSpec`], [`UserShell`], [`EnvironmentPolicy`] |
//! | run it, read its output, write its input, end it | [`Process`], [`ProcessOutput`], [`ProcessInput`], [`ProcessHandle`] |
//! | collect its output within a limit | [`Process::capture`], [`HeadTail`] |
//! | let it outlive the call that started it | [`TerminalSessions`] |
//!
//! # How a process is owned
//!
//! 1. A small process, the *minder* (`minder.rs`), stands between the server and each command. Everything that the
//!    command starts stays a descendant of the minder: new process groups, sessions and daemons do not leave it.
//! 2. When the [`Process`] is dropped or terminated, the server signals the minder, and the minder kills every
//!    descendant. The minder is reaped only after that, so its process id cannot belong to another process before.
//! 3. When the server is killed, the kernel signals the minder (parent-death signal). That signal is tied to the
//!    thread that spawned, so one thread that lives as long as the server spawns everything (`spawner.rs`). The *reaper*
//!    (`reaper.rs`) is the thread that waits for commands and reaps minders.
//!
//! The server signals minders only, and a minder signals its own children only.
//!
//! Not guaranteed: an unconfined command can kill its minder, as it can kill any process of its user. Then only the
//! command itself ends with the minder; what it started lives on. The sandbox keeps confined commands from doing that.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod environment;
mod shell;
mod spec;

mod exit;
mod process;

mod head_tail;
mod input;
mod output;

mod spawner;

mod child;
mod minder;
mod namespaces;
mod reaper;
mod terminal;

mod sessions;
mod startup;

pub use {
    environment::{
        EnvironmentPolicy, InheritPolicy, SERVER_CREDENTIALS, add_tool_defaults, inherited_environment,
    },
    exit::ProcessExit,
    head_tail::HeadTail,
    input::ProcessInput,
    minder::{attach_minder, attach_minder_of_thread, become_init},
    output::{OutputChunk, OutputSource, ProcessOutput},
    process::{CapturedOutput, Process, ProcessHandle, ResizeError},
    sessions::{
        SessionEnding, SessionError, SessionEvent, SessionId, SessionLimits, SessionOwner, SessionReport,
        TerminalSessions,
    },
    shell::{ShellStart, UserShell, display},
    spawner::SpawnError,
    spec::{CaptureLimit, ChildPreparation, InputSource, ProcessEnvironment, ProcessSpec, TerminalSize},
    startup::{return_large_blocks, set_command_file_limit},
};
