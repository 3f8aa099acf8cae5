//! Ops and the GPU work that they cause.

use std::thread;

use serde_json::json;
use tptrace::gpu::{self, GpuKinds};
use tptrace::{Arg, Format, GpuActivity, GpuKind, Op, OpKind, Trace, Value};

use crate::collection::thread_id;
use crate::workload::{Gpu, apart, document, lane, slices};

apart! {
    fn ops_stay_balanced_over_the_end_of_a_collection() {
        let gpu = Gpu::new(28);
        let trace = Trace::default();
        let options = gpu.options(GpuKinds::default());
        gpu::pop_op();
        gpu::push_op(&trace, 1);
        gpu::start(&trace, &options).expect("started");
        gpu::push_op(&trace, 2);
        for id in 0..100 {
            gpu::push_op(&trace, 1000 + id);
        }
        assert_eq!(gpu.call("fake_depth", [3]), 63, "one of the 64 is from before");
        gpu::stop(&trace).expect("stopped");
        let (other, last) = (Trace::default(), Trace::default());
        for _ in 0..100 {
            gpu::pop_op();
        }
        assert_eq!(gpu.call("fake_depth", [3]), 1);
        gpu::push_op(&last, 3);
        gpu::start(&last, &options).expect("started");
        // Of a trace that is not being collected into.
        gpu::push_op(&other, 4);
        gpu.launch(c"kernel", 0, 7);
        for _ in 0..4 {
            gpu::pop_op();
        }
        assert_eq!(gpu.call("fake_depth", [3]), 0);
        gpu.launch(c"kernel", 0, 7);
        assert_eq!(gpu::stop(&last).expect("stopped").links, 1);
    }
}

apart! {
    /// A made-up training run, which tests/clients shows to the real trace readers if TP_GPU_TRACES names a folder.
    fn a_training_run_for_the_readers() {
        for rank in 0..2_u32 {
            let gpu = Gpu::new(130_500);
            let trace = Trace::default();
            trace.set_rank(tptrace::RankWorld { rank: Some(rank.into()), world_size: Some(2) });
            trace.set_thread_name(thread_id(), "main");
            gpu::start(&trace, &gpu.options(GpuKinds::default())).expect("started");
            let (launch, mut id) = (gpu.launches(), 0);
            // Kernels of the fake end 9 microseconds after their launch.
            let pause = || thread::sleep(std::time::Duration::from_micros(50));
            let mut op = |name: &str, kind: OpKind, work: &dyn Fn()| {
                id += 1;
                let start_ns = tptrace::monotonic_ns();
                gpu::push_op(&trace, id);
                work();
                pause();
                gpu::pop_op();
                let (id, end_ns, thread_id) = (Some(id), tptrace::monotonic_ns(), thread_id());
                let name = name.into();
                trace.add_op(&Op { name, kind, start_ns, end_ns, thread_id, id, ..Op::default() }).expect("added");
            };
            for step in 0..4 {
                let start_ns = tptrace::monotonic_ns();
                op("aten::copy_", OpKind::Op, &|| _ = gpu.copy(1, 1 << 20, rank, 7));
                for _ in 0..3 {
                    op("aten::linear", OpKind::Op, &|| {
                        launch(c"_Z4gemmIfiEvPT_", rank, 7);
                        pause();
                        launch(c"_Z4reluPf", rank, 7);
                    });
                }
                op("aten::zero_", OpKind::Op, &|| _ = gpu.fill(0, 4096, rank, 7));
                op("c10d::allreduce_", OpKind::Op, &|| _ = launch(c"ncclDevKernel_AllReduce_Sum_f32_RING", rank, 20));
                gpu.call("fake_sync", [3, rank, 7]);
                gpu.call("fake_overhead", [1 << 16]);
                let name = format!("ProfilerStep#{step}");
                let (end_ns, thread_id) = (tptrace::monotonic_ns(), thread_id());
                let (kind, id) = (OpKind::UserAnnotation, Some(1000 + step));
                trace
                    .add_op(&Op { name: name.as_str().into(), kind, start_ns, end_ns, thread_id, id, ..Op::default() })
                    .expect("added");
            }
            let report = gpu::stop(&trace).expect("stopped");
            assert_eq!((report.kernels, report.memcpys, report.memsets, report.links), (28, 4, 4, 36), "{report:?}");
            assert_eq!(report.warnings, [""; 0]);
            if let Some(folder) = std::env::var_os("TP_GPU_TRACES") {
                let path = std::path::Path::new(&folder).join(format!("rank{rank}.pt.trace.json.gz"));
                let options = tptrace::ExportOptions { format: Format::Torch, ..tptrace::ExportOptions::default() };
                trace.write(path, &options).expect("written");
            }
        }
    }
}

#[test]
fn waits_and_overhead_may_be_added_by_hand() {
    let trace = Trace::default();
    let text = |key: &'static str| Arg { key: key.into(), value: Value::Text("mine".into()) };
    for (kind, stream) in [(GpuKind::Sync, 7), (GpuKind::Sync, -1), (GpuKind::Overhead, 0), (GpuKind::Kernel, 7)] {
        let args = [text("cuda_sync_kind"), text("channel")];
        let name = "by hand".into();
        trace
            .add_gpu(&GpuActivity { name, kind, stream, end_ns: 5, args: &args, ..GpuActivity::default() })
            .expect("added");
    }
    let torch = document(&trace, Format::Torch);
    for (cat, lanes) in [("cuda_sync", &["stream 7 (sync)", "context (sync)"][..]), ("overhead", &["CUPTI overhead"])] {
        let found = slices(&torch, cat);
        assert_eq!(found.iter().map(|event| lane(&torch, event)).collect::<Vec<_>>(), lanes);
    }
    // What the format writes itself is not overwritten, and only there.
    let sync = &slices(&torch, "cuda_sync")[0]["args"];
    assert_eq!((&sync["cuda_sync_kind"], &sync["user.cuda_sync_kind"]), (&json!("by hand"), &json!("mine")));
    let kernel = &slices(&torch, "kernel")[0]["args"];
    assert_eq!((&kernel["cuda_sync_kind"], &kernel["channel"]), (&json!("mine"), &json!("mine")));
    assert_eq!(torch["traceEvents"].to_string().matches("ac2g").count(), 0, "no flow leads to a wait");
}
