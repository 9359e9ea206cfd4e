//! What confined commands can and cannot do, for every confinement that this machine has and, where the tests
//! run as root, for an ordinary user too. What is not to be had is skipped, and said.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod escapes;
mod limits;
mod litter;
mod place;
mod policies;
mod proxy;
mod tools;
mod with;
