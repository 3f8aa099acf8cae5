//! Live recording: spans of many threads, none lost and none made up, and each misuse with its answer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tptrace::output::Target;
use tptrace::record::{Async, Flow, Full, Name, Outcome, enable_category};
use tptrace::{ExportOptions, Format, Trace, TraceOptions};

fn name(text: &str) -> Name {
    Name::new(text, "test").expect("interned")
}

fn document(trace: &Trace) -> Value {
    written(trace, Format::Plain)
}

fn written(trace: &Trace, format: Format) -> Value {
    let mut out = Vec::new();
    trace
        .write_to(Target::Writer(&mut out), &ExportOptions { format, ..ExportOptions::default() }, None)
        .expect("written");
    serde_json::from_slice(&out).expect("strict JSON")
}

fn events<'d>(document: &'d Value, ph: &str) -> Vec<&'d Value> {
    document["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == ph).collect()
}

/// Slices, but for the exporter's own.
fn slices(document: &Value) -> Vec<&Value> {
    events(document, "X")
}

fn limited(bytes: usize, full: Full) -> Trace {
    Trace::new(&TraceOptions { record_bytes: bytes, record_full: full, ..TraceOptions::default() })
}

#[test]
fn spans_nest_with_their_arguments() {
    let trace = Trace::default();
    let before = tptrace::monotonic_ns();
    {
        let outer = trace.span(name("outer"));
        assert_eq!(outer.arg(name("batch"), tptrace::Value::Int(-3)), Outcome::Recorded);
        {
            let inner = trace.span(name("inner"));
            let long = "ä".repeat(1000);
            inner.arg(name("text"), tptrace::Value::Text(long.as_str().into()));
            inner.arg(name("empty"), tptrace::Value::Text("".into()));
            inner.arg(name("ratio"), tptrace::Value::Float(0.5));
            inner.arg(name("on"), tptrace::Value::Bool(true));
            inner.arg(name("big"), tptrace::Value::Uint(u64::MAX));
        }
        outer.arg(name("late"), tptrace::Value::Text("17 bytes of text.".into()));
        trace.record_instant(name("mark"));
        trace.record_counter(name("queue"), 7.5);
        trace.complete_span(name("given"), before + 1_000_000, before + 3_000_000);
    }
    let after = tptrace::monotonic_ns();
    for _ in 0..2 {
        let document = document(&trace);
        let all = slices(&document);
        let one = |wanted: &str| *all.iter().find(|event| event["name"] == wanted).expect(wanted);
        let (outer, inner) = (one("outer"), one("inner"));
        assert_eq!((all.len(), &outer["cat"]), (3, &"test".into()));
        assert_eq!((&outer["args"]["batch"], &outer["args"]["late"]), (&(-3).into(), &"17 bytes of text.".into()));
        assert_eq!(inner["args"]["text"], "ä".repeat(512));
        assert_eq!((&inner["args"]["empty"], &inner["args"]["ratio"]), (&"".into(), &0.5.into()));
        assert_eq!((&inner["args"]["on"], &inner["args"]["big"]), (&true.into(), &u64::MAX.into()));
        let time = |event: &Value, key: &str| event[key].as_f64().expect("a number");
        assert!(time(outer, "ts") <= time(inner, "ts"));
        assert!(time(inner, "ts") + time(inner, "dur") <= time(outer, "ts") + time(outer, "dur") + 0.001);
        let length = (after - before) as f64 / 1000.0;
        assert!(time(outer, "dur") > 0.0 && time(outer, "dur") <= length, "{outer}, {length}");
        assert_eq!(time(one("given"), "dur"), 2000.0);
        assert_eq!(events(&document, "i").iter().filter(|event| event["name"] == "mark").count(), 1);
        let counter = events(&document, "C");
        assert_eq!((counter.len(), &counter[0]["args"]["value"]), (1, &7.5.into()));
    }
}

#[test]
fn flows_and_async_spans_cross_threads() {
    let trace = Trace::default();
    {
        let _span = trace.span(name("producer"));
        trace.record_flow(Flow::Start, name("hand over"), u64::MAX);
        trace.record_async(Async::Begin, name("request"), 5);
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _span = trace.span(name("consumer"));
            trace.record_flow(Flow::End, name("hand over"), u64::MAX);
            trace.record_async(Async::Instant, name("request"), 5);
            trace.record_async(Async::End, name("request"), 5);
        });
        // The end of a scope is a fence of the standard library's, which ThreadSanitizer does not see; a join is.
        thread.join().expect("no panic");
    });
    let document = document(&trace);
    let ids: Vec<&Value> = ["s", "f"].iter().flat_map(|ph| events(&document, ph)).collect();
    assert!(ids.len() == 2 && ids.iter().all(|event| event["id"] == "0xffffffffffffffff" && event["cat"] == "test"));
    assert_ne!(ids[0]["tid"], ids[1]["tid"]);
    assert_eq!(["b", "n", "e"].map(|ph| events(&document, ph).len()), [1, 1, 1]);
}

#[test]
fn misuse_is_answered() {
    let trace = Trace::default();
    assert_eq!(trace.end_span(), Outcome::NotOpen);
    assert_eq!(trace.span_arg(name("x"), tptrace::Value::Int(1)), Outcome::NotOpen);
    assert_eq!(trace.begin_span(name("open")), Outcome::Recorded);
    assert_eq!(trace.record_counts().unmatched, 1);
    // A span that is open shows up to now, and is no less a span when it ends.
    let first = document(&trace);
    assert_eq!((slices(&first).len(), &slices(&first)[0]["args"]["unfinished"]), (1, &true.into()));
    assert_eq!(first["tptrace"]["recording"]["unmatched_ends"], 1);
    assert_eq!(trace.end_span(), Outcome::Recorded);
    let second = document(&trace);
    assert_eq!((slices(&second).len(), slices(&second)[0]["args"].get("unfinished")), (1, None));
    // Deeper than anybody can read.
    for depth in 0..600 {
        let expected = if depth < 512 { Outcome::Recorded } else { Outcome::Dropped };
        assert_eq!(trace.begin_span(name("deep")), expected, "{depth}");
    }
    assert_eq!(trace.span_arg(name("x"), tptrace::Value::Int(1)), Outcome::Dropped);
    for depth in (0..600).rev() {
        assert_eq!(trace.end_span(), if depth < 512 { Outcome::Recorded } else { Outcome::Off }, "{depth}");
    }
    assert_eq!(trace.end_span(), Outcome::NotOpen);
    assert_eq!((trace.record_counts().dropped, trace.record_counts().unmatched), (88, 2));
    assert_eq!(slices(&document(&trace)).len(), 513);
}

#[test]
fn categories_are_switched_while_spans_are_open() {
    let trace = Trace::default();
    let quiet = Name::new("quiet", "switched").expect("interned");
    enable_category("switched", false).expect("known");
    {
        let _loud = trace.span(name("loud"));
        assert_eq!(trace.begin_span(quiet), Outcome::Off);
        enable_category("switched", true).expect("known");
        assert_eq!(trace.begin_span(quiet), Outcome::Recorded);
        assert_eq!(trace.end_span(), Outcome::Recorded);
        assert_eq!(trace.end_span(), Outcome::Off);
    }
    let document = document(&trace);
    let names: Vec<&str> = slices(&document).iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names, ["quiet", "loud"]);
}

#[test]
fn several_traces_and_late_threads() {
    let (one, two) = (Trace::default(), Trace::default());
    for _ in 0..1000 {
        let _a = one.span(name("a"));
        let _b = two.span(name("b"));
    }
    drop(two);
    for _ in 0..1000 {
        let _a = one.span(name("a"));
    }
    let three = Trace::default();
    three.record_instant(name("c"));
    assert_eq!(slices(&document(&one)).len(), 2000);
    assert_eq!(slices(&document(&three)).len(), 0);
    assert!(one.memory() > 0);
}

/// Threads that start and end while others record and one writes: every span is in the last document, once.
#[test]
fn nothing_is_lost_while_threads_come_and_go() {
    const ROUNDS: usize = 20;
    const THREADS: usize = 8;
    const SPANS: usize = 500;
    let trace = Trace::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writes = 0;
            while !done.load(Ordering::Acquire) {
                let document = document(&trace);
                let bad = slices(&document).iter().filter(|event| event["dur"].as_f64() < Some(0.0)).count();
                assert_eq!(bad, 0);
                writes += 1;
            }
            writes
        });
        for round in 0..ROUNDS {
            let barrier = Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (trace, barrier) = (&trace, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        for span in 0..SPANS {
                            let outer = trace.span(name("outer"));
                            outer.arg(
                                name("n"),
                                tptrace::Value::Uint(((round * THREADS + thread) * SPANS + span) as u64),
                            );
                            let _inner = trace.span(name("inner"));
                        }
                    });
                }
            });
        }
        done.store(true, Ordering::Release);
        assert!(writer.join().expect("no panic") > 0);
    });
    let document = document(&trace);
    let of = |wanted: &str| slices(&document).into_iter().filter(|event| event["name"] == wanted).collect::<Vec<_>>();
    let mut numbers: Vec<u64> = of("outer").iter().filter_map(|event| event["args"]["n"].as_u64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..(ROUNDS * THREADS * SPANS) as u64).collect::<Vec<_>>());
    assert_eq!(of("inner").len(), numbers.len());
    assert!(slices(&document).iter().all(|event| event["args"].get("unfinished").is_none()));
    assert_eq!(trace.record_counts(), tptrace::record::RecordCounts::default());
}

#[test]
fn memory_stays_within_the_limit() {
    const LIMIT: usize = 1 << 20;
    // What a trace takes that records nothing, and the steps in which its lists grow.
    let base = Trace::default().memory() + (256 << 10);
    for full in [Full::DropNew, Full::KeepRecent] {
        let trace = limited(LIMIT, full);
        for number in 0..200_000u64 {
            trace.begin_span(name("span"));
            trace.span_arg(name("n"), tptrace::Value::Uint(number));
            trace.end_span();
        }
        assert!(trace.memory() <= LIMIT, "{}", trace.memory());
        let document = document(&trace);
        let all = slices(&document);
        let mut numbers: Vec<u64> = all.iter().filter_map(|event| event["args"]["n"].as_u64()).collect();
        numbers.sort_unstable();
        let counts = trace.record_counts();
        assert!(all.len() > 5_000, "{}", all.len());
        if full == Full::DropNew {
            assert_eq!((numbers[0], counts.overwritten_chunks), (0, 0));
            // A span that is dropped is one, and so is an argument.
            assert!(counts.dropped as usize >= 200_000 - all.len(), "{counts:?}, {}", all.len());
            assert_eq!(document["tptrace"]["recording"]["dropped"], counts.dropped);
        } else {
            assert_eq!((numbers[numbers.len() - 1], counts.dropped), (199_999, 0));
            assert!(counts.overwritten_chunks > 0);
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no gap");
            // Writing takes nothing away.
            assert_eq!(slices(&self::document(&trace)).len(), all.len());
        }
        assert!(trace.memory() <= LIMIT + base, "{}", trace.memory());
    }
}

#[test]
fn a_flight_recorder_knows_the_spans_that_began_before_its_memory() {
    let trace = limited(512 << 10, Full::KeepRecent);
    trace.begin_span(name("main"));
    for _ in 0..100_000 {
        let _span = trace.span(name("step"));
    }
    let unfinished = document(&trace);
    let main: Vec<&Value> = slices(&unfinished).into_iter().filter(|event| event["name"] == "main").collect();
    assert_eq!((main.len(), &main[0]["args"]["unfinished"]), (1, &true.into()));
    trace.end_span();
    let document = document(&trace);
    let main: Vec<&Value> = slices(&document).into_iter().filter(|event| event["name"] == "main").collect();
    assert_eq!(main.len(), 1);
    let steps = slices(&document).len() - 1;
    assert!(steps > 1000 && steps < 100_000);
}

/// What a document alone has goes with it.
#[test]
fn a_flight_recorder_outlives_thousands_of_threads() {
    let (bytes, step) = (1 << 20, name("step"));
    for journal in [false, true] {
        let trace = limited(bytes, Full::KeepRecent);
        let folder = tempfile::tempdir().expect("a folder");
        if journal {
            trace.start_journal(folder.path().join("journal")).expect("started");
        }
        for number in 0..1000 {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    trace.begin_span(step);
                    trace.span_arg(name("number"), tptrace::Value::Int(number));
                    trace.end_span();
                });
                // ThreadSanitizer does not see that the end of a scope waits.
                thread.join().expect("recorded");
            });
            if number == 500 {
                document(&trace);
            }
        }
        // What comes while the journal makes its copies may find no room.
        let dropped = trace.record_counts().dropped;
        assert!(dropped <= if journal { 100 } else { 0 }, "{dropped}");
        let document = document(&trace);
        let last = slices(&document).iter().filter_map(|slice| slice["args"]["number"].as_i64()).max();
        assert!(last >= Some(if journal { 900 } else { 999 }), "{last:?}");
        assert!(slices(&document).len() >= 20, "{}", slices(&document).len());
    }
}

#[test]
fn a_flight_recorder_takes_no_memory_for_being_written() {
    let trace = limited(512 << 10, Full::KeepRecent);
    for number in 0..10_000 {
        let span = trace.span(name("step"));
        span.arg(name("number"), tptrace::Value::Int(number));
        span.arg(name("text"), tptrace::Value::Text(tptrace::Text(format!("text {number}").as_bytes())));
    }
    trace.record_counter(name("counter"), 1.5);
    let (first, before) = (document(&trace), trace.memory());
    for format in [Format::Plain, Format::Torch, Format::Perfetto].into_iter().cycle().take(30) {
        let mut sink = Vec::new();
        let options = ExportOptions { format, ..ExportOptions::default() };
        trace.write_to(Target::Writer(&mut sink), &options, None).expect("written");
    }
    assert_eq!(trace.memory(), before);
    let last = document(&trace);
    assert_eq!(slices(&first).len(), slices(&last).len());
    for (one, other) in slices(&first).iter().zip(slices(&last)) {
        assert_eq!(one["args"], other["args"]);
    }
    let newest = slices(&last).into_iter().last().expect("a span");
    assert_eq!((&newest["args"]["number"], &newest["args"]["text"]), (&9999.into(), &"text 9999".into()));
}

#[test]
fn a_thousand_threads_leave_no_memory_behind() {
    let trace = Trace::default();
    let mut most = 0;
    for round in 0..10 {
        for _ in 0..10 {
            std::thread::scope(|scope| {
                let threads = [(); 10].map(|()| {
                    scope.spawn(|| {
                        let _span = trace.span(name("short"));
                    })
                });
                threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
        }
        drop(document(&trace));
        if round == 0 {
            most = trace.memory() + (64 << 10);
        }
    }
    assert_eq!(slices(&document(&trace)).len(), 1000);
    // Names of threads and their lanes stay: some hundred bytes each, not chunks.
    assert!(trace.memory() < most + 1000 * 200, "{} {most}", trace.memory());
}

#[test]
fn the_torch_format_has_them_on_their_threads() {
    let trace = Trace::default();
    std::thread::Builder::new()
        .name("worker".into())
        .spawn({
            let start = trace.base_ns();
            move || {
                drop(trace.span(Name::new("aten::mm", "cpu_op").expect("interned")));
                drop(trace.span_named("step").expect("interned"));
                assert!(start > 0);
                // PROCESS/task/THREAD.
                let path = std::fs::read_link("/proc/thread-self").expect("told by the system");
                let tid = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
                assert_eq!(tid, Some(tptrace::record::thread_id()));
                let op =
                    tptrace::Op { name: "added".into(), thread_id: tptrace::record::thread_id(), ..Default::default() };
                trace.add_op(&op).expect("added");
                (trace, tid)
            }
        })
        .map(|thread| {
            let (trace, tid) = thread.join().expect("no panic");
            let document = written(&trace, Format::Torch);
            let all = slices(&document);
            let cats: Vec<&str> = all.iter().filter_map(|event| event["cat"].as_str()).collect();
            assert_eq!(cats, ["cpu_op", "cpu_op", "user_annotation"], "the op that was added, and two spans");
            let named: Vec<&str> =
                events(&document, "M").iter().filter_map(|event| event["args"]["name"].as_str()).collect();
            assert!(named.contains(&"worker"), "{named:?}");
            let tids: Vec<_> = all.iter().map(|event| event["tid"].as_u64()).collect();
            assert_eq!(tids, [tid; 3], "the thread's own number");
            assert!(document["tptrace"]["recording"]["clock_uncertainty_ns"].as_u64().is_some());
        })
        .expect("a thread");
}
