//! Tests of the console in a real browser, against the real binary with a scripted model.
//!
//! A test binary of its own, unlike the other tests of this crate: cargo runs the binaries one after the other, so browsers do
//! not compete with servers under load. Everything is found by role and accessible name, as people with a screen reader find
//! it. Without `chromium` and `chromedriver` each test reports that it is skipped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod browser;
mod driver;
mod stage;
mod wire;

mod answers;
mod appearance;
mod composer;
mod desktop;
mod flow;
mod history;
mod hostile;
mod items;
mod keyboard;
mod lists;
mod pages;
mod questions;
mod resume;
mod scale;
mod screenshots;
mod starts;
