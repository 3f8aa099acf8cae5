//! What a span costs with the peers that the registry carries, and with tptrace, side by side.
//!
//! usage: tptrace-record-peers [SPANS] [ROUNDS]
//!
//! Every round runs all contestants one after the other; medians in nanoseconds for one span, begin and end.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tptrace::record::{Full, Name, now_ticks};
use tptrace::tracing::TraceLayer;
use tptrace::{Trace, TraceOptions};
use tracing_subscriber::prelude::*;

/// Two readings of the clock and a store of 64 bytes.
fn limit(count: usize) {
    let mut ring = vec![[0u64; 8]; 256];
    for index in 0..count {
        let (first, second) = (now_ticks(), now_ticks());
        ring[index % 256] = [first, second, index as u64, 0, 0, 0, 0, 0];
        black_box(&mut ring);
    }
}

/// Throws away what it is given.
struct Nowhere;

impl fastrace::collector::Reporter for Nowhere {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        black_box(spans);
    }
}

fn fastrace_spans(count: usize) {
    use fastrace::prelude::*;
    // Local spans belong to a root; it takes a bounded number of them.
    for _ in 0..count.div_ceil(1000) {
        let root = Span::root("root", SpanContext::random());
        let _guard = root.set_local_parent();
        for _ in 0..1000 {
            let _span = LocalSpan::enter_with_local_parent("span");
        }
    }
}

fn perfetto_recorder_spans(count: usize) {
    for _ in 0..count.div_ceil(1000) {
        for _ in 0..1000 {
            perfetto_recorder::scope!("span");
        }
        black_box(perfetto_recorder::ThreadTraceData::take_current_thread());
    }
}

fn puffin_spans(count: usize) {
    for _ in 0..count.div_ceil(1000) {
        for _ in 0..1000 {
            puffin::profile_scope!("span");
        }
        puffin::GlobalProfiler::lock().new_frame();
    }
}

fn tracing_spans(count: usize) {
    for _ in 0..count {
        let _span = tracing::info_span!("span").entered();
    }
}

fn tracy_spans(count: usize) {
    for _ in 0..count {
        let _span = tracy_client::span!("span", 0);
    }
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let spans = numbers.first().copied().unwrap_or(1_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let options = TraceOptions { record_bytes: 64 << 20, record_full: Full::KeepRecent, ..TraceOptions::default() };
    let trace = Trace::new(&options);
    let name = Name::new("span", "").expect("interned");
    let _tracy = tracy_client::Client::start();
    fastrace::set_reporter(Nowhere, fastrace::collector::Config::default());
    puffin::set_scopes_on(true);
    let (chrome, _guard) = tracing_chrome::ChromeLayerBuilder::new().writer(std::io::sink()).build();
    let chrome = tracing::Dispatch::new(tracing_subscriber::registry().with(chrome));
    let layered = Arc::new(Trace::new(&options));
    let layer = tracing::Dispatch::new(tracing_subscriber::registry().with(TraceLayer::new(&layered)));
    perfetto_recorder::start().expect("started");

    let through = |dispatch: &tracing::Dispatch| -> Box<dyn Fn(usize)> {
        let dispatch = dispatch.clone();
        Box::new(move |count| tracing::dispatcher::with_default(&dispatch, || tracing_spans(count)))
    };
    type Contest<'a> = (&'static str, usize, Box<dyn Fn(usize) + 'a>);
    let contests: Vec<Contest<'_>> = vec![
        ("two readings and a store of 64 bytes", spans, Box::new(limit)),
        ("tptrace", spans, Box::new(|count| (0..count).for_each(|_| drop(trace.span(name))))),
        ("fastrace, local span", spans, Box::new(fastrace_spans)),
        ("tracy-client, kept for a viewer", spans, Box::new(tracy_spans)),
        ("puffin", spans, Box::new(puffin_spans)),
        ("perfetto-recorder", spans, Box::new(perfetto_recorder_spans)),
        ("tptrace's layer for tracing", spans / 10, through(&layer)),
        ("tracing-chrome, to nowhere", spans / 10, through(&chrome)),
    ];
    let mut all = vec![Vec::new(); contests.len()];
    for _ in 0..rounds {
        for ((_, count, work), times) in contests.iter().zip(&mut all) {
            let start = Instant::now();
            work(*count);
            times.push(start.elapsed().as_secs_f64() * 1e9 / *count as f64);
        }
    }
    println!("{:40} {:>8} {:>12}", "", "ns", "of the limit");
    let mut reference = 0.0;
    for ((name, ..), times) in contests.iter().zip(&mut all) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        if reference == 0.0 {
            reference = median;
        }
        println!("{name:40} {median:8.1} {:12.2}", median / reference);
    }
}
