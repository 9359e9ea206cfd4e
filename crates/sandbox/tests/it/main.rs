//! What confined commands can and cannot do, under every confinement that this machine has and, if the tests run as root,
//! for an ordinary user as well. Prints what is skipped because the machine does not have it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod backend;
mod escapes;
mod limits;
mod policies;
mod proxy;
mod side_effects;
mod test_tree;
mod tools;
