//! A made-up training run of two ranks, with everything in it that a profiler or a framework records: docs/guide-rust.md.
//!
//!     cargo run --release --example training -- [FOLDER]
//!
//! Rank 0 writes its trace in three formats. Rank 1 dies in its last step; its trace comes from its journal. Both
//! become one. A flight recorder keeps the last of many requests. The folder is made, and may be there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tptrace::journal::recover;
use tptrace::merge::{Input, MergeOptions, merge};
use tptrace::output::Target;
use tptrace::record::{Async, Flow, Full, Name, thread_id};
use tptrace::{
    Arg, Counter, Dtypes, ExportOptions, Format, GpuActivity, GpuDetails, GpuKind, Inputs, Op, RankWorld, Text, Trace,
    TraceOptions, Value, monotonic_ns,
};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const RANKS: i64 = 2;
const STEPS: u32 = 4;
const ROWS: u32 = 32;
const REQUESTS: u32 = 40_000;
const LAYERS: [(&str, &str); 2] = [("linear", "gemm"), ("gelu", "gelu_kernel")];

/// Names are interned once, for the whole process.
struct Names {
    load: Name,
    batch: Name,
    forward: Name,
    backward: Name,
    save: Name,
    checkpoint: Name,
    loss: Name,
    step: Name,
    rows: Name,
}

impl Names {
    fn new() -> tptrace::Result<Self> {
        Ok(Self {
            load: Name::new("load batch", "dataloader")?,
            batch: Name::new("batch", "dataloader")?,
            forward: Name::new("forward", "train")?,
            backward: Name::new("backward", "train")?,
            save: Name::new("write checkpoint", "io")?,
            checkpoint: Name::new("checkpoint", "io")?,
            loss: Name::new("loss", "train")?,
            step: Name::new("step", "")?,
            rows: Name::new("rows", "")?,
        })
    }
}

fn compute(rounds: u32) -> f64 {
    std::hint::black_box((1..rounds * 1000).map(|i| 1.0 / f64::from(i)).sum())
}

/// One rank: a process of its own.
struct Trainer {
    trace: Trace,
    names: Names,
    killed: bool,
}

impl Trainer {
    fn train(&self) -> Outcome {
        let (give, batches) = sync_channel(1);
        thread::scope(|scope| {
            // The lanes of other threads are called as the system calls these.
            thread::Builder::new().name("loader".into()).spawn_scoped(scope, move || self.load(give))?;
            let mut saver = None;
            let mut gpu = Gpu::default();
            for step in 0..STEPS {
                // A name that is made up at run time; HTA and TensorBoard know steps by it.
                let span = self.trace.span_named(&format!("ProfilerStep#{step}"))?;
                span.arg(self.names.step, Value::Int(step.into()));
                self.train_step(step, &batches, &mut gpu)?;
                if step == 1 {
                    self.trace.record_async(Async::Begin, self.names.checkpoint, 1);
                    saver = Some(thread::Builder::new().name("saver".into()).spawn_scoped(scope, || self.save())?);
                }
                if step == 2 {
                    saver.take().map(thread::ScopedJoinHandle::join);
                }
            }
            Ok(())
        })
    }

    /// The loader: a thread of its own, one batch ahead of the trainer.
    fn load(&self, give: SyncSender<u32>) {
        for step in 0..STEPS {
            let span = self.trace.span(self.names.load);
            span.arg(self.names.step, Value::Int(step.into()));
            compute(100);
            // The arrow starts at the span that is open here, and ends at the step that takes the batch.
            self.trace.record_flow(Flow::Start, self.names.batch, step.into());
            drop(span);
            if give.send(step).is_err() {
                return; // the trainer has given up
            }
        }
    }

    /// Writes a checkpoint: an async span that began on the trainer's thread ends on this one.
    fn save(&self) {
        let span = self.trace.span(self.names.save);
        compute(200);
        drop(span);
        self.trace.record_async(Async::End, self.names.checkpoint, 1);
    }

    fn train_step(&self, step: u32, batches: &Receiver<u32>, gpu: &mut Gpu) -> Outcome {
        let batch = batches.recv()?;
        self.trace.record_flow(Flow::End, self.names.batch, batch.into());
        let mut times = [(0, 0); LAYERS.len()];
        {
            let span = self.trace.span(self.names.forward);
            span.arg(self.names.rows, Value::Uint(ROWS.into()));
            compute(50);
            if self.killed && step == STEPS - 1 {
                self.trace.sync_journal()?; // it happens by itself within a second; this example does not wait
                std::process::abort(); // a `kill -9` would leave no less
            }
            for (start, end) in &mut times {
                *start = monotonic_ns();
                compute(100);
                *end = monotonic_ns();
                compute(20);
            }
        }
        {
            let _span = self.trace.span(self.names.backward);
            compute(200);
        }
        self.trace.record_counter(self.names.loss, 1.0 / f64::from(step + 1));

        for (layer, &(start, end)) in times.iter().enumerate() {
            gpu.add_layer(&self.trace, layer, start, end)?;
        }
        // A counter with two series, at a given time.
        let values = [
            Arg { key: "allocated".into(), value: Value::Int(i64::from(step + 1) << 20) },
            Arg { key: "reserved".into(), value: Value::Int(8 << 20) },
        ];
        self.trace.add_counter(&Counter { name: "memory".into(), time_ns: times[1].1, values: &values })?;
        Ok(())
    }
}

/// A made-up GPU: what its driver would tell of the kernels that ran.
#[derive(Default)]
struct Gpu {
    correlation: u64,
    free_ns: i64,
}

impl Gpu {
    /// What a framework's own profiler has after a step: ops and GPU work with given times.
    fn add_layer(&mut self, trace: &Trace, layer: usize, start: i64, end: i64) -> tptrace::Result<()> {
        let (name, kernel) = LAYERS[layer];
        let dtypes = [Text::from("float"); 2];
        let inputs = Inputs {
            ranks: &[2, 2],
            dims: &[i64::from(ROWS), 1024, 1024, 1024], // both inputs, one after the other
            dtypes: Dtypes::Names(&dtypes),
        };
        let op = Op {
            name: name.into(),
            start_ns: start,
            end_ns: end,
            thread_id: thread_id(), // the number that live spans go by
            inputs: Some(inputs),
            args: &[Arg { key: "layer".into(), value: Value::Uint(layer as u64) }],
            ..Op::default()
        };
        let id = trace.add_op(&op)?;
        // The call that launched the kernel, and the kernel on its stream: one correlation id, and the op's id in both.
        let third = (end - start) / 3;
        self.correlation += 1;
        let joined = GpuActivity {
            correlation_id: self.correlation.into(),
            external_id: Some(id.into()),
            ..GpuActivity::default()
        };
        trace.add_gpu(&GpuActivity {
            kind: GpuKind::Runtime,
            name: "cudaLaunchKernel".into(),
            start_ns: start + third,
            end_ns: start + 2 * third,
            os_thread: thread_id(),
            ..joined
        })?;
        let begins = self.free_ns.max(start + 2 * third);
        self.free_ns = begins + third;
        trace.add_gpu(&GpuActivity {
            kind: GpuKind::Kernel,
            name: kernel.into(),
            start_ns: begins,
            end_ns: self.free_ns,
            stream: 7,
            details: GpuDetails { grid: Some([ROWS, 1, 1]), block: Some([256, 1, 1]), ..GpuDetails::default() },
            ..joined
        })
    }
}

fn torch() -> ExportOptions {
    ExportOptions { format: Format::Torch, ..ExportOptions::default() }
}

fn train(rank: i64, folder: &Path) -> Outcome {
    let trace = Trace::default();
    trace.start_journal(folder.join(format!("rank{rank}.journal")))?;
    trace.set_process_name("trainer");
    trace.set_rank(RankWorld { rank: Some(rank), world_size: Some(RANKS) });
    trace.set_thread_name(thread_id(), "trainer");
    let trainer = Trainer { trace, names: Names::new()?, killed: rank == 1 };
    trainer.train()?;

    let (counts, live) = (trainer.trace.counts(), trainer.trace.record_counts());
    let dropped = counts.dropped + live.dropped;
    println!("rank {rank}: {} ops, {} GPU activities, {dropped} dropped", counts.ops, counts.gpu_activities);
    trainer.trace.write(folder.join("rank0.json.gz"), &ExportOptions::default())?; // gzip by its name
    trainer.trace.write(folder.join("rank0.pt.trace.json.gz"), &torch())?;
    let perfetto = ExportOptions { format: Format::Perfetto, ..ExportOptions::default() };
    trainer.trace.write(folder.join("rank0.pftrace"), &perfetto)?;
    Ok(()) // the trace goes; it was written, and so the journal goes with it
}

/// A mebibyte for the last of many requests; written when one of them is too slow.
fn keep_the_last(folder: &Path) -> Outcome {
    let options = TraceOptions { record_bytes: 1 << 20, record_full: Full::KeepRecent, ..TraceOptions::default() };
    let trace = Trace::new(&options);
    let (request, step) = (Name::new("request", "server")?, Name::new("step", "")?);
    for number in 0..REQUESTS {
        let span = trace.span(request);
        span.arg(step, Value::Uint(number.into()));
    }
    // A failure says why and leaves the trace as it was: the program goes on.
    if let Err(error) = trace.write(folder.join("no/such/folder/recent.json.gz"), &ExportOptions::default()) {
        eprintln!("the last requests: {error}");
        trace.write(folder.join("recent.json.gz"), &ExportOptions::default())?;
    }
    Ok(())
}

fn main() -> Outcome {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "run".into()));
    if let Some(rank) = std::env::args().nth(2) {
        return train(rank.parse()?, &folder);
    }
    std::fs::create_dir_all(&folder)?;
    let mut ended = Vec::new();
    for rank in 0..RANKS {
        ended.push(Command::new(std::env::current_exe()?).arg(&folder).arg(rank.to_string()).status()?);
    }
    if !ended[0].success() {
        return Err("rank 0 failed".into());
    }

    let recovered = folder.join("rank1.pt.trace.json.gz");
    if ended[1].code().is_none() {
        let journal = folder.join("rank1.journal");
        let (report, _) = recover(&journal, Target::File(&recovered), &torch(), None)?;
        println!("rank 1: killed; {} events recovered, {} of them unfinished spans", report.events, report.unfinished);
        std::fs::remove_file(journal)?;
    }

    let inputs = [folder.join("rank0.pt.trace.json.gz"), recovered].map(Input::from).into();
    let merged = folder.join("merged.pt.trace.json.gz");
    let report = merge(inputs, Target::File(&merged), &MergeOptions::default(), None)?;
    report.warnings.iter().for_each(|warning| eprintln!("merge: {warning}"));
    println!("merged: {} events{}", report.kept(), if report.aligned { " on one clock" } else { "" });

    keep_the_last(&folder)
}
