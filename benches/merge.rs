//! Merging eight ranks, side by side with copying their bytes and with what else can be had on the machine.
//!
//!     cargo bench --bench merge [-- OPS ROUNDS]      OPS of each rank; 220,000 make about 100 MB
//!
//! Every round runs all contestants one after the other; medians, and the spread between the quartiles. Peers run once, if
//! they are there: TensorPlay's merger, the same with orjson and igzip, and VizTracer's combine with `python3`
//! (TPTRACE_BENCH_PYTHON names another Python); `jq` and `pigz`.

mod workload;

use std::ffi::c_char;
use std::io::{Read, Write};
use std::mem::zeroed;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tptrace::capi::trace::tp_trace_set_rank;
use tptrace::capi::types::{TP_FORMAT_TORCH, tp_str, tp_write_options};
use tptrace::capi::write::tp_trace_write;
use tptrace::merge::{Input, MergeOptions, Selection, merge, split};
use tptrace::output::{Target, WriteOptions};
use workload::Workload;

const RANKS: i64 = 8;

struct Series {
    name: &'static str,
    seconds: Vec<f64>,
}

impl Series {
    fn quartiles(&self) -> [f64; 3] {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| sorted[(sorted.len() - 1) * quarter / 4])
    }
}

fn make(folder: &Path, ops: usize) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let workload = Workload::new(ops);
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    for rank in 0..RANKS {
        let trace = workload.add();
        for (suffix, paths) in [("", &mut plain), (".gz", &mut packed)] {
            let path = folder.join(format!("rank{rank}.json{suffix}"));
            let text = path.to_str().expect("UTF-8");
            // SAFETY: the struct is valid when zero, and all pointers live during the call.
            let status = unsafe {
                assert_eq!(tp_trace_set_rank(trace.0, rank, RANKS), 0);
                let mut options: tp_write_options = zeroed();
                options.size = size_of::<tp_write_options>();
                options.format = TP_FORMAT_TORCH;
                tp_trace_write(trace.0, tp_str { ptr: text.as_ptr().cast::<c_char>(), len: text.len() }, &options)
            };
            assert_eq!(status, 0);
            paths.push(path);
        }
    }
    (plain, packed)
}

fn cat(inputs: &[PathBuf], out: &Path) {
    let mut out = std::fs::File::create(out).expect("a file");
    let mut buffer = vec![0; 1 << 20];
    for input in inputs {
        let mut input = std::fs::File::open(input).expect("a file");
        loop {
            let got = input.read(&mut buffer).expect("bytes");
            if got == 0 {
                break;
            }
            out.write_all(&buffer[..got]).expect("written");
        }
    }
}

/// In parts, one after the other, as one machine would do them all.
fn parts(inputs: &[PathBuf], out: &Path) {
    let options = MergeOptions::default();
    let write = WriteOptions::default();
    let surveys: Vec<String> =
        inputs.iter().map(|path| split::survey(Input::Path(path.clone()), &options).expect("surveyed")).collect();
    let plan = split::plan(&surveys, &options).expect("planned");
    let mut fragments = Vec::new();
    for (index, (path, task)) in inputs.iter().zip(plan.tasks.into_iter().flatten()).enumerate() {
        let fragment = out.with_file_name(format!("fragment{index}.gz"));
        split::fragment(Input::Path(path.clone()), &task, &fragment, &write, None).expect("a fragment");
        fragments.push(fragment);
    }
    split::join(&plan.join, &fragments, Target::File(out), &write, None).expect("joined");
}

/// Half of the time, kernels and what launches them, and half of the size.
fn selected(inputs: &[PathBuf], out: &Path, selection: Selection) {
    let inputs = inputs.iter().cloned().map(Input::Path).collect();
    let options = MergeOptions { selection, ..MergeOptions::default() };
    merge(inputs, Target::File(out), &options, None).expect("merged");
}

fn ours(inputs: &[PathBuf], out: &Path, verbatim: bool) {
    let inputs = inputs.iter().cloned().map(Input::Path).collect();
    let options = MergeOptions { verbatim, ..MergeOptions::default() };
    merge(inputs, Target::File(out), &options, None).expect("merged");
}

/// Seconds that a shell command takes, if it can be run.
fn shell(script: &str, inputs: &[PathBuf], out: &Path) -> Option<f64> {
    let start = Instant::now();
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(out).args(inputs).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?.success().then(|| start.elapsed().as_secs_f64())
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let ops = numbers.first().copied().unwrap_or(220_000);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let folder = tempfile::tempdir().expect("scratch folder");
    let (plain, packed) = make(folder.path(), ops);
    let size: u64 = plain.iter().map(|path| std::fs::metadata(path).expect("a file").len()).sum();
    let (out, gz) = (folder.path().join("out.json"), folder.path().join("out.json.gz"));

    let long = Selection { min_duration_ns: 10_000, ..Selection::default() };
    let half = Selection { max_bytes: Some(size / 2), ..Selection::default() };
    type Contest<'a> = (&'static str, Box<dyn Fn() + 'a>);
    let contests: Vec<Contest<'_>> = vec![
        ("cat into one file", Box::new(|| cat(&plain, &out))),
        ("tptrace, plain to plain", Box::new(|| ours(&plain, &out, false))),
        ("tptrace verbatim, plain to plain", Box::new(|| ours(&plain, &out, true))),
        ("tptrace, gz to gz", Box::new(|| ours(&packed, &gz, false))),
        ("tptrace, plain to gz", Box::new(|| ours(&plain, &gz, false))),
        ("tptrace, gz to plain", Box::new(|| ours(&packed, &out, false))),
        ("tptrace in parts, gz to gz", Box::new(|| parts(&packed, &gz))),
        ("tptrace, slices from 10 us, plain", Box::new(|| selected(&plain, &out, long.clone()))),
        ("tptrace, half the size, plain", Box::new(|| selected(&plain, &out, half.clone()))),
    ];
    let mut all: Vec<Series> = contests.iter().map(|(name, _)| Series { name, seconds: Vec::new() }).collect();
    for _ in 0..rounds {
        for ((_, work), series) in contests.iter().zip(&mut all) {
            // Files of before go first, off the clock: freeing their pages costs as much as writing some.
            let _ = (std::fs::remove_file(&out), std::fs::remove_file(&gz));
            let start = Instant::now();
            work();
            series.seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let python = std::env::var("TPTRACE_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let original = format!(
        "o=$1; shift; {python} -c 'import sys; from tensorplay.profiler._chrome_trace_export import \
         merge_distributed_traces as m; m(sys.argv[2:], sys.argv[1])' \"$o\" \"$@\""
    );
    // The same algorithm with the fastest JSON and gzip that Python has.
    let fast =
        format!("o=$1; shift; {python} {}/benches/peers/orjson_merge.py \"$o\" \"$@\"", env!("CARGO_MANIFEST_DIR"));
    // It takes plain files only.
    let viztracer = format!("o=$1; shift; {python} -m viztracer --combine \"$@\" -o \"$o\"");
    let once = if ops < 50_000 { 0 } else { 1 };
    for (name, script, inputs, target) in [
        ("TensorPlay, plain to plain (once)", original.as_str(), &plain, &out),
        ("TensorPlay, gz to gz (once)", original.as_str(), &packed, &gz),
        ("orjson, plain to plain (once)", fast.as_str(), &plain, &out),
        ("orjson and igzip, gz to gz (once)", fast.as_str(), &packed, &gz),
        ("VizTracer combine, plain (once)", viztracer.as_str(), &plain, &out),
        ("igzip -dc | igzip -1", "o=$1; shift; command -v igzip && igzip -dc \"$@\" | igzip -1 > \"$o\"", &packed, &gz),
        ("pigz -dc | pigz -1", "o=$1; shift; command -v pigz && pigz -dc \"$@\" | pigz -1 > \"$o\"", &packed, &gz),
        (
            "jq (once)",
            "o=$1; shift; command -v jq && jq -cs '{traceEvents: map(.traceEvents) | add}' \"$@\" > \"$o\"",
            &plain,
            &out,
        ),
    ] {
        let _ = std::fs::remove_file(target);
        if let Some(seconds) = (0..once).find_map(|_| shell(script, inputs, target)) {
            all.push(Series { name, seconds: vec![seconds] });
        }
    }
    println!("{RANKS} ranks, {:.1} MB of JSON; medians of {rounds}", size as f64 / 1e6);
    println!("{:36} {:>9} {:>17} {:>8} {:>12}", "", "seconds", "quartiles", "GB/s", "of cat");
    let reference = all[0].quartiles()[1];
    for series in &all {
        let [low, median, high] = series.quartiles();
        let spread = format!("{low:.3} - {high:.3}");
        let speed = size as f64 / median / 1e9;
        println!("{:36} {median:9.3} {spread:>17} {speed:8.2} {:12.2}", series.name, median / reference);
    }
}
