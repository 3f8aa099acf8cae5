//! Summaries: numbers that can be counted by hand, and a slow model of them on generated events.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use proptest::prelude::*;
use serde_json::{Value, json};
use tptrace::Error;
use tptrace::merge::{Input, Limits};
use tptrace::summary::{NameKind, Summary, SummaryOptions, TextOptions, compare, summarize};

fn input(name: &str, text: &str) -> Input {
    Input::Reader { name: name.into(), reader: Box::new(Cursor::new(text.as_bytes().to_vec())) }
}

fn of(text: &str) -> Summary {
    summarize(vec![input("trace", text)], &SummaryOptions::default(), None).expect("a summary")
}

fn document(events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    format!("{{\"distributedInfo\": {{\"rank\": 3}}, \"traceEvents\": [\n{}\n]}}", lines.join(",\n"))
}

fn slice(category: &str, name: &str, (pid, tid): (i64, i64), ts: f64, dur: f64) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur})
}

/// Work on a stream that is not the number of its lane.
fn kernel(name: &str, stream: i64, ts: f64, dur: f64) -> Value {
    let mut event = slice("kernel", name, (0, 100 + stream), ts, dur);
    event["args"] = json!({"grid": [1, 2, {"stream": 9}], "stream": stream, "device": 0});
    event
}

#[test]
fn self_time_is_the_time_without_children() {
    let cpu = (1, 1);
    // In an order that is nobody's.
    let summary = of(&document(&[
        slice("cpu_op", "inner", cpu, 20.0, 10.0),
        slice("cpu_op", "outer", cpu, 0.0, 100.0),
        slice("cpu_op", "inner", cpu, 40.0, 20.5),
        slice("cpu_op", "leaf", cpu, 41.0, 0.125),
        slice("cpu_op", "outer", (1, 2), 0.0, 7.0),
    ]));
    let row = |name: &str| {
        let row = summary.names.iter().find(|row| row.name == name).expect("a row");
        assert_eq!((row.kind, row.category.as_str()), (NameKind::Op, "cpu_op"));
        (row.count, row.total_ns, row.self_ns, row.min_ns, row.max_ns)
    };
    assert_eq!(row("outer"), (2, 107_000, 76_500, 7_000, 100_000));
    assert_eq!(row("inner"), (2, 30_500, 30_375, 10_000, 20_500));
    assert_eq!(row("leaf"), (1, 125, 125, 125, 125));
    assert_eq!((summary.events.slices, summary.events.crossing, summary.events.untimed), (5, 0, 0));
    assert_eq!(summary.lanes[0].busy_ns, 100_000);
    // Whatever the number of threads, among which lanes are shared out.
    for threads in 1..4 {
        let options = SummaryOptions { threads, ..SummaryOptions::default() };
        let events =
            [slice("a", "x", (1, 1), 0.0, 2.0), slice("a", "x", (1, 2), 0.0, 1.0), slice("a", "x", (1, 3), 0.0, 3.0)];
        let names = summarize(vec![input("t", &document(&events))], &options, None).expect("a summary").names;
        assert_eq!((names[0].count, names[0].min_ns, names[0].max_ns), (3, 1000, 3000));
    }
}

#[test]
fn begins_and_ends_are_slices() {
    let event = |ph: &str, name: &str, ts: f64| json!({"ph": ph, "name": name, "pid": 1, "tid": "main", "ts": ts});
    let summary = of(&document(&[
        event("B", "outer", 0.0),
        event("B", "inner", 10.0),
        event("E", "", 30.0),
        event("X", "no duration", 35.0),
        event("E", "", 50.0),
        event("E", "", 60.0),
        event("B", "open", 70.0),
    ]));
    let rows: Vec<_> = summary.names.iter().map(|row| (row.name.as_str(), row.total_ns, row.self_ns)).collect();
    assert_eq!(rows, [("outer", 50_000, 30_000), ("inner", 20_000, 20_000)]);
    assert_eq!(summary.events.untimed, 3);
    assert!(summary.warnings.iter().any(|warning| warning.contains("3 events")), "{:?}", summary.warnings);
}

#[test]
fn an_end_is_of_the_begin_that_it_names() {
    let event =
        |ph: &str, name: &str, ts: f64| json!({"ph": ph, "name": name, "cat": "c", "pid": 1, "tid": 1, "ts": ts});
    let summary = of(&document(&[
        event("B", "a", 0.0),
        event("B", "b", 10.0),
        event("E", "other", 15.0),
        event("E", "a", 30.0),
        event("E", "b", 30.0),
        event("E", "b", 40.0),
        // To the nearest nanosecond, not the one before.
        slice("c", "x", (1, 1), 50.0, 12.299_999_999_999_997),
    ]));
    let rows: Vec<_> = summary.names.iter().map(|row| (row.name.as_str(), row.total_ns, row.self_ns)).collect();
    assert_eq!(rows, [("b", 20_000, 20_000), ("x", 12_300, 12_300), ("a", 30_000, 10_000)]);
    assert_eq!((summary.events.untimed, summary.events.crossing), (2, 0));
}

#[test]
fn gpu_time_is_busy_idle_and_overlapped() {
    let summary = of(&document(&[
        slice("user_annotation", "ProfilerStep#7", (1, 1), 0.0, 50.0),
        slice("gpu_user_annotation", "ProfilerStep#7", (0, 107), 0.0, 500.0),
        slice("user_annotation", "ProfilerStep#8", (1, 1), 50.0, 60.0),
        kernel("gemm", 7, 10.0, 20.0),
        kernel("ncclDevKernel_AllReduce", 20, 25.0, 15.0),
        kernel("gemm", 7, 45.0, 10.0),
        slice("gpu_memcpy", "Memcpy HtoD", (0, 14), 70.0, 5.0),
    ]));
    let rank = &summary.ranks[0];
    assert_eq!((rank.rank, rank.span_ns, rank.gpu_span_ns), (3, 500_000, 65_000));
    let gpu = rank.gpu;
    assert_eq!((gpu.activities, gpu.busy_ns, gpu.idle_ns), (4, 45_000, 20_000));
    assert_eq!((gpu.compute_ns, gpu.communication_ns, gpu.memory_ns, gpu.overlap_ns), (30_000, 15_000, 5_000, 5_000));
    let steps: Vec<_> = summary
        .steps
        .iter()
        .map(|s| (s.step, s.duration_ns, s.gpu.activities, s.gpu.busy_ns, s.gpu.idle_ns, s.gpu.overlap_ns))
        .collect();
    assert_eq!(steps, [(7, 50_000, 3, 35_000, 15_000, 5_000), (8, 60_000, 1, 10_000, 50_000, 0)]);
    let streams: Vec<_> = summary.streams.iter().map(|s| (s.stream.as_str(), s.busy_ns, s.span_ns)).collect();
    assert_eq!(streams, [("7", 30_000, 45_000), ("20", 15_000, 15_000), ("14", 5_000, 5_000)]);
    let gaps: Vec<_> = summary
        .gaps
        .iter()
        .map(|gap| (gap.stream.as_deref(), gap.start_ns, gap.duration_ns, gap.after.as_str(), gap.before.as_str()))
        .collect();
    assert_eq!(
        gaps,
        [
            (Some("7"), 30_000, 15_000, "gemm", "gemm"),
            (None, 55_000, 15_000, "gemm", "Memcpy HtoD"),
            (None, 40_000, 5_000, "ncclDevKernel_AllReduce", "gemm"),
        ]
    );
}

#[test]
fn memory_peaks_with_stated_totals_and_without() {
    let kineto = |ts: f64, bytes: i64, total: i64| {
        json!({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts,
            "args": {"Device Type": 1, "Device Id": 0, "Addr": 5, "Bytes": bytes, "Total Allocated": total,
                "Total Reserved": 4096}})
    };
    let ours = |ts: f64, bytes: i64, kind: &str| {
        json!({"ph": "X", "cat": "user_annotation", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "dur": 0.001,
            "args": {"Bytes": bytes, "Allocation Type": kind, "Device": "cuda:1"}})
    };
    let summary = of(&document(&[
        kineto(3.0, -100, 900),
        kineto(1.0, 100, 1000),
        kineto(2.0, 50, 1050),
        ours(4.0, 10, "alloc"),
        ours(6.0, 10, "free"),
        ours(5.0, 20, "alloc"),
        ours(7.0, 5, "alloc"),
    ]));
    let rows: Vec<_> = summary
        .memory
        .iter()
        .map(|m| (m.device.as_str(), m.peak_bytes, m.peak_at_ns, m.peak_reserved_bytes, m.allocations, m.frees))
        .collect();
    assert_eq!(rows, [("cuda:0", 1050, 2_000, Some(4096), 2, 1), ("cuda:1", 30, 5_000, None, 3, 1)]);
    assert_eq!(summary.events.memory, 7);
    assert!(summary.names.is_empty(), "memory events are no slices: {:?}", summary.names);
}

#[test]
fn ranks_of_merged_documents_are_told_apart() {
    let name = |pid: u64, name: &str| json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}});
    let events = [
        slice("cpu_op", "a", (10_000_001, 1), 0.0, 1.0),
        slice("cpu_op", "a", (30_000_001, 1), 0.0, 2.0),
        slice("cpu_op", "a", (7, 1), 0.0, 4.0),
        name(7, "rank 12: train.py"),
    ];
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let merged = |head: &str| format!("{{{head}, \"traceEvents\": [{}]}}", lines.join(","));
    let ranks = |text: &str| of(text).ranks.iter().map(|rank| (rank.rank, rank.span_ns)).collect::<Vec<_>>();
    let tens = merged("\"distributedInfo\": {\"merged_ranks\": [1, 3]}");
    assert_eq!(ranks(&tens), [(1, 1000), (3, 2000), (12, 4000)]);
    let blocks = merged(
        "\"distributedInfo\": {\"merged_ranks\": [5, 6]}, \
         \"ranks\": [{\"rank\": 5, \"pid_base\": 10000000}, {\"rank\": 6, \"pid_base\": 20000000}]",
    );
    assert_eq!(ranks(&blocks), [(5, 1000), (6, 2000), (12, 4000)]);
    // Several documents: each its own; one that does not say is taken by its place.
    let options = SummaryOptions::default();
    let two = vec![input("a", "[]"), input("b", "[{\"ph\": \"X\", \"ts\": 0, \"dur\": 1, \"pid\": 1, \"tid\": 1}]")];
    let two = summarize(two, &options, None).expect("a summary");
    assert_eq!((two.ranks[0].file, two.ranks[0].rank, two.files[1].rank_stated), (1, 1, false));
}

#[test]
fn gzip_white_space_and_metadata_at_the_end_make_no_difference() {
    let events = [slice("cpu_op", "a", (1, 1), 0.0, 5.0), kernel("k", 7, 1.0, 2.0)];
    let plain = of(&document(&events));
    let pretty = serde_json::to_string_pretty(&json!({"traceEvents": events})).expect("JSON");
    let pretty = format!("{}, \"distributedInfo\": {{\"rank\": 3}}\n}}", pretty.trim_end().trim_end_matches('}'));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(pretty.as_bytes()).expect("written");
    let reader = Box::new(Cursor::new(packed.finish().expect("gzip")));
    let packed = vec![Input::Reader { name: "trace".into(), reader }];
    assert_eq!(summarize(packed, &SummaryOptions::default(), None).expect("a summary"), plain);
}

#[test]
fn damage_is_an_error_or_is_passed_by() {
    let text = document(&[slice("cpu_op", "a", (1, 1), 0.0, 5.0), slice("cpu_op", "b", (1, 1), 9.0, 5.0)]);
    let cut = &text[..text.len() - 30];
    let error = summarize(vec![input("cut", cut)], &SummaryOptions::default(), None).expect_err("damage");
    assert!(matches!(&error, Error::Malformed { offset, .. } if *offset == cut.len() as u64), "{error}");
    let options = SummaryOptions { salvage: true, ..SummaryOptions::default() };
    let saved = summarize(vec![input("cut", cut)], &options, None).expect("a summary");
    assert_eq!((saved.names.len(), saved.files[0].damage.len()), (1, 1));
    let stopped = summarize(vec![input("whole", &text)], &options, Some(&mut |_, _| false));
    assert!(matches!(stopped, Err(Error::Cancelled)));
}

#[test]
fn json_that_is_no_trace_is_said_to_be_none() {
    assert_eq!(of("{\"profiles\": []}").warnings, ["trace: there is no \"traceEvents\" in it"]);
    assert!(of("{\"traceEvents\": []}").warnings.is_empty());
}

#[test]
fn two_traces_are_compared_by_name() {
    let old = of(&document(&[slice("cpu_op", "a", (1, 1), 0.0, 5.0), slice("cpu_op", "gone", (1, 1), 9.0, 1.0)]));
    let new = of(&document(&[slice("cpu_op", "a", (1, 1), 0.0, 2.0), slice("cpu_op", "new", (1, 1), 9.0, 2.0)]));
    let comparison = compare(&old, &new);
    let rows: Vec<_> = comparison.names.iter().map(|row| (row.name.as_str(), row.delta_ns)).collect();
    assert_eq!(rows, [("a", -3_000), ("new", 2_000), ("gone", -1_000)]);
    let text = comparison.to_text(&TextOptions::default());
    assert!(text.contains("-60.0%") && text.contains("gone") && text.contains("new"), "{text}");
}

#[test]
fn tables_are_for_people_and_json_for_machines() {
    let name = format!("evil \u{1b}[2J {}", "x".repeat(300));
    let summary = of(&document(&[slice("cpu_op", &name, (1, 1), 0.0, 5.0), kernel("k", 7, 1.0, 2.0)]));
    let plain = summary.to_text(&TextOptions::default());
    assert!(!plain.contains('\u{1b}') && plain.contains(&"x".repeat(300)), "{plain}");
    let narrow = summary.to_text(&TextOptions { top: 1, colour: true, width: Some(80) });
    assert!(narrow.contains("\u{1b}[1m") && narrow.contains("..."), "{narrow}");
    let json: Value = serde_json::from_str(&summary.to_json()).expect("JSON");
    assert_eq!(json["names"][0]["kind"], "op");
    assert_eq!(json["names"][0]["self_ns"], 5000);
    assert_eq!(json["ranks"][0]["gpu"]["busy_ns"], 2000);
}

/// The same numbers, slowly: each nanosecond of a lane belongs to the innermost slice.
fn model(events: &[(u8, u8, i64, i64)]) -> BTreeMap<String, (u64, u64, u64)> {
    let mut rows: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for lane in 0..3 {
        let mut mine: Vec<_> = events.iter().copied().filter(|event| event.0 == lane).collect();
        // Stable: of two alike the later one is the inner one.
        mine.sort_by_key(|&(_, _, ts, dur)| (ts, std::cmp::Reverse(dur)));
        for &(_, name, _, dur) in &mine {
            let row = rows.entry(format!("n{name}")).or_default();
            (row.0, row.1) = (row.0 + 1, row.1 + dur as u64);
        }
        for ns in 0..200 {
            let inner = mine.iter().rev().find(|&&(_, _, ts, dur)| ts <= ns && ns < ts + dur);
            if let Some(&(_, name, ..)) = inner {
                rows.entry(format!("n{name}")).or_default().2 += 1;
            }
        }
    }
    rows
}

/// How long any of some intervals runs.
fn union<'e>(events: impl Iterator<Item = &'e (u8, u8, i64, i64)> + Clone) -> u64 {
    (0..200).filter(|&ns| events.clone().any(|&(_, _, ts, dur)| ts <= ns && ns < ts + dur)).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn numbers_equal_those_of_a_slow_model(
        events in proptest::collection::vec((0u8..3, 0u8..5, 0i64..100, 0i64..60), 0..60),
        gpu in proptest::collection::vec((0u8..3, 0u8..3, 0i64..100, 0i64..60), 0..40),
        threads in 1usize..4,
        sort_bytes in prop_oneof![Just(32usize << 20), Just(0), 300usize..3000],
    ) {
        let us = |ns: i64| ns as f64 / 1000.0;
        let work = ["gemm", "ncclKernel", "Memcpy DtoH"];
        let mut all: Vec<Value> = events.iter()
            .map(|&(lane, name, ts, dur)| slice("x", &format!("n{name}"), (1, i64::from(lane) + 1), us(ts), us(dur)))
            .collect();
        all.extend(gpu.iter().map(|&(stream, name, ts, dur)| kernel(work[name as usize], i64::from(stream), us(ts), us(dur))));
        // With little memory through temporary files, which makes no difference.
        let limits = Limits { sort_bytes, ..Limits::default() };
        let options = SummaryOptions { threads, limits, ..SummaryOptions::default() };
        let summary = summarize(vec![input("t", &document(&all))], &options, None).expect("a summary");
        let rows: BTreeMap<String, (u64, u64, u64)> = summary.names.iter()
            .filter(|row| row.category == "x")
            .map(|row| (row.name.clone(), (row.count, row.total_ns, row.self_ns)))
            .collect();
        prop_assert_eq!(rows, model(&events));
        for row in summary.names.iter().filter(|row| row.category == "x") {
            let durations = || events.iter().filter(|event| format!("n{}", event.1) == row.name).map(|event| event.3 as u64);
            prop_assert_eq!(Some((row.min_ns, row.max_ns)), durations().min().zip(durations().max()));
        }
        let of = |kind: u8| gpu.iter().filter(move |event| event.1 == kind);
        if let Some(rank) = summary.ranks.first() {
            prop_assert_eq!(rank.gpu.busy_ns, union(gpu.iter()));
            prop_assert_eq!(rank.gpu.compute_ns, union(of(0)));
            prop_assert_eq!(rank.gpu.communication_ns, union(of(1)));
            prop_assert_eq!(rank.gpu.memory_ns, union(of(2)));
            let at = |kind: u8, ns: i64| of(kind).any(|&(_, _, ts, dur)| ts <= ns && ns < ts + dur);
            prop_assert_eq!(rank.gpu.overlap_ns, (0..200).filter(|&ns| at(0, ns) && at(1, ns)).count() as u64);
        }
        for stream in &summary.streams {
            let number: u8 = stream.stream.parse().expect("a stream");
            prop_assert_eq!(stream.busy_ns, union(gpu.iter().filter(|event| event.0 == number)));
        }
    }
}

#[test]
fn hostile_nesting_takes_no_forever() {
    // Each slice crosses all before it, deeper than any stack is kept.
    let mut text = String::from("[");
    for index in 0..60_000 {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&format!(
            "{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"a\",\"ts\":{index},\"dur\":{}}}",
            100_000 + index
        ));
    }
    text.push(']');
    let summary = of(&text);
    assert_eq!((summary.events.slices, summary.names[0].count), (60_000, 60_000));
    assert!(summary.events.crossing > 0);
}
