//! Threads come and go under load while another one writes, and every span is counted in what is written.
//!
//! For longer than the moment that it takes by itself: `TPTRACE_SOAK_SECONDS=600 cargo test --release --test soak`.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tptrace::output::Target;
use tptrace::record::{Name, Outcome};
use tptrace::{ExportOptions, Trace, Value};

const SPANS: u64 = 100;
const WORKERS: usize = 4;

/// Counts the lines that hold the needle, whatever the pieces that the document comes in.
#[derive(Default)]
struct Lines {
    found: u64,
    line: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let whole = !self.line.windows(12).any(|window| window == b"\"unfinished\"");
                self.found += u64::from(whole && self.line.windows(12).any(|window| window == b"\"soak worker"));
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(trace: &Trace) -> u64 {
    let mut lines = Lines::default();
    trace.write_to(Target::Writer(&mut lines), &ExportOptions::default(), None).expect("written");
    lines.found
}

#[test]
fn every_span_is_counted() {
    let seconds = std::env::var("TPTRACE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let between = Duration::from_secs_f64((seconds / 8.0).min(1.0));
    let folder = tempfile::tempdir().expect("a folder");
    for journal in [false, true] {
        let trace = Trace::default();
        if journal {
            trace.start_journal(folder.path().join("journal")).expect("started");
        }
        let (name, key) = (Name::new("soak worker", "soak").expect("named"), Name::new("number", "").expect("named"));
        let (begun, ended, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let until = if journal { Instant::now() + Duration::from_secs_f64(seconds / 8.0) } else { until };
        let work = || {
            begun.fetch_add(SPANS, Ordering::SeqCst);
            for number in 0..SPANS {
                assert_eq!(trace.begin_span(name), Outcome::Recorded);
                assert_eq!(trace.span_arg(key, Value::Uint(number)), Outcome::Recorded);
                assert_eq!(trace.end_span(), Outcome::Recorded);
            }
            ended.fetch_add(SPANS, Ordering::SeqCst);
        };
        let writes = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut writes = 0;
                while !done.load(Ordering::SeqCst) {
                    let least = ended.load(Ordering::SeqCst);
                    let found = written(&trace);
                    let most = begun.load(Ordering::SeqCst);
                    assert!((least..=most).contains(&found), "{least} {found} {most}");
                    writes += 1;
                    std::thread::sleep(between);
                }
                writes
            });
            while Instant::now() < until {
                let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
                std::thread::sleep(Duration::from_millis(5));
                workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
            }
            done.store(true, Ordering::SeqCst);
            writer.join().expect("no panic")
        });
        let (all, counts) = (ended.load(Ordering::SeqCst), trace.record_counts());
        assert_eq!((written(&trace), counts.dropped, counts.unmatched), (all, 0, 0));
        assert!(all > 0 && writes > 0);
        println!("{all} spans of {} threads, {writes} documents, journal: {journal}", all / SPANS);
    }
}
