//! Stored events as packets.

use super::super::document::Document;
use super::super::json;
use super::super::lanes::Lane;
use super::flows::{End, Flows};
use super::layout::{Item, Layout};
use super::names::{self, Used, category, key, stored};
use super::{Counters, Tracks};
use crate::model::event::{GpuDetails, GpuKind, InstantScope, Int};
use crate::model::extra::GpuExtra;
use crate::model::intern::{Id, NONE};
use crate::model::pack::{self, Unpack};
use crate::model::record::{
    CounterRecord, GpuLane, GpuRecord, InstantRecord, MarkRecord, MemoryRecord, OpRecord, SampleRecord,
};
use crate::perfetto::packet::{self, Event, Kind, Scope, value};

/// As in the printer of JSON.
const CACHE_SLOTS: usize = 1024;

/// What all threads read.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) layout: Layout,
    pub(super) flows: Flows,
    pub(super) used: Used,
    pub(super) tracks: Tracks,
    pub(super) counters: Counters,
}

impl Plan<'_> {
    /// Nanoseconds since the base. What lies beyond the range of Perfetto's times is drawn at its end.
    #[inline]
    pub(super) fn time(&self, time: i64) -> u64 {
        let base = self.document.clock.base_ns;
        if time <= base { 0 } else { time.wrapping_sub(base) as u64 }.min(i64::MAX as u64)
    }
}

/// Prints events for one thread.
#[derive(Debug)]
pub(super) struct Printer<'a> {
    pub(super) plan: &'a Plan<'a>,
    op_hint: usize,
    call_hint: usize,
    link_hint: usize,
    /// Inputs met lately, and whether they have element types.
    dtypes: Vec<(Id, bool)>,
    /// The slices that are open: when they end, and what flow ends there.
    open: Vec<(i64, Option<u64>)>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        Self {
            plan,
            op_hint: 0,
            call_hint: 0,
            link_hint: 0,
            dtypes: vec![(NONE, false); CACHE_SLOTS],
            open: Vec::new(),
        }
    }

    /// Some slices of one lane that follow one another.
    ///
    /// Every start comes after the ends of the slices that ended by then. The slices that are open in the end get their
    /// ends here too, before the starts of those that follow: the reader sorts by time, and keeps this order only
    /// among packets of the same time.
    pub(super) fn slices(&mut self, out: &mut Vec<u8>, items: std::ops::Range<usize>, track: u64) {
        let plan = self.plan;
        let snapshot = plan.document.snapshot;
        for at in items {
            let item = plan.layout.item(at);
            let (start, end) = plan.layout.span(plan.document, item);
            while let Some(&(open, flow)) = self.open.last()
                && open <= start
            {
                self.open.pop();
                self.end(out, open, track, flow);
            }
            let event = Event::open(out, plan.time(start), track, Kind::Begin);
            let mut late = None;
            match item {
                Item::Op(index) => {
                    if let Some(op) = snapshot.ops.get(index as usize) {
                        self.op(out, index, op);
                    }
                }
                Item::Gpu(index) => {
                    if let Some(gpu) = snapshot.gpu.get(index as usize) {
                        late = self.gpu(out, index, gpu);
                    }
                }
                Item::Memory(index) => {
                    if let Some(event) = snapshot.memory.get(index as usize) {
                        self.memory(out, event);
                    }
                }
            }
            event.close(out);
            self.open.push((end, late));
        }
        while let Some((open, flow)) = self.open.pop() {
            self.end(out, open, track, flow);
        }
    }

    #[inline]
    fn end(&self, out: &mut Vec<u8>, time: i64, track: u64, flow: Option<u64>) {
        let event = Event::open(out, self.plan.time(time), track, Kind::End);
        if let Some(id) = flow {
            packet::flow_end(out, id);
        }
        event.close(out);
    }

    #[inline]
    fn op(&mut self, out: &mut Vec<u8>, index: u32, op: &OpRecord) {
        let plan = self.plan;
        let snapshot = plan.document.snapshot;
        packet::name(out, stored(op.name));
        packet::category(
            out,
            match op.category {
                0 => names::op_category(op.kind),
                number => match snapshot.categories.get(usize::from(number) - 1) {
                    Some(&id) => stored(id),
                    None => const { category("user_annotation") },
                },
            },
        );
        value::argument(out, const { key("External id") }, |out| value::uint(out, op.id));
        if op.inputs != NONE {
            self.inputs(out, op.inputs);
        }
        if op.call_site != NONE {
            value::argument(out, const { key("Call site") }, |out| value::interned(out, stored(op.call_site)));
        }
        let extra = snapshot.op_extra(op);
        if extra.gpu_ms >= 0.0 && extra.gpu_ms.is_finite() {
            let mut decimal = Vec::new();
            json::rounded4(&mut decimal, extra.gpu_ms);
            let rounded = std::str::from_utf8(&decimal).ok().and_then(|text| text.parse().ok());
            let rounded = rounded.unwrap_or(extra.gpu_ms);
            value::argument(out, const { key("GPU duration (ms)") }, |out| value::double(out, rounded));
            if extra.kernel_count != 0 {
                value::argument(out, const { key("Kernels") }, |out| value::int(out, extra.kernel_count));
            }
        }
        if extra.output_bytes > 0 {
            value::argument(out, const { key("Output alloc (bytes)") }, |out| value::int(out, extra.output_bytes));
        }
        if let Some(rank) = snapshot.rank_world.rank {
            value::argument(out, const { key("rank") }, |out| value::int(out, rank));
        }
        if extra.stack != NONE {
            value::argument(out, const { key("Call stack") }, |out| {
                value::interned(out, plan.used.packed(extra.stack))
            });
        }
        self.free_args(out, extra.args);
        for &(_, gpu) in plan.flows.of_op(index, &mut self.op_hint) {
            self.flow(out, gpu);
        }
    }

    #[inline]
    fn flow(&self, out: &mut Vec<u8>, index: u32) {
        if let Some(gpu) = self.plan.document.snapshot.gpu.get(index as usize) {
            packet::flow(out, Flows::id(self.plan.document, index, gpu));
        }
    }

    /// Shapes and element types: each of them one text, which most ops share with many others.
    #[inline]
    fn inputs(&mut self, out: &mut Vec<u8>, id: Id) {
        let used = &self.plan.used;
        value::argument(out, const { key("Input Dims") }, |out| value::interned(out, used.packed(id)));
        let slot = &mut self.dtypes[id as usize % CACHE_SLOTS];
        if slot.0 != id {
            *slot = (id, names::has_dtypes(self.plan.document.snapshot, id));
        }
        if slot.1 {
            value::argument(out, const { key("Input type") }, |out| value::interned(out, used.dtypes(id)));
        }
    }

    fn free_args(&self, out: &mut Vec<u8>, id: Id) {
        if id == NONE {
            return;
        }
        let mut from = Unpack(self.plan.document.snapshot.packed.bytes(id));
        for _ in 0..from.number() {
            value::argument(out, stored(from.number() as Id), |out| match from.byte() {
                pack::VALUE_INT => value::int(out, from.signed()),
                pack::VALUE_UINT => value::uint(out, from.number()),
                pack::VALUE_FLOAT => float(out, from.float()),
                pack::VALUE_FALSE => value::flag(out, false),
                pack::VALUE_TRUE => value::flag(out, true),
                _ => value::interned(out, stored(from.number() as Id)),
            });
        }
    }

    /// Answers the flow that ends where the activity does.
    fn gpu(&mut self, out: &mut Vec<u8>, index: u32, gpu: &GpuRecord) -> Option<u64> {
        let plan = self.plan;
        let document = plan.document;
        packet::name(out, stored(gpu.name));
        packet::category(
            out,
            match gpu.kind {
                GpuKind::Kernel => const { category("kernel") },
                GpuKind::Memcpy => const { category("gpu_memcpy") },
                GpuKind::Memset => const { category("gpu_memset") },
                GpuKind::Runtime => const { category("cuda_runtime") },
                GpuKind::Driver => const { category("cuda_driver") },
                GpuKind::Overhead => const { category("overhead") },
                GpuKind::Sync => const { category("cuda_sync") },
            },
        );
        integer(out, const { key("correlation") }, gpu.correlation());
        if let Some(id) = document.external_id(gpu, &mut self.link_hint) {
            integer(out, const { key("External id") }, id);
        }
        let extra = document.snapshot.gpu_extra(gpu);
        if extra.bytes != Int::Unsigned(0) {
            integer(out, const { key("bytes") }, extra.bytes);
        }
        if gpu.kind == GpuKind::Memcpy {
            value::argument(out, const { key("copy kind") }, |out| value::int(out, extra.copy_kind));
        }
        self.torch_gpu_args(out, gpu, &extra);
        if extra.details != NONE {
            let details = pack::unpack_details(document.snapshot.packed.bytes(extra.details));
            self.details(out, &details);
            if gpu.kind == GpuKind::Kernel && gpu.is(GpuRecord::LINKED) {
                self.occupancy(out, gpu, &details);
            }
        }
        self.free_args(out, extra.args);
        for &(_, caused) in plan.flows.of_call(index, &mut self.call_hint) {
            self.flow(out, caused);
        }
        match plan.flows.end(index) {
            End::None => None,
            End::Late => Some(Flows::id(document, index, gpu)),
            End::Start => {
                packet::flow_end(out, Flows::id(document, index, gpu));
                None
            }
        }
    }

    fn torch_gpu_args(&self, out: &mut Vec<u8>, gpu: &GpuRecord, extra: &GpuExtra) {
        match self.plan.document.snapshot.gpu_lanes.get(gpu.lane as usize) {
            Some(&(GpuLane::Stream { device, stream } | GpuLane::Sync { device, stream })) => {
                value::argument(out, const { key("device") }, |out| value::int(out, device));
                value::argument(out, const { key("stream") }, |out| value::int(out, stream));
            }
            Some(GpuLane::Api { .. }) => {
                value::argument(out, const { key("cbid") }, |out| value::int(out, i64::from(gpu.callback_id)));
            }
            Some(GpuLane::Overhead) | None => {}
        }
        let duration = gpu.end.saturating_sub(gpu.start);
        if let (Int::Unsigned(bytes @ 1..), 1.., true) = (extra.bytes, duration, gpu.kind.is_work()) {
            let bandwidth = bytes as f64 / duration as f64;
            value::argument(out, const { key("memory bandwidth (GB/s)") }, |out| value::double(out, bandwidth));
        }
        if gpu.kind == GpuKind::Memset {
            value::argument(out, const { key("value") }, |out| value::int(out, i64::from(extra.value)));
        }
        if gpu.kind == GpuKind::Sync {
            value::argument(out, const { key("cuda_sync_kind") }, |out| value::interned(out, stored(gpu.name)));
        }
    }

    fn occupancy(&self, out: &mut Vec<u8>, gpu: &GpuRecord, details: &GpuDetails) {
        if let Some([blocks, warps]) = super::super::print::occupancy(self.plan.document.snapshot, gpu, details) {
            value::argument(out, const { key("blocks per SM") }, |out| value::double(out, blocks));
            value::argument(out, const { key("warps per SM") }, |out| value::double(out, warps));
        }
    }

    fn details(&self, out: &mut Vec<u8>, details: &GpuDetails) {
        let triples = [
            (const { key("grid") }, details.grid),
            (const { key("block") }, details.block),
            (const { key("cluster") }, details.cluster),
        ];
        for (key, triple) in triples {
            if let Some(triple) = triple {
                let [x, y, z] = triple;
                value::argument(out, key, |out| value::text(out, format!("[{x},{y},{z}]").as_bytes()));
            }
        }
        let [channel, channel_type] = details.channel.map_or([None; 2], |pair| pair.map(Some));
        let [from, from_context, to, to_context] = details.peer.map_or([None; 4], |peer| peer.map(Some));
        for (key, number) in [
            (const { key("registers per thread") }, details.registers_per_thread),
            (const { key("shared memory") }, details.shared_memory),
            (const { key("context") }, details.context),
            (const { key("graph id") }, details.graph_id),
            (const { key("channel") }, channel),
            (const { key("channel_type") }, channel_type),
            (const { key("fromDevice") }, from),
            (const { key("fromContext") }, from_context),
            (const { key("toDevice") }, to),
            (const { key("toContext") }, to_context),
            (const { key("wait_on_cuda_event_id") }, details.event),
        ] {
            if let Some(number) = number {
                value::argument(out, key, |out| value::int(out, i64::from(number)));
            }
        }
        if let Some(node) = details.graph_node_id {
            value::argument(out, const { key("graph node id") }, |out| value::uint(out, node));
        }
        for (key, number) in
            [(const { key("priority") }, details.priority), (const { key("cuda result") }, details.result)]
        {
            if let Some(number) = number {
                value::argument(out, key, |out| value::int(out, i64::from(number)));
            }
        }
    }

    fn memory(&self, out: &mut Vec<u8>, event: &MemoryRecord) {
        packet::name_text(out, b"[memory]");
        packet::category(out, const { category("user_annotation") });
        value::argument(out, const { key("Bytes") }, |out| value::int(out, event.bytes));
        let kind = if event.allocated { const { key("alloc") } } else { const { key("free") } };
        value::argument(out, const { key("Allocation Type") }, |out| value::interned(out, kind));
        value::argument(out, const { key("Device") }, |out| match event.is_cuda {
            true => value::text(out, format!("cuda:{}", event.device).as_bytes()),
            false => value::interned(out, const { key("cpu") }),
        });
        value::argument(out, const { key("Addr") }, |out| value::uint(out, event.address));
        self.free_args(out, event.args);
    }

    fn lane(&self, lane: Lane) -> u64 {
        self.plan.tracks.lane(lane.number)
    }

    /// One stack sample.
    pub(super) fn sample(&self, out: &mut Vec<u8>, sample: &SampleRecord) {
        let document = self.plan.document;
        let mut from = Unpack(document.snapshot.packed.bytes(sample.stack));
        from.number();
        let track = self.lane(document.lanes.sample[sample.thread as usize]);
        let event = Event::open(out, self.plan.time(sample.time), track, Kind::Instant);
        packet::name(out, stored(from.number() as Id));
        packet::category(out, const { category("python_function") });
        let frames = self.plan.used.packed(sample.stack);
        value::argument(out, const { key("stack") }, |out| value::interned(out, frames));
        self.free_args(out, sample.args);
        event.close(out);
    }

    /// The values of a counter track: one track for each.
    pub(super) fn counter(&self, out: &mut Vec<u8>, counter: &CounterRecord) {
        let mut from = Unpack(self.plan.document.snapshot.packed.bytes(counter.values));
        for _ in 0..from.number() {
            let series = from.number() as Id;
            let track = self.plan.counters.track(counter.name, series);
            let event = Event::open(out, self.plan.time(counter.time), track, Kind::Counter);
            match from.byte() {
                pack::VALUE_INT => packet::counter_int(out, from.signed()),
                pack::VALUE_UINT => packet::counter_double(out, from.number() as f64),
                pack::VALUE_FLOAT => packet::counter_double(out, from.float()),
                pack::VALUE_FALSE => packet::counter_int(out, 0),
                pack::VALUE_TRUE => packet::counter_int(out, 1),
                // The store takes numbers only.
                _ => packet::counter_double(out, from.number() as f64 * 0.0),
            }
            event.close(out);
        }
    }

    /// One part of a flow or of an async span. Where it is bound depends on its time, as in JSON.
    pub(super) fn mark(&self, out: &mut Vec<u8>, mark: &MarkRecord) {
        let track = self.lane(self.plan.document.lanes.instant[mark.thread as usize]);
        let event = Event::open(out, self.plan.time(mark.time), track, Kind::Legacy);
        packet::name(out, stored(mark.name));
        packet::category(out, stored(mark.category));
        packet::legacy(out, mark.phase, Some(mark.id), mark.phase == b'f', None);
        event.close(out);
    }

    /// One instant.
    pub(super) fn instant(&self, out: &mut Vec<u8>, instant: &InstantRecord) {
        let track = self.lane(self.plan.document.lanes.instant[instant.thread as usize]);
        let scope = match instant.scope {
            InstantScope::Thread => None,
            InstantScope::Process => Some(Scope::Process),
            InstantScope::Global => Some(Scope::Global),
        };
        let kind = if scope.is_none() { Kind::Instant } else { Kind::Legacy };
        let event = Event::open(out, self.plan.time(instant.time), track, kind);
        packet::name(out, stored(instant.name));
        packet::category(out, const { category("cpu_instant_event") });
        if scope.is_some() {
            packet::legacy(out, b'i', None, false, scope);
        }
        self.free_args(out, instant.args);
        event.close(out);
    }
}

fn integer(out: &mut Vec<u8>, key: u64, number: Int) {
    value::argument(out, key, |out| match number {
        Int::Unsigned(number) => value::uint(out, number),
        Int::Negative(number) => value::int(out, number),
    });
}

/// As in JSON, which has no such numbers, NaN and infinities are text.
fn float(out: &mut Vec<u8>, number: f64) {
    match number {
        number if number.is_finite() => value::double(out, number),
        number if number.is_nan() => value::text(out, b"NaN"),
        number if number > 0.0 => value::text(out, b"Infinity"),
        _ => value::text(out, b"-Infinity"),
    }
}
