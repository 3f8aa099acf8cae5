//! Fake libraries of CUDA's, compiled where they are needed, and programs that meet them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// What users are told of each failure.
pub(crate) const GUIDE: &str = include_str!("../../docs/gpu.md");

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed, and answers what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn cc() -> Command {
    Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
}

/// Compiles `source` of `tests/gpu/fake` to a library called `name` in a folder of its own, once for all tests.
fn library(folder: &str, name: &str, source: &str, flags: &[String]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu").join(folder);
    let file = folder.join(name);
    let source = root().join("tests/gpu/fake").join(source);
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let age = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let newest =
        ["cuda.c", "cudart.c", "cupti.c", "records.h"].map(|one| age(&root().join("tests/gpu/fake").join(one)));
    if age(&file) < newest.into_iter().max().expect("sources") {
        std::fs::create_dir_all(&folder).expect("a folder for the fakes");
        // Under its name only when complete: other tests may run at the same time.
        let part = folder.join(format!("{name}.{}", std::process::id()));
        run(cc()
            .args(["-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"])
            .args(flags)
            .arg(format!("-Wl,-soname,{name}"))
            .arg(source)
            .arg("-o")
            .arg(&part)
            .arg("-pthread"));
        std::fs::rename(part, &file).expect("rename");
    }
    file
}

/// The driver.
pub(crate) fn cuda() -> PathBuf {
    library("cuda", "libcuda.so.1", "cuda.c", &["-fvisibility=default".to_owned()])
}

/// The runtime of CUDA 12.9.
pub(crate) fn cudart() -> PathBuf {
    library("cudart", "libcudart.so.12", "cudart.c", &["-fvisibility=default".to_owned()])
}

/// The name that CUPTI of interface `version` goes by.
pub(crate) fn soname(version: u32) -> &'static str {
    match version {
        ..20 => "libcupti.so.11.8",
        20..100 => "libcupti.so.12",
        _ => "libcupti.so.13",
    }
}

/// CUPTI of interface `version`, with records as the reader's table has them.
pub(crate) fn cupti(version: u32) -> PathBuf {
    library(&format!("cupti-{version}"), soname(version), "cupti.c", &[format!("-DA={version}")])
}

/// Compiles a C program that uses the shared library, to `target`.
pub(crate) fn program(source: &str, target: PathBuf) -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().expect("its folder");
    run(cc()
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args([root().join("include"), root().join("tests/c")].map(|folder| format!("-I{}", folder.display())))
        .arg(root().join(source))
        .arg("-o")
        .arg(&target)
        .arg("-L")
        .arg(folder)
        .args(["-ltptrace", "-pthread", &format!("-Wl,-rpath,{}", folder.display())]));
    target
}

/// CUPTI with the records of NVIDIA's headers.
pub(crate) fn cupti_of_headers(version: &str, includes: &[PathBuf]) -> PathBuf {
    let mut flags = vec!["-DNVIDIA_HEADERS".to_owned(), "-w".to_owned()];
    flags.extend(includes.iter().map(|folder| format!("-I{}", folder.display())));
    flags.push(format!("-I{}", root().join("tests/gpu/fake").display()));
    library(&format!("cupti-headers-{version}"), "libcupti.so", "cupti.c", &flags)
}

/// CUPTI compiled with these flags.
pub(crate) fn cupti_with(name: &str, flags: &[&str]) -> PathBuf {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    library(&format!("cupti-{name}"), "libcupti.so", "cupti.c", &flags)
}
