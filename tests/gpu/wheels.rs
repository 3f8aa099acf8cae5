//! NVIDIA's own headers and libraries, from the wheels that `wheels.py` fetches. Where they cannot be had, this says so;
//! with `TP_REQUIRE_CUDA_WHEELS` in the environment, that fails.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tptrace::gpu::{MEMBERS, Member};

use crate::fakes::{cc, cuda, cupti_of_headers, root, run};

/// The wheels of one version of CUDA.
#[derive(Debug, Clone)]
pub(crate) struct Wheel {
    pub(crate) includes: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

/// What there is, by version; fetched once.
pub(crate) fn wheels() -> &'static BTreeMap<String, Wheel> {
    static FOUND: OnceLock<BTreeMap<String, Wheel>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-wheels");
        let script = root().join("tests/gpu/wheels.py");
        let output = Command::new("python3").arg(script).arg(&folder).output();
        let text = output.as_ref().map_or_else(ToString::to_string, |output| {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        let paths = |text: &str| text.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
        let found: BTreeMap<String, Wheel> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.splitn(3, ' ');
                let (version, includes, libraries) = (fields.next()?, fields.next()?, fields.next()?);
                let wheel = Wheel { includes: paths(includes), libraries: paths(libraries) };
                version.starts_with(|first: char| first.is_ascii_digit()).then(|| (version.to_owned(), wheel))
            })
            .collect();
        if found.len() < 6 {
            let have: Vec<_> = found.keys().collect();
            // Past the test harness, which keeps the output of tests that pass.
            let said = format!("skipped: NVIDIA's wheels could not all be had; there are those of {have:?}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
            assert!(std::env::var_os("TP_REQUIRE_CUDA_WHEELS").is_none(), "{said}");
        }
        found
    })
}

/// The library of that stem among a version's.
fn library(wheel: &Wheel, stem: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = wheel
        .libraries
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem)))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("no {stem} in {:?}", wheel.libraries))
}

#[test]
fn the_readers_table_is_what_every_header_says() {
    let mut source = String::from("#define NVIDIA_HEADERS\n#include \"records.h\"\n#include <stddef.h>\n");
    for Member { record, member, offset, width, since } in MEMBERS {
        let member = member.trim_end_matches('.');
        let _ = writeln!(
            source,
            "#if A >= {since}\n_Static_assert(offsetof({record}, {member}) == {offset}, \"{record}.{member} is at {offset}\");\n\
             _Static_assert(sizeof((({record} *)0)->{member}) == {width}, \"{record}.{member} has {width} bytes\");\n#endif"
        );
    }
    assert!(MEMBERS.len() > 90, "{}", MEMBERS.len());
    for (name, value) in [
        ("MEMCPY", 1),
        ("MEMSET", 2),
        ("DRIVER", 4),
        ("RUNTIME", 5),
        ("DEVICE", 8),
        ("CONTEXT", 9),
        ("CONCURRENT_KERNEL", 10),
        ("NAME", 11),
        ("MARKER", 12),
        ("MARKER_DATA", 13),
        ("OVERHEAD", 17),
        ("MEMCPY2", 22),
        ("STREAM", 37),
        ("SYNCHRONIZATION", 38),
        ("EXTERNAL_CORRELATION", 39),
    ] {
        let _ = writeln!(source, "_Static_assert(CUPTI_ACTIVITY_KIND_{name} == {value}, \"{name}\");");
    }
    source.push_str(
        "_Static_assert(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 == 3, \"\");\n\
         _Static_assert(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED == 1, \"\");\n\
         _Static_assert(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM == 1, \"\");\n\
         _Static_assert(CUPTI_ACTIVITY_OBJECT_THREAD == 2, \"\");\n\
         _Static_assert(CUPTI_ACTIVITY_FLAG_MARKER_START == 2 && CUPTI_ACTIVITY_FLAG_MARKER_END == 4, \"\");\n\
         _Static_assert(CUPTI_CB_DOMAIN_DRIVER_API == 1 && CUPTI_CB_DOMAIN_RUNTIME_API == 2, \"\");\n\
         _Static_assert(CUPTI_ERROR_MAX_LIMIT_REACHED == 12, \"\");\n\
         #if A >= 130000\n_Static_assert(offsetof(CUpti_SubscriberParams, oldSubscriberSize) == 24, \"\");\n#endif\n",
    );
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("members.c");
    std::fs::write(&file, source).expect("write");
    for (version, wheel) in wheels() {
        let output = cc()
            .args(["-std=gnu11", "-fsyntax-only", "-w"])
            .args(wheel.includes.iter().map(|folder| format!("-I{}", folder.display())))
            .arg(format!("-I{}", root().join("tests/gpu/fake").display()))
            .arg(&file)
            .output()
            .expect("a compiler");
        assert!(output.status.success(), "CUDA {version}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What the command tells in an environment that has these libraries.
fn ask(variables: &[(&str, &Path)]) -> Value {
    let mut command = Command::new("timeout");
    command.args(["--signal=ABRT", "60"]).arg(env!("CARGO_BIN_EXE_tptrace")).args(["gpu", "--json"]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{variables:?}: {} {text}", output.status);
    assert!(output.stderr.is_empty(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{variables:?}: {error}: {text}"))
}

#[test]
fn the_real_libraries_do_no_harm_without_a_gpu() {
    for (version, wheel) in wheels() {
        let (cupti, cudart) = (library(wheel, "libcupti.so"), library(wheel, "libcudart.so"));
        let real = [("TP_LIBCUPTI", &*cupti), ("TP_LIBCUDART", &*cudart)];
        let nowhere = Path::new("/nowhere/libcuda.so.1");
        let told = ask(&[("TP_LIBCUDA", nowhere), real[0], real[1]]);
        assert_eq!(told["state"], "no driver", "{version}: {told}");
        // As `import torch` maps it: there already, but not to be called.
        let told = ask(&[("TP_LIBCUDA", nowhere), ("LD_PRELOAD", &cupti)]);
        assert_eq!(told["state"], "no driver", "{version}: {told}");
        for code in ["34", "100", "803"] {
            let told = ask(&[("TP_LIBCUDA", &cuda()), ("FAKE_CUDA_INIT", Path::new(code)), ("LD_PRELOAD", &cupti)]);
            assert_eq!(told["driver_code"], code.parse::<i64>().expect("a number"), "{version}: {told}");
            assert_eq!(told["ready"], false);
        }
    }
}

#[test]
fn the_real_cupti_with_a_driver_that_is_none() {
    // A driver that works as far as can be seen, but has no door for CUPTI: 13.2 overflows its stack in it, whatever is
    // called, and no real driver is like that. The others answer, and the collection is refused.
    for (version, wheel) in wheels().iter().filter(|(version, _)| *version != "13.2") {
        let cupti = library(wheel, "libcupti.so");
        let told = ask(&[("TP_LIBCUDA", &cuda()), ("TP_LIBCUPTI", &cupti)]);
        let state = told["state"].as_str().expect("a state");
        // From 13.3 on it answers 999 to everything.
        assert!(matches!(state, "ready" | "cupti failed"), "{version}: {told}");
        assert_eq!(
            state == "ready",
            told["cupti"]["version"].as_i64().is_some_and(|number| number > 0),
            "{version}: {told}"
        );
        assert_eq!(state == "cupti failed", version == "13.5", "{version}: {told}");
    }
}

#[test]
fn the_real_cupti_refuses_to_collect_without_a_driver() {
    let folder = tempfile::tempdir().expect("folder");
    let program = crate::fakes::program("tests/gpu/refused.c", folder.path().join("refused"));
    for (version, wheel) in wheels().iter().filter(|(version, _)| *version != "13.2") {
        let text = run(Command::new("timeout")
            .args(["--signal=ABRT", "60"])
            .arg(&program)
            .arg(cuda())
            .arg(library(wheel, "libcupti.so")));
        // 15 up to 12.9; 999 in 13.
        assert!(text.contains("CUPTI") || text.contains("cupti"), "{version}: {text}");
        assert!(text.contains("15") || text.contains("999"), "{version}: {text}");
    }
}

#[test]
fn records_of_every_header_are_read() {
    for (version, wheel) in wheels() {
        let cupti = cupti_of_headers(version, &wheel.includes);
        let run = |test: &str| {
            let output = Command::new("timeout")
                .args(["--signal=ABRT", "120"])
                .arg(std::env::current_exe().expect("own path"))
                .args([test, "--exact", "--nocapture", "--test-threads=1"])
                .env("TP_GPU_TEST", test)
                .env("TP_GPU_FAKE", &cupti)
                .output()
                .expect("started");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "CUDA {version}: {test}: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        run("collection::everything_arrives_from_the_given_cupti");
        run("misbehaviour::torn_buffers_of_the_given_cupti");
    }
}
