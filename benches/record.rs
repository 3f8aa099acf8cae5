//! What a span costs, side by side with what it cannot cost less than: two readings of its clock and one store of 64 bytes.
//!
//!     cargo bench --bench record [-- SPANS ROUNDS]
//!
//! Every round runs all contestants one after the other; medians in nanoseconds for one span, begin and end. The C ABI is
//! called through pointers, as from another library. Peers: `benches/peers/record`, a workspace of its own.

use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

use tptrace::capi::record::{tp_category_enable, tp_name_new, tp_span_arg_int, tp_span_begin, tp_span_end};
use tptrace::capi::trace::{tp_trace, tp_trace_free, tp_trace_new};
use tptrace::capi::types::{TP_RECORD_KEEP_RECENT, tp_str, tp_trace_options};

type Begin = unsafe extern "C" fn(*const tp_trace, u32) -> i32;
type End = unsafe extern "C" fn(*const tp_trace) -> i32;

#[derive(Clone, Copy)]
struct Handle(*mut tp_trace);

// SAFETY: any thread may use a handle.
unsafe impl Send for Handle {}

impl Handle {
    /// A flight recorder: memory is reused, so that the system's page faults are not measured.
    fn new() -> Self {
        let mut trace = null_mut();
        // SAFETY: the struct is valid when zero, and the place is ours.
        unsafe {
            let mut options: tp_trace_options = std::mem::zeroed();
            options.size = size_of::<tp_trace_options>();
            options.record_bytes = 64 << 20;
            options.record_full = TP_RECORD_KEEP_RECENT;
            assert_eq!(tp_trace_new(&options, &mut trace), 0);
        }
        Self(trace)
    }

    fn spans(self, name: u32, count: usize) {
        let (begin, end): (Begin, End) = black_box((tp_span_begin, tp_span_end));
        for _ in 0..count {
            // SAFETY: the handle lives.
            unsafe {
                begin(self.0, name);
                end(self.0);
            }
        }
    }
}

fn text(text: &str) -> tp_str {
    tp_str { ptr: text.as_ptr().cast(), len: text.len() }
}

fn name(words: &str, category: &str) -> u32 {
    let mut name = 0;
    // SAFETY: the texts live, and the place is ours.
    assert_eq!(unsafe { tp_name_new(text(words), text(category), &mut name) }, 0);
    name
}

/// Two readings and a store of a cache line, to a ring that fits the nearest cache.
fn limit(count: usize) {
    let mut ring = vec![[0u64; 8]; 256];
    for index in 0..count {
        let first = tptrace::record::now_ticks();
        let second = tptrace::record::now_ticks();
        ring[index % 256] = [first, second, index as u64, 0, 0, 0, 0, 0];
        black_box(&mut ring);
    }
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let spans = numbers.first().copied().unwrap_or(2_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(7);
    let (plain, off, key) = (name("span", "bench"), name("span", "bench off"), name("key", ""));
    // SAFETY: the text lives.
    assert_eq!(unsafe { tp_category_enable(text("bench off"), 0) }, 0);
    let (trace, second) = (Handle::new(), Handle::new());
    let rust_name = tptrace::record::Name::new("span", "bench").expect("interned");
    let rust = tptrace::Trace::new(&tptrace::TraceOptions {
        record_bytes: 64 << 20,
        record_full: tptrace::record::Full::KeepRecent,
        ..tptrace::TraceOptions::default()
    });

    type Contest<'a> = (&'static str, Box<dyn Fn() + 'a>);
    let contests: Vec<Contest<'_>> = vec![
        ("two readings and a store of 64 bytes", Box::new(|| limit(spans))),
        ("span, C ABI", Box::new(|| trace.spans(plain, spans))),
        ("span, Rust", Box::new(|| (0..spans).for_each(|_| drop(rust.span(rust_name))))),
        (
            "span with an argument, C ABI",
            Box::new(|| {
                for index in 0..spans {
                    // SAFETY: the handle lives.
                    unsafe {
                        tp_span_begin(trace.0, plain);
                        tp_span_arg_int(trace.0, key, index as i64);
                        tp_span_end(trace.0);
                    }
                }
            }),
        ),
        (
            "spans of two traces in turn",
            Box::new(|| (0..spans / 2).for_each(|_| (trace.spans(plain, 1), second.spans(plain, 1)).0)),
        ),
        ("span of a category that is off, C ABI", Box::new(|| trace.spans(off, spans))),
        ("NULL handle", Box::new(|| Handle(null_mut()).spans(plain, spans))),
        (
            "two threads at once, C ABI",
            Box::new(|| {
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(move || {
                            let trace = trace;
                            trace.spans(plain, spans)
                        });
                    }
                });
            }),
        ),
    ];
    let mut all = vec![Vec::new(); contests.len()];
    for _ in 0..rounds {
        for ((_, work), times) in contests.iter().zip(&mut all) {
            let start = Instant::now();
            work();
            times.push(start.elapsed().as_secs_f64() * 1e9 / spans as f64);
        }
    }
    println!(
        "{spans} spans each; nanoseconds for one, medians of {rounds}; the clock is read to {} ns",
        tptrace::record::ticks_uncertainty_ns()
    );
    println!("{:42} {:>8} {:>17} {:>12}", "", "ns", "quartiles", "of the limit");
    let mut reference = 0.0;
    for ((name, _), times) in contests.iter().zip(&mut all) {
        times.sort_by(f64::total_cmp);
        let [low, median, high] = [1, 2, 3].map(|quarter| times[(times.len() - 1) * quarter / 4]);
        if reference == 0.0 {
            reference = median;
        }
        println!("{name:42} {median:8.1} {:>17} {:12.2}", format!("{low:.1} - {high:.1}"), median / reference);
    }
    // SAFETY: nobody uses them any more.
    unsafe {
        tp_trace_free(trace.0);
        tp_trace_free(second.0);
    }
}
