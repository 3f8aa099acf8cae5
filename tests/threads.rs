//! One trace, used from many threads at once. Run under ThreadSanitizer too (see docs/testing.md).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tptrace::output::Target;
use tptrace::{Arg, ExportOptions, Format, GpuActivity, GpuKind, Int, Op, Sample, Trace, Value};

const THREADS: u64 = 4;
const EVENTS: i64 = 3_000;

fn document(trace: &Trace, options: &ExportOptions) -> serde_json::Value {
    let mut bytes = Vec::new();
    trace.write_to(Target::Writer(&mut bytes), options, None).expect("written");
    serde_json::from_slice(&bytes).expect("strict JSON")
}

fn slices(document: &serde_json::Value) -> usize {
    document["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X").count()
}

#[test]
fn adding_and_writing_at_once_loses_nothing() {
    let trace = Trace::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|thread_id| {
                let trace = &trace;
                scope.spawn(move || {
                    for i in 0..EVENTS {
                        let name = format!("op {}", i % 50);
                        let args = [Arg { key: "i".into(), value: Value::Int(i) }];
                        let op = Op {
                            name: name.as_str().into(),
                            start_ns: 10 * i,
                            end_ns: 10 * i + 5,
                            thread_id,
                            args: &args,
                            ..Op::default()
                        };
                        let id = trace.add_op(&op).expect("added");
                        let kernel = GpuActivity {
                            name: "kernel".into(),
                            kind: GpuKind::Kernel,
                            start_ns: 10 * i + 6,
                            end_ns: 10 * i + 9,
                            stream: thread_id as i64,
                            correlation_id: Int::Unsigned(id + 1),
                            external_id: Some(Int::Unsigned(id)),
                            ..GpuActivity::default()
                        };
                        trace.add_gpu(&kernel).expect("added");
                        if i % 100 == 0 {
                            let stack = ["inner".into(), "outer".into()];
                            let sample = Sample { time_ns: 10 * i, os_thread: thread_id, stack: &stack, args: &[] };
                            trace.add_sample(&sample).expect("added");
                            trace.set_thread_name(thread_id, &name);
                        }
                    }
                })
            })
            .collect();
        let writers = [Format::Plain, Format::Torch].map(|format| {
            let (trace, done) = (&trace, &done);
            scope.spawn(move || {
                let mut before = 0;
                while !done.load(Ordering::Relaxed) {
                    // Each document is a whole moment: it parses, and nothing goes missing again.
                    let now = slices(&document(trace, &ExportOptions { format, ..ExportOptions::default() }));
                    assert!(now >= before, "{now} slices after {before}");
                    before = now;
                    trace.counts();
                }
            })
        });
        for adder in adders {
            adder.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
    let all = THREADS as usize * EVENTS as usize;
    assert_eq!(slices(&document(&trace, &ExportOptions::default())), 2 * all);
    let counts = trace.counts();
    assert_eq!((counts.ops, counts.gpu_activities, counts.dropped), (all as u64, all as u64, 0));
}
