//! Files of the server's machine for clients: reading, changing, watching and searching them.
//!
//! Everything here blocks, except [`FileWatcher`] and [`FileSearches`]. Reading, listing and copying never wait for another
//! process: pipes, sockets and devices are refused or skipped.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod copy;
mod error;
mod read;
mod write;

mod search;
mod watch;

pub use {
    copy::{CopyDepth, copy},
    error::FileError,
    read::{metadata, open_regular, read_base64, read_directory},
    search::{
        FileSearches, MAX_QUERY_BYTES, MAX_QUERY_WORDS, MAX_RESULTS, QueryTooLong, SearchEvent, SearchRoots,
        SearchSession, check_query,
    },
    watch::{FileWatch, FileWatcher, WatchError},
    write::{ParentDirectories, RemoveOptions, create_directory, decode_contents, remove, write},
};
