//! Stored events as lines of JSON.

use super::document::Document;
use super::json;
use super::lanes::Lane;
use crate::model::event::{GpuDetails, GpuKind, InstantScope, Int, OpKind};
use crate::model::extra::GpuExtra;
use crate::model::intern::{Id, NONE};
use crate::model::pack::{self, Unpack};
use crate::model::record::{
    CounterRecord, GpuLane, GpuRecord, InstantRecord, MarkRecord, MemoryRecord, OpRecord, SampleRecord,
};
use crate::model::snapshot::Snapshot;

/// Slots of the cache of printed inputs; a training step repeats a few hundred shapes.
const CACHE_SLOTS: usize = 1024;
/// Longer ones are printed anew each time, which bounds the cache to 512 KiB a thread.
const CACHE_ITEM: usize = 512;

/// Prints events for one thread.
#[derive(Debug)]
pub(super) struct Printer<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) op_hint: usize,
    pub(super) launch_hint: usize,
    pub(super) link_hint: usize,
    pub(super) flows_dropped: u64,
    inputs: Vec<(Id, Vec<u8>)>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(document: &'a Document<'a>) -> Self {
        let inputs = vec![(NONE, Vec::new()); CACHE_SLOTS];
        Self { document, op_hint: 0, launch_hint: 0, link_hint: 0, flows_dropped: 0, inputs }
    }

    /// `,\n{"name":NAME,"cat":CAT,"ph":"X","ts":T,"dur":D,"pid":P,"tid":T,"args":{`
    #[inline]
    fn open_slice(&self, out: &mut Vec<u8>, name: Id, cat: &str, (start, end): (i64, i64), lane: Lane) {
        out.extend_from_slice(b",\n{\"name\":");
        json::text(out, self.document.snapshot.texts.get(name));
        out.extend_from_slice(b",\"cat\":\"");
        out.extend_from_slice(cat.as_bytes());
        out.extend_from_slice(b"\",\"ph\":\"X\",\"ts\":");
        self.document.times.timestamp(out, start);
        out.extend_from_slice(b",\"dur\":");
        self.document.times.duration(out, start, end);
        self.place(out, lane);
        out.extend_from_slice(b",\"args\":{");
    }

    fn category(&self, number: u8) -> &'a str {
        self.document.categories.get(usize::from(number) - 1).map_or("user_annotation", String::as_str)
    }

    #[inline]
    fn place(&self, out: &mut Vec<u8>, lane: Lane) {
        out.extend_from_slice(b",\"pid\":");
        json::integer(out, lane.pid);
        out.extend_from_slice(b",\"tid\":");
        json::integer(out, lane.tid);
    }

    /// One op.
    #[inline]
    pub(super) fn op(&mut self, out: &mut Vec<u8>, index: u32, op: &OpRecord) {
        let document = self.document;
        let texts = &document.snapshot.texts;
        let cat = match op.kind {
            _ if op.category > 0 => self.category(op.category),
            OpKind::Op => "cpu_op",
            OpKind::Backward if !document.is_torch() => "backward",
            OpKind::UserAnnotation | OpKind::Backward => "user_annotation",
        };
        self.open_slice(out, op.name, cat, (op.start, op.end), document.op_lane(index, op));
        let mut args = Args::new();
        if document.is_torch() {
            args.key(out, "\"External id\":");
            json::integer(out, op.id);
        }
        if op.inputs != NONE {
            args.key(out, "\"Input Dims\":");
            self.inputs(out, op.inputs);
        }
        if op.call_site != NONE {
            args.key(out, "\"Call site\":");
            json::text(out, texts.get(op.call_site));
        }
        let extra = document.snapshot.op_extra(op);
        if extra.gpu_ms >= 0.0 && extra.gpu_ms.is_finite() {
            args.key(out, "\"GPU duration (ms)\":");
            json::rounded4(out, extra.gpu_ms);
            if extra.kernel_count != 0 {
                args.key(out, "\"Kernels\":");
                json::integer(out, extra.kernel_count);
            }
        }
        if extra.output_bytes > 0 {
            args.key(out, "\"Output alloc (bytes)\":");
            json::integer(out, extra.output_bytes);
        }
        if let Some(rank) = document.snapshot.rank_world.rank {
            args.key(out, "\"rank\":");
            json::integer(out, rank);
        }
        if extra.stack != NONE && document.is_torch() {
            args.key(out, "\"Call stack\":\"");
            self.joined_stack(out, extra.stack);
        }
        self.free_args(out, &mut args, extra.args);
        out.extend_from_slice(b"}}");
    }

    /// `[[2,3],[4]]`, and the element types as a second argument.
    #[inline]
    fn inputs(&mut self, out: &mut Vec<u8>, id: Id) {
        let slot = id as usize % CACHE_SLOTS;
        if self.inputs[slot].0 == id {
            out.extend_from_slice(&self.inputs[slot].1);
            return;
        }
        let start = out.len();
        self.print_inputs(out, id);
        let printed = &out[start..];
        if printed.len() <= CACHE_ITEM {
            let slot = &mut self.inputs[slot];
            slot.0 = id;
            slot.1.clear();
            slot.1.extend_from_slice(printed);
        }
    }

    fn print_inputs(&self, out: &mut Vec<u8>, id: Id) {
        let mut from = Unpack(self.document.snapshot.packed.bytes(id));
        out.push(b'[');
        for input in 0..from.number() {
            out.extend_from_slice(if input == 0 { b"[" } else { b",[" as &[u8] });
            for dim in 0..from.number() {
                if dim > 0 {
                    out.push(b',');
                }
                json::integer(out, from.signed());
            }
            out.push(b']');
        }
        out.push(b']');
        let dtypes = from.byte();
        if dtypes == pack::DTYPES_NONE {
            return;
        }
        out.extend_from_slice(b",\"Input type\":[");
        for input in 0..from.number() {
            if input > 0 {
                out.push(b',');
            }
            if dtypes == pack::DTYPES_CODES {
                json::text(out, (crate::dtype_name(i64::from(from.byte())).as_bytes(), true));
            } else {
                json::text(out, self.document.snapshot.texts.get(from.number() as Id));
            }
        }
        out.push(b']');
    }

    /// The frames as Kineto joins them, and the closing quote.
    fn joined_stack(&self, out: &mut Vec<u8>, id: Id) {
        let mut from = Unpack(self.document.snapshot.packed.bytes(id));
        for frame in 0..from.number() {
            if frame > 0 {
                out.extend_from_slice(b";\\n");
            }
            json::inside(out, self.document.snapshot.texts.get(from.number() as Id));
        }
        out.push(b'"');
    }

    fn free_args(&self, out: &mut Vec<u8>, args: &mut Args, id: Id) {
        if id == NONE {
            return;
        }
        let texts = &self.document.snapshot.texts;
        let mut from = Unpack(self.document.snapshot.packed.bytes(id));
        for _ in 0..from.number() {
            args.comma(out);
            json::text(out, texts.get(from.number() as Id));
            out.push(b':');
            match from.byte() {
                pack::VALUE_INT => json::integer(out, from.signed()),
                pack::VALUE_UINT => json::integer(out, from.number()),
                pack::VALUE_FLOAT => json::float(out, from.float()),
                pack::VALUE_FALSE => out.extend_from_slice(b"false"),
                pack::VALUE_TRUE => out.extend_from_slice(b"true"),
                _ => json::text(out, texts.get(from.number() as Id)),
            }
        }
    }

    /// One GPU activity, without its flow.
    pub(super) fn gpu(&mut self, out: &mut Vec<u8>, index: u32, gpu: &GpuRecord) {
        let document = self.document;
        let cat = match gpu.kind {
            GpuKind::Kernel => "kernel",
            GpuKind::Memcpy => "gpu_memcpy",
            GpuKind::Memset => "gpu_memset",
            GpuKind::Runtime => "cuda_runtime",
            GpuKind::Driver => "cuda_driver",
            GpuKind::Overhead => "overhead",
            GpuKind::Sync => "cuda_sync",
        };
        self.open_slice(out, gpu.name, cat, (gpu.start, gpu.end), document.gpu_lane(index, gpu));
        let mut args = Args::new();
        args.key(out, "\"correlation\":");
        json::int(out, gpu.correlation());
        if let Some(id) = document.external_id(gpu, &mut self.link_hint) {
            args.key(out, "\"External id\":");
            json::int(out, id);
        }
        let extra = document.snapshot.gpu_extra(gpu);
        if extra.bytes != Int::Unsigned(0) {
            args.key(out, "\"bytes\":");
            json::int(out, extra.bytes);
        }
        if gpu.kind == GpuKind::Memcpy {
            args.key(out, "\"copy kind\":");
            json::integer(out, extra.copy_kind);
        }
        if document.is_torch() {
            self.torch_gpu_args(out, &mut args, gpu, &extra);
        }
        if extra.details != NONE {
            let details = pack::unpack_details(document.snapshot.packed.bytes(extra.details));
            self.details(out, &mut args, &details);
            if document.is_torch() && gpu.kind == GpuKind::Kernel && gpu.is(GpuRecord::LINKED) {
                self.occupancy(out, &mut args, gpu, &details);
            }
        }
        self.free_args(out, &mut args, extra.args);
        out.extend_from_slice(b"}}");
    }

    /// What the readers of PyTorch's traces look for.
    fn torch_gpu_args(&self, out: &mut Vec<u8>, args: &mut Args, gpu: &GpuRecord, extra: &GpuExtra) {
        match self.document.snapshot.gpu_lanes.get(gpu.lane as usize) {
            Some(&(GpuLane::Stream { device, stream } | GpuLane::Sync { device, stream })) => {
                args.key(out, "\"device\":");
                json::integer(out, device);
                args.key(out, "\"stream\":");
                json::integer(out, stream);
            }
            Some(GpuLane::Api { .. }) => {
                args.key(out, "\"cbid\":");
                json::integer(out, gpu.callback_id);
            }
            Some(GpuLane::Overhead) | None => {}
        }
        let duration = gpu.end.saturating_sub(gpu.start);
        if let (Int::Unsigned(bytes @ 1..), 1.., true) = (extra.bytes, duration, gpu.kind.is_work()) {
            args.key(out, "\"memory bandwidth (GB/s)\":");
            json::float(out, bytes as f64 / duration as f64);
        }
        if gpu.kind == GpuKind::Memset {
            args.key(out, "\"value\":");
            json::integer(out, extra.value);
        }
        if gpu.kind == GpuKind::Sync {
            args.key(out, "\"cuda_sync_kind\":");
            json::text(out, self.document.snapshot.texts.get(gpu.name));
        }
    }

    /// How a collected kernel fills its device, as Kineto tells it.
    fn occupancy(&self, out: &mut Vec<u8>, args: &mut Args, gpu: &GpuRecord, details: &GpuDetails) {
        if let Some([blocks, warps]) = occupancy(self.document.snapshot, gpu, details) {
            args.key(out, "\"blocks per SM\":");
            json::float(out, blocks);
            args.key(out, "\"warps per SM\":");
            json::float(out, warps);
        }
    }

    fn details(&self, out: &mut Vec<u8>, args: &mut Args, details: &GpuDetails) {
        for (key, triple) in [("\"grid\":[", details.grid), ("\"block\":[", details.block)] {
            if let Some([x, y, z]) = triple {
                args.key(out, key);
                json::integer(out, x);
                out.push(b',');
                json::integer(out, y);
                out.push(b',');
                json::integer(out, z);
                out.push(b']');
            }
        }
        for (key, number) in [
            ("\"registers per thread\":", details.registers_per_thread.map(u64::from)),
            ("\"shared memory\":", details.shared_memory.map(u64::from)),
            ("\"context\":", details.context.map(u64::from)),
            ("\"graph id\":", details.graph_id.map(u64::from)),
            ("\"graph node id\":", details.graph_node_id),
        ] {
            if let Some(number) = number {
                args.key(out, key);
                json::integer(out, number);
            }
        }
        for (key, number) in [("\"priority\":", details.priority), ("\"cuda result\":", details.result)] {
            if let Some(number) = number {
                args.key(out, key);
                json::integer(out, number);
            }
        }
        self.rarer_details(out, args, details);
    }

    /// What few activities have, under Kineto's names.
    fn rarer_details(&self, out: &mut Vec<u8>, args: &mut Args, details: &GpuDetails) {
        let mut number = |key: &str, number: u32| {
            args.key(out, key);
            json::integer(out, number);
        };
        if let Some([channel, kind]) = details.channel {
            number("\"channel\":", channel);
            number("\"channel_type\":", kind);
        }
        if let Some([from, from_context, to, to_context]) = details.peer {
            number("\"fromDevice\":", from);
            number("\"fromContext\":", from_context);
            number("\"toDevice\":", to);
            number("\"toContext\":", to_context);
        }
        if let Some(event) = details.event {
            number("\"wait_on_cuda_event_id\":", event);
        }
        if let Some([x, y, z]) = details.cluster {
            args.key(out, "\"cluster\":");
            out.extend_from_slice(format!("[{x},{y},{z}]").as_bytes());
        }
    }

    /// One memory event.
    pub(super) fn memory(&self, out: &mut Vec<u8>, event: &MemoryRecord) {
        let lane = self.document.lanes.memory[event.thread as usize];
        out.extend_from_slice(b",\n{\"name\":\"[memory]\",\"cat\":\"user_annotation\",\"ph\":\"X\",\"ts\":");
        self.document.times.timestamp(out, event.time);
        out.extend_from_slice(b",\"dur\":0.001");
        self.place(out, lane);
        out.extend_from_slice(b",\"args\":{\"Bytes\":");
        json::integer(out, event.bytes);
        out.extend_from_slice(b",\"Allocation Type\":");
        out.extend_from_slice(if event.allocated { b"\"alloc\"" } else { b"\"free\"" as &[u8] });
        out.extend_from_slice(b",\"Device\":\"");
        if event.is_cuda {
            out.extend_from_slice(b"cuda:");
            json::integer(out, event.device);
        } else {
            out.extend_from_slice(b"cpu");
        }
        out.push(b'"');
        let mut args = Args { comma: true };
        if self.document.is_torch() {
            args.key(out, "\"Addr\":");
            json::integer(out, event.address);
        }
        self.free_args(out, &mut args, event.args);
        out.extend_from_slice(b"}}");
    }

    /// One stack sample.
    pub(super) fn sample(&self, out: &mut Vec<u8>, sample: &SampleRecord) {
        let texts = &self.document.snapshot.texts;
        let mut from = Unpack(self.document.snapshot.packed.bytes(sample.stack));
        let frames = from.number();
        out.extend_from_slice(b",\n{\"name\":");
        json::text(out, texts.get(from.clone().number() as Id));
        out.extend_from_slice(b",\"cat\":\"python_function\",\"ph\":\"i\",\"s\":\"t\",\"ts\":");
        self.document.times.timestamp(out, sample.time);
        self.place(out, self.document.lanes.sample[sample.thread as usize]);
        out.extend_from_slice(b",\"args\":{\"stack\":[");
        for frame in 0..frames {
            if frame > 0 {
                out.push(b',');
            }
            json::text(out, texts.get(from.number() as Id));
        }
        out.push(b']');
        self.free_args(out, &mut Args { comma: true }, sample.args);
        out.extend_from_slice(b"}}");
    }

    /// The values of a counter track.
    pub(super) fn counter(&self, out: &mut Vec<u8>, counter: &CounterRecord) {
        out.extend_from_slice(b",\n{\"name\":");
        json::text(out, self.document.snapshot.texts.get(counter.name));
        out.extend_from_slice(b",\"ph\":\"C\",\"ts\":");
        self.document.times.timestamp(out, counter.time);
        self.place(out, Lane { pid: super::lanes::CPU_PID, tid: 0, number: 0 });
        out.extend_from_slice(b",\"args\":{");
        self.free_args(out, &mut Args::new(), counter.values);
        out.extend_from_slice(b"}}");
    }

    /// One part of a flow or of an async span.
    pub(super) fn mark(&self, out: &mut Vec<u8>, mark: &MarkRecord) {
        let texts = &self.document.snapshot.texts;
        out.extend_from_slice(b",\n{\"name\":");
        json::text(out, texts.get(mark.name));
        out.extend_from_slice(b",\"cat\":");
        json::text(out, texts.get(mark.category));
        out.extend_from_slice(b",\"ph\":\"");
        out.push(mark.phase);
        // As text: numbers end at 2^53 in JavaScript.
        out.extend_from_slice(b"\",\"id\":\"0x");
        out.extend_from_slice(format!("{:x}", mark.id).as_bytes());
        out.extend_from_slice(b"\",\"ts\":");
        self.document.times.timestamp(out, mark.time);
        self.place(out, self.document.lanes.instant[mark.thread as usize]);
        out.extend_from_slice(if mark.phase == b'f' { b",\"bp\":\"e\"}" } else { b"}" });
    }

    /// One instant.
    pub(super) fn instant(&self, out: &mut Vec<u8>, instant: &InstantRecord) {
        out.extend_from_slice(b",\n{\"name\":");
        json::text(out, self.document.snapshot.texts.get(instant.name));
        out.extend_from_slice(b",\"cat\":\"cpu_instant_event\",\"ph\":\"i\",\"s\":\"");
        out.push(match instant.scope {
            InstantScope::Thread => b't',
            InstantScope::Process => b'p',
            InstantScope::Global => b'g',
        });
        out.extend_from_slice(b"\",\"ts\":");
        self.document.times.timestamp(out, instant.time);
        self.place(out, self.document.lanes.instant[instant.thread as usize]);
        out.extend_from_slice(b",\"args\":{");
        self.free_args(out, &mut Args::new(), instant.args);
        out.extend_from_slice(b"}}");
    }
}

/// Blocks and warps for each multiprocessor, if kernel and device tell what it takes.
pub(super) fn occupancy(snapshot: &Snapshot, gpu: &GpuRecord, details: &GpuDetails) -> Option<[f64; 2]> {
    let Some(&GpuLane::Stream { device, .. }) = snapshot.gpu_lanes.get(gpu.lane as usize) else { return None };
    let device = snapshot.gpu_info.as_ref()?.device(device)?;
    let (grid, block) = (details.grid?, details.block?);
    if device.multiprocessors == 0 || device.warp_size == 0 {
        return None;
    }
    let count = |of: [u32; 3]| of.iter().map(|&n| f64::from(n)).product::<f64>();
    let blocks = count(grid) / f64::from(device.multiprocessors);
    Some([blocks, blocks * (count(block) / f64::from(device.warp_size))])
}

/// Puts commas between arguments.
struct Args {
    comma: bool,
}

impl Args {
    fn new() -> Self {
        Self { comma: false }
    }

    #[inline]
    fn comma(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.comma, true) {
            out.push(b',');
        }
    }

    /// `key` comes with its quotes and colon.
    #[inline]
    fn key(&mut self, out: &mut Vec<u8>, key: &str) {
        self.comma(out);
        out.extend_from_slice(key.as_bytes());
    }
}
