//! Adding and writing, side by side with a hand-written C++ writer that prints the same bytes and with zlib.
//!
//!     cargo bench --bench export [-- OPS ROUNDS]
//!
//! Every round runs all contestants one after the other, so that the machine's moods hit all of them; the table shows
//! medians and the spread between the quartiles. Needs a C++ compiler, and Python for zlib.

mod workload;

use std::ffi::c_char;
use std::mem::zeroed;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tptrace::capi::trace::tp_trace_counts;
use tptrace::capi::types::{
    TP_COMPRESSION_GZIP, TP_FORMAT_PERFETTO, TP_FORMAT_TORCH, TP_WRITE_KEEP_OVERLAPS, tp_counts, tp_str,
    tp_write_options,
};
use tptrace::capi::write::tp_trace_write;
use workload::{Trace, Workload};

struct Series(&'static str, Vec<f64>);

impl Series {
    fn quartiles(&self) -> [f64; 3] {
        let mut sorted = self.1.clone();
        sorted.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| sorted[(sorted.len() - 1) * quarter / 4])
    }

    fn median(&self) -> f64 {
        self.quartiles()[1]
    }
}

fn timed<T>(series: &mut Series, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    series.1.push(start.elapsed().as_secs_f64());
    done
}

fn write(trace: &Trace, path: &Path, gzip: bool, keep_overlaps: bool) {
    write_as(trace, path, 0, gzip, keep_overlaps);
}

fn write_as(trace: &Trace, path: &Path, format: i32, gzip: bool, keep_overlaps: bool) {
    let path = path.to_str().expect("UTF-8");
    // SAFETY: the struct is valid when zero, and all pointers live during the call.
    let status = unsafe {
        let mut options: tp_write_options = zeroed();
        options.size = size_of::<tp_write_options>();
        options.format = format;
        options.flags = if keep_overlaps { TP_WRITE_KEEP_OVERLAPS } else { 0 };
        options.compression = if gzip { TP_COMPRESSION_GZIP } else { 0 };
        tp_trace_write(trace.0, tp_str { ptr: path.as_ptr().cast::<c_char>(), len: path.len() }, &options)
    };
    assert_eq!(status, 0);
}

/// Bytes that this process has resident, from `key` of the kernel's status file.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with(key)).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") * 1024
}

fn forget_peak() {
    // 5: reset the peak, as proc(5) says.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn peer(folder: &Path) -> PathBuf {
    let program = folder.join("writer");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/writer.cpp");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let status = Command::new(compiler)
        .args(["-std=c++17", "-O3", "-march=native"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.expect("a C++ compiler").success());
    program
}

/// The size that zlib level 1 gives, and the seconds it takes.
fn zlib(json: &Path) -> Option<(u64, f64)> {
    let script = "import sys,time,zlib\n\
                  data=open(sys.argv[1],'rb').read();start=time.perf_counter()\n\
                  c=zlib.compressobj(1,zlib.DEFLATED,31);n=len(c.compress(data))+len(c.flush())\n\
                  print(n,time.perf_counter()-start)";
    let output = Command::new("python3").arg("-c").arg(script).arg(json).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let ops = numbers.first().copied().unwrap_or(1_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(7);
    let folder = tempfile::tempdir().expect("scratch folder");
    let path = |name: &str| folder.path().join(name);
    let (json, gz, peer_json) = (path("ours.json"), path("ours.json.gz"), path("peer.json"));
    let peer = peer(folder.path());
    let workload = Workload::new(ops);

    let before = memory("VmRSS:");
    let trace = workload.add();
    let resident = memory("VmRSS:").saturating_sub(before);
    // SAFETY: the struct is valid when zero.
    let counts = unsafe {
        let mut counts: tp_counts = zeroed();
        counts.size = size_of::<tp_counts>();
        assert_eq!(tp_trace_counts(trace.0, &mut counts), 0);
        counts
    };
    let mut added = Vec::new();
    for (name, path, gzip, keep) in
        [("json", &json, false, true), ("json, overlaps separated", &json, false, false), ("json.gz", &gz, true, true)]
    {
        forget_peak();
        let before = memory("VmRSS:");
        write(&trace, path, gzip, keep);
        added.push((name, memory("VmHWM:").saturating_sub(before)));
    }
    let (torch, perfetto) = (path("torch.json"), path("ours.pftrace"));
    for (name, path, format) in [("torch json", &torch, TP_FORMAT_TORCH), ("pftrace", &perfetto, TP_FORMAT_PERFETTO)] {
        forget_peak();
        let before = memory("VmRSS:");
        write_as(&trace, path, format, false, false);
        added.push((name, memory("VmHWM:").saturating_sub(before)));
    }
    let size_of_file = |path: &Path| std::fs::metadata(path).expect("a file").len();
    let (torch_size, perfetto_size, gz_size) = (size_of_file(&torch), size_of_file(&perfetto), size_of_file(&gz));
    write(&trace, &json, false, true);
    drop(trace);

    let mut all = [
        Series("C++ writer, .json", vec![]),
        Series("write of the same bytes", vec![]),
        Series("tptrace, add", vec![]),
        Series("tptrace, .json", vec![]),
        Series("tptrace, .json, overlaps separated", vec![]),
        Series("tptrace, .json.gz", vec![]),
        Series("tptrace, torch .json", vec![]),
        Series("tptrace, .pftrace of the same", vec![]),
    ];
    let bytes = std::fs::read(&json).expect("our document");
    // Files of before go first, off the clock: freeing their pages costs as much as writing some.
    let clear = || {
        [&json, &gz, &peer_json, &path("copy.json"), &path("lanes.json"), &torch, &perfetto].map(std::fs::remove_file)
    };
    for _ in 0..rounds {
        let _ = clear();
        let output = Command::new(&peer).arg(ops.to_string()).arg(&peer_json).output().expect("the peer");
        let seconds = String::from_utf8(output.stdout).expect("UTF-8");
        all[0].1.push(seconds.trim().parse().expect("seconds"));
        timed(&mut all[1], || std::fs::write(path("copy.json"), &bytes)).expect("a file");
        let trace = timed(&mut all[2], || workload.add());
        let _ = clear();
        timed(&mut all[3], || write(&trace, &json, false, true));
        let _ = clear();
        timed(&mut all[4], || write(&trace, &path("lanes.json"), false, false));
        timed(&mut all[5], || write(&trace, &gz, true, true));
        let _ = clear();
        timed(&mut all[6], || write_as(&trace, &torch, TP_FORMAT_TORCH, false, false));
        let _ = clear();
        timed(&mut all[7], || write_as(&trace, &perfetto, TP_FORMAT_PERFETTO, false, false));
    }
    // Compared on the last round's file.
    Command::new(&peer).arg(ops.to_string()).arg(&peer_json).output().expect("the peer");
    let peer_bytes = std::fs::read(&peer_json).expect("the peer's document");
    for (ours, theirs) in bytes.split(|&byte| byte == b'\n').zip(peer_bytes.split(|&byte| byte == b'\n')) {
        let text = |line| String::from_utf8_lossy(line);
        assert!(ours == theirs, "the C++ writer prints another line:\n{}\n{}", text(ours), text(theirs));
    }
    assert_eq!(bytes.len(), peer_bytes.len(), "the C++ writer prints another length");

    let size = bytes.len() as f64;
    let events = bytes.iter().filter(|&&byte| byte == b'\n').count();
    println!(
        "{ops} ops, {} GPU activities: {:.1} MB of JSON in {events} lines; medians of {rounds}",
        ops / 2,
        size / 1e6
    );
    println!("{:40} {:>9} {:>15} {:>8} {:>12}", "", "seconds", "quartiles", "GB/s", "of C++ time");
    let reference = all[0].median();
    for series in &all {
        let [low, median, high] = series.quartiles();
        let spread = format!("{low:.3} - {high:.3}");
        println!("{:40} {median:9.3} {spread:>15} {:8.2} {:12.2}", series.0, size / median / 1e9, median / reference);
    }
    for (name, last) in [("tptrace, add and .json", 3), ("tptrace, add and .json.gz", 5)] {
        let median = all[2].median() + all[last].median();
        println!("{name:40} {median:9.3} {:>15} {:8.2} {:12.2}", "", size / median / 1e9, median / reference);
    }
    print!(".json.gz: {:.1} MB, {:.1} to 1", gz_size as f64 / 1e6, size / gz_size as f64);
    std::fs::write(&json, &bytes).expect("a file");
    match zlib(&json) {
        Some((zlib_size, seconds)) => println!(
            "; zlib level 1: {:.1} MB, {:.2} GB/s on its one core; ours is {:.3} of its size",
            zlib_size as f64 / 1e6,
            size / seconds / 1e9,
            gz_size as f64 / zlib_size as f64
        ),
        None => println!("; zlib not compared: no python3"),
    }
    println!(
        "torch .json: {:.1} MB, .pftrace of the same: {:.1} MB, 1 to {:.2}",
        torch_size as f64 / 1e6,
        perfetto_size as f64 / 1e6,
        torch_size as f64 / perfetto_size as f64
    );
    println!(
        "memory of an op with its half of a GPU activity: {} bytes counted, {} resident",
        counts.memory / ops as u64,
        resident / ops as u64
    );
    for (name, bytes) in added {
        println!("memory added by writing {name}: {:.1} MB", bytes as f64 / 1e6);
    }
}
