//! `include/tracer.h` is what cbindgen makes of `src/capi` today.

use std::path::Path;

#[test]
fn the_committed_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut fresh = Vec::new();
    cbindgen::Builder::new().with_crate(root).with_config(config).generate().expect("bindings").write(&mut fresh);
    let fresh = String::from_utf8(fresh).expect("UTF-8");
    let path = root.join("include/tracer.h");
    if std::env::var_os("TP_BLESS").is_some() {
        std::fs::write(&path, &fresh).expect("include/tracer.h");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "include/tracer.h is not current: run `TP_BLESS=1 cargo test --test header`");
}

#[test]
fn the_version_of_the_header_is_the_crate_s() {
    let header = include_str!("../include/tracer.h");
    for (part, number) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(header.contains(&format!("#define TP_VERSION_{part} {number}\n")), "cbindgen.toml: TP_VERSION_{part}");
    }
}
