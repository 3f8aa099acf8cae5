//! A program that crashes in the middle of its work, and leaves a journal.
//!
//! usage: crash JOURNAL [MILLISECONDS]     aborts after so long; the journal is for `tptrace recover`

use std::time::Duration;

use tptrace::record::Name;
use tptrace::{RankWorld, Trace, Value};

fn main() -> tptrace::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let journal = arguments.next().expect("usage: crash JOURNAL [MILLISECONDS]");
    let time = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1200);
    let trace = Trace::default();
    trace.set_rank(RankWorld { rank: Some(0), world_size: Some(1) });
    trace.start_journal(journal)?;
    let (epoch, step, load) = (Name::new("epoch", "")?, Name::new("step", "train")?, Name::new("load", "io")?);
    let (op, number) = (Name::new("aten::mm", "cpu_op")?, Name::new("number", "")?);
    std::thread::scope(|scope| {
        for name in ["loader", "trainer"] {
            let trace = &trace;
            let work = move || {
                let _epoch = trace.span(epoch);
                for count in 0.. {
                    let outer = trace.span(if name == "loader" { load } else { step });
                    outer.arg(number, Value::Int(count));
                    for _ in 0..3 {
                        let _inner = trace.span(op);
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    trace.record_counter(number, count as f64);
                }
            };
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).expect("a thread");
        }
        std::thread::sleep(Duration::from_millis(time));
        std::process::abort();
    })
}
