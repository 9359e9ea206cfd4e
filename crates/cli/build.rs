//! Links the binary with packed relocations where the system can load them.
//!
//! A position-independent binary of this size carries 1.5 MB of relative relocations that the
//! loader reads at every start; packed they are some 50 KB. glibc loads them from 2.36 on, and a
//! binary that is built for another machine than this one is left as it is. So is a debug build:
//! the linkers that developers choose for speed do not all mark packed relocations as glibc needs it.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    if !is_debug && is_native_gnu_linux() && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn is_native_gnu_linux() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var("TARGET").ok() == env::var("HOST").ok()
}

/// The version of this system's glibc: `getconf` says `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let (major, minor) = str::from_utf8(&told.stdout).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
