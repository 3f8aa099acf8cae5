//! Perfetto's format, written and converted to, as an independent reader sees it.

mod reader;

use std::io::Read;

use proptest::prelude::*;
use tptrace::merge::Input;
use tptrace::merge::convert::{ConvertReport, ConvertTo, convert};
use tptrace::output::{Compression, Target, WriteOptions};
use tptrace::{
    Arg, Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuKind, Inputs, Instant, InstantScope, Int, MemoryEvent,
    Op, Sample, Trace, TraceOptions, Value,
};

fn trace() -> Trace {
    let trace = Trace::new(&TraceOptions { base_ns: Some(1_000), ..TraceOptions::default() });
    trace.set_process_name("p");
    trace
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = ExportOptions { format: Format::Perfetto, ..ExportOptions::default() };
    trace.write_to(Target::Writer(&mut bytes), &options, None).expect("written");
    bytes
}

fn converted(json: &str) -> tptrace::Result<(Vec<u8>, ConvertReport)> {
    let mut bytes = Vec::new();
    let input = Input::Reader { name: "t.json".into(), reader: Box::new(std::io::Cursor::new(json.to_owned())) };
    let target = Target::Writer(&mut bytes);
    let report = convert(input, target, ConvertTo::Perfetto, &WriteOptions::default(), None)?;
    Ok((bytes, report))
}

#[test]
fn every_kind_of_event_is_there() {
    let trace = trace();
    let values =
        [Arg { key: "n".into(), value: Value::Int(-5) }, Arg { key: "x".into(), value: Value::Float(f64::NAN) }];
    let inputs = Inputs { dims: &[2, 3, 4], ranks: &[2, 1], dtypes: Dtypes::Codes(&[8, 99]) };
    trace
        .add_op(&Op {
            name: "op".into(),
            start_ns: 2_000,
            end_ns: 9_000,
            thread_id: 7,
            inputs: Some(inputs),
            call_site: "a.py:1".into(),
            stack: &["inner".into(), "outer".into()],
            args: &values,
            ..Op::default()
        })
        .expect("added");
    let work = GpuActivity {
        stream: 3,
        correlation_id: Int::Unsigned(9),
        external_id: Some(Int::Unsigned(0)),
        ..GpuActivity::default()
    };
    let call = GpuActivity {
        name: "launch".into(),
        kind: GpuKind::Runtime,
        start_ns: 3_000,
        end_ns: 3_500,
        os_thread: 7,
        ..work
    };
    trace.add_gpu(&call).expect("added");
    trace.add_gpu(&GpuActivity { name: "kernel".into(), start_ns: 4_000, end_ns: 5_000, ..work }).expect("added");
    // The GPU's clock runs ahead: the arrow ends with the activity.
    let early =
        GpuActivity { name: "early".into(), start_ns: 1_500, end_ns: 2_500, correlation_id: Int::Unsigned(10), ..work };
    trace.add_gpu(&early).expect("added");
    trace
        .add_memory(&MemoryEvent { time_ns: 8_999, bytes: 64, allocated: true, thread_id: 7, ..MemoryEvent::default() })
        .expect("added");
    // Begins where the memory event ends: it is not inside.
    trace
        .add_op(&Op { name: "next".into(), start_ns: 9_000, end_ns: 9_000, thread_id: 7, ..Op::default() })
        .expect("added");
    trace
        .add_sample(&Sample { time_ns: 4_500, os_thread: 7, stack: &["f".into(), "g".into()], args: &[] })
        .expect("added");
    let value =
        [Arg { key: "used".into(), value: Value::Float(1.5) }, Arg { key: "free".into(), value: Value::Int(-2) }];
    trace.add_counter(&Counter { name: "memory".into(), time_ns: 6_000, values: &value }).expect("added");
    for scope in [InstantScope::Thread, InstantScope::Process, InstantScope::Global] {
        trace
            .add_instant(&Instant { name: "now".into(), time_ns: 7_000, thread_id: 7, scope, args: &[] })
            .expect("added");
    }
    let seen = reader::read(&written(&trace));
    assert_eq!(seen.unmatched_ends, 0);
    let find = |name: &str| seen.slices.iter().find(|slice| slice.name == name).expect("a slice");
    let op = find("op");
    assert_eq!(
        (op.lane.as_str(), op.start, op.end, op.category.as_str()),
        ("p/thread 7", 1_000, Some(8_000), "cpu_op")
    );
    let args = [
        "Call site=\"a.py:1\"",
        "Call stack=\"inner;\\nouter\"",
        "External id=0",
        "Input Dims=\"[[2,3],[4]]\"",
        "Input type=\"[\\\"float32\\\",\\\"undefined\\\"]\"",
        "n=-5",
        "x=\"NaN\"",
    ];
    assert_eq!(op.args, args);
    assert_eq!(op.flows.len(), 2);
    assert_eq!((find("kernel").lane.as_str(), find("kernel").flows.clone()), ("p/stream 3", vec![op.flows[0]]));
    assert_eq!((find("launch").flows.clone(), find("early").flows.clone()), (vec![op.flows[0]], vec![op.flows[1]]));
    assert_eq!((find("[memory]").depth, find("[memory]").end), (1, Some(8_000)));
    assert_eq!((find("next").depth, find("next").start, find("next").end), (0, 8_000, Some(8_001)));
    assert_eq!(seen.counters, [("p/memory used".to_owned(), 5_000, 1.5), ("p/memory free".to_owned(), 5_000, -2.0)]);
    let instants: Vec<_> = seen.instants.iter().map(|one| (one.name.as_str(), one.start)).collect();
    assert_eq!(instants, [("f", 3_500), ("now", 6_000)]);
    assert_eq!(seen.instants[0].args, ["stack=\"[\\\"f\\\",\\\"g\\\"]\""]);
    // The two instants of more than a thread, and the end of the document.
    assert_eq!(seen.legacy, ['i', 'i', 'i']);
}

#[test]
fn options_that_do_not_go_with_it_are_refused() {
    for (as_reference, separate_overlaps) in [(true, true), (false, false)] {
        let options =
            ExportOptions { format: Format::Perfetto, as_reference, separate_overlaps, ..ExportOptions::default() };
        let mut bytes = Vec::new();
        let error = trace().write_to(Target::Writer(&mut bytes), &options, None).expect_err("refused");
        assert!(error.to_string().contains("Perfetto") && bytes.is_empty(), "{error}");
    }
}

#[test]
fn what_cannot_be_converted_is_counted() {
    let json = r#"{"schemaVersion": 1, "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "main"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": "t", "args": {"name": "lane"}},
        {"ph": "X", "name": "a", "cat": "c", "pid": 0, "tid": "t", "ts": 1.001, "dur": "2.5", "args": {"l": [1, "x y"], "n": null, "b": true, "f": 1.0, "u": 18446744073709551615}},
        {"ph": "X", "name": "no time", "pid": 0, "tid": 1, "dur": 1},
        {"ph": "X", "name": "before 0", "pid": 0, "tid": 1, "ts": -5, "dur": 1},
        {"ph": "B", "name": "b", "pid": -3, "tid": 5000000000, "ts": 10}, {"ph": "E", "pid": -3, "tid": 5000000000, "ts": 12, "args": {"late": 1}},
        {"ph": "E", "pid": -3, "tid": 5000000000, "ts": 13},
        {"ph": "C", "name": "count", "pid": 0, "ts": 3, "args": {"v": "4.5"}}, {"ph": "C", "name": "count", "pid": 0, "ts": 3, "args": {"v": "?"}},
        {"ph": "s", "id": "0x1f", "name": "f", "cat": "f", "pid": 0, "tid": "t", "ts": 2}, {"ph": "f", "bp": "e", "id": {}, "name": "f", "pid": 0, "tid": "t", "ts": 2.5},
        {"ph": "b", "id2": {"local": 7}, "name": "async", "cat": "c", "pid": 0, "tid": 1, "ts": 1},
        {"ph": "Q"}, {"ph": "Q"}, 5, {}
    ]}"#;
    let (bytes, report) = converted(json).expect("converted");
    let seen = reader::read(&bytes);
    assert_eq!(report.unknown.get("Q"), Some(&2));
    assert_eq!((report.unusable, report.unmatched_ends, report.events), (5, 1, 17));
    assert_eq!(seen.unmatched_ends, 0);
    let shown: Vec<_> =
        seen.slices.iter().map(|one| (one.lane.as_str(), one.name.as_str(), one.start, one.end)).collect();
    assert_eq!(shown, [("main/lane", "a", 1_001, Some(3_501)), ("-3/5000000000", "b", 10_000, Some(12_000))]);
    assert_eq!(seen.slices[0].args, ["b=true", "f=1.0", "l=\"[1,\\\"x y\\\"]\"", "u=18446744073709551615"]);
    assert_eq!(seen.counters, [("main/count v".to_owned(), 3_000, 4.5)]);
    assert_eq!(seen.legacy, ['b', 's', 'f', 'i']);
}

#[test]
fn phases_that_are_no_text_are_counted() {
    let json = r#"[{"ph": 7, "ts": 1}, {"ph": 1e5, "ts": 1, "id": 1}, {"ph": 17.5}, {"ph": null}, {"ph": ""}, {"ph": {"a": 1}}]"#;
    let (bytes, report) = converted(json).expect("converted");
    let unknown: Vec<_> = report.unknown.iter().map(|(phase, &count)| (phase.as_str(), count)).collect();
    assert_eq!(unknown, [("", 1), ("17.5", 1), ("1e5", 1), ("7", 1), ("null", 1), ("{\"a\": 1}", 1)]);
    let seen = reader::read(&bytes);
    assert!(seen.slices.is_empty() && seen.legacy.is_empty(), "{seen:?}");
}

#[test]
fn damage_is_an_error_that_names_the_byte() {
    for json in
        ["", "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1", "{\"traceEvents\": [{\"ph\" \"X\"}]}", "\x0a\x05hello"]
    {
        let error = converted(json).expect_err("refused").to_string();
        assert!(error.contains("t.json"), "{error}");
    }
}

#[test]
fn json_is_copied_and_compressed() {
    let folder = tempfile::tempdir().expect("scratch");
    let json = r#"{"traceEvents": [ {"ph": "i", "ts": 1.50} ]}  "#;
    let (plain, gz, back) =
        (folder.path().join("a.json"), folder.path().join("b.json.gz"), folder.path().join("c.json"));
    std::fs::write(&plain, json).expect("written");
    let write = WriteOptions { compression: Compression::Auto, ..WriteOptions::default() };
    convert(Input::Path(plain), Target::File(&gz), ConvertTo::Json, &write, None).expect("compressed");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&gz).expect("a file")).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, json);
    convert(Input::Path(gz), Target::File(&back), ConvertTo::Json, &write, None).expect("inflated");
    assert_eq!(std::fs::read_to_string(back).expect("a file"), json);
}

/// Slices of a few lanes: start, length, lane.
fn slices() -> impl Strategy<Value = Vec<(i64, i64, u64)>> {
    proptest::collection::vec((0i64..60, 0i64..30, 1u64..3), 0..60)
}

/// What an independent reader sees of them: each exactly, on its lane or on one beside it.
fn check(seen: &reader::Seen, slices: &[(i64, i64, u64)], shortest: i64) -> Result<(), TestCaseError> {
    prop_assert_eq!(seen.unmatched_ends, 0);
    let mut got: Vec<_> = seen
        .slices
        .iter()
        .chain(&seen.instants)
        .map(|slice| {
            let lane = slice.lane.split(" (overlap").next().unwrap_or_default().to_owned();
            (slice.name.clone(), slice.start as i64, slice.end.unwrap_or(slice.start) as i64, lane)
        })
        .collect();
    let mut expected: Vec<_> = (0..)
        .zip(slices)
        .map(|(n, &(start, length, lane))| {
            (format!("s{n}"), start, start + length.max(shortest), format!("p/thread {lane}"))
        })
        .collect();
    got.sort();
    expected.sort();
    prop_assert_eq!(got, expected);
    Ok(())
}

proptest! {
    #[test]
    fn slices_of_a_trace_come_back(slices in slices()) {
        let trace = trace();
        for (n, &(start, length, thread_id)) in (0..).zip(&slices) {
            let name = format!("s{n}");
            let (start_ns, end_ns) = (1_000 + start, 1_000 + start + length);
            trace.add_op(&Op { name: name.as_str().into(), start_ns, end_ns, thread_id, ..Op::default() }).expect("added");
        }
        check(&reader::read(&written(&trace)), &slices, 1)?;
    }

    #[test]
    fn slices_of_a_document_come_back(slices in slices()) {
        let mut events = vec![r#"{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "p"}}"#.to_owned()];
        for lane in 1..3 {
            events.push(format!(r#"{{"ph": "M", "name": "thread_name", "pid": 0, "tid": {lane}, "args": {{"name": "thread {lane}"}}}}"#));
        }
        for (n, (start, length, lane)) in (0..).zip(&slices) {
            events.push(format!(
                r#"{{"ph": "X", "name": "s{n}", "pid": 0, "tid": {lane}, "ts": {}.{:03}, "dur": {}.{:03}}}"#,
                start / 1000, start % 1000, length / 1000, length % 1000,
            ));
        }
        let (bytes, report) = converted(&format!("[{}]", events.join(",\n"))).expect("converted");
        prop_assert_eq!((report.unusable, report.overlaps_left), (0, 0));
        check(&reader::read(&bytes), &slices, 0)?;
    }

    #[test]
    fn no_event_is_too_odd(events in proptest::collection::vec(
        ("[XBEibnestfCMQ]", "(-?(0|[1-9][0-9]{0,3})|\"[0-9a-z]{0,3}\"|null|1e3|\\[\\])", "(-?(0|[1-9][0-9]{0,24})(\\.[0-9]{0,5}1)?|\"1\\.5\"|null)", "(\\{\"a\":[0-9]\\}|\\[1\\]|\\{\\}|7|\\{\"name\":\"n\",\"sort_index\":-1\\})"),
        0..40,
    )) {
        let events: Vec<String> = events
            .iter()
            .map(|(phase, id, time, args)| format!(
                r#"{{"ph": "{phase}", "pid": {id}, "tid": {id}, "id": {id}, "ts": {time}, "dur": {time}, "name": "thread_name", "args": {args}}}"#
            ))
            .collect();
        let (bytes, report) = converted(&format!("[{}]", events.join(","))).expect("converted");
        prop_assert_eq!(report.events as usize, events.len());
        prop_assert_eq!(reader::read(&bytes).unmatched_ends, 0);
    }
}

/// Threads that were recorded live have the system's numbers, which leave gaps; calls share the lanes of their threads.
#[test]
fn live_threads_are_lanes_by_their_own_numbers() {
    let trace = trace();
    let name = tptrace::record::Name::new("live", "").expect("named");
    let number = || -> u64 {
        let own = std::fs::read_link("/proc/thread-self").expect("linked");
        own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
    };
    let others = std::thread::scope(|scope| {
        let thread = || {
            scope.spawn(|| {
                drop(trace.span(name));
                number()
            })
        };
        [thread(), thread()].map(|thread| thread.join().expect("no panic"))
    });
    drop(trace.span(name));
    let at = tptrace::monotonic_ns();
    let work = GpuActivity {
        start_ns: at,
        end_ns: at + 100,
        stream: 3,
        correlation_id: Int::Unsigned(9),
        ..GpuActivity::default()
    };
    let call = GpuActivity { name: "launch".into(), kind: GpuKind::Runtime, os_thread: number(), ..work };
    trace.add_gpu(&call).expect("added");
    trace.add_gpu(&GpuActivity { name: "kernel".into(), start_ns: at + 200, end_ns: at + 300, ..work }).expect("added");
    trace
        .add_counter(&Counter {
            name: "c".into(),
            time_ns: at,
            values: &[Arg { key: "v".into(), value: Value::Int(1) }],
        })
        .expect("added");
    for number in others.into_iter().chain([number()]) {
        trace.set_thread_name(number, &format!("t{number}"));
    }
    let seen = reader::read(&written(&trace));
    let lanes = |name: &str| -> Vec<&str> {
        seen.slices.iter().filter(|slice| slice.name == name).map(|slice| slice.lane.as_str()).collect()
    };
    let live: std::collections::HashSet<&str> = lanes("live").into_iter().collect();
    assert_eq!((live.len(), lanes("live").len(), seen.unmatched_ends), (3, 3, 0), "{live:?} {others:?}");
    assert!(lanes("launch").len() == 1 && live.contains(lanes("launch")[0]), "{live:?} {:?}", lanes("launch"));
    assert!(lanes("kernel").len() == 1 && !live.contains(lanes("kernel")[0]), "{live:?} {:?}", lanes("kernel"));
    assert_eq!(seen.counters.len(), 1);
}

#[test]
fn a_document_of_counters_alone_has_no_lane() {
    let json = r#"{"traceEvents": [{"ph": "C", "name": "c", "pid": 1, "ts": 5, "args": {"v": 2}}]}"#;
    let (bytes, report) = converted(json).expect("converted");
    assert_eq!((report.events, reader::read(&bytes).counters.len()), (1, 1));
}

/// A lane is written in pieces, which threads print at the same time.
#[test]
fn slices_that_are_open_for_long_go_on_from_piece_to_piece() {
    let trace = trace();
    // More than two pieces of one lane, and a few slices that are open for more than one of them.
    let count = 150_000;
    let mut expected = Vec::new();
    let mut add = |name: String, start: i64, length: i64, thread_id: u64| {
        let (start_ns, end_ns) = (1_000 + start, 1_000 + start + length);
        trace.add_op(&Op { name: name.as_str().into(), start_ns, end_ns, thread_id, ..Op::default() }).expect("added");
        expected.push((name, start as u64, Some((start + length) as u64), format!("p/thread {thread_id}")));
    };
    for level in 0..5 {
        add(format!("outer {level}"), level, count * 100 + 1_000 - 2 * level, 1);
    }
    for i in 0..count {
        let length = if i % 50_000 == 7 { 4_000_000 } else { 90 };
        add(format!("inner {}", i % 3), 10 + i * 100, length, 1);
        if i % 10_000 == 0 {
            add("other".to_owned(), i, 5, 2 + (i % 3) as u64);
        }
    }
    let seen = reader::read(&written(&trace));
    let mut got: Vec<_> =
        seen.slices.into_iter().map(|slice| (slice.name, slice.start, slice.end, slice.lane)).collect();
    got.sort();
    expected.sort();
    assert!(got == expected, "{:?}", got.iter().zip(&expected).find(|(got, expected)| got != expected));
    assert_eq!(seen.unmatched_ends, 0);
}

#[test]
fn a_slice_ends_with_the_one_around_it() {
    let json = r#"[{"ph": "X", "name": "around", "ts": 0, "dur": 10}, {"ph": "B", "name": "longer", "ts": 5},
        {"ph": "X", "name": "inside", "ts": 6, "dur": 2}, {"ph": "E", "ts": 20}, {"ph": "X", "name": "after", "ts": 30, "dur": 1}]"#;
    let (bytes, report) = converted(json).expect("converted");
    assert_eq!((report.truncated, report.unmatched_ends, report.overlaps_moved), (1, 1, 0));
    let seen = reader::read(&bytes);
    let spans: Vec<_> = seen.slices.iter().map(|slice| (slice.name.as_str(), slice.start, slice.end)).collect();
    let expected = [
        ("around", 0, Some(10_000)),
        ("longer", 5_000, Some(10_000)),
        ("inside", 6_000, Some(8_000)),
        ("after", 30_000, Some(31_000)),
    ];
    assert_eq!(spans, expected);
}

#[test]
fn an_end_is_of_the_begin_that_it_names() {
    let json = r#"[{"ph": "B", "name": "a", "ts": 0}, {"ph": "B", "name": "b", "ts": 1}, {"ph": "E", "name": "none", "ts": 2},
        {"ph": "E", "name": "a", "ts": 9}, {"ph": "E", "name": "b", "ts": 9}, {"ph": "E", "name": "b", "ts": 10},
        {"ph": "B", "name": "c", "cat": "x", "ts": 20}, {"ph": "E", "cat": "y", "ts": 21}, {"ph": "E", "name": "c", "cat": "x", "ts": 25}]"#;
    let (bytes, report) = converted(json).expect("converted");
    assert_eq!((report.truncated, report.unmatched_ends), (0, 3));
    let seen = reader::read(&bytes);
    let spans: Vec<_> = seen.slices.iter().map(|slice| (slice.name.as_str(), slice.start, slice.end)).collect();
    assert_eq!(spans, [("a", 0, Some(9_000)), ("b", 1_000, Some(9_000)), ("c", 20_000, Some(25_000))]);
}

#[test]
fn flows_hang_on_the_last_slice_until_the_next_one() {
    // On one that has ended, or that has no duration, and by the name that a begin gives.
    let json = r#"[{"ph": "X", "name": "a", "pid": 3, "tid": 3, "ts": 1, "dur": 2}, {"ph": "s", "id": 1, "name": "f", "pid": 3, "ts": 7},
        {"ph": "X", "name": "z", "pid": 3, "tid": 5, "ts": 8, "dur": 0}, {"ph": "f", "bp": "e", "id": 1, "name": "f", "pid": 3, "tid": 5, "ts": 8},
        {"ph": "B", "name": "b", "pid": 3, "tid": 5, "ts": 9, "bind_id": "0x7", "flow_out": true}, {"ph": "E", "pid": 3, "tid": 5, "ts": 10}]"#;
    let (bytes, _) = converted(json).expect("converted");
    let seen = reader::read(&bytes);
    let spans: Vec<_> =
        seen.slices.iter().map(|slice| (slice.name.as_str(), slice.lane.as_str(), slice.start, slice.end)).collect();
    assert_eq!(
        spans,
        [("a", "/3", 1_000, Some(3_000)), ("z", "/5", 8_000, Some(8_000)), ("b", "/5", 9_000, Some(10_000))]
    );
    assert_eq!(seen.legacy_times, [('s', 3_000), ('f', 8_000)]);
    assert!(bytes.windows(2).any(|two| two == [0x40, 7]), "the bind id of a begin");
}
