//! The command, as people and scripts call it.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tptrace(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tptrace"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the command")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rank(rank: usize, events: usize) -> String {
    let events = vec![r#"{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1}"#; events].join(",\n");
    format!(r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{events}]}}"#)
}

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("scratch");
    for at in 0..2 {
        fs::write(folder.path().join(format!("r{at}.json")), rank(at, 3)).expect("written");
    }
    folder
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("strict JSON")
}

#[test]
fn merging_says_what_it_did() {
    let folder = scratch();
    let done = tptrace(folder.path(), &["merge", "r0.json", "r1.json", "-o", "out.json.gz", "--level", "6", "--fsync"]);
    assert!(done.status.success() && done.stdout.is_empty(), "{}", words(&done.stderr));
    assert!(words(&done.stderr).contains("6 events of 2 files"), "{}", words(&done.stderr));
    assert!(words(&done.stderr).contains("warning: timestamps were not aligned"), "{}", words(&done.stderr));
    let mut text = Vec::new();
    let file = fs::File::open(folder.path().join("out.json.gz")).expect("the file");
    flate2::read::GzDecoder::new(file).read_to_end(&mut text).expect("gzip");
    assert_eq!(parsed(&text)["distributedInfo"]["merged_ranks"], serde_json::json!([0, 1]));
    let quiet = tptrace(folder.path(), &["merge", "-q", "--verbatim", "r0.json", "-o", "out.json"]);
    assert!(quiet.status.success() && quiet.stderr.is_empty());
}

#[test]
fn dashes_are_standard_input_and_output() {
    let folder = scratch();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tptrace"))
        .args(["merge", "-", "r1.json", "-o", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command");
    child.stdin.take().expect("a pipe").write_all(rank(0, 20_000).as_bytes()).expect("written");
    let done = child.wait_with_output().expect("ended");
    assert!(done.status.success());
    let events = parsed(&done.stdout)["traceEvents"].as_array().expect("events").len();
    assert!(events > 20_003, "{events}");
}

#[test]
fn failures_have_a_status_and_a_reason() {
    let folder = scratch();
    fs::write(folder.path().join("cut.json"), &rank(1, 3)[..100]).expect("written");
    fs::write(folder.path().join("out.json"), "old").expect("written");
    for (arguments, status, reason) in [
        (&["merge", "r0.json", "none.json", "-o", "out.json"][..], 1, "none.json"),
        (&["merge", "r0.json", "cut.json", "-o", "out.json"], 1, "cut.json: at byte 100"),
        (&["merge", "r0.json", "-o", "none/out.json"], 1, "none/out.json"),
        (&["merge", "r0.json", "--offset-ns", "1,2", "-o", "out.json"], 1, "2 clock offsets"),
        (&["merge", "r0.json"], 2, "--output"),
        (&["merge", "r0.json", "-o", "x", "--level", "12"], 2, "12"),
        (&["merge", "r0.json", "-o", "x", "--verbatim", "--align", "force"], 2, "--verbatim"),
        (&["frob"], 2, "frob"),
        (&[], 2, "Usage"),
    ] {
        let done = tptrace(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(status), "{arguments:?}: {}", words(&done.stderr));
        assert!(words(&done.stderr).contains(reason), "{arguments:?}: {}", words(&done.stderr));
    }
    assert_eq!(fs::read(folder.path().join("out.json")).expect("the old file"), b"old");
    let saved = tptrace(folder.path(), &["merge", "--salvage", "r0.json", "cut.json", "-o", "out.json"]);
    assert!(
        saved.status.success() && words(&saved.stderr).contains("damaged: cut.json: at byte 100"),
        "{}",
        words(&saved.stderr)
    );
    assert!(tptrace(folder.path(), &["--version"]).stdout.starts_with(b"tptrace 0."));
}

#[test]
fn killed_in_the_middle_it_leaves_the_old_file() {
    let folder = scratch();
    let out = folder.path().join("out.json");
    fs::write(folder.path().join("big.json"), rank(0, 400_000)).expect("written");
    for round in 0..6 {
        fs::write(&out, "old").expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tptrace"))
            .args(["merge", "-q", "big.json", "big.json", "big.json", "-o", "out.json"])
            .current_dir(folder.path())
            .spawn()
            .expect("the command");
        std::thread::sleep(std::time::Duration::from_millis(5 + 9 * round));
        child.kill().expect("killed");
        let ended = child.wait().expect("ended");
        let left = fs::read(&out).expect("a file");
        assert!(left == b"old" || ended.success() || serde_json::from_slice::<Value>(&left).is_ok());
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).expect("the folder").map(|e| e.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["big.json", "out.json", "r0.json", "r1.json"]);
    }
}

#[test]
fn converting_goes_by_the_names() {
    let folder = scratch();
    let done = tptrace(folder.path(), &["convert", "r0.json", "-o", "a.pftrace"]);
    assert!(done.status.success() && done.stdout.is_empty(), "{}", words(&done.stderr));
    assert!(words(&done.stderr).contains("3 events in"), "{}", words(&done.stderr));
    let to_stdout = tptrace(folder.path(), &["convert", "-q", "r0.json", "--to", "perfetto", "-o", "-"]);
    assert!(to_stdout.status.success() && to_stdout.stderr.is_empty());
    assert_eq!(to_stdout.stdout, fs::read(folder.path().join("a.pftrace")).expect("a file"));
    assert!(tptrace(folder.path(), &["convert", "-q", "r0.json", "-o", "b.json.gz"]).status.success());
    let back = tptrace(folder.path(), &["convert", "-q", "b.json.gz", "--to", "json", "-o", "-"]);
    assert_eq!(back.stdout, fs::read(folder.path().join("r0.json")).expect("a file"));
    for (arguments, said) in [
        (["convert", "r0.json", "-o", "a.txt"], "says no format"),
        (["convert", "a.pftrace", "-o", "a.json"], "written, not read"),
        (["convert", "missing.json", "-o", "r1.json"], "missing.json"),
    ] {
        let failed = tptrace(folder.path(), &arguments);
        assert!(!failed.status.success() && words(&failed.stderr).contains(said), "{}", words(&failed.stderr));
    }
    assert_eq!(fs::read_to_string(folder.path().join("r1.json")).expect("as it was"), rank(1, 3));
}
