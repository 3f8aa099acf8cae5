//! Any bytes summed up and checked: no panic, numbers that agree with one another, and places that exist.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tptrace::Error;
use tptrace::check::{CheckOptions, check};
use tptrace::merge::{Input, Limits};
use tptrace::summary::{Summary, SummaryOptions, TextOptions, summarize};

fn input(data: &[u8]) -> Vec<Input> {
    vec![Input::Reader { name: "trace".into(), reader: Box::new(std::io::Cursor::new(data.to_vec())) }]
}

fn summary(data: &[u8], salvage: bool, threads: usize) -> Option<Summary> {
    let limits = Limits { event_bytes: 1 << 20, metadata_bytes: 1 << 16, ..Limits::default() };
    let options = SummaryOptions { salvage, threads, limits, ..SummaryOptions::default() };
    match summarize(input(data), &options, None) {
        Ok(summary) => Some(summary),
        Err(Error::Malformed { .. } | Error::Limit { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let report = check(input(data), &CheckOptions { threads: 1, ..CheckOptions::default() }, None).expect("a report");
    let lines = data.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    for place in report.files[0].findings.iter().flat_map(|finding| &finding.places) {
        // Of compressed bytes the lines are not known here.
        assert!(data.starts_with(&[0x1f, 0x8b]) || place.line <= lines, "{place:?}");
    }
    let Some(strict) = summary(data, false, 1) else {
        let _ = summary(data, true, 1);
        return;
    };
    assert_eq!(summary(data, false, 2).as_ref(), Some(&strict));
    let _ = strict.to_text(&TextOptions::default());
    for name in &strict.names {
        assert!(name.self_ns <= name.total_ns && name.min_ns <= name.max_ns && name.max_ns <= name.total_ns);
    }
    for rank in &strict.ranks {
        let gpu = rank.gpu;
        assert_eq!(gpu.busy_ns + gpu.idle_ns, rank.gpu_span_ns);
        assert!(gpu.overlap_ns <= gpu.compute_ns.min(gpu.communication_ns) && gpu.compute_ns <= gpu.busy_ns);
    }
});
