//! Selecting events while merging: beside a plain account of the rules, on documents of every kind.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use tptrace::Error;
use tptrace::merge::{Input, Limits, MergeOptions, MergeReport, Selection, merge};
use tptrace::output::Target;

fn merged(documents: &[String], options: &MergeOptions) -> Result<(Value, MergeReport), Error> {
    let folder = tempfile::tempdir().expect("scratch");
    let mut inputs = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let path: PathBuf = folder.path().join(format!("in{index}.json"));
        std::fs::write(&path, document).expect("written");
        inputs.push(Input::Path(path));
    }
    let mut out = Vec::new();
    let report = merge(inputs, Target::Writer(&mut out), options, None)?;
    let document = serde_json::from_slice(&out).expect("strict JSON");
    assert_eq!(report.written.bytes, out.len() as u64);
    Ok((document, report))
}

fn select(documents: &[String], selection: Selection) -> (Value, MergeReport) {
    merged(documents, &MergeOptions { selection, ..MergeOptions::default() }).expect("merged")
}

fn document(rank: i64, events: &[Value]) -> String {
    json!({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}).to_string()
}

/// The names of the events that stayed, metadata aside.
fn names(document: &Value) -> Vec<String> {
    let events = document["traceEvents"].as_array().expect("events");
    let stayed = events.iter().filter(|event| event["ph"] != "M");
    stayed.map(|event| event["name"].as_str().unwrap_or("?").to_owned()).collect()
}

fn slice(name: &str, cat: &str, tid: u64, ts: f64, dur: f64) -> Value {
    json!({"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": tid, "ts": ts, "dur": dur})
}

fn flow(ph: &str, id: u64, tid: u64, ts: f64) -> Value {
    json!({"ph": ph, "name": "ac2g", "cat": "ac2g", "id": id, "pid": 1, "tid": tid, "ts": ts, "bp": "e"})
}

/// Ops that launch kernels, a counter and an instant.
fn events() -> Vec<Value> {
    vec![
        json!({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}),
        slice("aten::mm", "cpu_op", 1, 100.0, 50.0),
        slice("cudaLaunchKernel", "cuda_runtime", 1, 110.0, 5.0),
        flow("s", 1, 1, 110.0),
        slice("gemm", "kernel", 7, 160.0, 100.0),
        flow("f", 1, 7, 160.0),
        slice("aten::add", "cpu_op", 1, 200.0, 10.0),
        slice("cudaLaunchKernel", "cuda_runtime", 1, 202.0, 3.0),
        flow("s", 2, 1, 202.0),
        slice("add_kernel", "kernel", 7, 270.0, 2.0),
        flow("f", 2, 7, 270.0),
        json!({"ph": "C", "name": "memory", "pid": 1, "ts": 205.0, "args": {"bytes": 5}}),
        json!({"ph": "i", "name": "mark", "cat": "user", "pid": 1, "tid": 1, "ts": 300.0, "s": "t"}),
    ]
}

#[test]
fn a_window_keeps_what_reaches_into_it() {
    let selection = Selection { window_ns: Some((30_000, 100_000)), ..Selection::default() };
    let (document, report) = select(&[document(0, &events())], selection);
    // The mm ends after the start; the kernel begins before the end, but its launch is gone, and the arrow with it.
    assert_eq!(names(&document), ["aten::mm", "gemm"]);
    assert_eq!((report.cut().window, report.cut().flow, report.kept()), (6, 4, 3));
    let note = &document["tptrace"]["merge"]["selection"];
    assert_eq!(note, &json!({"window_ns": [30_000, 100_000], "window_origin_ns": 100_000}));
}

#[test]
fn categories_names_and_durations() {
    let all = [document(0, &events())];
    let by = |selection| names(&select(&all, selection).0);
    let kernels = Selection { categories: vec!["kernel".into()], ..Selection::default() };
    assert_eq!(by(kernels), ["gemm", "add_kernel"]);
    let both = Selection { categories: vec!["kernel".into(), "cuda_runtime".into()], ..Selection::default() };
    assert_eq!(by(both).iter().filter(|name| *name == "ac2g").count(), 4, "flows go with their slices");
    let named = Selection { names: vec!["^aten::".into(), "GEMM|gemm".into()], ..Selection::default() };
    assert_eq!(by(named), ["aten::mm", "gemm", "aten::add"]);
    let without = Selection { exclude_names: vec!["cuda".into(), "memory".into()], ..Selection::default() };
    assert_eq!(by(without), ["aten::mm", "gemm", "aten::add", "add_kernel", "mark"]);
    let long = Selection { min_duration_ns: 5_000, ..Selection::default() };
    assert_eq!(
        by(long),
        ["aten::mm", "cudaLaunchKernel", "ac2g", "gemm", "ac2g", "aten::add", "memory", "mark"],
        "the first launch and its kernel are long enough, and so its arrow stays"
    );
}

#[test]
fn ranks() {
    let all = [document(1, &events()), document(0, &[slice("other", "cpu_op", 1, 1.0, 1.0)])];
    let of = |ranks: &[i64]| Selection { ranks: ranks.to_vec(), ..Selection::default() };
    let (one, report) = select(&all, of(&[0]));
    assert_eq!(names(&one), ["other"]);
    assert_eq!(one["distributedInfo"]["merged_ranks"], json!([0]));
    assert_eq!((report.inputs.len(), report.warnings.len()), (1, 0));
    let (_, report) = select(&all, of(&[1, 5]));
    assert!(report.warnings[0].contains("missing: 5"), "{:?}", report.warnings);
    let options = MergeOptions { selection: of(&[7]), ..MergeOptions::default() };
    let error = merged(&all, &options).expect_err("no rank 7").to_string();
    assert!(error.contains("they are of 1, 0"), "{error}");
}

/// A rank has the same times, pids and ids, and the window the same place, with the other ranks and without.
#[test]
fn ranks_are_where_they_are_in_the_whole() {
    let dated = |rank: i64, base: i64| {
        let mut events = events();
        events[1]["name"] = json!(format!("mm of {rank}"));
        json!({"distributedInfo": {"rank": rank, "world_size": 3}, "baseTimeNanoseconds": 1_700_000_000_000_000_000i64 + base,
            "traceEvents": events})
        .to_string()
    };
    let all = [dated(0, 0), dated(1, 50_000), dated(2, 100_000)];
    let of_rank = |document: &Value, pids: std::ops::Range<u64>| -> Vec<Value> {
        let events = document["traceEvents"].as_array().expect("events").clone();
        events.into_iter().filter(|event| event["pid"].as_u64().is_some_and(|pid| pids.contains(&pid))).collect()
    };
    for window_ns in [None, Some((60_000, 200_000))] {
        let (whole, _) = select(&all, Selection { window_ns, ..Selection::default() });
        let (one, report) = select(&all, Selection { window_ns, ranks: vec![2], ..Selection::default() });
        assert_eq!(of_rank(&whole, 20_000_000..30_000_000), of_rank(&one, 20_000_000..30_000_000));
        assert_eq!(
            (whole["baseTimeNanoseconds"].clone(), report.inputs[0].offset_ns),
            (one["baseTimeNanoseconds"].clone(), 100_000)
        );
    }
    // A rank without a clock does not stand against the others'.
    let mixed = [dated(0, 0), dated(1, 50_000), document(2, &events())];
    let (_, report) = select(&mixed, Selection { ranks: vec![0, 1], ..Selection::default() });
    assert!(report.aligned && report.warnings.is_empty(), "{:?}", report.warnings);
    let (_, report) = select(&mixed, Selection { ranks: vec![0, 2], ..Selection::default() });
    assert!(!report.aligned && report.warnings.len() == 1, "{:?}", report.warnings);
}

#[test]
fn begin_and_end_stay_or_go_as_one() {
    let event = |ph: &str, name: &str, ts: f64| json!({"ph": ph, "name": name, "pid": 1, "tid": 1, "ts": ts});
    let end = |ts: f64| json!({"ph": "E", "pid": 1, "tid": 1, "ts": ts});
    let all = [document(
        0,
        &[
            event("B", "outer", 0.0),
            event("B", "short", 10.0),
            flow("s", 1, 1, 11.0),
            end(12.0),
            event("B", "long", 20.0),
            flow("f", 1, 1, 21.0),
            end(90.0),
            end(100.0),
            event("B", "open", 150.0),
        ],
    )];
    let (document, report) = select(&all, Selection { min_duration_ns: 50_000, ..Selection::default() });
    assert_eq!(names(&document), ["outer", "long", "?", "?", "open"]);
    assert_eq!((report.cut().duration, report.cut().flow), (2, 2));
    let (document, _) = select(&all, Selection { names: vec!["long".into()], ..Selection::default() });
    assert_eq!(names(&document), ["long", "?"]);
}

#[test]
fn an_end_goes_with_the_begin_that_it_names() {
    let event = |ph: &str, name: &str, ts: f64| json!({"ph": ph, "name": name, "pid": 1, "tid": 1, "ts": ts});
    let all =
        [document(0, &[event("B", "a", 0.0), event("B", "b", 1.0), event("E", "a", 90.0), event("E", "b", 91.0)])];
    let (document, _) = select(&all, Selection { names: vec!["a".into()], ..Selection::default() });
    assert_eq!(names(&document), ["a", "a"]);
    let (document, _) = select(&all, Selection { exclude_names: vec!["a".into()], ..Selection::default() });
    assert_eq!(names(&document), ["b", "b"]);
}

#[test]
fn async_events_of_an_id_stay_or_go_as_one() {
    let event = |ph: &str, name: &str, id: u64, ts: f64| json!({"ph": ph, "cat": "req", "name": name, "id": id, "pid": 1, "ts": ts});
    let all = [document(
        0,
        &[
            event("b", "request", 1, 0.0),
            event("b", "part", 1, 1.0),
            event("n", "note", 1, 2.0),
            event("e", "part", 1, 3.0),
            event("b", "request", 2, 4.0),
            event("e", "request", 2, 5.0),
            event("e", "request", 1, 60.0),
            event("b", "request", 1, 70.0),
            event("e", "request", 1, 71.0),
            event("b", "endless", 3, 70.0),
            event("n", "alone", 4, 70.0),
        ],
    )];
    let by = |selection| names(&select(&all, selection).0);
    assert_eq!(
        by(Selection { min_duration_ns: 10_000, ..Selection::default() }),
        ["request", "part", "note", "part", "request", "endless", "alone"]
    );
    assert_eq!(
        by(Selection { window_ns: Some((65_000, 1_000_000)), ..Selection::default() }),
        ["request", "request", "endless", "alone"]
    );
}

#[test]
fn flows_named_by_slices_lose_their_name() {
    let named = |name: &str, ts: f64, key: &str| {
        format!(
            r#"{{"ph": "X", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1, "{key}":  "0x7", "flow_out": true}}"#
        )
    };
    let text = |key| format!("[{}, {}, {}]", named("a", 0.0, key), named("b", 5.0, key), named("c", 9.0, "other"));
    for key in ["bind_id", "bind\\u005fid"] {
        let (document, _) = select(&[text(key)], Selection { names: vec!["a|c".into()], ..Selection::default() });
        let a = &document["traceEvents"][0];
        assert!(a.get("bind_id").is_none(), "{a}");
        assert_eq!(a["cut_bind_id"], "0x7");
        let (document, _) = select(&[text(key)], Selection { exclude_names: vec!["c".into()], ..Selection::default() });
        assert_eq!(document["traceEvents"][0]["bind_id"], "0x7");
    }
}

#[test]
fn the_next_slice_is_bound_where_viewers_bind_it() {
    let mut finish = flow("f", 1, 7, 150.0);
    finish.as_object_mut().expect("an object").remove("bp");
    let all = [document(
        0,
        &[
            slice("launch", "cuda_runtime", 1, 100.0, 10.0),
            flow("s", 1, 1, 100.0),
            finish,
            slice("late", "kernel", 7, 300.0, 5.0),
            slice("next", "kernel", 7, 160.0, 50.0),
            slice("around", "kernel", 7, 140.0, 15.0),
        ],
    )];
    let without =
        |name: &str| select(&all, Selection { exclude_names: vec![name.into()], ..Selection::default() }).1.cut();
    assert_eq!(without("late").flow, 0);
    assert_eq!(without("around").flow, 0);
    assert_eq!(without("next").flow, 2);
    assert_eq!(without("launch").flow, 2);
}

#[test]
fn a_size_keeps_the_longest() {
    let mut list = Vec::new();
    for i in 0..2_000u64 {
        let at = i as f64 * 100.0;
        let long = ((i * 7919) % 1000) as f64 / 10.0;
        list.push(slice(&format!("op{}", i % 13), "cpu_op", 1, at, long));
        list.push(slice("kernel", "kernel", 7, at + 1.0, long));
        list.push(flow("s", i, 1, at));
        list.push(flow("f", i, 7, at + 1.0));
        list.push(json!({"ph": "C", "name": "memory", "pid": 1, "ts": at, "args": {"bytes": i}}));
    }
    let all = [document(0, &list), document(1, &list)];
    let whole = serde_json::to_string(&select(&all, Selection::default()).0).expect("text").len() as u64;
    for share in [3, 10, 40, 75, 99] {
        let most = whole * share / 100;
        let (document, report) = select(&all, Selection { max_bytes: Some(most), ..Selection::default() });
        assert!(report.written.bytes <= most, "{} of {most}", report.written.bytes);
        assert!(report.written.bytes * 100 >= most * 90 || share < 5, "{} of {most}", report.written.bytes);
        let complete = report.complete_from_ns.expect("not all fits") as f64 / 1000.0;
        let events = document["traceEvents"].as_array().expect("events");
        let slices = events.iter().filter(|event| event["ph"] == "X");
        let longer = slices.clone().filter(|event| event["dur"].as_f64() >= Some(complete)).count();
        let expected =
            list.iter().filter(|event| event["ph"] == "X" && event["dur"].as_f64() >= Some(complete)).count();
        assert_eq!(longer, 2 * expected, "{share} %");
        let ends = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count();
        assert_eq!(ends("s"), ends("f"));
        assert!(report.cut().budget > 0);
    }
    let (_, report) = select(&all, Selection { max_bytes: Some(whole * 2), ..Selection::default() });
    assert_eq!((report.cut().total(), report.complete_from_ns), (0, None));
    let options = MergeOptions {
        selection: Selection { max_bytes: Some(100), ..Selection::default() },
        ..MergeOptions::default()
    };
    let error = merged(&all, &options).expect_err("too small").to_string();
    assert!(error.contains("the metadata alone take"), "{error}");
}

#[test]
fn what_cannot_be_asked_for() {
    let all = [document(0, &events())];
    let refused = |selection| {
        let options = MergeOptions { selection, ..MergeOptions::default() };
        match merged(&all, &options) {
            Err(Error::InvalidArgument(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(Selection { names: vec!["(".into()], ..Selection::default() }).contains("\"(\""));
    assert!(refused(Selection { window_ns: Some((5, 5)), ..Selection::default() }).contains("empty"));
}

#[test]
fn a_flow_with_very_many_ends_is_left_out() {
    let mut list = vec![slice("wide", "cpu_op", 1, 0.0, 1e6), flow("s", 2, 1, 5.0), flow("f", 2, 1, 6.0)];
    list.extend((0..40_000).map(|i| flow("t", 1, 1, f64::from(i))));
    let (document, report) = select(&[document(0, &list)], Selection { min_duration_ns: 1, ..Selection::default() });
    assert_eq!(names(&document), ["wide", "ac2g", "ac2g"]);
    assert_eq!((report.cut().flow, report.cut().total()), (40_000, 40_000));
}

#[test]
fn damaged_events_are_selected_too() {
    let text = concat!(
        r#"{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}, {"ph": "X", "name": "b", "ts": NaN, "dur": 1},"#,
        r#" {"ph": "X", "name": tru}, {"ph": "X", "name": "b2", "ts": 2, "dur": 2}, {"ph": "X", "name": "c"#
    );
    let selection = Selection { names: vec!["^b".into()], ..Selection::default() };
    let options = MergeOptions { salvage: true, selection, ..MergeOptions::default() };
    let (document, report) = merged(&[text.to_owned()], &options).expect("merged");
    assert_eq!(names(&document), ["b", "b2"]);
    assert_eq!((report.kept(), report.lost(), report.cut().name), (2, 2, 1));
}

/// The rules once more, without regard to memory. Times in whole microseconds.
mod plain {
    use super::*;

    pub(super) fn innermost<'e>(all: &'e [Value], at: &Value) -> Option<&'e Value> {
        let (lane, ts) = ((&at["pid"], &at["tid"]), at["ts"].as_i64()?);
        all.iter()
            .filter(|e| e["ph"] == "X" && (&e["pid"], &e["tid"]) == lane)
            .filter(|e| (e["ts"].as_i64()..=Some(end(e))).contains(&Some(ts)))
            .max_by_key(|e| (e["ts"].as_i64(), std::cmp::Reverse(e["dur"].as_i64())))
    }

    fn end(event: &Value) -> i64 {
        event["ts"].as_i64().unwrap_or(0) + event["dur"].as_i64().unwrap_or(0)
    }

    /// The numbers of the events that stay.
    pub(super) fn kept(all: &[Value], selection: &Selection) -> Vec<i64> {
        let start = all.iter().filter_map(|e| e["ts"].as_i64()).min().unwrap_or(0);
        let inside = |e: &Value| {
            let Some((from, to)) = selection.window_ns else { return true };
            let (from, to) = (start + from / 1000, start + to / 1000);
            let ts = e["ts"].as_i64().expect("a time");
            ts < to && (end(e) > from || (end(e) == ts && ts == from))
        };
        let stays = |e: &Value| {
            let cat = selection.categories.is_empty() || selection.categories.iter().any(|c| e["cat"] == *c);
            let long = e["dur"].as_i64().is_none_or(|dur| dur * 1000 >= selection.min_duration_ns as i64);
            inside(e) && cat && long
        };
        let holds = |e: &Value| innermost(all, e).map_or_else(|| inside(e), stays);
        let id = |e: &Value| e["id"].as_i64();
        let mut flows: Vec<&Value> = all.iter().filter(|e| e["ph"] == "s" || e["ph"] == "f").collect();
        let order = |e: &Value| (e["ts"].as_i64(), e["ph"] == "f", e["n"].as_i64());
        flows.sort_by_key(|e| (id(e), order(e)));
        let mut kept: Vec<i64> = Vec::new();
        for chain in flows.chunk_by(|a, b| id(a) == id(b) && b["ph"] != "s") {
            if chain.iter().all(|e| holds(e)) {
                kept.extend(chain.iter().filter_map(|e| e["n"].as_i64()));
            }
        }
        kept.extend(
            all.iter().filter(|e| e["ph"] != "s" && e["ph"] != "f" && stays(e)).filter_map(|e| e["n"].as_i64()),
        );
        kept.sort_unstable();
        kept
    }
}

prop_compose! {
    fn any_event()(kind in 0..5u8, tid in 1..3u64, ts in 0..30i64, dur in 0..12i64, id in 0..6u64, cat in 0..3u8) -> Value {
        let cat = ["kernel", "cpu_op", "x"][cat as usize];
        match kind {
            0 | 1 => json!({"ph": "X", "cat": cat, "name": "slice", "pid": 1, "tid": tid, "ts": ts, "dur": dur}),
            2 => json!({"ph": "s", "cat": "f", "name": "f", "id": id, "pid": 1, "tid": tid, "ts": ts}),
            3 => json!({"ph": "f", "cat": "f", "name": "f", "id": id, "pid": 1, "tid": tid, "ts": ts, "bp": "e"}),
            _ => json!({"ph": "i", "cat": cat, "name": "i", "pid": 1, "tid": tid, "ts": ts}),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn generated_events_are_selected_as_the_rules_say(
        mut events in prop::collection::vec(any_event(), 1..60),
        window in prop::option::of((0..30i64, 1..20i64)),
        kernels in any::<bool>(),
        shortest in 0..10u64,
        bytes in 0..4000usize,
    ) {
        for (n, event) in events.iter_mut().enumerate() {
            event["n"] = json!(n);
        }
        let selection = Selection {
            window_ns: window.map(|(from, length)| (from * 1000, (from + length) * 1000)),
            categories: if kernels { vec!["kernel".into()] } else { Vec::new() },
            min_duration_ns: shortest * 1000,
            ..Selection::default()
        };
        let expected = plain::kept(&events, &selection);
        let limits = Limits { sort_bytes: bytes, ..Limits::default() };
        let options = MergeOptions { selection, limits, ..MergeOptions::default() };
        let (document, report) = merged(&[document(0, &events)], &options).expect("merged");
        let stayed = document["traceEvents"].as_array().expect("events");
        let stayed: Vec<i64> = stayed.iter().filter_map(|event| event["n"].as_i64()).collect();
        prop_assert_eq!(&stayed, &expected);
        prop_assert_eq!(report.cut().total() as usize, events.len() - expected.len());
    }
}

#[test]
fn a_verbatim_merge_is_selected_from_too() {
    let window = Selection { window_ns: Some((0, 100_000)), ..Selection::default() };
    let budget = Selection { max_bytes: Some(2_000), ..Selection::default() };
    for selection in [window, budget] {
        let options = MergeOptions { verbatim: true, selection, ..MergeOptions::default() };
        let (document, report) = merged(&[document(0, &events())], &options).expect("merged");
        assert!(names(&document).contains(&"gemm".to_owned()), "{:?}", names(&document));
        assert!(report.cut().total() > 0 || report.complete_from_ns.is_none());
    }
}
