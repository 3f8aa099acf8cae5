//! Writes the traces of a made-up training run on two ranks, as a profiler of a real one would: something to look at,
//! and what the tests show to the real trace readers.
//!
//!     cargo run --release --example demo -- [FOLDER [RANKS]]

use std::path::Path;

use tptrace::{
    Arg, Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuDetails, GpuKind, Inputs, Instant, InstantScope, Int,
    MemoryEvent, Op, OpKind, RankWorld, Result, Sample, Trace, TraceOptions, Value,
};

const MAIN: u64 = 11;
const BACKWARD: u64 = 12;
const COMPUTE: i64 = 7;
const COPY: i64 = 14;
const NCCL: i64 = 20;
const BASE: i64 = 1_000_000_000;
const FLOAT32: i32 = 8;

/// One layer of the model: the op, its kernel, how long the kernel runs in nanoseconds, and its input shapes.
struct Layer {
    op: &'static str,
    kernel: &'static str,
    gpu_ns: i64,
    dims: &'static [i64],
    ranks: &'static [u32],
    site: &'static str,
}

const LAYERS: &[Layer] = &[
    Layer {
        op: "aten::embedding",
        kernel: "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long)",
        gpu_ns: 38_000,
        dims: &[50257, 1024, 32, 512],
        ranks: &[2, 2],
        site: "model.py:41",
    },
    Layer {
        op: "aten::layer_norm",
        kernel: "void at::native::vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
        gpu_ns: 52_000,
        dims: &[32, 512, 1024],
        ranks: &[3],
        site: "model.py:58",
    },
    Layer {
        op: "aten::linear",
        kernel: "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1",
        gpu_ns: 310_000,
        dims: &[32, 512, 1024, 3072, 1024],
        ranks: &[3, 2],
        site: "model.py:59",
    },
    Layer {
        op: "aten::scaled_dot_product_attention",
        kernel: "fmha_cutlassF_f32_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
        gpu_ns: 420_000,
        dims: &[32, 16, 512, 64, 32, 16, 512, 64, 32, 16, 512, 64],
        ranks: &[4, 4, 4],
        site: "model.py:66",
    },
    Layer {
        op: "aten::gelu",
        kernel: "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)",
        gpu_ns: 95_000,
        dims: &[32, 512, 4096],
        ranks: &[3],
        site: "model.py:72",
    },
    Layer {
        op: "aten::cross_entropy_loss",
        kernel: "void at::native::cunn_SoftMaxForward<4, float, float, float>(float*, float const*, int)",
        gpu_ns: 140_000,
        dims: &[16384, 50257, 16384],
        ranks: &[2, 1],
        site: "train.py:23",
    },
];

/// A run being recorded: where the CPU threads and the streams of one rank have come to.
struct Run {
    trace: Trace,
    rank: i64,
    now: i64,
    stream_free: [i64; 3],
    correlation: u64,
    allocated: i64,
}

impl Run {
    fn new(rank: i64, world_size: i64) -> Self {
        let trace = Trace::new(&TraceOptions { base_ns: Some(BASE), ..TraceOptions::default() });
        trace.set_process_name("train.py");
        trace.set_rank(RankWorld { rank: Some(rank), world_size: Some(world_size) });
        trace.set_backend("nccl");
        trace.set_thread_name(MAIN, "main");
        trace.set_thread_name(BACKWARD, "autograd");
        Self { trace, rank, now: BASE + 50_000 + rank * 7_000, stream_free: [0; 3], correlation: 0, allocated: 2 << 30 }
    }

    fn annotate(&self, name: &str, start_ns: i64, end_ns: i64) -> Result<()> {
        let kind = OpKind::UserAnnotation;
        self.trace.add_op(&Op { name: name.into(), kind, start_ns, end_ns, thread_id: MAIN, ..Op::default() })?;
        Ok(())
    }

    /// What runs on a stream, and the call at `launch` that caused it.
    fn gpu(&mut self, kind: GpuKind, name: &str, op: u64, thread: u64, launch: i64, duration: i64) -> Result<()> {
        let (call, stream) = match kind {
            GpuKind::Memcpy => ("cudaMemcpyAsync", COPY),
            GpuKind::Memset => ("cudaMemsetAsync", COMPUTE),
            _ => ("cudaLaunchKernel", if name.starts_with("nccl") { NCCL } else { COMPUTE }),
        };
        self.correlation += 1;
        let common = GpuActivity {
            correlation_id: Int::Unsigned(self.correlation),
            external_id: Some(Int::Unsigned(op)),
            device: self.rank % 8,
            ..GpuActivity::default()
        };
        self.trace.add_gpu(&GpuActivity {
            name: call.into(),
            kind: GpuKind::Runtime,
            start_ns: launch,
            end_ns: launch + 6_000,
            os_thread: thread,
            callback_id: 211,
            ..common
        })?;
        let lane = [COMPUTE, COPY, NCCL].iter().position(|&known| known == stream).unwrap_or(0);
        let start_ns = (launch + 9_000).max(self.stream_free[lane]);
        self.stream_free[lane] = start_ns + duration + 1_000;
        let is_kernel = kind == GpuKind::Kernel;
        self.trace.add_gpu(&GpuActivity {
            name: name.into(),
            kind,
            start_ns,
            end_ns: start_ns + duration,
            stream,
            bytes: Int::Unsigned(if is_kernel { 0 } else { 32 * 512 * 8 }),
            copy_kind: 1,
            details: GpuDetails {
                grid: is_kernel.then_some([256, 4, 1]),
                block: is_kernel.then_some([128, 1, 1]),
                registers_per_thread: is_kernel.then_some(96),
                shared_memory: is_kernel.then_some(49_152),
                context: Some(1),
                ..GpuDetails::default()
            },
            ..common
        })
    }

    /// An op that launches one kernel.
    fn op(&mut self, layer: &Layer, kind: OpKind, thread: u64, scale: i64) -> Result<()> {
        let (start_ns, cost) = (self.now, 34_000 + layer.gpu_ns / 40);
        let name = if kind == OpKind::Backward { format!("{}Backward0", &layer.op[6..]) } else { layer.op.to_owned() };
        let dtypes = [FLOAT32; 3];
        let step = [Arg { key: "layer site".into(), value: Value::Text(layer.site.into()) }];
        let frames = [layer.site.into(), "train.py: train_step".into(), "train.py: main".into()];
        let op = self.trace.add_op(&Op {
            name: name.as_str().into(),
            kind,
            start_ns,
            end_ns: start_ns + cost,
            thread_id: thread,
            inputs: Some(Inputs {
                dims: layer.dims,
                ranks: layer.ranks,
                dtypes: Dtypes::Codes(&dtypes[..layer.ranks.len()]),
            }),
            call_site: layer.site.into(),
            gpu_ms: Some((layer.gpu_ns * scale) as f64 / 1e6),
            kernel_count: 1,
            output_bytes: layer.dims[0] * 4096,
            stack: &frames,
            args: &step,
            ..Op::default()
        })?;
        self.gpu(GpuKind::Kernel, layer.kernel, op, thread, start_ns + 12_000, layer.gpu_ns * scale)?;
        self.memory(layer.dims[0] * 4096 * if kind == OpKind::Backward { -1 } else { 1 }, start_ns + 4_000, thread)?;
        self.now = start_ns + cost + 3_000;
        Ok(())
    }

    fn memory(&mut self, bytes: i64, time_ns: i64, thread_id: u64) -> Result<()> {
        self.allocated += bytes;
        self.trace.add_memory(&MemoryEvent {
            time_ns,
            address: 0x7f00_0000_0000 + self.correlation * 4096,
            bytes,
            allocated: bytes > 0,
            cuda_device: Some(self.rank % 8),
            thread_id,
            args: &[],
        })?;
        let values = [Arg { key: "allocated".into(), value: Value::Int(self.allocated) }];
        self.trace.add_counter(&Counter { name: "GPU memory (bytes)".into(), time_ns, values: &values })
    }

    fn step(&mut self, number: usize) -> Result<()> {
        let begin = self.now;
        let load = self.now;
        self.now += 60_000;
        let op = self.trace.add_op(&Op {
            name: "aten::to".into(),
            start_ns: load + 5_000,
            end_ns: self.now - 5_000,
            thread_id: MAIN,
            call_site: "train.py:17".into(),
            ..Op::default()
        })?;
        self.gpu(GpuKind::Memcpy, "Memcpy HtoD (Pinned -> Device)", op, MAIN, load + 15_000, 85_000)?;
        self.annotate("load batch", load, self.now)?;
        self.now += 4_000;

        let forward = self.now;
        for _ in 0..2 {
            for layer in &LAYERS[..5] {
                self.op(layer, OpKind::Op, MAIN, 1)?;
            }
        }
        self.op(&LAYERS[5], OpKind::Op, MAIN, 1)?;
        // Ends inside the backward pass: it crosses the next annotation, as hand-placed ranges do.
        let crossing = self.now - 90_000;
        self.annotate("forward", forward, self.now)?;
        self.now += 4_000;

        let backward = self.now;
        for layer in LAYERS.iter().rev() {
            self.op(layer, OpKind::Backward, BACKWARD, 2)?;
        }
        self.annotate("loss and first gradients", crossing, backward + 70_000)?;
        self.annotate("backward", backward, self.now)?;
        let reduce = self.trace.add_op(&Op {
            name: "nccl:all_reduce".into(),
            start_ns: self.now,
            end_ns: self.now + 45_000,
            thread_id: BACKWARD,
            call_site: "train.py:27".into(),
            ..Op::default()
        })?;
        self.gpu(
            GpuKind::Kernel,
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
            reduce,
            BACKWARD,
            self.now + 10_000,
            900_000,
        )?;
        self.now += 50_000;

        let optimizer = self.now;
        let zero = self.trace.add_op(&Op {
            name: "aten::zero_".into(),
            start_ns: self.now,
            end_ns: self.now + 30_000,
            thread_id: MAIN,
            ..Op::default()
        })?;
        self.gpu(GpuKind::Memset, "Memset (Device)", zero, MAIN, self.now + 8_000, 24_000)?;
        self.now += 34_000;
        self.annotate("Optimizer.step#AdamW", optimizer, self.now)?;
        let loss = [Arg { key: "loss".into(), value: Value::Float(2.5 / (number as f64 + 1.0)) }];
        self.trace.add_instant(&Instant {
            name: "loss".into(),
            time_ns: self.now,
            thread_id: MAIN,
            scope: InstantScope::Thread,
            args: &loss,
        })?;
        // The loop waits for the device.
        self.now = self.now.max(self.stream_free.into_iter().max().unwrap_or(0)) + 15_000;
        self.annotate(&format!("ProfilerStep#{number}"), begin - 2_000, self.now)?;
        for time_ns in (begin..self.now).step_by(400_000) {
            let stack = ["model.py: forward".into(), "train.py: train_step".into(), "train.py: main".into()];
            self.trace.add_sample(&Sample { time_ns, os_thread: MAIN, stack: &stack, args: &[] })?;
        }
        self.now += 20_000;
        Ok(())
    }
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "target/demo".into());
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).map_err(tptrace::Error::io("create", folder))?;
    let ranks = std::env::args().nth(2).and_then(|ranks| ranks.parse().ok()).unwrap_or(2);
    for rank in 0..ranks {
        let mut run = Run::new(rank, ranks);
        for number in 0..4 {
            run.step(number)?;
        }
        let path = folder.join(format!("rank{rank}.pt.trace.json.gz"));
        run.trace.write(&path, &ExportOptions { format: Format::Torch, ..ExportOptions::default() })?;
        println!("{}", path.display());
        if rank == 0 {
            // Beside, not among them: readers of a run take each file of its folder for a rank.
            std::fs::create_dir_all(folder.join("plain")).map_err(tptrace::Error::io("create", folder))?;
            let path = folder.join("plain/rank0.json");
            run.trace.write(&path, &ExportOptions::default())?;
            println!("{}", path.display());
            std::fs::create_dir_all(folder.join("perfetto")).map_err(tptrace::Error::io("create", folder))?;
            let path = folder.join("perfetto/rank0.pftrace");
            run.trace.write(&path, &ExportOptions { format: Format::Perfetto, ..ExportOptions::default() })?;
            println!("{}", path.display());
        }
    }
    println!("Open them at https://ui.perfetto.dev, in chrome://tracing, or the folder in TensorBoard or HTA.");
    Ok(())
}
