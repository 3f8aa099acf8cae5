//! Whatever is added, what is written is strict JSON with every event in it.

use proptest::collection::vec;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use tptrace::output::{Compression, Target, WriteOptions};
use tptrace::{
    Arg, Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuDetails, GpuKind, Inputs, Instant, InstantScope, Int,
    MemoryEvent, Op, OpKind, RankWorld, Sample, Text, Trace, TraceOptions, Value,
};

/// JSON in which no object has a key twice: what serde_json alone lets pass.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Unique;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("JSON")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut keys = std::collections::HashSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    map.next_value::<Unique>()?;
                    if !keys.insert(key.clone()) {
                        return Err(serde::de::Error::custom(format!("the key {key:?} twice")));
                    }
                }
                Ok(Unique)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
                while seq.next_element::<Unique>()?.is_some() {}
                Ok(Unique)
            }
            fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_unit<E>(self) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
                Ok(Unique)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
                Ok(Unique)
            }
        }
        deserializer.deserialize_any(Walk)
    }
}

/// A key twice, a number beyond all doubles, a pair of surrogates.
const METADATA: &str = r#"{"a": 1, "a": [1e400, "\ud83d\ude00"]}"#;

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0i64..100_000, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..20, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"name".to_vec()),
        Just(Vec::new()),
        Just(b"External id".to_vec()),
        Just("\u{1F600}\u{2028}\"\\\n\0".as_bytes().to_vec()),
        vec(any::<u8>(), 0..12),
    ]
}

#[derive(Debug, Clone)]
enum AnyValue {
    Int(i64),
    Uint(u64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
}

impl AnyValue {
    fn value(&self) -> Value<'_> {
        match self {
            AnyValue::Int(value) => Value::Int(*value),
            AnyValue::Uint(value) => Value::Uint(*value),
            AnyValue::Float(value) => Value::Float(*value),
            AnyValue::Bool(value) => Value::Bool(*value),
            AnyValue::Text(text) => Value::Text(Text(text)),
        }
    }
}

type Args = Vec<(Vec<u8>, AnyValue)>;

fn args() -> impl Strategy<Value = Args> {
    let value = prop_oneof![
        any::<i64>().prop_map(AnyValue::Int),
        any::<u64>().prop_map(AnyValue::Uint),
        any::<f64>().prop_map(AnyValue::Float),
        any::<bool>().prop_map(AnyValue::Bool),
        bytes().prop_map(AnyValue::Text),
    ];
    vec((bytes(), value), 0..4)
}

fn borrowed(args: &Args) -> Vec<Arg<'_>> {
    args.iter().map(|(key, value)| Arg { key: Text(key), value: value.value() }).collect()
}

/// Dimensions, ranks, element types.
type AnyInputs = (Vec<i64>, Vec<u32>, Option<Vec<i32>>);

#[derive(Debug, Clone)]
struct AnyOp {
    name: Vec<u8>,
    kind: usize,
    times: (i64, i64),
    thread_id: u64,
    id: Option<u64>,
    inputs: Option<AnyInputs>,
    gpu_ms: Option<f64>,
    numbers: (i64, i64),
    stack: Vec<Vec<u8>>,
    args: Args,
}

#[derive(Debug, Clone)]
struct AnyGpu {
    name: Vec<u8>,
    kind: usize,
    times: (i64, i64),
    place: (i64, i64),
    ids: (Result<u64, i64>, Option<Result<u64, i64>>),
    os_thread: u64,
    details: Option<(u32, u64, i32)>,
    args: Args,
}

#[derive(Debug, Clone)]
enum Event {
    Op(AnyOp),
    Gpu(AnyGpu),
    Memory(i64, u64, i64, bool, Option<i64>, u64, Args),
    Sample(i64, u64, Vec<Vec<u8>>, Args),
    Counter(Vec<u8>, i64, Args),
    Instant(Vec<u8>, i64, u64, usize, Args),
}

fn number() -> impl Strategy<Value = Result<u64, i64>> {
    prop_oneof![id().prop_map(Ok), (i64::MIN..0).prop_map(Err)]
}

fn int(number: Result<u64, i64>) -> Int {
    number.map_or_else(Int::Negative, Int::Unsigned)
}

fn event() -> impl Strategy<Value = Event> {
    let dims = (vec(any::<i64>(), 0..6), vec(0u32..4, 0..4), proptest::option::of(vec(any::<i32>(), 0..4)));
    let op = (
        (bytes(), 0usize..3, (time(), time()), id(), proptest::option::of(id())),
        (proptest::option::of(dims), proptest::option::of(any::<f64>()), any::<(i64, i64)>()),
        (vec(bytes(), 0..3), args()),
    )
        .prop_map(|((name, kind, times, thread_id, id), (inputs, gpu_ms, numbers), (stack, args))| {
            Event::Op(AnyOp { name, kind, times, thread_id, id, inputs, gpu_ms, numbers, stack, args })
        });
    let gpu = (
        (bytes(), 0usize..5, (time(), time()), (-2i64..4, any::<i64>())),
        ((number(), proptest::option::of(number())), id(), proptest::option::of(any::<(u32, u64, i32)>()), args()),
    )
        .prop_map(|((name, kind, times, place), (ids, os_thread, details, args))| {
            Event::Gpu(AnyGpu { name, kind, times, place, ids, os_thread, details, args })
        });
    prop_oneof![
        4 => op,
        4 => gpu,
        1 => (time(), id(), any::<i64>(), any::<bool>(), proptest::option::of(any::<i64>()), id(), args())
            .prop_map(|(a, b, c, d, e, f, g)| Event::Memory(a, b, c, d, e, f, g)),
        1 => (time(), id(), vec(bytes(), 0..3), args()).prop_map(|(a, b, c, d)| Event::Sample(a, b, c, d)),
        1 => (bytes(), time(), args()).prop_map(|(a, b, c)| Event::Counter(a, b, c)),
        1 => (bytes(), time(), id(), 0usize..3, args()).prop_map(|(a, b, c, d, e)| Event::Instant(a, b, c, d, e)),
    ]
}

/// Adds one event; whether it was stored.
fn add(trace: &Trace, event: &Event) -> bool {
    match event {
        Event::Op(op) => {
            let stack: Vec<Text<'_>> = op.stack.iter().map(|frame| Text(frame)).collect();
            let inputs = op.inputs.as_ref().map(|(dims, ranks, dtypes)| Inputs {
                dims,
                ranks,
                dtypes: dtypes.as_ref().map_or(Dtypes::None, |codes| Dtypes::Codes(codes)),
            });
            let added = trace.add_op(&Op {
                name: Text(&op.name),
                kind: [OpKind::Op, OpKind::UserAnnotation, OpKind::Backward][op.kind],
                category: Text::default(),
                start_ns: op.times.0,
                end_ns: op.times.1,
                thread_id: op.thread_id,
                id: op.id,
                inputs,
                call_site: Text(&op.name),
                gpu_ms: op.gpu_ms,
                kernel_count: op.numbers.0,
                output_bytes: op.numbers.1,
                stack: &stack,
                args: &borrowed(&op.args),
            });
            added.is_ok()
        }
        Event::Gpu(gpu) => {
            use GpuKind::{Driver, Kernel, Memcpy, Memset, Runtime};
            let details = gpu.details.map_or_else(GpuDetails::default, |(small, large, signed)| GpuDetails {
                grid: Some([small; 3]),
                registers_per_thread: Some(small),
                graph_node_id: Some(large),
                priority: Some(signed),
                ..GpuDetails::default()
            });
            let activity = GpuActivity {
                name: Text(&gpu.name),
                kind: [Kernel, Memcpy, Memset, Runtime, Driver][gpu.kind],
                start_ns: gpu.times.0,
                end_ns: gpu.times.1,
                device: gpu.place.0,
                stream: gpu.place.1,
                correlation_id: int(gpu.ids.0),
                external_id: gpu.ids.1.map(int),
                os_thread: gpu.os_thread,
                bytes: int(gpu.ids.0),
                copy_kind: gpu.place.1,
                details,
                args: &borrowed(&gpu.args),
                ..GpuActivity::default()
            };
            trace.add_gpu(&activity).is_ok()
        }
        Event::Memory(time_ns, address, bytes, allocated, cuda_device, thread_id, args) => {
            let (time_ns, address, bytes, allocated) = (*time_ns, *address, *bytes, *allocated);
            let (cuda_device, thread_id, args) = (*cuda_device, *thread_id, &borrowed(args));
            trace.add_memory(&MemoryEvent { time_ns, address, bytes, allocated, cuda_device, thread_id, args }).is_ok()
        }
        Event::Sample(time_ns, os_thread, stack, args) => {
            let stack: Vec<Text<'_>> = stack.iter().map(|frame| Text(frame)).collect();
            let args = borrowed(args);
            let sample = Sample { time_ns: *time_ns, os_thread: *os_thread, stack: &stack, args: &args };
            trace.add_sample(&sample).is_ok() && !stack.is_empty()
        }
        Event::Counter(name, time_ns, values) => {
            trace.add_counter(&Counter { name: Text(name), time_ns: *time_ns, values: &borrowed(values) }).is_ok()
        }
        Event::Instant(name, time_ns, thread_id, scope, args) => trace
            .add_instant(&Instant {
                name: Text(name),
                time_ns: *time_ns,
                thread_id: *thread_id,
                scope: [InstantScope::Thread, InstantScope::Process, InstantScope::Global][*scope],
                args: &borrowed(args),
            })
            .is_ok(),
    }
}

fn written(trace: &Trace, options: &ExportOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write_to(Target::Writer(&mut bytes), options, None).expect("written");
    if options.write.compression == Compression::Gzip {
        let mut inflated = Vec::new();
        let mut decoder = flate2::bufread::GzDecoder::new(&bytes[..]);
        std::io::Read::read_to_end(&mut decoder, &mut inflated).expect("gzip");
        assert!(decoder.into_inner().is_empty(), "bytes after the one member");
        return inflated;
    }
    bytes
}

fn count(document: &serde_json::Value, phases: &[&str]) -> usize {
    let events = document["traceEvents"].as_array().expect("events");
    events.iter().filter(|event| phases.iter().any(|&phase| event["ph"] == phase)).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn whatever_is_added_comes_out_as_strict_json(
        events in vec(event(), 0..40),
        base_ns in proptest::option::of(time()),
        name in bytes(),
        (torch, reference, separate_overlaps) in any::<(bool, bool, bool)>(),
        level in proptest::option::of(1u32..10),
        rank in proptest::option::of(any::<i64>()),
    ) {
        let trace = Trace::new(&TraceOptions { base_ns, ..TraceOptions::default() });
        trace.set_process_name(&String::from_utf8_lossy(&name));
        trace.set_thread_name(3, &String::from_utf8_lossy(&name));
        trace.set_rank(RankWorld { rank, world_size: rank });
        trace.set_metadata("note", METADATA).expect("JSON");
        let stored = events.iter().filter(|event| add(&trace, event)).count();
        let options = ExportOptions {
            format: if torch { Format::Torch } else { Format::Plain },
            as_reference: reference,
            separate_overlaps,
            write: WriteOptions {
                compression: if level.is_some() { Compression::Gzip } else { Compression::None },
                level: level.unwrap_or(1),
                threads: 2,
                ..WriteOptions::default()
            },
            ..ExportOptions::default()
        };
        let bytes = written(&trace, &options);
        let text = std::str::from_utf8(&bytes).expect("UTF-8");
        prop_assert!(!text.contains("\\ud"), "a surrogate pair");
        let document: serde_json::Value = serde_json::from_str(text).expect("strict JSON");
        serde_json::from_str::<Unique>(&text.replace("1e400", "1e40")).expect("no key twice");

        // Each event is there; the end of the window is one instant more.
        prop_assert_eq!(count(&document, &["X", "C", "i"]), stored + 1);
        let counts = trace.counts();
        prop_assert_eq!(counts.dropped as usize, events.len() - stored);
        // A flow starts and ends; none shares its id unless it is asked to be as the reference's.
        prop_assert_eq!(count(&document, &["s"]), count(&document, &["f"]));
        if !reference {
            let mut ids = std::collections::HashSet::new();
            for event in document["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "s") {
                prop_assert!(ids.insert(event["id"].to_string()), "two flows with the id {}", event["id"]);
            }
            for event in document["traceEvents"].as_array().expect("events") {
                let ts = event["ts"].as_f64().expect("a time");
                prop_assert!(ts >= 0.0, "a time before the base: {ts}");
            }
        }
    }
}

#[test]
fn a_name_of_ten_megabytes() {
    let name = "\"long\" ".repeat(10 << 20 >> 3);
    let trace = Trace::default();
    trace.add_op(&Op { name: name.as_str().into(), ..Op::default() }).expect("added");
    let options = ExportOptions::default();
    let document: serde_json::Value = serde_json::from_slice(&written(&trace, &options)).expect("strict JSON");
    let event = document["traceEvents"].as_array().expect("events").iter().find(|event| event["ph"] == "X");
    assert_eq!(event.expect("the op")["name"], name);
}

#[test]
fn times_keep_every_digit() {
    let trace = Trace::new(&TraceOptions { base_ns: Some(0), ..TraceOptions::default() });
    let start_ns = 1_700_000_000_123_456_789;
    trace.add_op(&Op { name: "op".into(), start_ns, end_ns: start_ns + 1_001, ..Op::default() }).expect("added");
    let text = String::from_utf8(written(&trace, &ExportOptions::default())).expect("UTF-8");
    assert!(text.contains("\"ts\":1700000000123456.789,\"dur\":1.001,"), "{text}");
}
