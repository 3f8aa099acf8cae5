//! docs/formats.md names everything that a document has.

use std::collections::BTreeSet;

use tptrace::output::Target;
use tptrace::record::{Async, Flow, Name};
use tptrace::{
    Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuDetails, GpuKind, Inputs, Instant, Int, MemoryEvent, Op,
    OpKind, RankWorld, Sample, Text, Trace,
};

/// A trace with events of every kind, each with all that it can have.
fn everything() -> Trace {
    let trace = Trace::default();
    trace.set_rank(RankWorld { rank: Some(3), world_size: Some(8) });
    for (number, kind) in (0..).zip([OpKind::Op, OpKind::UserAnnotation, OpKind::Backward]) {
        let op = Op {
            name: Text(b"op"),
            kind,
            start_ns: trace.base_ns() + number * 1000,
            end_ns: trace.base_ns() + number * 1000 + 900,
            id: Some(number as u64),
            inputs: Some(Inputs { dims: &[2], ranks: &[1], dtypes: Dtypes::Codes(&[0]) }),
            call_site: Text(b"here"),
            gpu_ms: Some(1.5),
            kernel_count: 1,
            output_bytes: 4,
            stack: &[Text(b"main")],
            ..Op::default()
        };
        trace.add_op(&op).expect("added");
    }
    use GpuKind::{Driver, Kernel, Memcpy, Memset, Overhead, Runtime, Sync};
    for (number, kind) in (0..).zip([Runtime, Driver, Kernel, Memcpy, Memset, Sync, Overhead]) {
        let details = GpuDetails {
            grid: Some([1; 3]),
            block: Some([2; 3]),
            registers_per_thread: Some(1),
            shared_memory: Some(1),
            context: Some(1),
            graph_id: Some(1),
            graph_node_id: Some(1),
            priority: Some(1),
            channel: Some([1; 2]),
            cluster: Some([1; 3]),
            peer: Some([1; 4]),
            event: Some(1),
            result: Some(1),
        };
        let activity = GpuActivity {
            name: Text(b"work"),
            kind,
            start_ns: trace.base_ns() + 5000 + number * 1000,
            end_ns: trace.base_ns() + 5900 + number * 1000,
            correlation_id: Int::Unsigned(1),
            external_id: Some(Int::Unsigned(1)),
            bytes: Int::Unsigned(64),
            details,
            ..GpuActivity::default()
        };
        trace.add_gpu(&activity).expect("added");
    }
    let (time_ns, args) = (trace.base_ns(), &[][..]);
    let memory =
        MemoryEvent { time_ns, address: 1, bytes: 2, allocated: true, cuda_device: Some(0), thread_id: 1, args };
    trace.add_memory(&memory).expect("added");
    trace.add_sample(&Sample { time_ns, os_thread: 1, stack: &[Text(b"main")], args }).expect("added");
    let values = &[tptrace::Arg { key: Text(b"value"), value: tptrace::Value::Int(1) }];
    trace.add_counter(&Counter { name: Text(b"counter"), time_ns, values }).expect("added");
    let instant = Instant { name: Text(b"instant"), time_ns, args, ..Instant::default() };
    trace.add_instant(&instant).expect("added");
    let name = Name::new("live", "user_annotation").expect("interned");
    drop(trace.span(name));
    for what in [Async::Begin, Async::End] {
        trace.record_async(what, name, 1);
    }
    for what in [Flow::Start, Flow::Step, Flow::End] {
        trace.record_flow(what, name, 2);
    }
    trace
}

/// What stands between backticks.
fn named() -> BTreeSet<&'static str> {
    include_str!("../docs/formats.md").split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_page_names_every_event_argument_and_key() {
    let named = named();
    let mut missing = BTreeSet::new();
    let mut look = |what: &str| {
        if !named.contains(what) {
            missing.insert(what.to_owned());
        }
    };
    let mut kinds = BTreeSet::new();
    for format in [Format::Plain, Format::Torch] {
        let mut bytes = Vec::new();
        let options = ExportOptions { format, ..ExportOptions::default() };
        everything().write_to(Target::Writer(&mut bytes), &options, None).expect("written");
        let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        document.as_object().expect("an object").keys().filter(|&key| key != "traceEvents").for_each(|key| look(key));
        for event in document["traceEvents"].as_array().expect("events") {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            kinds.insert((text("ph"), text("cat")));
            look(&text("ph"));
            match text("ph").as_str() {
                "M" => look(&text("name")),
                "C" => continue,
                _ if event["cat"].is_null() => look(&text("name")),
                _ => look(&text("cat")),
            }
            event["args"].as_object().into_iter().flatten().for_each(|(key, _)| look(key));
        }
    }
    assert!(missing.is_empty(), "docs/formats.md does not name {missing:?}");
    // Were one of these not made, the page could name it for nothing.
    assert_eq!(kinds.len(), 23, "{kinds:?}");
}
