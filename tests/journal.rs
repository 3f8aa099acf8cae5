//! A trace survives its process: what was recorded is recovered from the journal, however the process ended.

use std::io::{BufRead, BufReader, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tptrace::journal::{Recovered, recover};
use tptrace::output::Target;
use tptrace::record::{Async, Flow, Full, Name};
use tptrace::{
    Arg, ClockDomain, Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuDetails, GpuKind, Inputs, Instant,
    InstantScope, Int, MemoryEvent, Op, OpKind, RankWorld, Sample, Trace, TraceOptions,
};

fn name(text: &str) -> Name {
    Name::new(text, "test").expect("interned")
}

fn options() -> ExportOptions {
    ExportOptions { format: Format::Torch, trace_name: "t".into(), ..ExportOptions::default() }
}

fn written(trace: &Trace) -> Value {
    let mut out = Vec::new();
    trace.write_to(Target::Writer(&mut out), &options(), None).expect("written");
    serde_json::from_slice(&out).expect("strict JSON")
}

fn recovered(journal: &Path) -> (Value, Recovered) {
    let mut out = Vec::new();
    let (recovered, _) = recover(journal, Target::Writer(&mut out), &options(), None).expect("recovered");
    (serde_json::from_slice(&out).expect("strict JSON"), recovered)
}

fn refused(journal: &Path) -> String {
    let mut out = Vec::new();
    let refused = recover(journal, Target::Writer(&mut out), &options(), None).expect_err("refused");
    assert!(out.is_empty());
    refused.to_string()
}

/// Everything that a caller can add.
fn add_all(trace: &Trace, round: u64) {
    let at = trace.base_ns() + round as i64 * 10_000;
    let args = [
        Arg { key: "text".into(), value: tptrace::Value::Text("ä\n".into()) },
        Arg { key: "uint".into(), value: tptrace::Value::Uint(u64::MAX) },
        Arg { key: "int".into(), value: tptrace::Value::Int(-7) },
        Arg { key: "float".into(), value: tptrace::Value::Float(0.1) },
        Arg { key: "bool".into(), value: tptrace::Value::Bool(true) },
        Arg { key: "External id".into(), value: tptrace::Value::Bool(false) },
    ];
    let fresh = format!("op {round}");
    let id = trace
        .add_op(&Op {
            name: fresh.as_str().into(),
            start_ns: at,
            end_ns: at + 5_000,
            thread_id: 7 + round % 2,
            inputs: Some(Inputs { dims: &[2, -1, 4], ranks: &[2, 0, 1], dtypes: Dtypes::Codes(&[8, 4, 300]) }),
            call_site: "model.py:3".into(),
            gpu_ms: Some(0.25),
            kernel_count: 2,
            output_bytes: 4096,
            stack: &["inner".into(), "outer".into()],
            args: &args,
            ..Op::default()
        })
        .expect("added");
    let names = ["float".into(), "c10::Half".into()];
    let inputs = Some(Inputs { dims: &[1], ranks: &[1], dtypes: Dtypes::Names(&names) });
    let annotation = Op { kind: OpKind::UserAnnotation, inputs, start_ns: at, end_ns: at + 1, ..Op::default() };
    trace
        .add_op(&Op { name: "note".into(), category: "own".into(), id: Some(1 << 40 | round), ..annotation })
        .expect("added");
    let (correlation_id, external_id) = (Int::from(id + 1), Some(Int::from(id)));
    let call = GpuActivity {
        name: "cudaLaunchKernel".into(),
        kind: GpuKind::Runtime,
        start_ns: at + 100,
        end_ns: at + 200,
        correlation_id,
        external_id,
        os_thread: 7,
        callback_id: 211,
        ..GpuActivity::default()
    };
    trace.add_gpu(&call).expect("added");
    let details = GpuDetails { grid: Some([1, 2, 3]), registers_per_thread: Some(32), ..GpuDetails::default() };
    let kernel = GpuActivity {
        name: "sgemm".into(),
        start_ns: at + 300,
        end_ns: at + 900,
        stream: 7,
        args: &args,
        details,
        ..GpuActivity::default()
    };
    trace.add_gpu(&GpuActivity { correlation_id, external_id, ..kernel }).expect("added");
    let copy = GpuActivity {
        kind: GpuKind::Memcpy,
        name: "Memcpy HtoD".into(),
        bytes: Int::from(-4i64),
        copy_kind: 1,
        correlation_id: Int::from(-1i64),
        ..kernel
    };
    trace.add_gpu(&GpuActivity { start_ns: at + 950, end_ns: at + 990, device: 1, ..copy }).expect("added");
    let memory = MemoryEvent {
        time_ns: at,
        address: u64::MAX,
        bytes: 1 << 40,
        allocated: true,
        cuda_device: Some(0),
        thread_id: 7,
        args: &args,
    };
    trace.add_memory(&memory).expect("added");
    trace.add_memory(&MemoryEvent { allocated: false, cuda_device: None, args: &[], ..memory }).expect("added");
    trace
        .add_sample(&Sample { time_ns: at, os_thread: 7, stack: &["f (a.py:1)".into()], args: &args[..1] })
        .expect("added");
    trace.add_counter(&Counter { name: "queue".into(), time_ns: at, values: &args[1..4] }).expect("added");
    trace
        .add_instant(&Instant {
            name: "now".into(),
            time_ns: at,
            thread_id: 7,
            scope: InstantScope::Global,
            args: &args,
        })
        .expect("added");
    let _ = trace.add_counter(&Counter { name: "none".into(), time_ns: at, values: &[] });
}

fn record_all(trace: &Trace) {
    let outer = trace.span(name("outer"));
    outer.arg(name("batch"), tptrace::Value::Int(-3));
    outer.arg(name("text"), tptrace::Value::Text("seventeen bytes..".into()));
    drop(trace.span(name("inner")));
    trace.record_instant(name("mark"));
    trace.record_counter(name("depth"), 2.5);
    trace.record_flow(Flow::Start, name("flow"), 5);
    trace.record_flow(Flow::End, name("flow"), 5);
    trace.record_async(Async::Begin, name("async"), 6);
    trace.record_async(Async::End, name("async"), 6);
    trace.complete_span(name("given"), trace.base_ns() + 1, trace.base_ns() + 2);
}

/// Without what differs from document to document.
fn comparable(mut document: Value) -> Value {
    let whole = document.as_object_mut().expect("an object");
    whole.remove("trace_id");
    whole["tptrace"].as_object_mut().expect("ours").remove("recovered");
    // Another reading of the clock makes other anchors, and so nanoseconds of difference.
    whole["tptrace"]["recording"]["clock_uncertainty_ns"] = json!(0);
    for event in whole["traceEvents"].as_array_mut().expect("events") {
        for key in ["ts", "dur"] {
            if let Some(number) = event[key].as_f64() {
                event[key] = json!(number.round());
            }
        }
    }
    document
}

fn assert_alike(left: &Value, right: &Value) {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else { panic!("no objects") };
    let keys = |one: &serde_json::Map<String, Value>| one.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(left), keys(right));
    for (key, value) in left {
        if key != "traceEvents" {
            assert_eq!((key, value), (key, &right[key]));
        }
    }
    let (left, right) =
        (left["traceEvents"].as_array().expect("events"), right["traceEvents"].as_array().expect("events"));
    for (one, other) in left.iter().zip(right) {
        let (mut one, mut other) = (one.clone(), other.clone());
        for key in ["ts", "dur"] {
            let both = one[key].as_f64().zip(other[key].as_f64());
            // Rounded: a nanosecond may make one of it.
            assert!(both.is_none_or(|(one, other)| (one - other).abs() <= 1.0), "{one} {other}");
            (one[key], other[key]) = (Value::Null, Value::Null);
        }
        assert_eq!(one, other);
    }
    assert_eq!(left.len(), right.len());
}

#[test]
fn everything_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    for (clock, full, bytes) in [
        (ClockDomain::Monotonic, Full::DropNew, 0),
        (ClockDomain::Realtime, Full::DropNew, 64 << 20),
        (ClockDomain::Unknown, Full::KeepRecent, 0),
    ] {
        let journal = folder.path().join(format!("{clock:?}.journal"));
        let given = TraceOptions { clock, record_bytes: bytes, record_full: full, ..TraceOptions::default() };
        let trace = Trace::new(&given);
        add_all(&trace, 0);
        trace.start_journal(&journal).expect("started");
        assert_eq!(std::fs::metadata(&journal).expect("there").permissions().mode() & 0o777, 0o600);
        trace.set_rank(RankWorld { rank: Some(3), world_size: Some(8) });
        trace.set_backend("gloo");
        trace.set_process_name("trainer");
        trace.set_metadata("run", "{\"a\": [1, \"ä\"]}").expect("set");
        for round in 1..200 {
            add_all(&trace, round);
            record_all(&trace);
            if round % 50 == 0 {
                trace.sync_journal().expect("synced");
            }
        }
        std::thread::scope(|scope| {
            for index in 0..3 {
                let trace = &trace;
                let thread = std::thread::Builder::new().name(format!("worker {index}"));
                let thread = thread.spawn_scoped(scope, || record_all(trace)).expect("a thread");
                thread.join().expect("no panic");
            }
        });
        trace.set_thread_name(8, "eight");
        trace.sync_journal().expect("synced");
        let (from_journal, report) = recovered(&journal);
        let direct = written(&trace);
        let events = direct["traceEvents"].as_array().expect("events").len();
        assert!(events > 2_000);
        assert_alike(&comparable(direct), &comparable(from_journal));
        assert_eq!((report.unfinished, report.cut_bytes, report.damage.as_str()), (0, 0, ""));
        assert!(report.journal_bytes <= std::fs::metadata(&journal).expect("there").len());
        let state = trace.journal_state().expect("a journal");
        assert_eq!((state.failures, state.path.as_path()), (0, journal.as_path()));
        // It was written: the journal has done its work.
        drop(trace);
        assert!(!journal.exists());
    }
}

#[test]
fn the_journal_of_a_trace_that_was_not_written_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("j-%p");
    let there = folder.path().join(format!("j-{}", std::process::id()));
    let trace = Trace::default();
    trace.start_journal(&journal).expect("started");
    assert!(trace.start_journal(folder.path().join("other")).is_err());
    written(&trace);
    trace.begin_span(name("open"));
    drop(trace.span(name("closed")));
    drop(trace);
    let (document, report) = recovered(&there);
    let slices: Vec<&Value> =
        document["traceEvents"].as_array().expect("events").iter().filter(|event| event["cat"] == "test").collect();
    assert_eq!(slices.len(), 2);
    let open = slices.iter().find(|event| event["name"] == "open").expect("there");
    assert_eq!((&open["args"]["unfinished"], report.unfinished), (&json!(true), 1));
    assert_eq!(document["tptrace"]["recovered"]["unfinished"], 1);
    // What is there is not overwritten.
    let before = std::fs::read(&there).expect("read");
    let error = Trace::default().start_journal(&there).expect_err("refused").to_string();
    assert!(error.contains("tptrace recover"), "{error}");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&there, &link).expect("a link");
    assert!(Trace::default().start_journal(&link).is_err());
    assert_eq!(std::fs::read(&there).expect("read"), before);
    // A journal tells the whole of live recording or nothing.
    let late = Trace::default();
    drop(late.span(name("early")));
    assert!(late.start_journal(folder.path().join("late")).is_err() && !folder.path().join("late").exists());
}

#[test]
fn the_journal_of_a_trace_without_events_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    for _ in 0..2 {
        let trace = Trace::default();
        trace.start_journal(&journal).expect("started");
        trace.set_process_name("nothing happens in it");
        trace.sync_journal().expect("written");
        drop(trace);
        assert!(!journal.exists());
    }
    let trace = Trace::default();
    trace.start_journal(&journal).expect("started");
    trace.record_instant(name("one"));
    drop(trace);
    assert!(journal.exists());
}

#[test]
fn a_flight_recorders_journal_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("j");
    let options = TraceOptions { record_bytes: 1 << 20, record_full: Full::KeepRecent, ..TraceOptions::default() };
    let trace = Trace::new(&options);
    trace.start_journal(&journal).expect("started");
    trace.begin_span(name("whole run"));
    for step in 0..400_000u32 {
        drop(trace.span(name("step")));
        if step % 5_000 == 0 {
            trace.sync_journal().expect("synced");
            let length = std::fs::metadata(&journal).expect("there").len();
            assert!(length < 8 << 20, "{length}");
            assert_eq!(std::fs::metadata(&journal).expect("there").permissions().mode() & 0o777, 0o600);
        }
    }
    trace.begin_span(name("last"));
    trace.sync_journal().expect("synced");
    let (document, report) = recovered(&journal);
    let of = |wanted: &str| {
        let events = document["traceEvents"].as_array().expect("events").iter();
        events.filter(|event| event["name"] == wanted).count()
    };
    // The span that was open before all that is remembered is there, once.
    assert_eq!((of("whole run"), of("last"), report.unfinished), (1, 1, 2));
    assert!(of("step") > 5_000, "{}", of("step"));
    assert_eq!(std::fs::read_dir(&folder).expect("listed").count(), 1);
}

#[test]
fn a_flight_recorder_may_remember_more_than_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, record_bytes) in [usize::MAX, usize::MAX / 2 + 1].into_iter().enumerate() {
        let journal = folder.path().join(number.to_string());
        let options = TraceOptions { record_bytes, record_full: Full::KeepRecent, ..TraceOptions::default() };
        let trace = Trace::new(&options);
        trace.start_journal(&journal).expect("started");
        for _ in 0..100_000 {
            drop(trace.span(name("step")));
        }
        trace.sync_journal().expect("synced");
        // More than a megabyte, and not begun anew.
        assert_eq!(recovered(&journal).1.events, 100_000);
    }
}

/// A journal to damage.
fn some_journal(folder: &Path) -> PathBuf {
    let journal = folder.join("some");
    let trace = Trace::default();
    trace.start_journal(&journal).expect("started");
    for round in 0..20 {
        add_all(&trace, round);
        record_all(&trace);
        if round % 5 == 0 {
            trace.sync_journal().expect("synced");
        }
    }
    drop(trace);
    journal
}

#[test]
fn damage_is_cut_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(some_journal(folder.path())).expect("read");
    let damaged = folder.path().join("damaged");
    let mut last = 0;
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(&damaged, &whole[..cut]).expect("written");
        let mut out = Vec::new();
        match recover(&damaged, Target::Writer(&mut out), &options(), None) {
            Ok((report, _)) => {
                let _: Value = serde_json::from_slice(&out).expect("strict JSON");
                assert_eq!(report.journal_bytes + report.cut_bytes, cut as u64);
                assert!(report.events >= last);
                last = report.events;
            }
            Err(error) => assert!(last == 0 && out.is_empty(), "{cut}: {error}"),
        }
    }
    assert!(last > 100);
    // A hole, as a power cut may leave it.
    let mut holed = whole.clone();
    let middle = whole.len() / 2;
    holed[middle..middle + 4096].fill(0);
    std::fs::write(&damaged, &holed).expect("written");
    let (_, report) = recovered(&damaged);
    assert!(report.cut_bytes as usize > 4096 && !report.damage.is_empty() && report.events > 0, "{report:?}");

    std::fs::write(&damaged, b"{\"traceEvents\": []}").expect("written");
    assert!(refused(&damaged).contains("not a journal"));
    std::fs::write(&damaged, b"").expect("written");
    assert!(refused(&damaged).contains("not a journal"));
    for (line, what) in [
        ("tptrace journal 2\n", "newer tptrace"),
        ("tptrace journal 12", "newer tptrace"),
        ("tptrace journal 1\r", "not a journal"),
        ("tptrace journal 1", "not a journal"),
        ("tptrace journal x\n", "not a journal"),
    ] {
        std::fs::write(&damaged, [line.as_bytes(), &whole[18..]].concat()).expect("written");
        assert!(refused(&damaged).contains(what), "{line:?}");
    }
    std::fs::write(&damaged, b"tptrace journal 1\n").expect("written");
    assert!(refused(&damaged).contains("nothing whole"));
    assert!(refused(folder.path()).contains("not a regular file"));
    assert!(refused(&folder.path().join("absent")).contains("absent"));
    // The target stays as it was.
    let target = folder.path().join("target.json");
    std::fs::write(&target, b"old").expect("written");
    recover(&damaged, Target::File(&target), &options(), None).expect_err("refused");
    assert_eq!(std::fs::read(&target).expect("read"), b"old");
}

/// Checksums keep chance damage out; this is for damage on purpose.
#[test]
fn blocks_that_lie_are_refused_or_read_as_something() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(some_journal(folder.path())).expect("read");
    let lying = folder.path().join("lying");
    let mut at = 18;
    let mut heads = Vec::new();
    while at < whole.len() {
        let length = u32::from_le_bytes(whole[at + 4..at + 8].try_into().expect("four")) as usize;
        heads.push((at, length));
        at += 12 + length;
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for turn in 0..600 {
        let mut bytes = whole.clone();
        let (at, length) = heads[turn % heads.len()];
        for _ in 0..1 + turn % 3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes[at + 12 + (random >> 33) as usize % length] =
                (random >> 17) as u8 | if turn % 2 == 0 { 0xf0 } else { 0 };
        }
        let sum = crc32fast::hash(&[&bytes[at..at + 8], &bytes[at + 12..at + 12 + length]].concat());
        bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&lying, &bytes).expect("written");
        let mut out = Vec::new();
        if recover(&lying, Target::Writer(&mut out), &options(), None).is_ok() {
            let _: Value = serde_json::from_slice(&out).expect("strict JSON");
        }
    }
}

#[test]
fn a_full_disk_is_told_and_waited_for() {
    let trace = Trace::default();
    // There is always a full disk, and it has no file to make.
    assert!(trace.start_journal("/dev/full").is_err());
    assert!(trace.start_journal("/nowhere/at/all").expect_err("refused").to_string().contains("/nowhere/at/all"));
    assert!(trace.journal_state().is_none());
    trace.sync_journal().expect("nothing to do");
}

#[test]
fn a_journal_that_somebody_removed_or_emptied_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let trace = Trace::default();
    trace.start_journal(&path).expect("started");
    let own = name("own");
    let harms: [fn(&Path) -> std::io::Result<()>; 3] =
        [|path| std::fs::remove_file(path), |path| std::fs::write(path, ""), |path| std::fs::write(path, "tptrace jo")];
    for (round, harm) in harms.into_iter().enumerate() {
        add_all(&trace, round as u64);
        drop(trace.span(own));
        trace.sync_journal().expect("synced");
        harm(&path).expect("harmed");
        trace.sync_journal().expect("begun anew");
        let events = |document: Value| document["traceEvents"].as_array().map(Vec::len);
        assert_eq!(events(written(&trace)), events(recovered(&path).0));
        assert_eq!(path.metadata().expect("the journal").permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(trace.journal_state().expect("a journal").failures, 0);
    // One that was moved away as a whole is written on where it is.
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).expect("moved");
    let before = moved.metadata().expect("it").len();
    add_all(&trace, 9);
    trace.sync_journal().expect("synced");
    assert!(moved.metadata().expect("it").len() > before && !path.exists());
}

#[test]
fn a_file_that_took_the_place_of_a_journal_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for full in [Full::DropNew, Full::KeepRecent] {
        let path = folder.path().join("journal");
        let trace = Trace::new(&TraceOptions { record_bytes: 1 << 17, record_full: full, ..TraceOptions::default() });
        trace.start_journal(&path).expect("started");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "another's").expect("written");
        trace.add_instant(&Instant::default()).expect("added");
        let told = trace.sync_journal().expect_err("refused").to_string();
        assert!(told.contains("another file") && told.contains(path.to_str().expect("UTF-8")), "{told}");
        assert_eq!(trace.journal_state().expect("a journal").failure, told);
        for _ in 0..200_000 {
            drop(trace.span(name("span")));
        }
        assert!(trace.sync_journal().is_err());
        // It is free again.
        std::fs::remove_file(&path).expect("removed");
        trace.sync_journal().expect("begun anew");
        assert!(recovered(&path).1.events > 1);
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "another's").expect("written");
        trace.write(folder.path().join("out.json"), &options()).expect("written");
        drop(trace);
        assert_eq!(std::fs::read(&path).expect("it"), b"another's");
        std::fs::remove_file(&path).expect("removed");
    }
}

/// This test's own process, started again by the test below: the folder is one for all threads. No test of its own.
#[test]
fn wanderer() {
    let Some(folder) = std::env::var_os("TPTRACE_TEST_WANDERER").map(PathBuf::from) else { return };
    let (first, second) = (folder.join("first"), folder.join("second"));
    std::env::set_current_dir(&first).expect("there");
    let options = TraceOptions { record_bytes: 1 << 17, record_full: Full::KeepRecent, ..TraceOptions::default() };
    let trace = Trace::new(&options);
    trace.start_journal("journal").expect("started");
    std::env::set_current_dir(&second).expect("there");
    for _ in 0..100 {
        for _ in 0..4000 {
            drop(trace.span(name("span")));
        }
        trace.sync_journal().expect("synced");
    }
    assert!(recovered(&first.join("journal")).1.events > 1);
    trace.write("out.json", &self::options()).expect("written");
}

#[test]
fn a_journals_path_does_not_move_with_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = |which: &str| {
        let entries = std::fs::read_dir(folder.path().join(which)).expect("the folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    std::fs::create_dir(folder.path().join("first")).expect("a folder");
    std::fs::create_dir(folder.path().join("second")).expect("a folder");
    std::fs::write(folder.path().join("second/journal"), "another's").expect("written");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "wanderer", "--test-threads=1"])
        .env("TPTRACE_TEST_WANDERER", folder.path())
        .output()
        .expect("a child");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert!(names("first").is_empty(), "{:?}", names("first"));
    assert_eq!(names("second"), ["journal", "out.json"]);
    assert_eq!(std::fs::read(folder.path().join("second/journal")).expect("it"), b"another's");
}

#[test]
fn a_recovery_does_not_wait_for_a_pipe_nor_replace_its_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    assert!(refused(&pipe).contains("not a regular file"));
    let journal = some_journal(folder.path());
    let before = std::fs::read(&journal).expect("read");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&journal, &link).expect("a link");
    for output in [&journal, &link] {
        let told = recover(&journal, Target::File(output), &options(), None).expect_err("refused").to_string();
        assert!(told.contains("replace the journal"), "{told}");
    }
    assert_eq!(std::fs::read(&journal).expect("read"), before);
}

const CHILD: &str = "TPTRACE_TEST_JOURNAL";

/// Records without end, and says after each sync how many spans there were before it. No test of its own.
#[test]
fn child() {
    let Some(journal) = std::env::var_os(CHILD) else { return };
    let trace = Trace::default();
    trace.start_journal(Path::new(&journal)).expect("started");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let trace = &trace;
            scope.spawn(move || {
                for number in 0_i64.. {
                    let span = trace.span(name("outer"));
                    span.arg(name("number"), tptrace::Value::Int(number));
                    drop(trace.span(name("inner")));
                    drop(span);
                    if number % 1000 == 0 {
                        add_all(trace, number as u64);
                        trace.sync_journal().expect("synced");
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "synced {thread} {number}").expect("told");
                        out.flush().expect("told");
                    }
                }
            });
        }
    });
}

/// A program that becomes a daemon closes all files, and opens others.
#[test]
fn a_journal_that_the_program_closed_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, other) = (folder.path().join("journal"), folder.path().join("other"));
    for removed in [false, true] {
        let trace = Trace::default();
        trace.start_journal(&journal).expect("started");
        let record = || {
            drop(trace.span(name("step")));
            trace.sync_journal().expect("written");
        };
        record();
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("listed").flatten().map(|one| one.path());
        let to = |path: &Path| std::fs::read_link(path).ok();
        let own = descriptors.filter(|one| to(one).as_ref() == Some(&journal)).last().expect("it is open");
        let number = own.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        let text = "somebody else's\n".repeat(10_000);
        std::fs::write(&other, &text).expect("written");
        let file = std::fs::OpenOptions::new().append(true).open(&other).expect("open");
        // SAFETY: the descriptor is there, and it is never closed here.
        let place = unsafe { OwnedFd::from_raw_fd(number) };
        let mut place = ManuallyDrop::new(place);
        // Closes the journal, and opens the other file there at once.
        rustix::io::dup2(&file, &mut place).expect("replaced");
        if removed {
            std::fs::remove_file(&journal).expect("removed");
        }
        record();
        record();
        let (document, recovered) = recovered(&journal);
        let events = document["traceEvents"].as_array().expect("events");
        let steps = events.iter().filter(|event| event["name"] == "step" && event["ph"] == "X").count();
        assert_eq!((steps, recovered.cut_bytes), (3, 0));
        trace.write_to(Target::Writer(&mut Vec::new()), &options(), None).expect("written");
        drop(trace);
        // It is gone as always, and the other file was neither written, nor closed.
        assert!(!journal.exists());
        assert_eq!(std::fs::read_to_string(&other).expect("there"), text);
        assert_eq!(to(&own), Some(other.clone()));
    }
}

#[test]
fn what_was_synced_survives_a_kill() {
    let kills: u64 = std::env::var("TPTRACE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let keep = std::env::var_os("TPTRACE_KEEP").map(PathBuf::from);
    let folder = tempfile::tempdir().expect("a folder");
    for kill in 0..kills {
        let journal = folder.path().join(format!("journal {kill}"));
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, &journal)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let mut synced = [-1; 2];
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut more = |synced: &mut [i64; 2]| {
            let line = lines.next()?.ok()?;
            let mut words = line.split_once("synced ")?.1.split(' ').map(str::parse::<i64>);
            if let (Some(Ok(thread)), Some(Ok(number))) = (words.next(), words.next()) {
                synced[thread as usize] = number;
            }
            Some(())
        };
        while synced.contains(&-1) {
            let _ = more(&mut synced);
        }
        std::thread::sleep(std::time::Duration::from_micros(kill * 7_919 % 300_000));
        child.kill().expect("killed");
        child.wait().expect("gone");
        while more(&mut synced).is_some() {}
        let (document, report) = recovered(&journal);
        if let Some(folder) = &keep {
            let path = folder.join(format!("recovered-{kill}.json"));
            recover(&journal, Target::File(&path), &options(), None).expect("recovered");
        }
        let mut last = std::collections::HashMap::new();
        let mut unfinished = 0;
        for event in document["traceEvents"].as_array().expect("events").iter().filter(|event| event["cat"] == "test") {
            unfinished += u64::from(event["args"]["unfinished"] == true);
            if let Some(number) = event["args"]["number"].as_i64() {
                let next = last.entry(event["tid"].to_string()).or_insert(-1);
                // None is missing and none is there twice.
                assert_eq!(number, *next + 1);
                *next = number;
            }
        }
        assert_eq!(unfinished, report.unfinished);
        let mut found: Vec<i64> = last.into_values().collect();
        found.sort_unstable();
        synced.sort_unstable();
        assert!(
            found.len() == 2 && found.iter().zip(synced).all(|(found, synced)| *found >= synced),
            "{found:?} {synced:?}"
        );
    }
}
