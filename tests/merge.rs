//! Merging: exact where it must be, right where the original is not, and clear about what is damaged.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use tptrace::Error;
use tptrace::merge::{Alignment, Input, Limits, MergeOptions, MergeReport, merge};
use tptrace::output::{Target, WriteOptions};
use tptrace::summary::{SummaryOptions, summarize};

/// Inputs as files in a scratch folder.
struct Files {
    folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Files {
    fn of(documents: &[impl AsRef<[u8]>]) -> Self {
        let folder = tempfile::tempdir().expect("scratch");
        let paths: Vec<PathBuf> = (0..documents.len()).map(|i| folder.path().join(format!("in{i}.json"))).collect();
        for (path, document) in paths.iter().zip(documents) {
            fs::write(path, document).expect("written");
        }
        Self { folder, paths }
    }

    fn inputs(&self) -> Vec<Input> {
        self.paths.iter().cloned().map(Input::Path).collect()
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out.json")
    }

    fn merge(&self, options: &MergeOptions) -> Result<(Value, MergeReport), Error> {
        let report = merge(self.inputs(), Target::File(&self.out()), options, None)?;
        let text = fs::read_to_string(self.out()).expect("UTF-8");
        Ok((serde_json::from_str(&text).expect("strict JSON"), report))
    }
}

fn merged(documents: &[impl AsRef<[u8]>]) -> (Value, MergeReport) {
    Files::of(documents).merge(&MergeOptions::default()).expect("merged")
}

fn verbatim() -> MergeOptions {
    MergeOptions { verbatim: true, ..MergeOptions::default() }
}

fn salvage() -> MergeOptions {
    MergeOptions { salvage: true, ..MergeOptions::default() }
}

fn events(document: &Value) -> &Vec<Value> {
    document["traceEvents"].as_array().expect("events")
}

/// The events of a phase.
fn phase<'a>(document: &'a Value, ph: &str) -> Vec<&'a Value> {
    events(document).iter().filter(|event| event["ph"] == ph).collect()
}

fn rank(rank: i64, events: &str) -> String {
    format!(r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{events}]}}"#)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(1));
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

#[test]
fn verbatim_moves_pids_and_nothing_else() {
    let first = r#"{"traceEvents": [{"pid": 1, "tid": 0, "id": 5, "ph": "s"}, {"pid": "7"}, {"pid": "x"}, {"pid": null},
        {"pid": 2.9}, {"pid": true}, {"pid": -3}, {"pid": " 1_0 "}, {}, {"pid": 123456789012345678901234567890}],
        "other": 1}"#;
    let files = Files::of(&[first, &rank(3, r#"{"pid": 1, "ts": 1.50}"#), r#"{"a": 1}"#]);
    let (document, report) = files.merge(&verbatim()).expect("merged");
    let expected = json!({
        "displayTimeUnit": "ns",
        "distributedInfo": {"merged_ranks": [0, 3, 2]},
        "traceName": files.out().to_str(),
        "traceEvents": [
            {"pid": 1, "tid": 0, "id": 5, "ph": "s"}, {"pid": 7}, {"pid": "x"}, {"pid": null}, {"pid": 2}, {"pid": 1},
            {"pid": -3}, {"pid": 10}, {}, serde_json::from_str::<Value>(r#"{"pid": 123456789012345678901234567890}"#).unwrap(),
            serde_json::from_str::<Value>(r#"{"pid": 30000001, "ts": 1.50}"#).unwrap(),
        ],
    });
    assert_eq!(document, expected);
    assert_eq!(report.kept(), 11);
}

#[test]
fn flows_and_other_ids_stay_apart() {
    let events = r#"{"ph": "s", "id": 5, "pid": 1}, {"ph": "f", "id": 5, "pid": 2}, {"ph": "b", "id": "0x5", "pid": 1},
        {"ph": "n", "id2": {"local": "0x5"}, "pid": 1}, {"ph": "X", "bind_id": "0x7", "pid": 1}, {"ph": "X", "id": 5, "pid": 1},
        {"ph": "t", "id": 9007199254740993, "pid": 1}, {"ph": "s", "id": "text", "pid": 1}"#;
    let (document, _) = merged(&[rank(0, events), rank(1, events)]);
    let all: Vec<&Value> = events_with(&document, "pid");
    let (first, second) = all.split_at(all.len() / 2);
    for (a, b) in first.iter().zip(second) {
        for key in ["id", "id2", "bind_id"] {
            if a.get(key).is_some() && a["ph"] != "X" || key == "bind_id" && a.get(key).is_some() {
                assert_ne!(a[key], b[key], "{a}");
            }
        }
    }
    assert_eq!(first[0]["id"], first[1]["id"]);
    assert_eq!(second[0]["id"], second[1]["id"]);
    assert_eq!(first[5]["id"], 5, "the id of a slice is no flow's");
    assert!(second[6]["id"].as_u64().is_some_and(|id| id < 1 << 53));
}

fn events_with<'a>(document: &'a Value, key: &str) -> Vec<&'a Value> {
    events(document).iter().filter(|event| event.get(key).is_some() && event["ph"] != "M").collect()
}

#[test]
fn processes_stay_apart_and_are_named_and_sorted() {
    let events = r#"{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_sort_index", "pid": 0, "tid": 0, "args": {"sort_index": 0}},
        {"ph": "M", "name": "process_sort_index", "pid": 1000000, "tid": 0, "args": {"sort_index": 6000000}},
        {"ph": "X", "pid": 0, "tid": 0, "ts": 1, "dur": 1}, {"ph": "X", "cat": "kernel", "pid": 1000000, "tid": 7, "ts": 1, "dur": 1},
        {"ph": "X", "pid": "Spans", "tid": "x", "ts": 1, "dur": 1}, {"ph": "i", "pid": "", "tid": "", "ts": 1},
        {"ph": "X", "pid": 4294967296, "tid": 1, "ts": 1, "dur": 1}, {"ph": "X", "pid": -1, "tid": -1, "ts": 1, "dur": 1}"#;
    let (document, _) = merged(&[rank(1, events), rank(0, events)]);
    let slices: Vec<&Value> = events_with(&document, "pid");
    let pids: std::collections::BTreeSet<u64> =
        slices.iter().map(|event| event["pid"].as_u64().expect("a number")).collect();
    assert_eq!(pids.len(), 12, "six processes of two ranks");
    assert!(pids.iter().all(|&pid| pid > 0 && pid < 1 << 32));
    let named = |name: &str, key: &str| -> std::collections::BTreeMap<u64, Value> {
        phase(&document, "M")
            .into_iter()
            .filter(|event| event["name"] == name)
            .map(|event| (event["pid"].as_u64().expect("a number"), event["args"][key].clone()))
            .collect()
    };
    let (names, sorts) = (named("process_name", "name"), named("process_sort_index", "sort_index"));
    for pid in &pids {
        assert!(names[pid].as_str().is_some_and(|name| name.starts_with("rank ")), "{pid}: {names:?}");
        assert!(sorts.contains_key(pid));
    }
    assert!(names.values().any(|name| name == "rank 1: python") && names.values().any(|name| name == "rank 0: Spans"));
    // Rank by rank, whatever the order of the inputs, and in each the CPU before its GPU.
    let place = |event: &Value| sorts[&event["pid"].as_u64().expect("a number")].as_i64().expect("a number");
    let (one, zero) = slices.split_at(slices.len() / 2);
    assert!(zero.iter().map(|event| place(event)).max() < one.iter().map(|event| place(event)).min());
    assert!(place(zero[0]) < place(zero[1]) && place(one[0]) < place(one[1]));
    assert!(slices.iter().all(|event| event["tid"] != 0), "lane 0 has a number of its own");
}

#[test]
fn a_thousand_ranks_have_their_own_pids() {
    let documents: Vec<String> = (0..1024)
        .map(|i| rank(i, r#"{"ph": "X", "pid": 3, "tid": 1}, {"ph": "X", "pid": 1000000, "tid": 1}"#))
        .collect();
    let (document, report) = merged(&documents);
    let pids: std::collections::BTreeSet<u64> =
        phase(&document, "X").iter().map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 2048);
    assert!(pids.iter().all(|&pid| pid < 1 << 32));
    assert_eq!(report.ranks.len(), 1024);
}

#[test]
fn clocks_are_aligned_where_they_can_be() {
    let document =
        |extra: &str| format!(r#"{{{extra}, "traceEvents": [{{"ph": "X", "pid": 1, "ts": 1.5, "dur": 2}}]}}"#);
    let stamps = |documents: &[String], options: &MergeOptions| {
        let (document, report) = Files::of(documents).merge(options).expect("merged");
        let stamps: Vec<String> = phase(&document, "X").iter().map(|event| event["ts"].to_string()).collect();
        (stamps, report)
    };
    let auto = MergeOptions::default();
    // Kineto: real time.
    let kineto = |base: u64| document(&format!(r#""baseTimeNanoseconds": {base}"#));
    let (ts, report) = stamps(&[kineto(1_700_000_000_000_000_000), kineto(1_700_000_000_000_002_500)], &auto);
    assert_eq!((ts, report.aligned), (vec!["1.5".into(), "4.0".into()], true));
    // TensorPlay: the monotonic clock, of one host and of two.
    let host = |base: u64, host: &str| document(&format!(r#""baseTimeNanoseconds": {base}, "host_name": "{host}""#));
    let (ts, report) = stamps(&[host(5_001, "a"), host(5_000, "a")], &auto);
    assert_eq!((ts, report.aligned), (vec!["1.501".into(), "1.5".into()], true));
    let (ts, report) = stamps(&[host(5_001, "a"), host(5_000, "b")], &auto);
    assert_eq!((ts, report.aligned), (vec!["1.5".into(), "1.5".into()], false));
    assert!(report.warnings.iter().any(|w| w.contains("in0.json") && w.contains("in1.json")), "{:?}", report.warnings);
    // Ours: anchors join the monotonic clocks of two hosts.
    let ours = |base: i64, monotonic: i64, real: i64| {
        document(&format!(
            r#""host_name": "h{base}", "tptrace": {{"clock": {{"domain": "monotonic", "base_ns": {base},
            "anchor_monotonic_ns": {monotonic}, "anchor_realtime_ns": {real}, "uncertainty_ns": 40}}}}"#
        ))
    };
    let real = 1_700_000_000_000_000_000;
    let (ts, report) = stamps(&[ours(1_000, 2_000, real), ours(9_000, 5_000, real)], &auto);
    assert_eq!((ts, report.aligned, report.uncertainty_ns), (vec!["1.5".into(), "6.5".into()], true, Some(80)));
    // By force, by hand, or not at all.
    let with = |alignment| MergeOptions { alignment, ..MergeOptions::default() };
    let (ts, _) = stamps(&[host(5_001, "a"), host(5_000, "b")], &with(Alignment::Force));
    assert_eq!(ts, ["1.501", "1.5"]);
    let (ts, _) = stamps(&[host(5_001, "a"), host(5_000, "a")], &with(Alignment::Off));
    assert_eq!(ts, ["1.5", "1.5"]);
    let (ts, _) = stamps(&[host(5_001, "a"), host(5_000, "b")], &with(Alignment::Offsets(vec![-500, 1])));
    assert_eq!(ts, ["1.0", "1.501"]);
    let failed = Files::of(&[host(1, "a"), document(r#""x": 1"#)]).merge(&with(Alignment::Force));
    assert!(failed.expect_err("no base").to_string().contains("in1.json"));
}

#[test]
fn ranks_are_told_apart() {
    let (document, report) = merged(&[rank(1, ""), rank(1, r#"{"ph": "X", "pid": 1}"#)]);
    assert_eq!((report.duplicate_ranks.clone(), report.missing_ranks.clone()), (vec![1], vec![0]));
    assert_eq!(document["distributedInfo"]["missing_ranks"], json!([0]));
    assert!(report.warnings.iter().any(|w| w.contains("rank 1") && w.contains("in0.json") && w.contains("in1.json")));
    let bad = Files::of(&[r#"{"distributedInfo": {"rank": "x"}, "traceEvents": []}"#]).merge(&MergeOptions::default());
    assert!(bad.expect_err("no rank").to_string().contains("in0.json"));
}

#[test]
fn what_inputs_say_of_themselves_is_kept_and_stands_first() {
    let first = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0, "pg_config": {"a": [1]}},
        "traceEvents": [], "late": {"x": 1.50}, "traceName": "old"}"#;
    let files = Files::of(&[first, r#"[{"pid": 1}]"#]);
    let (document, _) = files.merge(&MergeOptions::default()).expect("merged");
    assert_eq!(document["ranks"][0]["metadata"]["distributedInfo"]["pg_config"], json!({"a": [1]}));
    assert_eq!(document["ranks"][0]["metadata"]["late"]["x"].to_string(), "1.50");
    assert_eq!(document["ranks"][0]["metadata"]["traceName"], "old");
    assert_eq!(document["deviceProperties"], json!([{"id": 0}]));
    let text = fs::read_to_string(files.out()).expect("UTF-8");
    assert!(text.find("\"ranks\"").unwrap() < text.find("\"traceEvents\"").unwrap());
}

#[test]
fn inputs_as_they_come() {
    let event = r#"{"ph":"X","name":"}]\"[{\\","pid":1,"args":{"a":[{}, [], "]}"],"n":1234567890123456789012345678901234567890,"f":1.0000000000000000000001e-7}}"#;
    let many = format!("{{\r\n  \"traceEvents\"\r\n : [\r\n {event}\r\n , {event}\r\n ]\r\n}}\r\n");
    for document in [
        format!("[{event},{event}]"),
        format!("[{event},\n{event}"),
        format!("[{event},\n{event},\n"),
        format!(" [ {event} , {event} ] \n"),
        format!("\u{feff}{{\"traceEvents\": [{event}, {event}]}}"),
        format!("{{\"a\": {{\"traceEvents\": [1]}}, \"traceEvents\": [{event}, {event}], \"z\": [{{}}]}}"),
        format!("{{\"trace\\u0045vents\": [{event}, {event}]}}"),
        many,
    ] {
        let plain = document.clone().into_bytes();
        let two = [gzip(&plain[..plain.len() / 2]), gzip(&plain[plain.len() / 2..])].concat();
        for bytes in [plain.clone(), gzip(&plain), two, [gzip(&plain), vec![0; 600]].concat()] {
            let (merged, report) = Files::of(&[bytes]).merge(&verbatim()).expect(&document);
            assert_eq!(report.kept(), 2, "{document}");
            for out in events(&merged) {
                assert_eq!(*out, serde_json::from_str::<Value>(event).unwrap(), "{document}");
            }
        }
    }
    let odd = r#"{"traceEvents": [1, "x", null, [1, {"pid": 5}], {}, true]}"#;
    let files = Files::of(&[odd]);
    let (document, _) = files.merge(&verbatim()).expect("merged");
    assert_eq!(document["traceEvents"], json!([1, "x", null, [1, {"pid": 5}], {}, true]));
}

#[test]
fn untouched_bytes_are_copied() {
    let event = "{ \"ph\" :\t\"X\", \"ts\": 1.2300, \"args\": { \"s\": \"\\u00e9\\/\", \"e\": 1E+2 } , \"pid\":1 }";
    let files = Files::of(&[format!("[{event}]")]);
    files.merge(&verbatim()).expect("merged");
    assert!(fs::read_to_string(files.out()).expect("UTF-8").contains(event));
}

#[test]
fn streams_and_writers_serve_too() {
    let reader = Box::new(std::io::Cursor::new(rank(0, r#"{"ph": "X", "pid": 1}"#).into_bytes()));
    let input = Input::Reader { name: "<stdin>".into(), reader };
    let mut out = Vec::new();
    merge(vec![input], Target::Writer(&mut out), &verbatim(), None).expect("merged");
    assert_eq!(events(&serde_json::from_slice(&out).unwrap()).len(), 1);
}

#[test]
fn the_output_may_be_an_input() {
    let files = Files::of(&[rank(0, r#"{"ph": "X", "pid": 1}"#), rank(1, r#"{"ph": "X", "pid": 1}"#)]);
    merge(files.inputs(), Target::File(&files.paths[0]), &verbatim(), None).expect("merged");
    let document: Value = serde_json::from_slice(&fs::read(&files.paths[0]).unwrap()).expect("strict JSON");
    assert_eq!(events(&document).len(), 2);
}

/// The failure of a merge whose second input is this, which must leave the output alone and name file and byte.
fn damage(bytes: &[u8]) -> String {
    let files = Files::of(&[rank(0, r#"{"ph": "X", "pid": 1}"#).as_bytes(), bytes]);
    fs::write(files.out(), "old").expect("written");
    let error = files.merge(&MergeOptions::default()).expect_err("damaged");
    assert!(matches!(error, Error::Malformed { .. } | Error::Limit { .. }), "{error}");
    assert_eq!(fs::read(files.out()).expect("the old file"), b"old");
    let mut names: Vec<_> = fs::read_dir(files.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["in0.json", "in1.json", "out.json"]);
    let message = error.to_string();
    assert!(message.contains("in1.json: at byte "), "{message}");
    message
}

#[test]
fn damaged_inputs_are_named_and_leave_the_output() {
    let good = r#"{"traceEvents": [{"ph": "X", "pid": 1, "args": {"s": "\u00e9"}}, {"ph": "X"}], "a": 1}"#;
    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"  \n ", "white space"),
        (b"x", "no trace"),
        (b"5", "no trace"),
        (b"{\"traceEvents\": [{\"a\": NaN}]}", "NaN"),
        (b"{\"traceEvents\": [{\"a\": -Infinity}]}", "Infinity"),
        (b"{\"traceEvents\": [{\"a\": \"x\ny\"}]}", "control character"),
        (b"{\"traceEvents\": [{\"a\": \"\xff\"}]}", "UTF-8"),
        (b"{\"traceEvents\": [{\"a\": 01}]}", "comma_or_number"),
        (b"{\"traceEvents\": [{\"a\": 1}] \"b\": 2}", ""),
        (b"{\"traceEvents\": [{\"a\": 1}]} x", "follows the end"),
        (b"{\"traceEvents\": [{\"a\": 1} {\"a\": 1}]}", "','"),
        (b"{\"traceEvents\": [{\"a\": 1},]}", "comma"),
        (b"{\"traceEvents\": [{\"a\" 1}]}", "':'"),
        (b"{\"traceEvents\": [{\"a\": tru}]}", "true, false and null"),
        (b"{\"traceEvents\": [], \"traceEvents\": []}", "second traceEvents"),
        (b"{\"traceEvents\": {}}", "is no array"),
        (b"\x1f\x8b\x08\x00garbage", "gzip"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"\xff\xfe[\0]\0", "UTF-16"),
    ] {
        let message = damage(bytes);
        assert!(
            message.contains(words) || words == "comma_or_number",
            "{:?}: {message}",
            String::from_utf8_lossy(bytes)
        );
    }
    for length in 1..good.len() {
        if good.is_char_boundary(length) {
            damage(&good.as_bytes()[..length]);
        }
    }
    let packed = gzip(good.as_bytes());
    for length in [5, 11, packed.len() / 2, packed.len() - 1] {
        damage(&packed[..length]);
    }
    let mut flipped = packed.clone();
    let at = flipped.len() - 6;
    flipped[at] ^= 1;
    assert!(damage(&flipped).contains("gzip"));
}

#[test]
fn offsets_are_those_of_the_damage() {
    let before = format!("{{\"traceEvents\": [{}", r#"{"ph": "X", "pid": 1, "args": {}},"#.repeat(60_000));
    let message = damage(format!("{before}{{\"a\": NaN}}]}}").as_bytes());
    assert!(message.contains(&format!("at byte {}:", before.len() + 6)), "{message}");
}

#[test]
fn folders_and_missing_files_are_named() {
    let folder = tempfile::tempdir().expect("scratch");
    for path in [folder.path().to_path_buf(), folder.path().join("missing.json")] {
        let out = folder.path().join("out.json");
        let error = merge(vec![Input::Path(path.clone())], Target::File(&out), &MergeOptions::default(), None)
            .expect_err("no file");
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn hostile_inputs_end_in_an_error() {
    let deep = format!("{{\"traceEvents\": [{}", "[".repeat(2_000_000));
    assert!(damage(deep.as_bytes()).contains("512") || damage(deep.as_bytes()).contains("inside an event"));
    assert!(damage(&gzip(deep.as_bytes())).contains("in1.json"));
    let bomb = gzip(&vec![b'['; 64 << 20]);
    assert!(damage(&bomb).contains("in1.json"));
    let long = format!("{{\"traceEvents\": [{{\"a\": \"{}\"}}]}}", "x".repeat(9 << 20));
    assert!(damage(long.as_bytes()).contains("an event of more than 4194304 bytes"));
    let head = format!("{{\"a\": \"{}\", \"traceEvents\": []}}", "x".repeat(20 << 20));
    assert!(damage(head.as_bytes()).contains("before the first event"));
    let limits = Limits { event_bytes: 100, ..Limits::default() };
    let options = MergeOptions { limits, ..MergeOptions::default() };
    let document = format!("{{\"traceEvents\": [{{\"a\": \"{}\"}}]}}", "x".repeat(3 << 20));
    let small = Files::of(&[document]).merge(&options);
    assert!(matches!(small, Err(Error::Limit { .. })), "{small:?}");
}

#[test]
fn salvage_keeps_what_is_whole_and_says_what_is_not() {
    let good = r#"{"traceEvents": [{"ph": "X", "n": 1}, {"ph": "X", "n": 2}, {"ph": "X", "n": 3}]}"#;
    for length in 20..good.len() {
        let (document, report) = Files::of(&[&good.as_bytes()[..length]]).merge(&salvage()).expect("salvaged");
        let whole = good[..length].matches('}').count().min(3);
        assert_eq!(phase(&document, "X").len(), whole, "{length}");
        assert_eq!(report.kept() as usize, whole);
        assert!(!report.inputs[0].damage.is_empty(), "{length}");
    }
    let (document, report) = Files::of(&[&b"{\"traceEvents\": [{\"ph\": \"X\", \"a\": NaN, \"b\": \"x\ny\xff\"}, {\"ph\": \"X\", \"a\" 5}, {\"ph\": \"X\"}]}"[..]])
        .merge(&salvage())
        .expect("salvaged");
    assert_eq!(phase(&document, "X").len(), 2);
    assert_eq!(phase(&document, "X")[0]["a"], "NaN");
    assert_eq!(phase(&document, "X")[0]["b"], "x\ny\u{fffd}");
    assert_eq!((report.kept(), report.repaired(), report.lost()), (2, 1, 1));
    // A rank that was killed: its gzip ends anywhere.
    let some: Vec<String> = (0..50_000).map(|i| format!(r#"{{"ph": "X", "pid": {}}}"#, i * 7919 % 10_007)).collect();
    let packed = gzip(format!("{{\"traceEvents\": [{}]}}", some.join(",")).as_bytes());
    let (document, report) = Files::of(&[&packed[..packed.len() / 2]]).merge(&salvage()).expect("salvaged");
    assert!(phase(&document, "X").len() > 1_000, "{}", phase(&document, "X").len());
    assert!(report.inputs[0].damage.iter().any(|what| what.contains("gzip")), "{:?}", report.inputs[0].damage);
}

#[test]
fn cancelling_leaves_the_output() {
    let many = format!("{{\"traceEvents\": [{}]}}", vec![r#"{"ph": "X", "pid": 1}"#; 200_000].join(","));
    let files = Files::of(&[many]);
    fs::write(files.out(), "old").expect("written");
    let mut cancel = |_: &tptrace::output::Progress| false;
    let result = merge(files.inputs(), Target::File(&files.out()), &MergeOptions::default(), Some(&mut cancel));
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_eq!(fs::read(files.out()).unwrap(), b"old");
}

#[test]
fn a_tail_that_is_not_what_it_seems() {
    // The last bytes look like an end of the events long before the true one.
    let filler = format!("\"{}\"", "y".repeat(40 << 10));
    let document = format!(r#"{{"traceEvents": [{{"pid": 1}}], "first": {filler}, "list": [{{}}], "last": 1}}"#);
    let (merged, _) = merged(&[document]);
    let metadata = &merged["ranks"][0]["metadata"];
    assert!(metadata.get("first").is_some() && metadata.get("list").is_some() && metadata["last"] == 1);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(|number: f64| json!(number)),
        "[\\x00-\\x7f\u{e9}\u{1F600}]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"\\\\{}\\[\\],:]{0,4}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn event() -> impl Strategy<Value = Value> {
    let pid = prop_oneof![4 => (0u32..5).prop_map(|pid| json!(pid)), 1 => value()];
    (proptest::collection::btree_map("[a-z]{1,3}", value(), 0..4), pid, 0usize..8, any::<bool>()).prop_map(
        |(map, pid, ph, with)| {
            let mut event = json!(map);
            if with {
                event["pid"] = pid;
                event["ph"] = json!(["X", "s", "f", "M", "i", "C", "b", "e"][ph]);
            }
            event
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_event_comes_through(
        inputs in proptest::collection::vec((proptest::collection::vec(event(), 0..12), any::<bool>(), any::<bool>()), 1..4),
    ) {
        let documents: Vec<Vec<u8>> = inputs
            .iter()
            .map(|(events, pretty, packed)| {
                let document = json!({"traceEvents": events, "k": [1]});
                let text = if *pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
                let bytes = text.expect("JSON").into_bytes();
                if *packed { gzip(&bytes) } else { bytes }
            })
            .collect();
        let files = Files::of(&documents);
        let write = WriteOptions { threads: 2, ..WriteOptions::default() };
        let (document, report) = files.merge(&MergeOptions { write: write.clone(), ..MergeOptions::default() }).expect("merged");
        let all: Vec<&Value> = inputs.iter().flat_map(|(events, _, _)| events).collect();
        prop_assert_eq!(report.kept() as usize, all.len());
        // In order, the same but for what a merge changes.
        let changed = ["pid", "tid", "ts", "id", "id2", "bind_id", "args"];
        for (before, after) in all.iter().zip(events(&document)) {
            let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
                prop_assert_eq!(*before, after);
                continue;
            };
            prop_assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
            for (key, value) in before.iter().filter(|(key, _)| !changed.contains(&key.as_str())) {
                prop_assert_eq!(value, &after[key]);
            }
        }
        let (document, _) = files.merge(&MergeOptions { write, ..verbatim() }).expect("merged");
        for (before, after) in all.iter().zip(events(&document)) {
            let (mut before, mut after) = ((*before).clone(), after.clone());
            before.as_object_mut().and_then(|event| event.remove("pid"));
            after.as_object_mut().and_then(|event| event.remove("pid"));
            prop_assert_eq!(before, after);
        }
    }
}

/// A path in a message helps only if it is the one that was given.
#[test]
fn reports_name_the_inputs() {
    let (_, report) = merged(&[rank(0, ""), rank(1, "")]);
    let names: Vec<_> =
        report.inputs.iter().map(|input| Path::new(&input.path).file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["in0.json", "in1.json"]);
}

#[test]
fn blanks_may_be_as_many_as_they_like() {
    let event = r#"{"name": "a", "ph": "X", "ts": 1, "dur": 3, "pid": 1, "tid": 1}"#;
    let read = |document: &str| {
        let files = Files::of(&[document]);
        let (merged, report) = files.merge(&verbatim()).unwrap_or_else(|error| panic!("{error}: {document:.100}"));
        assert_eq!(report.kept() as usize, events(&merged).len());
        let options = SummaryOptions { threads: 1, ..SummaryOptions::default() };
        let summary = summarize(files.inputs(), &options, None).expect("summed up");
        assert_eq!(summary.names.iter().map(|name| name.count).sum::<u64>(), report.kept());
        report.kept()
    };
    for count in (0..320).chain([5_000, 100_000]) {
        for blank in [" ", "\n", "\t"] {
            let blanks = blank.repeat(count);
            assert_eq!(read(&format!("[{blanks}{event}{blanks}]")), 1);
            assert_eq!(read(&format!("{{\"traceEvents\": [{event}{blanks},{blanks}{event}{blanks}]{blanks}}}")), 2);
        }
    }
    // Also where a piece of a document ends, a megabyte on.
    let blanks = " ".repeat(3_000);
    let many = vec![event; 800].join(&format!("{blanks},{blanks}"));
    assert_eq!(read(&format!("[{many}{blanks}]")), 800);
}
