//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // Consumers record this name, and a second load by any path finds the first. The number is the ABI's.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtptrace.so.0");
    // Thread-local destructors and the fork handler outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
