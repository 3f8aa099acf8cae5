//! Stored events as packets.

use super::super::document::Document;
use super::super::json;
use super::super::lanes::Lane;
use super::flows::{End, Flows};
use super::layout::{Item, Layout};
use super::names::{self, Text, category, key};
use super::{Counters, Tracks};
use crate::model::event::{GpuDetails, GpuKind, InstantScope, Int};
use crate::model::extra::GpuExtra;
use crate::model::intern::{Id, NONE};
use crate::model::pack::{self, Unpack};
use crate::model::record::{
    CounterRecord, GpuLane, GpuRecord, InstantRecord, MarkRecord, MemoryRecord, OpRecord, SampleRecord,
};
use crate::perfetto::packet::{self, Kind, Scope, value};
use crate::perfetto::sequence::{Interned, Sequence};

/// As in the printer of JSON.
const CACHE_SLOTS: usize = 1024;

/// What all threads read.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) layout: Layout,
    pub(super) flows: Flows,
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
    sequence: Sequence,
    op_hint: usize,
    call_hint: usize,
    link_hint: usize,
    /// Inputs met lately, and whether they have element types.
    dtypes: Vec<(Id, bool)>,
    /// The slices that are open, and when they end.
    open: Vec<(i64, Item)>,
}

/// What an argument says.
#[derive(Debug, Clone, Copy)]
enum Value<'v> {
    Int(i64),
    Uint(u64),
    Double(f64),
    Flag(bool),
    /// Text of this event alone.
    Own(&'v [u8]),
    Text(Text),
}

impl From<Int> for Value<'_> {
    fn from(number: Int) -> Self {
        match number {
            Int::Unsigned(number) => Self::Uint(number),
            Int::Negative(number) => Self::Int(number),
        }
    }
}

impl From<f64> for Value<'_> {
    /// As in JSON, which has no such numbers, NaN and infinities are text.
    fn from(number: f64) -> Self {
        match number {
            number if number.is_finite() => Self::Double(number),
            number if number.is_nan() => Self::Own(b"NaN"),
            number if number > 0.0 => Self::Own(b"Infinity"),
            _ => Self::Own(b"-Infinity"),
        }
    }
}

impl<'a> Printer<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        Self {
            plan,
            sequence: Sequence::shared(),
            op_hint: 0,
            call_hint: 0,
            link_hint: 0,
            dtypes: vec![(NONE, false); CACHE_SLOTS],
            open: Vec::new(),
        }
    }

    /// Begins a piece of the document.
    pub(super) fn begin(&mut self, sequence: Sequence) {
        self.sequence = sequence;
    }

    #[inline]
    fn number(&mut self, kind: Interned, text: Text) -> u64 {
        let snapshot = self.plan.document.snapshot;
        self.sequence.number(kind, text.number(), |send| text.write(snapshot, send))
    }

    #[inline]
    fn name(&mut self, out: &mut Vec<u8>, text: Text) {
        packet::name(out, self.number(Interned::Name, text));
    }

    #[inline]
    fn category(&mut self, out: &mut Vec<u8>, text: Text) {
        packet::category(out, self.number(Interned::Category, text));
    }

    #[inline]
    fn argument(&mut self, out: &mut Vec<u8>, key: Text, value: Value<'_>) {
        let key = self.number(Interned::Key, key);
        let text = match value {
            Value::Text(text) => self.number(Interned::Text, text),
            _ => 0,
        };
        value::argument(out, key, |out| match value {
            Value::Int(number) => value::int(out, number),
            Value::Uint(number) => value::uint(out, number),
            Value::Double(number) => value::double(out, number),
            Value::Flag(flag) => value::flag(out, flag),
            Value::Own(text) => value::text(out, text),
            Value::Text(_) => value::interned(out, text),
        });
    }

    /// Some slices of one lane that follow one another, after those that are still open then. `last`: no more follow.
    pub(super) fn slices(&mut self, out: &mut Vec<u8>, items: std::ops::Range<usize>, open: &[u32], last: bool) {
        let plan = self.plan;
        let snapshot = plan.document.snapshot;
        self.open.clear();
        for &number in open {
            let item = plan.layout.named(number);
            self.open.push((plan.layout.span(plan.document, item).1, item));
        }
        for at in items {
            let item = plan.layout.item(at);
            let (start, end) = plan.layout.span(plan.document, item);
            while let Some(&(open, ended)) = self.open.last()
                && open <= start
            {
                self.open.pop();
                self.end(out, open, ended);
            }
            let event = self.sequence.event(out, plan.time(start), Kind::Begin);
            match item {
                Item::Op(index) => {
                    if let Some(op) = snapshot.ops.get(index as usize) {
                        self.op(out, index, op);
                    }
                }
                Item::Gpu(index) => {
                    if let Some(gpu) = snapshot.gpu.get(index as usize) {
                        self.gpu(out, index, gpu);
                    }
                }
                Item::Memory(index) => {
                    if let Some(event) = snapshot.memory.get(index as usize) {
                        self.memory(out, event);
                    }
                }
            }
            event.close(out, &mut self.sequence);
            self.open.push((end, item));
        }
        while last && let Some((open, ended)) = self.open.pop() {
            self.end(out, open, ended);
        }
    }

    #[inline]
    fn end(&mut self, out: &mut Vec<u8>, time: i64, item: Item) {
        let plan = self.plan;
        let event = self.sequence.event(out, plan.time(time), Kind::End);
        if let Item::Gpu(index) = item
            && plan.flows.end(index) == End::Late
        {
            self.flow_end(out, index);
        }
        event.close(out, &mut self.sequence);
    }

    #[inline]
    fn op(&mut self, out: &mut Vec<u8>, index: u32, op: &OpRecord) {
        let plan = self.plan;
        let snapshot = plan.document.snapshot;
        self.name(out, Text::Stored(op.name));
        let category = match op.category {
            0 => names::op_category(op.kind),
            number => match snapshot.categories.get(usize::from(number) - 1) {
                Some(&id) => Text::Stored(id),
                None => const { category("user_annotation") },
            },
        };
        self.category(out, category);
        self.argument(out, const { key("External id") }, Value::Uint(op.id));
        if op.inputs != NONE {
            self.inputs(out, op.inputs);
        }
        if op.call_site != NONE {
            self.argument(out, const { key("Call site") }, Value::Text(Text::Stored(op.call_site)));
        }
        let extra = snapshot.op_extra(op);
        if extra.gpu_ms >= 0.0 && extra.gpu_ms.is_finite() {
            let mut decimal = Vec::new();
            json::rounded4(&mut decimal, extra.gpu_ms);
            let rounded = std::str::from_utf8(&decimal).ok().and_then(|text| text.parse().ok());
            let rounded = rounded.unwrap_or(extra.gpu_ms);
            self.argument(out, const { key("GPU duration (ms)") }, Value::Double(rounded));
            if extra.kernel_count != 0 {
                self.argument(out, const { key("Kernels") }, Value::Int(extra.kernel_count));
            }
        }
        if extra.output_bytes > 0 {
            self.argument(out, const { key("Output alloc (bytes)") }, Value::Int(extra.output_bytes));
        }
        if let Some(rank) = snapshot.rank_world.rank {
            self.argument(out, const { key("rank") }, Value::Int(rank));
        }
        if extra.stack != NONE {
            self.argument(out, const { key("Call stack") }, Value::Text(Text::Stack(extra.stack)));
        }
        self.free_args(out, extra.args);
        for &(_, gpu) in plan.flows.of_op(index, &mut self.op_hint) {
            self.flow(out, gpu);
        }
    }

    #[inline]
    fn flow(&self, out: &mut Vec<u8>, index: u32) {
        if let Some(gpu) = self.plan.document.snapshot.gpu.get(index as usize) {
            packet::flow(out, self.plan.flows.id(self.plan.document, index, gpu));
        }
    }

    /// Shapes and element types: each of them one text, which most ops share with many others.
    #[inline]
    fn inputs(&mut self, out: &mut Vec<u8>, id: Id) {
        self.argument(out, const { key("Input Dims") }, Value::Text(Text::Shapes(id)));
        let slot = &mut self.dtypes[id as usize % CACHE_SLOTS];
        if slot.0 != id {
            *slot = (id, names::has_dtypes(self.plan.document.snapshot, id));
        }
        if slot.1 {
            self.argument(out, const { key("Input type") }, Value::Text(Text::Types(id)));
        }
    }

    fn free_args(&mut self, out: &mut Vec<u8>, id: Id) {
        if id == NONE {
            return;
        }
        let mut from = Unpack(self.plan.document.snapshot.packed.bytes(id));
        for _ in 0..from.number() {
            let key = Text::Stored(from.number() as Id);
            let value = match from.byte() {
                pack::VALUE_INT => Value::Int(from.signed()),
                pack::VALUE_UINT => Value::Uint(from.number()),
                pack::VALUE_FLOAT => Value::from(from.float()),
                pack::VALUE_FALSE => Value::Flag(false),
                pack::VALUE_TRUE => Value::Flag(true),
                _ => Value::Text(Text::Stored(from.number() as Id)),
            };
            self.argument(out, key, value);
        }
    }

    fn gpu(&mut self, out: &mut Vec<u8>, index: u32, gpu: &GpuRecord) {
        let plan = self.plan;
        let document = plan.document;
        self.name(out, Text::Stored(gpu.name));
        self.category(
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
        self.argument(out, const { key("correlation") }, gpu.correlation().into());
        if let Some(id) = document.external_id(gpu, &mut self.link_hint) {
            self.argument(out, const { key("External id") }, id.into());
        }
        let extra = document.snapshot.gpu_extra(gpu);
        if extra.bytes != Int::Unsigned(0) {
            self.argument(out, const { key("bytes") }, extra.bytes.into());
        }
        if gpu.kind == GpuKind::Memcpy {
            self.argument(out, const { key("copy kind") }, Value::Int(extra.copy_kind));
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
        if plan.flows.end(index) == End::Start {
            self.flow_end(out, index);
        }
    }

    #[inline]
    fn flow_end(&self, out: &mut Vec<u8>, index: u32) {
        if let Some(gpu) = self.plan.document.snapshot.gpu.get(index as usize) {
            packet::flow_end(out, self.plan.flows.id(self.plan.document, index, gpu));
        }
    }

    fn torch_gpu_args(&mut self, out: &mut Vec<u8>, gpu: &GpuRecord, extra: &GpuExtra) {
        match self.plan.document.snapshot.gpu_lanes.get(gpu.lane as usize) {
            Some(&(GpuLane::Stream { device, stream } | GpuLane::Sync { device, stream })) => {
                self.argument(out, const { key("device") }, Value::Int(device));
                self.argument(out, const { key("stream") }, Value::Int(stream));
            }
            Some(GpuLane::Api { .. }) => {
                self.argument(out, const { key("cbid") }, Value::Int(i64::from(gpu.callback_id)));
            }
            Some(GpuLane::Overhead) | None => {}
        }
        let duration = gpu.end.saturating_sub(gpu.start);
        if let (Int::Unsigned(bytes @ 1..), 1.., true) = (extra.bytes, duration, gpu.kind.is_work()) {
            let bandwidth = bytes as f64 / duration as f64;
            self.argument(out, const { key("memory bandwidth (GB/s)") }, Value::Double(bandwidth));
        }
        if gpu.kind == GpuKind::Memset {
            self.argument(out, const { key("value") }, Value::Int(i64::from(extra.value)));
        }
        if gpu.kind == GpuKind::Sync {
            self.argument(out, const { key("cuda_sync_kind") }, Value::Text(Text::Stored(gpu.name)));
        }
    }

    fn occupancy(&mut self, out: &mut Vec<u8>, gpu: &GpuRecord, details: &GpuDetails) {
        if let Some([blocks, warps]) = super::super::print::occupancy(self.plan.document.snapshot, gpu, details) {
            self.argument(out, const { key("blocks per SM") }, Value::Double(blocks));
            self.argument(out, const { key("warps per SM") }, Value::Double(warps));
        }
    }

    fn details(&mut self, out: &mut Vec<u8>, details: &GpuDetails) {
        let triples = [
            (const { key("grid") }, details.grid),
            (const { key("block") }, details.block),
            (const { key("cluster") }, details.cluster),
        ];
        for (key, triple) in triples {
            if let Some(triple) = triple {
                let [x, y, z] = triple;
                self.argument(out, key, Value::Own(format!("[{x},{y},{z}]").as_bytes()));
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
                self.argument(out, key, Value::Int(i64::from(number)));
            }
        }
        if let Some(node) = details.graph_node_id {
            self.argument(out, const { key("graph node id") }, Value::Uint(node));
        }
        for (key, number) in
            [(const { key("priority") }, details.priority), (const { key("cuda result") }, details.result)]
        {
            if let Some(number) = number {
                self.argument(out, key, Value::Int(i64::from(number)));
            }
        }
    }

    fn memory(&mut self, out: &mut Vec<u8>, event: &MemoryRecord) {
        packet::name_text(out, b"[memory]");
        self.category(out, const { category("user_annotation") });
        self.argument(out, const { key("Bytes") }, Value::Int(event.bytes));
        let kind = if event.allocated { const { key("alloc") } } else { const { key("free") } };
        self.argument(out, const { key("Allocation Type") }, Value::Text(kind));
        let device = format!("cuda:{}", event.device);
        let device = if event.is_cuda { Value::Own(device.as_bytes()) } else { Value::Text(const { key("cpu") }) };
        self.argument(out, const { key("Device") }, device);
        self.argument(out, const { key("Addr") }, Value::Uint(event.address));
        self.free_args(out, event.args);
    }

    fn lane(&self, lane: Lane) -> u64 {
        self.plan.tracks.lane(lane.number)
    }

    /// One stack sample.
    pub(super) fn sample(&mut self, out: &mut Vec<u8>, sample: &SampleRecord) {
        let document = self.plan.document;
        let mut from = Unpack(document.snapshot.packed.bytes(sample.stack));
        from.number();
        let track = self.lane(document.lanes.sample[sample.thread as usize]);
        let event = self.sequence.event_on(out, self.plan.time(sample.time), track, Kind::Instant);
        self.name(out, Text::Stored(from.number() as Id));
        self.category(out, const { category("python_function") });
        self.argument(out, const { key("stack") }, Value::Text(Text::Frames(sample.stack)));
        self.free_args(out, sample.args);
        event.close(out, &mut self.sequence);
    }

    /// The values of a counter track: one track for each.
    pub(super) fn counter(&mut self, out: &mut Vec<u8>, counter: &CounterRecord) {
        let mut from = Unpack(self.plan.document.snapshot.packed.bytes(counter.values));
        for _ in 0..from.number() {
            let series = from.number() as Id;
            let track = self.plan.counters.track(counter.name, series);
            let event = self.sequence.event_on(out, self.plan.time(counter.time), track, Kind::Counter);
            match from.byte() {
                pack::VALUE_INT => packet::counter_int(out, from.signed()),
                pack::VALUE_UINT => packet::counter_double(out, from.number() as f64),
                pack::VALUE_FLOAT => packet::counter_double(out, from.float()),
                pack::VALUE_FALSE => packet::counter_int(out, 0),
                pack::VALUE_TRUE => packet::counter_int(out, 1),
                // The store takes numbers only.
                _ => packet::counter_double(out, from.number() as f64 * 0.0),
            }
            event.close(out, &mut self.sequence);
        }
    }

    /// One part of a flow or of an async span. Where it is bound depends on its time, as in JSON.
    pub(super) fn mark(&mut self, out: &mut Vec<u8>, mark: &MarkRecord) {
        let track = self.lane(self.plan.document.lanes.instant[mark.thread as usize]);
        let event = self.sequence.event_on(out, self.plan.time(mark.time), track, Kind::Legacy);
        self.name(out, Text::Stored(mark.name));
        self.category(out, Text::Stored(mark.category));
        packet::legacy(out, mark.phase, Some(mark.id), mark.phase == b'f', None);
        event.close(out, &mut self.sequence);
    }

    /// One instant.
    pub(super) fn instant(&mut self, out: &mut Vec<u8>, instant: &InstantRecord) {
        let track = self.lane(self.plan.document.lanes.instant[instant.thread as usize]);
        let scope = match instant.scope {
            InstantScope::Thread => None,
            InstantScope::Process => Some(Scope::Process),
            InstantScope::Global => Some(Scope::Global),
        };
        let kind = if scope.is_none() { Kind::Instant } else { Kind::Legacy };
        let event = self.sequence.event_on(out, self.plan.time(instant.time), track, kind);
        self.name(out, Text::Stored(instant.name));
        self.category(out, const { category("cpu_instant_event") });
        if scope.is_some() {
            packet::legacy(out, b'i', None, false, scope);
        }
        self.free_args(out, instant.args);
        event.close(out, &mut self.sequence);
    }
}
