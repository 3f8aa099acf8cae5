//! Which rank a document is of: as its head states it, as its events do, or as the merge before says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tptrace::Error;
use tptrace::merge::{Input, MergeOptions, MergeReport, Selection, cut, merge, split};
use tptrace::output::{Target, WriteOptions};
use tptrace::summary::{SummaryOptions, summarize};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("scratch")
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("there")).expect("strict JSON")
}

fn try_merge(inputs: &[&PathBuf], out: &Path, options: &MergeOptions) -> Result<(Value, MergeReport), Error> {
    let inputs = inputs.iter().map(|&path| Input::Path(path.clone())).collect();
    let report = merge(inputs, Target::File(out), options, None)?;
    Ok((read(out), report))
}

fn merged(inputs: &[&PathBuf], out: &Path) -> (Value, MergeReport) {
    try_merge(inputs, out, &MergeOptions::default()).expect("merged")
}

fn only(ranks: &[i64]) -> MergeOptions {
    let selection = Selection { ranks: ranks.to_vec(), ..Selection::default() };
    MergeOptions { selection, ..MergeOptions::default() }
}

/// A document without metadata, as TensorPlay writes it: its rank stands in the arguments of its operators.
fn plain(folder: &Path, rank: i64) -> PathBuf {
    write(
        folder,
        &format!("plain{rank}.json"),
        format!(
            r#"{{"displayTimeUnit": "ns", "traceEvents": [
            {{"ph": "M", "name": "process_name", "ts": 1, "pid": 0, "tid": 0, "args": {{"name": "python"}}}},
            {{"ph": "X", "name": "step", "ts": 1.5, "dur": 2, "pid": 0, "tid": 0, "args": {{"rank": {rank}}}}},
            {{"ph": "X", "name": "none", "ts": 5, "dur": 2, "pid": 0, "tid": 0, "args": {{}}}},
            {{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9}}]}}"#
        ),
    )
}

/// A document in the torch format, on the monotonic clock of a host.
fn torch(folder: &Path, rank: i64, host: &str) -> PathBuf {
    let base = 1_000_000 + rank * 1_500;
    write(
        folder,
        &format!("torch{rank}.json"),
        format!(
            r#"{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}, "world_size": 4}}, "host_name": "{host}",
            "baseTimeNanoseconds": {base}, "tptrace": {{"clock": {{"domain": "monotonic", "base_ns": {base},
            "anchor_monotonic_ns": {base}, "anchor_realtime_ns": {}, "uncertainty_ns": {}}}}}, "traceEvents": [
            {{"ph": "M", "name": "process_name", "ts": 0, "pid": 0, "tid": 0, "args": {{"name": "python"}}}},
            {{"ph": "M", "name": "process_sort_index", "ts": 0, "pid": 0, "tid": 0, "args": {{"sort_index": 0}}}},
            {{"ph": "M", "name": "process_name", "ts": 0, "pid": 1000000, "tid": 0, "args": {{"name": "GPU 0"}}}},
            {{"ph": "M", "name": "process_sort_index", "ts": 0, "pid": 1000000, "tid": 0, "args": {{"sort_index": 6000000}}}},
            {{"ph": "X", "name": "ProfilerStep#{rank}", "ts": 1.5, "dur": 9, "pid": 0, "tid": 0}},
            {{"ph": "X", "name": "odd", "ts": 2, "dur": 3, "pid": 77, "tid": 140737488355328}},
            {{"ph": "s", "name": "flow", "id": 5, "ts": 2, "pid": 0, "tid": 0}},
            {{"ph": "f", "bp": "e", "name": "flow", "id": 5, "ts": 4, "pid": 1000000, "tid": 7}},
            {{"ph": "X", "cat": "kernel", "name": "k", "ts": 4, "dur": 2, "pid": 1000000, "tid": 7}},
            {{"ph": "X", "name": "span", "ts": 1, "dur": 20, "pid": "Spans", "tid": "x"}},
            {{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 30}}],
            "traceName": "rank {rank}"}}"#,
            1_700_000_000_000_000_000 + base,
            40 + rank
        ),
    )
}

/// The names of the processes, by pid.
fn processes(document: &Value) -> BTreeMap<u64, String> {
    let names = document["traceEvents"].as_array().expect("events").iter();
    let names = names.filter(|event| event["name"] == "process_name");
    names.map(|e| (e["pid"].as_u64().expect("a number"), e["args"]["name"].as_str().expect("text").into())).collect()
}

/// All events as text, in any order, with ids by what they join.
fn set(document: &Value) -> Vec<String> {
    let mut all: Vec<String> = document["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| {
            let mut event = event.clone();
            // The time of metadata says nothing.
            if event["ph"] == "M" {
                event["ts"] = json!(0);
            } else if let Some(ts) = event.get("ts").and_then(Value::as_f64) {
                event["ts"] = json!((ts * 1e3).round() as i64);
            }
            event.as_object_mut().expect("an object").remove("id");
            event.to_string()
        })
        .collect();
    all.sort();
    all
}

/// The documents have the same events; if not, some that only one has are told.
fn same(document: &Value, expected: &Value) {
    let (got, wanted) = (set(document), set(expected));
    let more: Vec<_> = got.iter().filter(|event| !wanted.contains(event)).take(4).collect();
    let less: Vec<_> = wanted.iter().filter(|event| !got.contains(event)).take(4).collect();
    assert!(got == wanted, "too many: {more:#?}, missing: {less:#?}");
}

/// The pids of the two ends of each flow.
fn flows(document: &Value) -> Vec<Vec<u64>> {
    let mut flows: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in document["traceEvents"].as_array().expect("events") {
        if event["ph"] == "s" || event["ph"] == "f" {
            flows.entry(event["id"].to_string()).or_default().push(event["pid"].as_u64().expect("a number"));
        }
    }
    let mut all: Vec<_> = flows.into_values().collect();
    all.sort();
    all
}

#[test]
fn plain_documents_are_of_the_rank_in_their_events() {
    let folder = scratch();
    let (zero, two, three) = (plain(folder.path(), 0), plain(folder.path(), 2), plain(folder.path(), 3));
    let out = folder.path().join("out.json");
    let (document, report) = merged(&[&three, &zero, &two], &out);
    assert_eq!(document["distributedInfo"]["merged_ranks"], json!([3, 0, 2]));
    assert_eq!((report.ranks.clone(), report.missing_ranks.clone()), (vec![0, 2, 3], vec![1]));
    assert!(report.inputs.iter().all(|input| input.rank_stated));
    for event in document["traceEvents"].as_array().expect("events") {
        if let Some(rank) = event["args"]["rank"].as_i64() {
            let pid = event["pid"].as_u64().expect("a number");
            assert_eq!(processes(&document)[&pid], format!("rank {rank}: python"));
        }
    }
    let warned = |report: &MergeReport, what: &str| report.warnings.iter().any(|warning| warning.contains(what));
    assert!(warned(&report, "these are missing: 1"), "{:?}", report.warnings);
    assert!(warned(&report, "format=\"torch\""), "{:?}", report.warnings);
    assert!(!warned(&report, "no rank is stated"));
    // Beside a document that states its rank.
    let (document, _) = merged(&[&torch(folder.path(), 1, "a"), &three], &out);
    assert_eq!(document["distributedInfo"]["merged_ranks"], json!([1, 3]));
    // Several ranks are none, and then the place counts, which is said.
    let mixed =
        r#"{"traceEvents": [{"ph": "X", "pid": 1, "args": {"rank": 1}}, {"ph": "X", "pid": 1, "args": {"rank": 2}}]}"#;
    let mixed = write(folder.path(), "mixed.json", mixed);
    let (document, report) = merged(&[&zero, &mixed], &out);
    assert_eq!(document["distributedInfo"]["merged_ranks"], json!([0, 1]));
    assert!(report.warnings.iter().any(|w| w.contains("no rank is stated") && w.contains("mixed.json (rank 1)")));
    assert_eq!((report.inputs[0].rank_stated, report.inputs[1].rank_stated), (true, false));
    // The reference goes by the head alone.
    let verbatim = MergeOptions { verbatim: true, ..MergeOptions::default() };
    let (document, report) = try_merge(&[&three, &zero], &out, &verbatim).expect("merged");
    assert_eq!(document["distributedInfo"]["merged_ranks"], json!([0, 1]));
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn cuts_and_summaries_know_these_ranks_too() {
    let folder = scratch();
    let three = plain(folder.path(), 3);
    let out = folder.path().join("out.json");
    let report = cut(Input::Path(three.clone()), Target::File(&out), &only(&[3]), None).expect("of that rank");
    assert_eq!(report.kept(), 4);
    let error = cut(Input::Path(three.clone()), Target::File(&out), &only(&[0]), None).expect_err("another rank");
    assert!(error.to_string().contains("of rank 3 alone"), "{error}");
    let inputs = vec![Input::Path(three), Input::Path(plain(folder.path(), 0))];
    let summary = summarize(inputs, &SummaryOptions::default(), None).expect("summed up");
    let ranks: Vec<i64> = summary.ranks.iter().map(|rank| rank.rank).collect();
    assert_eq!(ranks, [3, 0]);
    assert!(summary.files.iter().all(|file| file.rank_stated));
}

#[test]
fn merging_what_was_merged_is_merging_all() {
    for hosts in [["a", "a", "a", "a"], ["a", "a", "b", "b"], ["a", "b", "c", "d"]] {
        let folder = scratch();
        let files: Vec<PathBuf> = (0..4).zip(hosts).map(|(rank, host)| torch(folder.path(), rank, host)).collect();
        let path = |name: &str| folder.path().join(name);
        let (_, whole) = merged(&files.iter().collect::<Vec<_>>(), &path("whole.json"));
        merged(&[&files[1], &files[0]], &path("ab.json"));
        merged(&[&files[2], &files[3]], &path("cd.json"));
        let (document, report) = merged(&[&path("cd.json"), &path("ab.json")], &path("abcd.json"));
        let expected = read(&path("whole.json"));
        same(&document, &expected);
        assert_eq!(flows(&document), flows(&expected));
        assert_eq!(flows(&document).len(), 4);
        assert_eq!(report.ranks, [0, 1, 2, 3]);
        assert_eq!((report.aligned, report.uncertainty_ns), (true, whole.uncertainty_ns));
        assert_eq!(report.warnings, [""; 0]);
        let by_rank = |document: &Value| {
            let mut list = document["ranks"].as_array().expect("a list").clone();
            list.sort_by_key(|rank| rank["rank"].as_i64());
            list
        };
        assert_eq!(by_rank(&document), by_rank(&expected));
        for key in ["baseTimeNanoseconds", "schemaVersion"] {
            assert_eq!(document[key], expected[key]);
        }
        assert_eq!(document["tptrace"]["clock"], expected["tptrace"]["clock"]);
        // Again, with one that stands alone, and of some ranks.
        merged(&[&path("ab.json"), &files[3]], &path("abd.json"));
        merged(&[&path("abd.json"), &files[2]], &path("again.json"));
        same(&read(&path("again.json")), &expected);
        let both = [&path("ab.json"), &path("cd.json")];
        let (some, report) = try_merge(&both, &path("some.json"), &only(&[1, 3])).expect("merged");
        assert_eq!((report.ranks.clone(), report.missing_ranks.clone()), (vec![1, 3], vec![]));
        let (expected, _) =
            try_merge(&files.iter().collect::<Vec<_>>(), &path("whole.json"), &only(&[1, 3])).expect("ok");
        same(&some, &expected);
    }
}

#[test]
fn a_merge_in_parts_takes_merged_documents() {
    let folder = scratch();
    let files: Vec<PathBuf> = (0..4).map(|rank| torch(folder.path(), rank, "a")).collect();
    let path = |name: &str| folder.path().join(name);
    merged(&[&files[0], &files[1]], &path("ab.json"));
    let inputs = [path("ab.json"), files[2].clone(), files[3].clone()];
    for ranks in [vec![], vec![1, 2]] {
        let options = MergeOptions { trace_name: Some("x".into()), ..only(&ranks) };
        let surveys: Vec<String> =
            inputs.iter().map(|one| split::survey(Input::Path(one.clone()), &options).expect("surveyed")).collect();
        let plan = split::plan(&surveys, &options).expect("planned");
        let mut fragments = Vec::new();
        for (index, (input, task)) in inputs.iter().zip(&plan.tasks).enumerate() {
            let Some(task) = task else { continue };
            let target = path(&format!("{index}.gz"));
            split::fragment(Input::Path(input.clone()), task, &target, &WriteOptions::default(), None).expect("made");
            fragments.push(target);
        }
        let out = path("parts.json");
        let report =
            split::join(&plan.join, &fragments, Target::File(&out), &WriteOptions::default(), None).expect("ok");
        let expected = if ranks.is_empty() { vec![0, 1, 2, 3] } else { ranks };
        assert_eq!(report.ranks, expected);
        let (whole, _) = try_merge(&inputs.iter().collect::<Vec<_>>(), &path("whole.json"), &options).expect("merged");
        same(&read(&out), &whole);
    }
}

#[test]
fn merged_documents_may_share_ranks_and_come_from_elsewhere() {
    let folder = scratch();
    let files: Vec<PathBuf> = (0..3).map(|rank| torch(folder.path(), rank, "a")).collect();
    let path = |name: &str| folder.path().join(name);
    merged(&[&files[0], &files[1]], &path("ab.json"));
    merged(&[&files[1], &files[2]], &path("bc.json"));
    let (document, report) = merged(&[&path("ab.json"), &path("bc.json")], &path("out.json"));
    assert_eq!(report.duplicate_ranks, [1]);
    assert!(report.warnings.iter().any(|w| w.contains("ab.json (rank 1)") && w.contains("bc.json (rank 1)")));
    // Four ranks with four processes each: both of rank 1 are there.
    assert_eq!(processes(&document).len(), 16);
    // What was cut out of a merged document claims no rank.
    cut(Input::Path(path("ab.json")), Target::File(&path("a.json")), &only(&[0]), None).expect("cut");
    let (_, report) = merged(&[&path("a.json"), &path("bc.json")], &path("out.json"));
    assert_eq!((report.ranks, report.duplicate_ranks), (vec![0, 1, 2], vec![]));
    // The reference's merger says only which ranks there are.
    let verbatim = MergeOptions { verbatim: true, ..MergeOptions::default() };
    let few: Vec<PathBuf> = [1, 2]
        .into_iter()
        .map(|rank| {
            let events = r#"{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 5, "tid": 3}"#;
            let text = format!(r#"{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [{events}]}}"#);
            write(folder.path(), &format!("few{rank}.json"), text)
        })
        .collect();
    try_merge(&[&few[0], &few[1]], &path("theirs.json"), &verbatim).expect("merged");
    let (document, report) = merged(&[&files[0], &path("theirs.json")], &path("out.json"));
    assert_eq!(report.ranks, [0, 1, 2]);
    let names = processes(&document);
    assert_eq!((names[&10_000_005].as_str(), names[&20_000_005].as_str()), ("rank 1", "rank 2"));
}

#[test]
fn blocks_of_pids_may_get_smaller() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let files: Vec<PathBuf> = (0..500)
        .map(|rank| {
            let text = format!(
                r#"{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [
                {{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 3, "tid": 0}},
                {{"ph": "X", "name": "b", "ts": 1, "dur": 1, "pid": 6, "tid": 0}}]}}"#
            );
            write(folder.path(), &format!("{rank}.json"), text)
        })
        .collect();
    let (first, rest): (Vec<&PathBuf>, Vec<&PathBuf>) = (files[..2].iter().collect(), files[2..].iter().collect());
    let (expected, _) = merged(&files.iter().collect::<Vec<_>>(), &path("whole.json"));
    merged(&first, &path("first.json"));
    merged(&rest, &path("rest.json"));
    let (document, _) = merged(&[&path("first.json"), &path("rest.json")], &path("out.json"));
    same(&document, &expected);
}

#[test]
fn the_end_of_a_recording_makes_no_process() {
    let folder = scratch();
    let files: Vec<PathBuf> = (0..2).map(|rank| torch(folder.path(), rank, "a")).collect();
    let (document, _) = merged(&[&files[0], &files[1]], &folder.path().join("out.json"));
    let names = processes(&document);
    assert_eq!(names.len(), 8, "{names:?}");
    let ends = document["traceEvents"].as_array().expect("events").iter();
    let ends: Vec<&Value> = ends.filter(|event| event["name"] == "Record Window End").collect();
    assert_eq!(ends.len(), 2);
    for (rank, end) in ends.iter().enumerate() {
        let name = &names[&end["pid"].as_u64().expect("a number")];
        assert!(name.starts_with(&format!("rank {rank}")), "{name}");
    }
}

#[test]
fn salvage_leaves_out_what_is_no_document() {
    let folder = scratch();
    let good = torch(folder.path(), 1, "a");
    let out = folder.path().join("out.json");
    let options = MergeOptions { salvage: true, ..MergeOptions::default() };
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 2];
    for length in [0, 3, 10, 12] {
        let bad = write(folder.path(), "bad.json", &gzip[..length]);
        let (document, report) = try_merge(&[&bad, &good], &out, &options).expect("salvaged");
        assert_eq!(document["distributedInfo"]["merged_ranks"], json!([1]));
        assert!(
            report.warnings.iter().any(|w| w.contains("left out") && w.contains("bad.json")),
            "{:?}",
            report.warnings
        );
        assert_eq!(report.inputs.len(), 1);
        let surveys = [&bad, &good].map(|one| split::survey(Input::Path(one.clone()), &options).expect("surveyed"));
        assert!(matches!(split::plan(&surveys, &options).expect("planned").tasks.as_slice(), [None, Some(_)]));
        let before = fs::read(&out).expect("there");
        let error = try_merge(&[&bad], &out, &options).expect_err("nothing is left");
        assert!(matches!(&error, Error::Malformed { path, .. } if *path == bad), "{error}");
        let error = cut(Input::Path(bad.clone()), Target::File(&out), &options, None).expect_err("nothing is left");
        assert!(matches!(&error, Error::Malformed { path, .. } if *path == bad), "{error}");
        assert!(try_merge(&[&bad, &good], &out, &MergeOptions::default()).is_err());
        assert_eq!(fs::read(&out).expect("there"), before);
    }
}
