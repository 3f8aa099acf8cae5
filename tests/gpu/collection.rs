//! GPU work comes into the trace whole, in place, and linked.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use tptrace::gpu::{self, GpuKinds};
use tptrace::{ClockDomain, Format, Op, Trace, TraceOptions};

use crate::ALLOCATIONS;
use crate::fakes::cuda;
use crate::workload::{Gpu, apart, document, events, lane, slices};

/// The reader's table covers them all: one of each shape of records.
const VERSIONS: [u32; 6] = [18, 22, 28, 130_000, 130_100, 130_500];

pub(crate) fn thread_id() -> u64 {
    let path = std::fs::read_link("/proc/thread-self").expect("Linux");
    path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok()).expect("a number")
}

/// Tells threads to end, whatever happens.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

apart! {
/// A span that is an op, open while GPU work is collected: its kernels point back at it.
fn kernels_point_back_at_live_ops() {
    use tptrace::record::{Full, Name};
    let gpu = Gpu::new(18);
    for full in [Full::DropNew, Full::KeepRecent] {
        let trace = Trace::new(&tptrace::TraceOptions {
            record_bytes: 8 << 20,
            record_full: full,
            ..tptrace::TraceOptions::default()
        });
        let (op, other) = (Name::new("aten::mm", "cpu_op").expect("named"), Name::new("step", "").expect("named"));
        drop(trace.span(op));
        gpu::start(&trace, &gpu.options(GpuKinds::ALL)).expect("started");
        // Time between them, as there is in a program: spans and calls are timed by clocks that differ by nanoseconds.
        let apart = || thread::sleep(std::time::Duration::from_millis(1));
        let launched = {
            let _step = trace.span(other);
            let _op = trace.span(op);
            apart();
            let launched = gpu.launch(c"gemm", 1, 7);
            apart();
            launched
        };
        apart();
        let without = gpu.launch(c"alone", 1, 7);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!((report.kernels, report.links), (2, 1), "{report:?}");
        apart();
        drop(trace.span(op));
        let torch = document(&trace, Format::Torch);
        let kernels = slices(&torch, "kernel");
        let of = |correlation: u32| {
            let found = kernels.iter().find(|event| event["args"]["correlation"] == correlation);
            &found.expect("a kernel")["args"]["External id"]
        };
        let ops = slices(&torch, "cpu_op");
        assert_eq!(ops.len(), 3);
        let told: Vec<_> = ops.iter().filter(|event| event["args"]["External id"] == *of(launched)).collect();
        assert_eq!((told.len(), &told[0]["name"]), (1, &"aten::mm".into()), "{full:?}: {:?}", of(launched));
        assert!(ops.iter().all(|event| event["args"]["External id"] != *of(without)), "{:?}", of(without));
        // A thread has one lane for its ops and its calls, with the thread's number.
        let calls = slices(&torch, "cuda_runtime");
        let lanes: HashSet<String> =
            ops.iter().chain(&calls).map(|event| format!("{} {}", event["pid"], event["tid"])).collect();
        assert!(calls.len() == 2 && lanes.len() == 1, "{lanes:?}");
        let flows = |ph: &str| torch["traceEvents"].as_array().expect("events").iter().filter(|e| e["ph"] == ph).count();
        assert_eq!((flows("s"), flows("f")), (2, 2), "from the op to the launch to the kernel, and from the other launch");
    }
}
}

/// One of everything, and what the trace has of it.
fn everything(gpu: &Gpu, version: u32) {
    let trace = Trace::default();
    assert_eq!(gpu::start(&trace, &gpu.options(GpuKinds::ALL)).expect("started"), [""; 0]);
    let before = tptrace::monotonic_ns();
    gpu::push_op(&trace, 70);
    gpu::push_op(&trace, 71);
    let launched = gpu.launch(c"_Z4gemmIfiEvPT_", 1, 7);
    gpu::pop_op();
    let copied = gpu.copy(1, 4096, 0, 13);
    gpu::pop_op();
    let moved = gpu.peer(64, 0, 1, 14);
    let filled = gpu.fill(255, 256, 0, 7);
    let driven = gpu.call("fake_driver_call", [307]);
    gpu.call("fake_sync", [3, 1, 7]);
    gpu.call("fake_sync", [1, 0, 7]);
    gpu.call("fake_sync", [4, 0, u32::MAX]);
    gpu.call("fake_overhead", [1 << 16]);
    gpu.marker(c"a range", 5000);
    gpu.marker(c"a mark", 0);
    let after = tptrace::monotonic_ns();
    let op = |id, name: &str, end_ns| {
        let (name, start_ns) = (name.into(), before - 1_000_000);
        trace
            .add_op(&Op { name, id: Some(id), start_ns, end_ns, thread_id: thread_id(), ..Op::default() })
            .expect("added");
    };
    op(70, "outer", after + 10);
    op(71, "inner", after + 5);
    let report = gpu::stop(&trace).expect("stopped");
    assert_eq!(report.warnings, [""; 0], "{report:?}");
    assert_eq!(
        (report.kernels, report.memcpys, report.memsets, report.runtime_calls, report.driver_calls),
        (1, 2, 1, 7, 1),
        "{report:?}"
    );
    assert_eq!((report.syncs, report.overheads, report.markers, report.links), (3, 1, 2, 2), "{report:?}");
    assert!(report.buffers >= 1 && report.clock_uncertainty_ns > 0 && report.clock_drift_ns < 1_000_000, "{report:?}");

    let torch = document(&trace, Format::Torch);
    let args = |cat: &str, correlation: u32| {
        let found: Vec<_> =
            slices(&torch, cat).into_iter().filter(|event| event["args"]["correlation"] == correlation).collect();
        assert_eq!(found.len(), 1, "{cat} {correlation}");
        found[0]
    };
    let kernel = args("kernel", launched);
    assert_eq!(kernel["name"], "void gemm<float, int>(float*)");
    assert_eq!(lane(&torch, kernel), "stream 7");
    let mut expected = json!({
        "correlation": launched, "External id": 71, "device": 1, "stream": 7, "grid": [2, 3, 4], "block": [128, 2, 1],
        "registers per thread": 40, "shared memory": 3072, "context": 2, "graph id": 5, "graph node id": 99_999_999_999_u64,
        "channel": 11, "channel_type": 1, "blocks per SM": 24.0 / 132.0, "warps per SM": 24.0 / 132.0 * 8.0,
    });
    if version >= 130_100 {
        expected["priority"] = json!(-3);
    }
    assert_eq!(kernel["args"], expected);
    let copy = args("gpu_memcpy", copied);
    assert_eq!(copy["name"], "Memcpy HtoD (Pageable -> Device)");
    assert_eq!(
        copy["args"],
        json!({
            "correlation": copied, "External id": 70, "bytes": 4096, "copy kind": 1, "device": 0, "stream": 13,
            "memory bandwidth (GB/s)": 1.024, "context": 1,
        })
    );
    let peer = args("gpu_memcpy", moved);
    assert_eq!(peer["name"], "Memcpy PtoP (Device -> Device)");
    assert_eq!(peer["args"].get("External id"), None);
    for (key, number) in [("fromDevice", 0), ("fromContext", 1), ("toDevice", 1), ("toContext", 2), ("copy kind", 10)] {
        assert_eq!(peer["args"][key], number, "{key}");
    }
    let fill = args("gpu_memset", filled);
    assert_eq!((&fill["name"], &fill["args"]["value"]), (&json!("Memset (Device)"), &json!(255)));
    let launch = args("cuda_runtime", launched);
    assert_eq!((&launch["name"], &launch["args"]["cbid"]), (&json!("cudaLaunchKernel"), &json!(211)));
    assert_eq!(launch["args"]["External id"], 71);
    assert_eq!(lane(&torch, launch), format!("thread {}", thread_id()));
    assert_eq!(args("cuda_driver", driven)["name"], "cuLaunchKernel");

    let syncs = slices(&torch, "cuda_sync");
    let sync = |name: &str| *syncs.iter().find(|event| event["name"] == name).expect(name);
    assert_eq!(sync("Stream Sync")["args"]["device"], 1);
    assert_eq!(sync("Stream Sync")["args"]["stream"], 7);
    assert_eq!(sync("Stream Sync")["args"]["cuda_sync_kind"], "Stream Sync");
    assert_eq!(sync("Stream Sync")["args"].get("wait_on_cuda_event_id"), None);
    assert_eq!(sync("Event Sync")["args"]["wait_on_cuda_event_id"], 17);
    assert_eq!(sync("Context Sync")["args"]["stream"], -1);
    assert_eq!(lane(&torch, sync("Stream Sync")), "stream 7 (sync)");
    assert_eq!(lane(&torch, sync("Context Sync")), "context (sync)");
    assert_eq!(slices(&torch, "overhead")[0]["name"], "Buffer Flush");
    assert_eq!(lane(&torch, slices(&torch, "overhead")[0]), "CUPTI overhead");
    let range =
        slices(&torch, "user_annotation").into_iter().find(|event| event["name"] == "a range").expect("the range");
    // It crosses the calls that the fake makes meanwhile, and so may be drawn beside their lane.
    assert_eq!(range["dur"].to_string(), "5.000");
    assert!(lane(&torch, range).starts_with(&format!("thread {}", thread_id())), "{range}");
    assert!(events(&torch).iter().any(|event| event["ph"] == "i" && event["name"] == "a mark"));

    // From op to launch to kernel.
    let flow = |phase: &str| {
        let is = |event: &&Value| event["ph"] == phase && event["cat"] == "ac2g" && event["id"] == launched;
        events(&torch).iter().find(is).unwrap_or_else(|| panic!("no {phase}"))
    };
    let inner = slices(&torch, "cpu_op").into_iter().find(|event| event["name"] == "inner").expect("the op");
    for (phase, at) in [("s", inner), ("t", launch), ("f", kernel)] {
        assert_eq!((&flow(phase)["pid"], &flow(phase)["tid"], &flow(phase)["ts"]), (&at["pid"], &at["tid"], &at["ts"]));
    }
    // On the trace's clock.
    let base = torch["baseTimeNanoseconds"].as_i64().expect("a base");
    for event in slices(&torch, "kernel").into_iter().chain(slices(&torch, "cuda_runtime")) {
        let start = base + (event["ts"].as_f64().expect("a time") * 1000.0) as i64;
        let near = 100_000 + report.clock_uncertainty_ns as i64;
        assert!(before - near <= start && start <= after + near, "{before} {start} {after}");
    }
    assert_eq!(torch["deviceProperties"].as_array().map(Vec::len), Some(2));
    assert_eq!(torch["cupti_version"], version);
    assert_eq!(torch["tptrace"]["gpu"]["kernels"], 1);
    assert_eq!(torch["tptrace"]["gpu"]["warnings"], json!([]));
    assert!(document(&trace, Format::Plain).get("tptrace").is_none(), "nothing was lost");
}

/// A process each: one has one CUPTI.
macro_rules! versions {
    ($($name:ident: $version:literal),*) => {$(
        apart! { fn $name() { everything(&Gpu::new($version), $version) } }
    )*};
}
versions! {
    everything_arrives_from_11_8: 18,
    everything_arrives_from_12_4: 22,
    everything_arrives_from_12_9: 28,
    everything_arrives_from_13_0: 130_000,
    everything_arrives_from_13_1: 130_100,
    everything_arrives_from_13_5: 130_500
}

/// For the one that is compiled against NVIDIA's headers.
#[test]
fn everything_arrives_from_the_given_cupti() {
    if let Some(cupti) = std::env::var_os("TP_GPU_FAKE") {
        let gpu = Gpu::with(cupti.into());
        let found = gpu::info(&gpu.libraries).cupti.expect("found").version;
        everything(&gpu, u32::try_from(found).expect("a version"));
    }
}

#[test]
fn the_versions_above_are_all() {
    let source = include_str!("collection.rs").replace('_', "");
    assert!(VERSIONS.iter().all(|version| source.contains(&format!(": {version}"))));
}

apart! {
    fn collections_follow_one_another() {
        let gpu = Gpu::new(28);
        let (first, second) = (Trace::default(), Trace::default());
        let options = gpu.options(GpuKinds::default());
        for round in 1..=20 {
            let trace = if round % 2 == 0 { &first } else { &second };
            gpu.launch(c"between", 0, 7);
            // Started on one thread, stopped on another.
            thread::scope(|scope| scope.spawn(|| gpu::start(trace, &options).expect("started")).join().expect("no panic"));
            for _ in 0..round {
                gpu.launch(c"inside", 0, 7);
            }
            assert_eq!(gpu::stop(trace).expect("stopped").kernels, round);
            assert!(gpu::stop(trace).expect_err("stopped already").to_string().contains("start it first"));
        }
        let torch = document(&first, Format::Torch);
        assert_eq!(torch["tptrace"]["gpu"]["kernels"], 2 + 4 + 6 + 8 + 10 + 12 + 14 + 16 + 18 + 20);
        assert_eq!(torch["tptrace"]["gpu"]["collections"], 10);
        assert_eq!(slices(&torch, "kernel").len(), 110);
        assert!(slices(&torch, "kernel").iter().all(|kernel| kernel["name"] == "inside"));
        assert_eq!(gpu.call("fake_is_subscribed", []), 0);
    }
}

apart! {
    fn threads_launch_through_small_buffers() {
        for (per_thread, foreign) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let gpu = Gpu::new(28);
            gpu.set("PER_THREAD", per_thread);
            gpu.set("FOREIGN", foreign);
            let trace = Trace::default();
            let mut options = gpu.options(GpuKinds::default());
            (options.buffer_bytes, options.cap_bytes) = (8 << 10, 64 << 20);
            gpu::start(&trace, &options).expect("started");
            let launch = gpu.launches();
            thread::scope(|scope| {
                let threads = [0, 1, 2, 3].map(|number| {
                    let (launch, trace) = (&launch, &trace);
                    scope.spawn(move || {
                        for i in 0..2000 {
                            gpu::push_op(trace, number * 10_000 + i);
                            launch(c"kernel", 0, number as u32);
                            gpu::pop_op();
                        }
                    })
                });
                threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
            let report = gpu::stop(&trace).expect("stopped");
            assert_eq!((report.kernels, report.runtime_calls, report.links), (8000, 8000, 8000), "{report:?}");
            assert_eq!(report.warnings, [""; 0]);
            // 30 kernels, calls and links fit into one.
            assert!(report.buffers > 200, "{report:?}");
            let torch = document(&trace, Format::Torch);
            let mut ids: Vec<(i64, i64)> = slices(&torch, "kernel")
                .iter()
                .map(|kernel| {
                    let number = |key: &str| kernel["args"][key].as_i64().expect(key);
                    (number("stream"), number("External id"))
                })
                .collect();
            ids.sort_unstable();
            let expected: Vec<(i64, i64)> =
                (0..4).flat_map(|stream| (0..2000).map(move |i| (stream, stream * 10_000 + i))).collect();
            assert_eq!(ids, expected, "each kernel knows its op");
        }
    }
}

apart! {
    fn threads_go_on_launching_while_it_starts_and_stops() {
        let gpu = Gpu::new(130_500);
        gpu.set("PER_THREAD", 1);
        let trace = Trace::default();
        let mut options = gpu.options(GpuKinds::default());
        options.buffer_bytes = 16 << 10;
        let (launch, done) = (gpu.launches(), AtomicU64::new(0));
        thread::scope(|scope| {
            let start = || {
                scope.spawn(|| {
                    while done.load(Ordering::Relaxed) == 0 {
                        gpu::push_op(&trace, 1);
                        launch(c"kernel", 0, 7);
                        gpu::pop_op();
                        thread::sleep(std::time::Duration::from_micros(20));
                    }
                    assert_eq!(gpu.call("fake_depth", [3]), 0, "nothing is left open");
                })
            };
            let threads = [start(), start()];
            let all_done = Done(&done);
            let (mut kernels, mut kept) = (0, 0);
            for _ in 0..30 {
                gpu::start(&trace, &options).expect("started");
                thread::sleep(std::time::Duration::from_millis(3));
                let report = gpu::stop(&trace).expect("stopped");
                kernels += report.kernels;
                // A launch between the last flush and the end: told, and no more than one a thread.
                kept += report.kept_buffers;
                assert_eq!((report.torn_buffers, report.no_times, report.dropped), (0, 0, 0), "{report:?}");
            }
            assert!(kernels > 100 && kept < 10, "{kernels} {kept}");
            assert_eq!(trace.counts().dropped, 0);
            assert_eq!(slices(&document(&trace, Format::Torch), "kernel").len() as u64, kernels);
            drop(all_done);
            // The end of a scope is a fence of the standard library's, which ThreadSanitizer does not see; a join is.
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
    }
}

apart! {
    fn times_come_from_whatever_clock_cupti_has() {
        for clock in [0, 1, 2] {
            for domain in [ClockDomain::Monotonic, ClockDomain::Realtime] {
                let gpu = Gpu::new(28);
                gpu.set("CLOCK", clock);
                let trace = Trace::new(&TraceOptions { clock: domain, ..TraceOptions::default() });
                let now = || match domain {
                    ClockDomain::Realtime => tptrace::realtime_ns(),
                    _ => tptrace::monotonic_ns(),
                };
                gpu::start(&trace, &gpu.options(GpuKinds::default())).expect("started");
                let before = now();
                gpu.launch(c"kernel", 0, 7);
                let after = now();
                let report = gpu::stop(&trace).expect("stopped");
                assert_eq!(report.warnings, [""; 0]);
                let near = 50_000 + report.clock_uncertainty_ns as i64;
                let torch = document(&trace, Format::Torch);
                let base = torch["baseTimeNanoseconds"].as_i64().expect("a base");
                let call = slices(&torch, "cuda_runtime")[0];
                let start = base + (call["ts"].as_f64().expect("a time") * 1000.0) as i64;
                assert!(before - near <= start && start <= after + near, "{clock} {domain:?}: {before} {start} {after}");
            }
        }
    }
}

apart! {
    fn a_clock_that_nobody_knows_is_refused() {
        let gpu = Gpu::new(28);
        let trace = Trace::new(&TraceOptions { clock: ClockDomain::Unknown, ..TraceOptions::default() });
        let error = gpu::start(&trace, &gpu.options(GpuKinds::default())).expect_err("no clock");
        assert!(error.to_string().contains("clock"), "{error}");
    }
}

apart! {
    fn calls_that_say_little_are_left_out() {
        let gpu = Gpu::new(28);
        let trace = Trace::default();
        let mut options = gpu.options(GpuKinds::default());
        let work = || {
            for callback in [10, 17, 134, 165, 9999] {
                gpu.call("fake_runtime_call", [callback, 0]);
            }
            for callback in [307, 135] {
                gpu.call("fake_driver_call", [callback]);
            }
            gpu.call("fake_runtime_call", [20, 2]);
        };
        gpu::start(&trace, &options).expect("started");
        work();
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!((report.runtime_calls, report.driver_calls, report.filtered), (3, 1, 4), "{report:?}");
        let torch = document(&trace, Format::Torch);
        let calls = slices(&torch, "cuda_runtime");
        let names: Vec<_> = calls.iter().map(|call| call["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["cudaDeviceSynchronize", "cudaFromTheFuture", "cudaMalloc"]);
        assert_eq!(calls[2]["args"]["cuda result"], 2, "what a call answered, if not success");
        assert_eq!(calls[0]["args"].get("cuda result"), None);

        options.all_calls = true;
        let trace = Trace::default();
        gpu.set("RC_NAMES", 999);
        gpu::start(&trace, &options).expect("started");
        work();
        gpu.launch(c"kernel", 0, 7);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!((report.runtime_calls, report.driver_calls, report.filtered), (7, 2, 0), "{report:?}");
        let torch = document(&trace, Format::Torch);
        let names: Vec<_> = slices(&torch, "cuda_runtime").iter().map(|call| call["name"].clone()).collect();
        // CUPTI does not tell the names now.
        assert!(names.contains(&json!("cudaLaunchKernel")) && names.contains(&json!("runtime call 9999")), "{names:?}");
    }
}

apart! {
    fn kernels_without_calls_are_taken_too() {
        let gpu = Gpu::new(28);
        let trace = Trace::default();
        gpu::start(&trace, &gpu.options(GpuKinds::KERNEL)).expect("started");
        gpu.launch(c"kernel", 0, 7);
        gpu.copy(1, 64, 0, 7);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!((report.kernels, report.memcpys, report.runtime_calls), (1, 0, 0));
        for kind in [1, 2, 5, 10, 22, 38, 39] {
            assert_eq!(gpu.call("fake_is_enabled", [kind]), 0, "kind {kind} is off again");
        }
    }
}

apart! {
    fn a_record_takes_no_allocation() {
        let gpu = Gpu::new(28);
        let trace = Trace::default();
        let mut options = gpu.options(GpuKinds::default());
        options.buffer_bytes = 64 << 10;
        gpu::start(&trace, &options).expect("started");
        let work = |count: u64| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for i in 0..count {
                gpu::push_op(&trace, i);
                gpu.launch(if i % 2 == 0 { c"_Z4gemmIfiEvPT_" } else { c"relu" }, 0, 7);
                gpu::pop_op();
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        work(20_000);
        // The test's own handle to the fake's functions takes some: as many as without a collection.
        let with = work(20_000);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!(report.kernels, 40_000, "{report:?}");
        let without = work(20_000);
        // Chunks of the logs remain, of thousands of records each.
        assert!(with.saturating_sub(without) < 500, "{with} allocations for 60,000 records, {without} without");
    }
}

#[test]
fn the_driver_is_the_fake_one() {
    assert!(cuda().ends_with("libcuda.so.1"));
}
