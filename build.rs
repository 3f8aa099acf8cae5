//! How the shared library is linked.

use std::path::{Path, PathBuf};

/// The number is the ABI's.
const SONAME: &str = "libtptrace.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // Consumers record this name, and a second load by any path finds the first.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // Thread-local destructors and the fork handler outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    link_soname();
}

/// A program linked with `-L target/release -ltptrace` asks for the soname at run time, and cargo makes only the plain
/// name: the link between them stands beside it, as it will where the library is installed.
fn link_soname() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // target/PROFILE/build/tptrace-HASH/out
    let Some(profile) = out.ancestors().nth(3) else { return };
    for folder in [profile.to_path_buf(), profile.join("deps")] {
        let link: &Path = &folder.join(SONAME);
        if folder.is_dir() && link.symlink_metadata().is_err() {
            // A convenience only: where it fails, the linker's message says what is missing.
            let _ = std::os::unix::fs::symlink("libtptrace.so", link);
        }
    }
}
