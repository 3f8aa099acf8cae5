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
fn full_outputs_are_failures_and_no_panics() {
    let folder = scratch();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    for arguments in [&["gpu"][..], &["demo", "-o", "run", "--ranks", "1"], &["man"], &["summary", "r0.json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tptrace"));
        let done = command.args(arguments).current_dir(folder.path()).stdout(full()).output().expect("ended");
        assert!(
            done.status.code() == Some(1) && words(&done.stderr).contains("cannot write to <stdout>"),
            "{arguments:?}: {}",
            words(&done.stderr)
        );
    }
    // Words that nobody can read do not undo what was done.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tptrace"));
    let done = command
        .args(["convert", "r0.json", "-o", "r0.pftrace"])
        .current_dir(folder.path())
        .stderr(full())
        .status()
        .expect("ended");
    assert!(done.success() && folder.path().join("r0.pftrace").exists());
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
fn the_demo_leaves_traces_that_merge() {
    let folder = scratch();
    let done = tptrace(folder.path(), &["demo", "-o", "a run", "--ranks", "3"]);
    assert!(done.status.success(), "{}", words(&done.stderr));
    let said = words(&done.stdout);
    assert!(said.contains("tptrace merge 'a run'/rank*.json.gz"), "{said}");
    assert!(!said.contains('\u{1b}'), "colours, and no terminal");
    let files: Vec<&str> = said.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(files.len(), 3, "{said}");
    let merged = tptrace(folder.path(), &[&["merge", "-o", "all.json"], &files[..]].concat());
    assert!(merged.status.success(), "{}", words(&merged.stderr));
    let all = parsed(&fs::read(folder.path().join("all.json")).expect("merged"));
    assert_eq!(all["distributedInfo"]["merged_ranks"], serde_json::json!([0, 1, 2]));
    let kernels =
        all["traceEvents"].as_array().expect("events").iter().filter(|event| event["cat"] == "kernel").count();
    assert_eq!(kernels, 3 * 4 * 18);

    // Traces that are there stay, unless it is said.
    fs::write(folder.path().join("a run/rank1.pt.trace.json.gz"), "mine").expect("written");
    let refused = tptrace(folder.path(), &["demo", "-o", "a run"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused.stderr).contains("a run/rank0.pt.trace.json.gz"), "{}", words(&refused.stderr));
    assert_eq!(fs::read(folder.path().join("a run/rank1.pt.trace.json.gz")).expect("a file"), b"mine");
    assert!(tptrace(folder.path(), &["demo", "-o", "a run", "--force"]).status.success());
    assert_eq!(tptrace(folder.path(), &["demo", "--ranks", "0"]).status.code(), Some(2));
    assert_eq!(tptrace(folder.path(), &["demo", "-o", "r0.json/x"]).status.code(), Some(1));
}

#[test]
fn shells_and_the_manual_know_every_option() {
    let folder = scratch();
    let help = words(&tptrace(folder.path(), &["merge", "--help"]).stdout);
    let options: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.trim_end_matches([',', '.', ')']))
        .collect();
    assert!(options.len() > 15, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let done = tptrace(folder.path(), &["completions", shell]);
        assert!(done.status.success(), "{}", words(&done.stderr));
        let script = words(&done.stdout);
        for option in &options {
            let name = if shell == "fish" { option.trim_start_matches('-') } else { option };
            assert!(script.contains(name), "{shell} does not know {option}");
        }
    }
    assert_eq!(tptrace(folder.path(), &["completions", "dos"]).status.code(), Some(2));
    assert!(tptrace(folder.path(), &["man"]).stdout.starts_with(b".ie"));
    assert!(tptrace(folder.path(), &["man", "pages/man1"]).status.success());
    let page = fs::read_to_string(folder.path().join("pages/man1/tptrace-merge.1")).expect("a page");
    for option in options {
        assert!(page.contains(&option.replace('-', "\\-")), "the manual does not know {option}");
    }
    let mut names: Vec<String> = fs::read_dir(folder.path().join("pages/man1"))
        .expect("pages")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    assert!(
        names.contains(&"tptrace.1".to_owned()) && !names.iter().any(|name| name.contains("completions")),
        "{names:?}"
    );
    assert!(!help.contains("completions"), "hidden");
}

/// A small PyTorch trace of two ranks, merged, with a step, a kernel and a flow for each.
fn merged(folder: &Path) {
    for rank in 0..2 {
        let events = format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 1, "dur": 50}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 2, "dur": 3, "args": {{"correlation": 1}}}},
{{"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 5, "tid": 5, "ts": 2}},
{{"ph": "X", "cat": "kernel", "name": "gemm{rank}", "pid": 1, "tid": 7, "ts": 10, "dur": 20,
 "args": {{"stream": 7, "device": 1, "correlation": 1}}}},
{{"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 7, "ts": 10}}"#
        );
        let text = format!(
            "{{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1700000000000000000, \"distributedInfo\": {{\"rank\": {rank}}}, \"traceEvents\": [\n{events}\n]}}"
        );
        fs::write(folder.join(format!("g{rank}.json")), text).expect("written");
    }
    let done = tptrace(folder, &["merge", "-q", "g0.json", "g1.json", "-o", "both.json.gz"]);
    assert!(done.status.success(), "{}", words(&done.stderr));
}

#[test]
fn summaries_are_tables_or_json() {
    let folder = scratch();
    merged(folder.path());
    let table = tptrace(folder.path(), &["summary", "both.json.gz"]);
    let text = words(&table.stdout);
    assert!(table.status.success() && table.stderr.is_empty(), "{}", words(&table.stderr));
    for part in ["2 ranks: 0, 1", "Steps", "Kernels, copies and fills", "gemm1", "cudaLaunchKernel", "GPU streams"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text}");
    let json = parsed(&tptrace(folder.path(), &["summary", "--json", "g1.json", "g0.json"]).stdout);
    assert_eq!(json["ranks"].as_array().expect("ranks").len(), 2);
    assert_eq!(json["ranks"][0]["rank"], 1);
    assert_eq!(json["ranks"][0]["gpu"]["busy_ns"], 20_000);
    assert_eq!(json["steps"][0]["gpu"]["idle_ns"], 30_000);
    let compared = tptrace(folder.path(), &["summary", "--compare", "g0.json", "g1.json"]);
    let text = words(&compared.stdout);
    assert!(text.contains("gone") && text.contains("new") && text.contains("mean step"), "{text}");
    let missing = tptrace(folder.path(), &["summary", "none.json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(words(&missing.stderr).contains("none.json"));
}

#[test]
fn checks_say_so_by_their_status() {
    let folder = scratch();
    merged(folder.path());
    fs::write(folder.path().join("warned.json"), "[]").expect("written");
    fs::write(folder.path().join("cut.json"), &rank(1, 3)[..100]).expect("written");
    for (arguments, status, said) in [
        (&["check", "--strict", "both.json.gz", "g0.json"][..], 0, "nothing found"),
        (&["check", "warned.json"], 0, "warning bare-array"),
        (&["check", "--strict", "warned.json"], 1, "warning no-events"),
        (
            &["check", "g0.json", "cut.json"],
            1,
            "error truncated: the document ends before it should\n    readers: Perfetto",
        ),
        (&["check", "--json", "cut.json"], 1, "\"code\":\"truncated\""),
        (&["check", "--codes"], 0, "crossing-slices"),
        (&["check", "none.json"], 2, ""),
        (&["check"], 2, ""),
    ] {
        let done = tptrace(folder.path(), arguments);
        let text = words(&done.stdout);
        assert_eq!(done.status.code(), Some(status), "{arguments:?}: {text}{}", words(&done.stderr));
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn cuts_change_nothing_of_what_stays() {
    let folder = scratch();
    merged(folder.path());
    let whole = |name: &str| {
        let bytes = fs::read(folder.path().join(name)).expect("a file");
        let mut text = Vec::new();
        match bytes.starts_with(&[0x1f, 0x8b]) {
            true => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).expect("gzip"),
            false => bytes.as_slice().read_to_end(&mut text).expect("bytes"),
        };
        parsed(&text)
    };
    let cut = |arguments: &[&str]| {
        let done = tptrace(folder.path(), &[&["cut", "both.json.gz", "-o", "part.json"], arguments].concat());
        assert!(done.status.success(), "{arguments:?}: {}", words(&done.stderr));
        (whole("part.json"), words(&done.stderr))
    };
    let before = whole("both.json.gz");
    let events = |document: &Value| document["traceEvents"].as_array().expect("events").clone();
    let (same, _) = cut(&[]);
    assert_eq!(same, before);
    let (one, said) = cut(&["--rank", "1"]);
    let expected: Vec<Value> =
        events(&before).into_iter().filter(|event| event["pid"].as_u64().expect("a pid") >= 10_000_000).collect();
    assert_eq!(events(&one), expected);
    assert!(said.contains("of other ranks"), "{said}");
    assert_eq!(one["ranks"], before["ranks"]);
    assert_eq!(one["tptrace"]["cuts"], serde_json::json!([{"ranks": [1]}]));
    let (window, _) = cut(&["--window", "20us..30us", "--category", "kernel"]);
    let kernels: Vec<Value> =
        events(&before).into_iter().filter(|event| event["ph"] == "M" || event["cat"] == "kernel").collect();
    assert_eq!(events(&window), kernels);
    // A cut of a cut says both, and a file can be replaced by its part.
    let again = tptrace(folder.path(), &["cut", "-q", "part.json", "--name", "gemm0", "-o", "part.json"]);
    assert!(again.status.success() && again.stderr.is_empty());
    assert_eq!(whole("part.json")["tptrace"]["cuts"].as_array().expect("cuts").len(), 2);
    for (arguments, reason) in [
        (&["cut", "g0.json", "--rank", "3", "-o", "x.json"][..], "it is of rank 0 alone"),
        (&["cut", "g0.json", "--window", "2s..1s", "-o", "x.json"], "is empty"),
        (&["cut", "none.json", "-o", "x.json"], "none.json"),
    ] {
        let done = tptrace(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(1), "{arguments:?}");
        assert!(words(&done.stderr).contains(reason), "{}", words(&done.stderr));
        assert!(!folder.path().join("x.json").exists());
    }
}

#[test]
fn a_selection_that_leaves_nothing_says_so() {
    let folder = scratch();
    let nothing = tptrace(folder.path(), &["cut", "r0.json", "--name", "no such event", "-o", "none.json"]);
    assert!(
        nothing.status.success() && words(&nothing.stderr).contains("no event is left"),
        "{}",
        words(&nothing.stderr)
    );
    let some = tptrace(folder.path(), &["cut", "r0.json", "--min-duration", "1us", "-o", "some.json"]);
    assert!(some.status.success() && !words(&some.stderr).contains("no event is left"), "{}", words(&some.stderr));
}

#[test]
fn metadata_alone_are_no_events() {
    let folder = scratch();
    let events = r#"{"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "python"}},
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}, {"ph": "i", "name": "b", "pid": 1, "tid": 1, "ts": 2}"#;
    fs::write(folder.path().join("named.json"), format!("[{events}]")).expect("written");
    for command in ["cut", "merge"] {
        for selection in [["--name", "no such event"], ["--window", "1s..2s"], ["--category", "none"]] {
            let mut arguments = vec![command, "named.json", "-o", "none.json"];
            arguments.extend(selection);
            let done = tptrace(folder.path(), &arguments);
            let said = words(&done.stderr);
            assert!(done.status.success() && said.contains("warning: no event is left"), "{arguments:?}: {said}");
        }
    }
    let done = tptrace(folder.path(), &["merge", "named.json", "--name", "^a$", "-o", "one.json"]);
    let said = words(&done.stderr);
    assert!(!said.contains("no event is left") && said.contains(" of 1 file,"), "{said}");
    // What has no duration goes first: then all slices are there, however short.
    let size = fs::metadata(folder.path().join("named.json")).expect("there").len() - 30;
    let done = tptrace(folder.path(), &["cut", "named.json", "--max-size", &size.to_string(), "-o", "small.json"]);
    let said = words(&done.stderr);
    assert!(!said.contains("of at least 0 us"), "{said}");
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
        (["cut", "a.pftrace", "-o", "a.json"], "written, not read"),
        (["merge", "r0.json", "-o", "b.pftrace"], "tptrace convert"),
        (["cut", "r0.json", "-o", "b.pftrace.gz"], "tptrace convert"),
        (["convert", "missing.json", "-o", "r1.json"], "missing.json"),
    ] {
        let failed = tptrace(folder.path(), &arguments);
        assert!(!failed.status.success() && words(&failed.stderr).contains(said), "{}", words(&failed.stderr));
    }
    for arguments in [&["summary", "a.pftrace"][..], &["check", "a.pftrace"]] {
        let failed = tptrace(folder.path(), arguments);
        assert!(!failed.status.success() && words(&failed.stderr).contains("written, not read"), "{arguments:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("r1.json")).expect("as it was"), rank(1, 3));
}

#[test]
fn ranks_are_counted_before_they_are_listed() {
    let folder = scratch();
    // As many would not fit the memory.
    let all = vec!["0-9223372036854775806"; 1000].join(",");
    let refused = tptrace(folder.path(), &["merge", "r0.json", "-o", "out.json", "--rank", &all]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused.stderr).contains("at most 1000000"), "{}", words(&refused.stderr));
    assert!(!folder.path().join("out.json").exists());
    let done = tptrace(folder.path(), &["merge", "-q", "r0.json", "r1.json", "-o", "out.json", "--rank", "1-1000000"]);
    assert!(done.status.success(), "{}", words(&done.stderr));
}
