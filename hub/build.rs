//! How the release binary is linked. Its 66,000 relocations are a million and a half bytes that every start reads; packed they
//! are a tenth of it, which is a tenth of what an idle server weighs.
//!
//! The loader understands them from glibc 2.36 on (<https://sourceware.org/glibc/wiki/Release/2.36>). A binary that is made on
//! an older system is linked as ever.

use std::{env, process::Command};

/// The first glibc whose loader takes packed relative relocations.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let here = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if here && gnu && is("PROFILE", "release") && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's glibc; `None` where nobody tells.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
