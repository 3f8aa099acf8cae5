//! Writing on a system that writes little at a time, is interrupted, is full or broken: the file is right, or there is an
//! error that names it and the old one stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tptrace::record::Name;
use tptrace::{Op, Trace};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// Makes the library that lets calls fail.
fn faults(folder: &Path) -> PathBuf {
    let library = folder.join("faults.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    let made = command.arg(&library).args(["tests/faults/faults.c", "-ldl"]).output().expect("a compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}

struct Trial {
    folder: tempfile::TempDir,
    faults: PathBuf,
}

impl Trial {
    /// Two ranks of some megabytes, and a journal.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("scratch");
        for rank in 0..2 {
            let mut events = String::new();
            for i in 0..30_000 {
                let comma = if i > 0 { ",\n" } else { "" };
                events += &format!(
                    r#"{comma}{{"ph": "X", "name": "op {}", "cat": "cpu_op", "pid": 1, "tid": {}, "ts": {i}, "dur": 0.5, "args": {{"External id": {i}}}}}"#,
                    i % 97,
                    i % 3
                );
            }
            let document =
                format!(r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{events}]}}"#);
            fs::write(folder.path().join(format!("r{rank}.json")), document).expect("written");
        }
        let trace = Trace::default();
        trace.start_journal(folder.path().join("journal")).expect("started");
        for i in 0..20_000 {
            let name = format!("op {i}");
            trace
                .add_op(&Op { name: name.as_str().into(), start_ns: i, end_ns: i + 1, ..Op::default() })
                .expect("added");
        }
        drop(trace.span(Name::new("span", "").expect("named")));
        drop(trace);
        let faults = faults(folder.path());
        Self { folder, faults }
    }

    fn run(&self, arguments: &[&str], output: &str, fault: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tptrace"));
        command.args(arguments).args(["-o", output]).current_dir(&self.folder);
        if let Some(fault) = fault {
            command.env("LD_PRELOAD", &self.faults).env("FAULT", fault);
        }
        command.output().expect("the command")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).expect("listed");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// What writes a file, and what the file is called.
const WAYS: [(&[&str], &str); 7] = [
    (&["merge", "r0.json", "r1.json"], "out.json"),
    (&["merge", "r0.json", "r1.json"], "out.json.gz"),
    (&["merge", "r0.json", "r1.json", "--max-size", "2MB"], "out.json"),
    (&["cut", "r0.json", "--exclude-name", "^op 1"], "out.json"),
    (&["convert", "r0.json"], "out.pftrace"),
    (&["recover", "journal"], "out.json"),
    (&["recover", "journal"], "out.pftrace.gz"),
];

/// Without the number that each document has for itself.
fn comparable(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(at) = bytes.windows(8).position(|word| word == b"trace_id") {
        let end = bytes.len().min(at + 50);
        bytes[at..end].fill(b' ');
    }
    bytes
}

#[test]
fn little_at_a_time_and_interrupted() {
    let trial = Trial::new();
    for (arguments, output) in WAYS {
        let path = trial.folder.path().join(output);
        let done = trial.run(arguments, output, None);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        let expected = fs::read(&path).expect("there");
        for fault in ["short", "interrupt"] {
            fs::remove_file(&path).expect("removed");
            let done = trial.run(arguments, output, Some(fault));
            assert!(done.status.success(), "{arguments:?} {fault}: {}", String::from_utf8_lossy(&done.stderr));
            let got = fs::read(&path).expect("there");
            // Compressed documents differ where their numbers do.
            if output.ends_with(".gz") {
                let plain = |bytes: &[u8]| {
                    let mut plain = Vec::new();
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut plain).expect("gzip");
                    comparable(&plain)
                };
                assert!(plain(&got) == plain(&expected), "{arguments:?} {output} {fault}");
            } else {
                assert!(comparable(&got) == comparable(&expected), "{arguments:?} {output} {fault}");
            }
        }
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn full_and_broken() {
    let trial = Trial::new();
    for (arguments, output) in WAYS {
        let path = trial.folder.path().join(output);
        fs::write(&path, "as it was").expect("written");
        let before = trial.names();
        for (bytes, error) in [(0, ENOSPC), (1, EIO), (5_000, ENOSPC), (40_000, EIO)] {
            let done = trial.run(arguments, output, Some(&format!("{bytes}:{error}")));
            let said = String::from_utf8_lossy(&done.stderr);
            let why = if error == ENOSPC { "No space left" } else { "Input/output error" };
            assert_eq!(done.status.code(), Some(1), "{arguments:?} {output} after {bytes}: {said}");
            assert!(said.contains(why) && !said.contains("panicked"), "{arguments:?} {output} after {bytes}: {said}");
            assert_eq!(fs::read(&path).expect("there"), b"as it was", "{arguments:?} {output} after {bytes}");
            assert_eq!(trial.names(), before, "{arguments:?} {output} after {bytes}");
        }
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn what_is_not_on_the_disk_does_not_replace() {
    let trial = Trial::new();
    fs::write(trial.folder.path().join("out.json"), "as it was").expect("written");
    let before = trial.names();
    let done = trial.run(&["merge", "r0.json", "--fsync"], "out.json", Some("sync"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("out.json") && said.contains("Input/output error"), "{said}");
    assert_eq!(fs::read(trial.folder.path().join("out.json")).expect("there"), b"as it was");
    assert_eq!(trial.names(), before);
}
