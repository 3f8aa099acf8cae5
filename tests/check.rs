//! Checks: a small document for each code, and our own documents, in which nothing must be found.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};

use proptest::prelude::*;
use tptrace::check::{CheckOptions, CheckReport, Finding, Severity, check, codes};
use tptrace::merge::{Input, MergeOptions, merge};
use tptrace::output::Target;
use tptrace::summary::{SummaryOptions, summarize};
use tptrace::{Error, ExportOptions, Format, GpuActivity, GpuKind, Instant, Int, Op, RankWorld, Trace, TraceOptions};

fn input(name: &str, bytes: &[u8]) -> Input {
    Input::Reader { name: name.into(), reader: Box::new(Cursor::new(bytes.to_vec())) }
}

fn report(bytes: &[u8]) -> CheckReport {
    check(vec![input("trace", bytes)], &CheckOptions::default(), None).expect("a report")
}

fn found(bytes: &[u8]) -> Vec<Finding> {
    report(bytes).files.remove(0).findings
}

/// A PyTorch trace with nothing wrong around `events`.
fn torch(events: &str) -> String {
    format!(
        "{{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 5,\n\"distributedInfo\": {{\"rank\": 0}},\n\"traceEvents\": [\n{events}\n]}}"
    )
}

const OP: &str =
    r#"{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": 5, "args": {"External id": 1}}"#;

/// The events of each code.
const CASES: &[(&str, &str)] = &[
    ("bad-json", r#"{"ph": "X" "cat": 1}"#),
    ("nan", r#"{"ph": "C", "name": "c", "pid": 9, "tid": 9, "ts": 10, "args": {"a": NaN}}"#),
    ("control-character", "{\"ph\": \"i\", \"name\": \"a\tb\", \"pid\": 9, \"tid\": 9, \"ts\": 10}"),
    ("surrogate-escape", r#"{"ph": "i", "name": "\ud83d\ude00", "pid": 9, "tid": 9, "ts": 10}"#),
    ("lone-surrogate", r#"{"ph": "i", "name": "\\\udc00", "pid": 9, "tid": 9, "ts": 10}"#),
    ("trailing-comma", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": 10},"#),
    ("not-an-object", "[1]"),
    ("no-ph", r#"{"name": "a", "pid": 9, "tid": 9, "ts": 10}"#),
    ("no-name", r#"{"ph": "i", "pid": 9, "tid": 9, "ts": 10}"#),
    ("no-ts", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9}"#),
    ("no-dur", r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10}"#),
    ("bad-time", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": true}"#),
    ("time-as-text", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": "10.5"}"#),
    ("negative-dur", r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": -1}"#),
    ("negative-ts", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": -0.5}"#),
    ("flow-id", r#"OP, {"ph": "s", "name": "a", "id": "x", "pid": 9, "tid": 9, "ts": 10}"#),
    ("no-cat", r#"{"ph": "X", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": 1}"#),
    ("step-name", r#"{"ph": "i", "name": "ProfilerStep 5", "pid": 9, "tid": 9, "ts": 10}"#),
    ("metadata-without-args", r#"{"ph": "M", "name": "process_name", "pid": 9, "tid": 0}"#),
    (
        "crossing-slices",
        r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": 5},
           {"ph": "X", "cat": "x", "name": "b", "pid": 9, "tid": 9, "ts": 14, "dur": 5}"#,
    ),
    (
        "gpu-without-stream",
        r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 9, "tid": 9, "ts": 10, "dur": 5, "args": {"device": 0, "correlation": 1}}"#,
    ),
    (
        "gpu-without-device",
        r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 9, "tid": 9, "ts": 10, "dur": 5, "args": {"stream": 7, "correlation": 1}}"#,
    ),
    (
        "gpu-without-correlation",
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 10, "dur": 5}"#,
    ),
    ("op-without-external-id", r#"{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": 5}"#),
    (
        "cpu-with-stream",
        r#"{"ph": "X", "cat": "user_annotation", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": 5, "args": {"stream": 7}}"#,
    ),
    ("no-events", ""),
    ("key-twice", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": 1, "ts": 2}"#),
    ("no-pid", r#"{"ph": "X", "cat": "x", "name": "a", "tid": 9, "ts": 10, "dur": 1}"#),
    ("no-tid", r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "ts": 10, "dur": 1}"#),
    ("time-precision", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": 1712195495505582.988}"#),
    ("text-pid", r#"{"ph": "X", "cat": "x", "name": "a", "pid": "Spans", "tid": 9, "ts": 10, "dur": 1}"#),
    ("pid-range", r#"{"ph": "X", "cat": "x", "name": "a", "pid": 4294967296, "tid": 9, "ts": 10, "dur": 1}"#),
    ("tid-zero", r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "tid": 0, "ts": 10, "dur": 1}"#),
    ("args-not-object", r#"{"ph": "i", "name": "a", "pid": 9, "tid": 9, "ts": 10, "args": null}"#),
    ("counter-without-number", r#"{"ph": "C", "name": "c", "pid": 9, "tid": 9, "ts": 10, "args": {"a": "x"}}"#),
    ("end-without-begin", r#"{"ph": "E", "pid": 9, "tid": 9, "ts": 10}"#),
    ("begin-without-end", r#"{"ph": "B", "name": "a", "pid": 9, "tid": 9, "ts": 10}"#),
    ("flow-without-start", r#"OP, {"ph": "f", "bp": "e", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 10}"#),
    ("flow-without-end", r#"OP, {"ph": "s", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 10}"#),
    (
        "flow-started-twice",
        r#"OP, {"ph": "s", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 10},
           {"ph": "s", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 11},
           {"ph": "f", "bp": "e", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 12}"#,
    ),
    ("async-without-id", r#"{"ph": "n", "cat": "a", "name": "a", "pid": 9, "tid": 9, "ts": 1}"#),
    (
        "async-without-end",
        r#"{"ph": "b", "cat": "a", "id": 1, "name": "a", "pid": 9, "tid": 9, "ts": 1},
           {"ph": "b", "cat": "a", "id": 1, "name": "b", "pid": 9, "tid": 9, "ts": 2},
           {"ph": "e", "cat": "a", "id": 1, "name": "b", "pid": 9, "tid": 9, "ts": 3}"#,
    ),
    (
        "async-without-begin",
        r#"{"ph": "b", "cat": "a", "id2": {"local": 1}, "name": "a", "pid": 9, "tid": 9, "ts": 1},
           {"ph": "e", "cat": "a", "id2": {"local": 1}, "name": "a", "pid": 8, "tid": 9, "ts": 3}"#,
    ),
    (
        "end-of-another",
        r#"{"ph": "B", "name": "a", "pid": 9, "tid": 9, "ts": 1}, {"ph": "B", "name": "b", "pid": 9, "tid": 9, "ts": 2},
           {"ph": "E", "name": "a", "pid": 9, "tid": 9, "ts": 3}, {"ph": "E", "name": "b", "pid": 9, "tid": 9, "ts": 3}"#,
    ),
    (
        "flow-backwards",
        r#"OP, {"ph": "s", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 12},
           {"ph": "f", "bp": "e", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 11}"#,
    ),
    (
        "flow-without-slice",
        r#"OP, {"ph": "s", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 16},
           {"ph": "f", "name": "a", "id": 1, "pid": 9, "tid": 9, "ts": 17}"#,
    ),
];

/// Whole documents, since the events are not what is wrong.
fn documents() -> Vec<(&'static str, Vec<u8>)> {
    let whole = torch(OP);
    let gzip = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).expect("written");
        packed.finish().expect("gzip")
    };
    let packed = gzip(whole.as_bytes());
    let deep = format!(
        "{{\"ph\": \"i\", \"name\": \"a\", \"pid\": 9, \"tid\": 9, \"ts\": 1, \"args\": {{\"a\": {}1{}}}}}",
        "[".repeat(600),
        "]".repeat(600)
    );
    let long = format!("{{\"ph\": \"i\", \"name\": \"{}\", \"pid\": 9, \"tid\": 9, \"ts\": 1}}", "x".repeat(6 << 20));
    let text = |from: &str, to: &str| whole.replace(from, to).into_bytes();
    vec![
        ("truncated", whole.as_bytes()[..whole.len() - 20].to_vec()),
        ("damaged-gzip", packed[..packed.len() - 12].to_vec()),
        ("damaged-end", [whole.as_bytes(), b" more"].concat()),
        ("invalid-utf8", text("\"a\"", "\"@\"").into_iter().map(|b| if b == b'@' { 0xff } else { b }).collect()),
        ("deep-nesting", torch(&deep).into_bytes()),
        ("event-too-long", torch(&long).into_bytes()),
        ("no-trace-events", br#"{"profiles": [], "shared": {}}"#.to_vec()),
        ("bare-array", format!("[{OP}]").into_bytes()),
        ("open-array", format!("[{OP},\n").into_bytes()),
        ("no-rank", text("\"rank\": 0", "\"world_size\": 2")),
        ("rank-not-found", text("\"rank\": 0", "\"rank\":0")),
        (
            "rank-after-events",
            text("\"distributedInfo\": {\"rank\": 0},\n", "")
                .strip_suffix(b"}")
                .expect("a brace")
                .iter()
                .copied()
                .chain(*b", \"distributedInfo\": {\"rank\": 0}}")
                .collect(),
        ),
        ("no-base-time", text("\"baseTimeNanoseconds\"", "\"other\"")),
    ]
}

#[test]
fn each_code_is_found_in_a_small_document() {
    let mut seen = BTreeSet::new();
    let cases = CASES.iter().map(|&(code, events)| (code, torch(&events.replace("OP", OP)).into_bytes()));
    for (code, bytes) in cases.chain(documents()) {
        let findings = found(&bytes);
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
        assert!(codes.contains(&code), "{code}: {codes:?}");
        seen.insert(code);
        // What is of an event says where.
        for finding in &findings {
            for place in &finding.places {
                let before = &bytes[..(place.offset as usize).min(bytes.len())];
                if code != "damaged-gzip" {
                    assert_eq!(place.line, 1 + before.iter().filter(|&&b| b == b'\n').count() as u64, "{code}");
                }
            }
        }
    }
    let ranks = vec![input("a", torch(OP).as_bytes()), input("b", torch(OP).as_bytes())];
    let same = check(ranks, &CheckOptions::default(), None).expect("a report");
    assert_eq!(same.files[1].findings[0].code, "same-rank");
    assert!(same.files[0].findings.is_empty() && same.files[1].findings[0].message.contains("of a too"), "{same:?}");
    seen.insert("same-rank");
    let all: BTreeSet<&str> = codes().map(|(code, ..)| code).collect();
    assert_eq!(seen, all, "every code has a document");
}

#[test]
fn a_sound_document_has_no_findings() {
    let nested = r#"{"ph": "X", "cat": "cpu_op", "name": "b", "pid": 9, "tid": 9, "ts": 11, "dur": 4, "args": {"External id": 2}}"#;
    let text = torch(&format!("{OP},\n{nested}"));
    assert_eq!(report(text.as_bytes()).totals(), (0, 0), "{}", report(text.as_bytes()).to_text(false));
    assert_eq!(report(text.as_bytes()).files[0].events, 2);
}

#[test]
fn places_are_those_of_the_first_and_counts_of_all() {
    let bad = r#"{"ph": "X", "cat": "x", "name": "a", "pid": 9, "tid": 9, "ts": 10, "dur": -1}"#;
    let text = torch(&vec![bad; 5000].join(",\n"));
    let finding = &found(text.as_bytes())[0];
    assert_eq!((finding.code, finding.severity, finding.count), ("negative-dur", Severity::Error, 5000));
    let lines: Vec<u64> = finding.places.iter().map(|place| place.line).collect();
    assert_eq!(lines, [4, 5, 6]);
    assert!(text[finding.places[1].offset as usize..].starts_with(bad));
    let shown = report(text.as_bytes()).to_text(false);
    assert!(shown.contains("(5000 times)") && shown.contains("at line 4 (byte "), "{shown}");
}

#[test]
fn what_is_no_trace_at_all_is_an_error_too() {
    for (bytes, code) in
        [(&b"PK\x03\x04zip"[..], "bad-json"), (b"", "bad-json"), (b"{\"a\": NaN", "nan"), (b"x", "bad-json")]
    {
        let findings = found(bytes);
        assert_eq!((findings[0].code, findings[0].severity), (code, Severity::Error), "{findings:?}");
    }
    // Neither the wrong code nor a second finding for one fault.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(format!("[{OP}]").as_bytes()).expect("written");
    let mut packed = packed.finish().expect("gzip");
    let crc = packed.len() - 8;
    packed[crc] ^= 1;
    let codes = |bytes: &[u8]| found(bytes).into_iter().map(|finding| finding.code).collect::<Vec<_>>();
    assert_eq!(codes(&packed), ["damaged-gzip", "bare-array"]);
    assert_eq!(codes(&packed[..crc + 3]), ["damaged-gzip", "bare-array"]);
    let deep = format!("{{\"a\": {}{}, \"traceEvents\": []}}", "[".repeat(600), "]".repeat(600));
    assert_eq!(codes(deep.as_bytes()), ["deep-nesting"]);
    for (text, words) in [
        ("null", "no trace"),
        ("{\"traceEvents\": null}", "is no array"),
        ("<html>", "HTML"),
        ("\u{4}\"M\u{18}", "lz4"),
        ("# tracer: nop", "text, not JSON"),
    ] {
        let finding = &found(text.as_bytes())[0];
        assert!(finding.code == "bad-json" && finding.message.contains(words), "{text}: {finding:?}");
    }
    let missing = check(vec!["/nowhere/trace.json".into()], &CheckOptions::default(), None);
    assert!(matches!(missing, Err(Error::Io { .. })));
}

/// Zeros, which somebody reads on and on.
struct Zeros(usize);

impl std::io::Read for Zeros {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0 += into.len();
        if self.0 > 4 << 20 {
            return Err(std::io::Error::other("read without end"));
        }
        into.fill(0);
        Ok(into.len())
    }
}

#[test]
fn a_stream_that_is_no_trace_is_not_read_to_its_end() {
    let endless = Input::Reader { name: "zero".into(), reader: Box::new(Zeros(0)) };
    let report = check(vec![endless], &CheckOptions::default(), None).expect("a report");
    assert_eq!(report.files[0].findings[0].code, "bad-json");
}

/// A trace with all kinds of things in it.
fn trace(rank: i64) -> Trace {
    let trace = Trace::new(&TraceOptions { base_ns: Some(0), ..TraceOptions::default() });
    trace.set_rank(RankWorld { rank: Some(rank), world_size: Some(2) });
    trace.set_process_name("\u{1f600} train\t.py");
    for at in 0..50 {
        let start = 1_000 + at * 10_000;
        let op = Op {
            name: "aten::mm \u{1f600} \"x\"".into(),
            start_ns: start,
            end_ns: start + 9_001,
            thread_id: 5,
            ..Op::default()
        };
        let op = trace.add_op(&op).expect("an op");
        let common = GpuActivity {
            correlation_id: Int::Unsigned(at as u64 + 1),
            external_id: Some(Int::Unsigned(op)),
            ..GpuActivity::default()
        };
        let call = GpuActivity {
            name: "cudaLaunchKernel".into(),
            kind: GpuKind::Runtime,
            start_ns: start + 10,
            end_ns: start + 20,
            os_thread: 5,
            ..common
        };
        trace.add_gpu(&call).expect("a call");
        // Kernels that cross on their stream.
        let kernel = GpuActivity {
            name: "gemm".into(),
            kind: GpuKind::Kernel,
            start_ns: start + 100,
            end_ns: start + 15_000,
            stream: 7,
            ..common
        };
        trace.add_gpu(&kernel).expect("a kernel");
        trace.add_instant(&Instant { name: "tick".into(), time_ns: start, ..Instant::default() }).expect("an instant");
    }
    trace
}

#[test]
fn our_own_documents_are_clean() {
    let folder = tempfile::tempdir().expect("scratch");
    let mut paths = Vec::new();
    for format in [Format::Plain, Format::Torch] {
        for rank in 0..2 {
            let path = folder.path().join(format!("{format:?}-{rank}.json.gz"));
            trace(rank).write(&path, &ExportOptions { format, ..ExportOptions::default() }).expect("written");
            paths.push(path);
        }
    }
    let merged = folder.path().join("merged.json");
    let torch = paths[2..].iter().map(|path| Input::Path(path.clone())).collect();
    merge(torch, Target::File(&merged), &MergeOptions::default(), None).expect("merged");
    paths.push(merged);
    for path in paths {
        let report = check(vec![Input::Path(path)], &CheckOptions::default(), None).expect("a report");
        assert_eq!(report.totals(), (0, 0), "{}", report.to_text(false));
        assert!(report.files[0].events > 200);
    }
}

/// Codes of text that is not JSON at all.
const TEXT: &[&str] = &[
    "bad-json",
    "truncated",
    "nan",
    "control-character",
    "invalid-utf8",
    "trailing-comma",
    "damaged-end",
    "open-array",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_are_findings_and_nothing_else(
        first in 0..CASES.len(),
        second in 0..CASES.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 0..4),
    ) {
        let events = format!("{},\n{}", CASES[first].1, CASES[second].1).replace("OP", OP);
        let mut bytes = torch(&events).into_bytes();
        for (place, edit, byte) in edits {
            let at = place.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b"\"{}[],:\\0"[usize::from(byte) % 9]),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let report = report(&bytes);
        let file = &report.files[0];
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        for place in file.findings.iter().flat_map(|finding| &finding.places) {
            prop_assert!(place.line <= lines && place.offset <= bytes.len() as u64, "{:?}", place);
        }
        let damaged = file.findings.iter().any(|finding| TEXT.contains(&finding.code));
        // What a strict parser says must be what the check says.
        match serde_json::from_slice::<serde_json::Value>(&bytes) {
            Ok(serde_json::Value::Object(document)) => {
                prop_assert!(!damaged, "{}", report.to_text(false));
                let events = document.get("traceEvents").and_then(|events| events.as_array());
                prop_assert_eq!(file.events, events.map_or(0, Vec::len) as u64);
            }
            Ok(_) => {}
            Err(error) => {
                let surrogate = file.findings.iter().any(|finding| finding.code == "lone-surrogate");
                prop_assert!(damaged || surrogate, "{}: {}", error, report.to_text(false));
            }
        }
        // A summary takes what is sound, and says where the rest is not.
        let sum = |salvage: bool, threads: usize| {
            let options = SummaryOptions { salvage, threads, ..SummaryOptions::default() };
            summarize(vec![input("trace", &bytes)], &options, None)
        };
        match sum(false, 2) {
            Ok(summary) => prop_assert_eq!(sum(true, 1).expect("a summary"), summary),
            Err(error) => {
                prop_assert!(damaged && matches!(error, Error::Malformed { .. }), "{}: {}", error, report.to_text(false));
                let _ = sum(true, 2);
            }
        }
    }
}
