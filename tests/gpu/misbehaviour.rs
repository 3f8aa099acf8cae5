//! CUPTI as it is seen in the field: refusing, late, torn, wrong. The trace goes on, and says what is missing.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tptrace::gpu::{self, GpuKinds, GpuOptions, GpuReport};
use tptrace::{Error, Format, GpuFailure, Op, Trace};

use crate::fakes::{GUIDE, cupti, cupti_with};
use crate::workload::{Gpu, apart, document, slices};

/// What a start failed with.
fn refused(trace: &Trace, options: &GpuOptions) -> (GpuFailure, String) {
    match gpu::start(trace, options) {
        Err(Error::Gpu { failure, message }) => (failure, message),
        other => panic!("{other:?}"),
    }
}

/// Collects what `work` does.
fn collect<T>(gpu: &Gpu, options: &GpuOptions, work: impl FnOnce() -> T) -> (Trace, GpuReport) {
    let trace = Trace::default();
    gpu::start(&trace, options).unwrap_or_else(|error| panic!("{error}"));
    work();
    let report = gpu::stop(&trace).expect("stopped");
    assert_eq!(gpu.call("fake_is_subscribed", []), 0);
    (trace, report)
}

/// The report says so, and the guide explains it.
fn warns(report: &GpuReport, part: &str) {
    assert!(GUIDE.contains(part), "{part:?} is not in docs/gpu.md");
    assert!(report.warnings.iter().any(|warning| warning.contains(part)), "{part}: {:?}", report.warnings);
}

apart! {
    fn each_refusal_says_what_to_do_and_leaves_the_trace_alone() {
        for version in [18, 28, 130_500] {
            let gpu = Gpu::new(version);
            let options = gpu.options(GpuKinds::default());
            let trace = Trace::default();
            for (key, code, failure, advice) in [
                ("RC_SUBSCRIBE", 39, GpuFailure::Busy, "Nsight"),
                ("RC_SUBSCRIBE", 15, GpuFailure::Unavailable, "driver's CUDA version"),
                ("RC_SUBSCRIBE", 2, GpuFailure::Unavailable, "newer CUDA"),
                ("RC_SUBSCRIBE", 999, GpuFailure::Failed, "without GPU work"),
                ("RC_REGISTER", 999, GpuFailure::Failed, "cuptiActivityRegisterCallbacks"),
                ("RC_ENABLE_10", 35, GpuFailure::Permission, "NVreg_RestrictProfilingToAdminUsers"),
                ("RC_ENABLE_1", 35, GpuFailure::Permission, "SYS_ADMIN"),
                ("RC_ENABLE", 40, GpuFailure::Permission, "virtual"),
                ("RC_ENABLE_10", 41, GpuFailure::Unavailable, "confidential"),
                ("RC_ENABLE_10", 27, GpuFailure::Unavailable, "CONCURRENT_KERNEL"),
            ] {
                gpu.set(key, code);
                let (found, message) = refused(&trace, &options);
                gpu.set(key, 0);
                assert_eq!(found, failure, "{message}");
                assert!(message.contains(advice) && message.contains(&code.to_string()), "{message}");
                let said = message.split_once("): ").expect("advice").1;
                let said = said.split(" (it is called").next().expect("text");
                assert!(code == 41 || GUIDE.contains(&format!("| {said} |")), "{said}");
                assert_eq!(gpu.call("fake_is_subscribed", []), 0, "{message}");
                assert_eq!((gpu.call("fake_is_enabled", [10]), gpu.call("fake_is_enabled", [1])), (0, 0), "{message}");
            }
            trace.add_op(&Op { name: "the CPU side".into(), end_ns: 5, ..Op::default() }).expect("added");
            let torch = document(&trace, Format::Torch);
            assert_eq!(slices(&torch, "cpu_op").len(), 1);
            // The GPUs are known even so.
            assert_eq!(torch["deviceProperties"].as_array().map(Vec::len), Some(2));
            let (_, report) = collect(&gpu, &options, || gpu.launch(c"kernel", 0, 7));
            assert_eq!(report.kernels, 1, "all is well once it is");
        }
    }
}

apart! {
    fn the_tool_that_is_attached_is_named() {
        let gpu = Gpu::new(130_500);
        gpu.call("fake_subscribe", []);
        let (failure, message) = refused(&Trace::default(), &gpu.options(GpuKinds::default()));
        assert_eq!(failure, GpuFailure::Busy);
        assert!(message.contains("CUPTI for another tool"), "{message}");
    }
}

apart! {
    fn one_trace_collects_at_a_time() {
        let gpu = Gpu::new(28);
        let (one, other) = (Trace::default(), Trace::default());
        let options = gpu.options(GpuKinds::default());
        gpu::start(&one, &options).expect("started");
        assert!(refused(&one, &options).1.contains("already"));
        let (failure, message) = refused(&other, &options);
        assert_eq!(failure, GpuFailure::Busy);
        assert!(message.contains("another trace"), "{message}");
        assert!(gpu::stop(&other).is_err());
        gpu.launch(c"kernel", 0, 7);
        assert_eq!(gpu::stop(&one).expect("stopped").kernels, 1);
        gpu::start(&other, &options).expect("free again");
        drop(other);
        assert_eq!((gpu.call("fake_is_subscribed", []), gpu.call("fake_is_enabled", [10])), (0, 0), "a trace that goes");
        gpu::start(&one, &options).expect("free again");
    }
}

apart! {
    fn a_cupti_without_the_newer_functions_serves() {
        let gpu = Gpu::with(cupti_with("bare", &["-DNO_SUBSCRIBE", "-DA=18"]));
        let trace = Trace::default();
        let warnings = gpu::start(&trace, &gpu.options(GpuKinds::default())).expect("started");
        assert!(warnings.iter().any(|warning| warning.contains("cuptiSubscribe")), "{warnings:?}");
        gpu.launch(c"kernel", 0, 7);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!(report.kernels, 1);
        warns(&report, "cuptiSubscribe");
    }
}

apart! {
    fn kinds_that_are_refused_are_told_and_the_others_taken() {
        let gpu = Gpu::new(28);
        gpu.set("RC_ENABLE_38", 27);
        gpu.set("RC_ENABLE_22", 21);
        gpu.set("RC_THREAD_ID", 1);
        gpu.set("RC_TIMESTAMP", 999);
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || gpu.launch(c"kernel", 0, 7));
        assert_eq!(report.kernels, 1);
        for part in ["numbers of threads", "does not tell its clock"] {
            warns(&report, part);
        }
        let refused_kinds = report.warnings.iter().filter(|one| one.contains("MEMCPY2") || one.contains("SYNCHRONIZATION"));
        assert_eq!(refused_kinds.count(), 2, "{:?}", report.warnings);
        // None is left: that is a failure.
        gpu.set("RC_ENABLE_2", 27);
        assert_eq!(refused(&Trace::default(), &gpu.options(GpuKinds::MEMSET)).0, GpuFailure::Unavailable);
    }
}

apart! {
    fn odd_records_are_counted() {
        for version in [18, 28, 130_500] {
            let gpu = Gpu::new(version);
            let (trace, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || {
                for odd in [0, 1, 2, 3, 4, 0] {
                    gpu.odd_launch(c"kernel", 0, 7, odd);
                }
                gpu.set("UNASKED", 1);
                gpu.marker(c"not asked for", 0);
                gpu.call("fake_new_kind", []);
                gpu.set("UNASKED", 0);
            });
            assert_eq!((report.kernels, report.runtime_calls), (4, 6), "{report:?}");
            assert_eq!((report.no_times, report.inverted_times, report.unnamed, report.out_of_window), (1, 1, 1, 1));
            assert_eq!((report.unasked, report.unknown, report.markers), (1, 1, 0), "{report:?}");
            for part in ["no times", "before they started", "no name", "outside of the time", "kinds that tptrace"] {
                warns(&report, part);
            }
            let plain = document(&trace, Format::Plain);
            assert_eq!(plain["tptrace"]["gpu"]["no_times"], 1, "said in the plain format too");
            assert_eq!(plain["tptrace"]["gpu"]["warnings"].as_array().map(Vec::len), Some(report.warnings.len()));
            assert_eq!(trace.counts().clamped, 1);
        }
    }
}

apart! {
    fn records_of_another_clock_do_not_ruin_the_trace() {
        let gpu = Gpu::new(28);
        gpu.set("SKEW", 3_600_000_000_000);
        let (trace, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || gpu.launch(c"kernel", 0, 7));
        assert_eq!((report.kernels, report.out_of_window), (0, 2), "{report:?}");
        warns(&report, "outside of the time");
        warns(&report, "no kernel was seen");
        assert_eq!(trace.counts().gpu_activities, 0);
    }
}

apart! {
    fn nothing_seen_is_said() {
        let gpu = Gpu::new(28);
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || {});
        warns(&report, "no kernel was seen, and no call");
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || gpu.call("fake_runtime_call", [165, 0]));
        warns(&report, "no kernel was seen, though");
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::MEMCPY), || {});
        assert_eq!(report.warnings, [""; 0]);
    }
}

apart! {
    fn torn_buffers_give_what_is_whole() {
        for (version, cut) in [(18, 1), (18, 199), (28, 8), (28, 207), (130_500, 1), (130_500, 240)] {
            torn(&Gpu::new(version), version, cut);
        }
    }
}

fn torn(gpu: &Gpu, version: u32, cut: i64) {
    gpu.set("CUT", cut);
    let (trace, report) = collect(gpu, &gpu.options(GpuKinds::KERNEL), || {
        for _ in 0..10 {
            gpu.launch(c"kernel", 0, 7);
        }
    });
    assert_eq!((report.kernels, report.torn_buffers), (9, 1), "{version} {cut}: {report:?}");
    warns(&report, "cut record");
    // The last whole one does not read on into the torn one.
    let torch = document(&trace, Format::Torch);
    let args: Vec<_> = slices(&torch, "kernel").iter().map(|kernel| kernel["args"].clone()).collect();
    assert!(args.iter().all(|one| one.get("priority") == args[0].get("priority")), "{args:?}");
    assert_eq!(args[0].get("priority").is_some(), version >= 130_100);
}

/// For the one that is compiled against NVIDIA's headers.
#[test]
fn torn_buffers_of_the_given_cupti() {
    if let Some(cupti) = std::env::var_os("TP_GPU_FAKE") {
        let gpu = Gpu::with(cupti.into());
        let version = gpu::info(&gpu.libraries).cupti.expect("found").version;
        for cut in [1, 17, 150] {
            torn(&gpu, u32::try_from(version).expect("a version"), cut);
        }
    }
}

apart! {
    fn buffers_that_are_not_read_to_their_end_are_told() {
        let gpu = Gpu::new(28);
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || {
            gpu.launch(c"kernel", 0, 7);
            gpu.set("RC_NEXT", 21);
        });
        assert_eq!((report.kernels, report.torn_buffers), (0, 1));
    }
}

apart! {
    fn dropped_records_are_told() {
        let gpu = Gpu::new(28);
        gpu.set("DROP", 5);
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || {
            gpu.launch(c"kernel", 0, 7);
            gpu.set("DROP", 7);
        });
        assert_eq!(report.dropped, 7);
        warns(&report, "records were dropped by CUPTI");
    }
}

apart! {
    fn the_cap_is_kept() {
        for version in [18, 28] {
            let gpu = Gpu::new(version);
            let mut options = gpu.options(GpuKinds::KERNEL);
            (options.buffer_bytes, options.cap_bytes) = (4096, 8192);
            gpu.set("LATE", 60);
            let (_, report) = collect(&gpu, &options, || {
                for _ in 0..2000 {
                    gpu.launch(c"kernel", 0, 7);
                }
            });
            assert!(report.refused_buffers > 0, "{version}: {report:?}");
            // The one that crashes without a buffer gets one that is not read: what is in it is lost, too.
            assert!((1..2000).contains(&report.kernels), "{version}: {report:?}");
            assert_eq!(report.dropped > 0, version >= 27, "{version}: {report:?}");
            warns(&report, "the cap was reached");
        }
        let gpu = Gpu::new(28);
        let mut options = gpu.options(GpuKinds::KERNEL);
        for (buffer, cap) in [(100, 1 << 20), (1 << 20, 1 << 20)] {
            (options.buffer_bytes, options.cap_bytes) = (buffer, cap);
            assert!(matches!(gpu::start(&Trace::default(), &options), Err(Error::InvalidArgument(_))));
        }
    }
}

apart! {
    fn buffers_on_their_way_are_waited_for() {
        let gpu = Gpu::new(28);
        let mut options = gpu.options(GpuKinds::default());
        options.buffer_bytes = 4096;
        gpu.set("LATE", 100);
        let (_, report) = collect(&gpu, &options, || {
            for _ in 0..1000 {
                gpu.launch(c"kernel", 0, 7);
            }
        });
        assert_eq!((report.kernels, report.kept_buffers, report.late_buffers), (1000, 0, 0), "{report:?}");
    }
}

apart! {
    fn a_buffer_that_never_comes_back_delays_nothing() {
        let gpu = Gpu::new(28);
        let mut options = gpu.options(GpuKinds::KERNEL);
        options.buffer_bytes = 4096;
        options.stop_timeout = Duration::from_secs(600);
        gpu.set("KEEP", 2);
        let (_, report) = collect(&gpu, &options, || {
            for _ in 0..100 {
                gpu.launch(c"kernel", 0, 7);
            }
        });
        // 19 kernels fit into one.
        assert_eq!((report.kept_buffers, report.kernels), (2, 100 - 38), "{report:?}");
        warns(&report, "not given back");
        let (_, report) = collect(&gpu, &options, || gpu.launch(c"kernel", 0, 7));
        assert_eq!((report.kept_buffers, report.kernels), (0, 1), "the next collection is its own");
    }
}

apart! {
    fn a_buffer_that_comes_after_the_end_is_counted_later() {
        let gpu = Gpu::new(28);
        let options = gpu.options(GpuKinds::KERNEL);
        gpu.set("LATE", 3000);
        let (trace, report) = collect(&gpu, &options, || gpu.launch(c"kernel", 0, 7));
        assert_eq!((report.kept_buffers, report.kernels), (1, 0));
        // Nobody is there any more.
        drop(trace);
        gpu.set("LATE", 0);
        let report = loop {
            let (_, report) = collect(&gpu, &options, || gpu.launch(c"kernel", 0, 7));
            assert_eq!(report.kernels, 1);
            if report.late_buffers > 0 {
                break report;
            }
            thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(report.late_buffers, 1);
        warns(&report, "after the end of their collection");
    }
}

apart! {
    fn an_end_that_hangs_is_left_behind() {
        let gpu = Gpu::new(28);
        let mut options = gpu.options(GpuKinds::default());
        options.stop_timeout = Duration::from_millis(200);
        let trace = Trace::default();
        gpu::start(&trace, &options).expect("started");
        gpu.launch(c"kernel", 0, 7);
        gpu.set("FLUSH_MS", 4000);
        let report = gpu::stop(&trace).expect("stopped");
        warns(&report, "did not come to an end within");
        assert_eq!((report.kernels, report.kept_buffers), (0, 1));
        // It is still at it.
        let (failure, message) = refused(&trace, &options);
        assert_eq!(failure, GpuFailure::Busy);
        assert!(message.contains("has not come back"), "{message}");
        gpu.set("FLUSH_MS", 0);
        while let Err(failure) = gpu::start(&trace, &options) {
            assert!(matches!(failure, Error::Gpu { failure: GpuFailure::Busy, .. }), "{failure}");
            thread::sleep(Duration::from_millis(50));
        }
        gpu.launch(c"kernel", 0, 7);
        let report = gpu::stop(&trace).expect("stopped");
        assert_eq!((report.kernels, report.late_buffers), (1, 1), "{report:?}");
        assert_eq!(document(&trace, Format::Torch)["tptrace"]["gpu"]["collections"], 2);
    }
}

apart! {
    fn a_flush_that_fails_is_told() {
        let gpu = Gpu::new(28);
        let (_, report) = collect(&gpu, &gpu.options(GpuKinds::default()), || {
            gpu.launch(c"kernel", 0, 7);
            gpu.set("RC_FLUSH", 999);
        });
        warns(&report, "cuptiActivityFlushAll failed");
        assert_eq!(report.kept_buffers, 1);
    }
}

apart! {
    fn a_process_that_ends_while_it_collects_ends() {
        let gpu = Gpu::new(28);
        static LEFT: OnceLock<Trace> = OnceLock::new();
        let trace = LEFT.get_or_init(Trace::default);
        gpu::start(trace, &gpu.options(GpuKinds::default())).expect("started");
        gpu.launch(c"kernel", 0, 7);
    }
}

#[test]
fn without_a_driver_nothing_starts() {
    let trace = Trace::default();
    let options = GpuOptions {
        libraries: gpu::GpuLibraries {
            libcuda: Some("/nowhere/libcuda.so.1".into()),
            libcupti: Some(cupti(130_200)),
            ..gpu::GpuLibraries::default()
        },
        ..GpuOptions::default()
    };
    let (failure, message) = refused(&trace, &options);
    assert_eq!(failure, GpuFailure::Unavailable);
    assert!(message.starts_with("no driver: ") && message.contains("/nowhere/libcuda.so.1"), "{message}");
    assert_eq!(document(&trace, Format::Torch)["deviceProperties"], json!([]));
    assert!(gpu::stop(&trace).is_err());
    let bad = GpuOptions { kinds: GpuKinds(1 << 20), ..options };
    assert!(matches!(gpu::start(&trace, &bad), Err(Error::InvalidArgument(_))));
}
