//! Everything a trace holds, and the calls that add to it.

mod side;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counts::Counts;
use super::event::{Counter, GpuActivity, GpuKind, Instant, Int, MemoryEvent, Op, Sample, Text, Value};
use super::extra::{GpuExtra, OpExtra};
use super::gpu::{GpuInfo, GpuReport};
use super::identity::RankWorld;
use super::intern::{AsideInterner, Id, Interner, NONE};
use super::keys::Keys;
use super::log::Log;
use super::pack;
use super::recent::RecentInputs;
use super::record::{
    CounterRecord, GpuLane, GpuRecord, InstantRecord, LinkRecord, MarkRecord, MemoryRecord, OpRecord, SampleRecord,
};
use super::reserved::{GPU_ARGS, MEMORY_ARGS, OP_ARGS, RARE_GPU_ARGS, SAMPLE_ARGS};
use super::snapshot::Snapshot;
use super::span::Span;
use crate::error::{Error, Result};

/// Stands for the id of an op that has none yet.
pub(crate) const NO_ID: u64 = u64::MAX;

/// In which order the ids of ops came: how a GPU activity's op is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IdOrder {
    /// Each id is the op's position.
    #[default]
    Position,
    /// Each id is greater than the one before.
    Ascending,
    /// None of these.
    Any,
}

/// Texts and side data of events that are in one document only, which go with it.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    texts: AsideInterner,
    packed: AsideInterner,
}

impl Aside {
    /// Lets a snapshot's events refer to these too.
    pub(crate) fn join(self, snapshot: &mut Snapshot) {
        self.texts.join(&mut snapshot.texts);
        self.packed.join(&mut snapshot.packed);
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    texts: Interner,
    packed: Interner,
    /// While an event is made that is in one document only: where its texts and side data go.
    aside: Option<Box<Aside>>,
    ops: Log<OpRecord>,
    gpu: Log<GpuRecord>,
    links: Log<LinkRecord>,
    memory: Log<MemoryRecord>,
    samples: Log<SampleRecord>,
    counters: Log<CounterRecord>,
    instants: Log<InstantRecord>,
    marks: Log<MarkRecord>,
    categories: Vec<Id>,
    op_threads: Keys<u64>,
    gpu_lanes: Keys<GpuLane>,
    memory_threads: Keys<u64>,
    sample_threads: Keys<u64>,
    instant_threads: Keys<u64>,
    id_order: IdOrder,
    last_id: Option<u64>,
    span: Span,
    has_shapes: bool,
    has_stacks: bool,
    pub(crate) counts: Counts,
    pub(crate) thread_names: BTreeMap<u64, String>,
    pub(crate) process_name: Option<String>,
    pub(crate) backend: Option<String>,
    pub(crate) rank_world: Option<RankWorld>,
    pub(crate) metadata: Vec<(String, String)>,
    /// The machine's GPUs, if the trace was told of them.
    pub(crate) gpu_info: Option<Arc<GpuInfo>>,
    /// What collecting GPU work came to, if it was done.
    pub(crate) gpu_report: Option<GpuReport>,
    /// How often it was opened to somebody who may have changed it.
    pub(crate) revision: u64,
    recent_inputs: RecentInputs,
    bytes_scratch: Vec<u8>,
    ids_scratch: Vec<Id>,
}

impl Store {
    pub(crate) fn new(span: Span) -> Self {
        Self {
            texts: Interner::default(),
            packed: Interner::default(),
            aside: None,
            ops: Log::default(),
            gpu: Log::default(),
            links: Log::default(),
            memory: Log::default(),
            samples: Log::default(),
            counters: Log::default(),
            instants: Log::default(),
            marks: Log::default(),
            categories: Vec::new(),
            op_threads: Keys::default(),
            gpu_lanes: Keys::default(),
            memory_threads: Keys::default(),
            sample_threads: Keys::default(),
            instant_threads: Keys::default(),
            id_order: IdOrder::default(),
            last_id: None,
            span,
            has_shapes: false,
            has_stacks: false,
            counts: Counts::default(),
            thread_names: BTreeMap::new(),
            process_name: None,
            backend: None,
            rank_world: None,
            metadata: Vec::new(),
            gpu_info: None,
            gpu_report: None,
            revision: 0,
            recent_inputs: RecentInputs::default(),
            bytes_scratch: Vec::new(),
            ids_scratch: Vec::new(),
        }
    }

    /// Counts an event that was refused.
    #[inline]
    fn counted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.counts.dropped += u64::from(result.is_err());
        result
    }

    /// Adds one op and answers its id.
    #[inline]
    pub(crate) fn add_op(&mut self, op: &Op<'_>) -> Result<u64> {
        let added = self.try_add_op(op);
        self.counted(added)
    }

    fn try_add_op(&mut self, op: &Op<'_>) -> Result<u64> {
        let position = self.ops.len() as u64;
        let record = self.op_record(op, position)?;
        let id = record.id;
        if id != position || self.id_order != IdOrder::Position {
            self.note_id(id);
        }
        self.last_id = Some(id);
        self.counts.ops += 1;
        self.ops.push(record);
        Ok(id)
    }

    /// An op that is in one document only, with its texts and side data in `aside`, if that is given. Without an id it has [`NO_ID`], to become [`Store::next_id`] and more.
    pub(crate) fn transient_op(&mut self, op: &Op<'_>, aside: &mut Option<Box<Aside>>) -> Option<OpRecord> {
        self.beside(aside, |store| store.op_record(op, NO_ID).ok())
    }

    /// After all ids of the trace, in their order.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.map_or(0, |last| last.saturating_add(1)).max(self.ops.len() as u64)
    }

    #[inline]
    fn op_record(&mut self, op: &Op<'_>, position: u64) -> Result<OpRecord> {
        let name = self.text(op.name)?;
        let call_site = if op.call_site.0.is_empty() { NONE } else { self.text(op.call_site)? };
        let inputs = match &op.inputs {
            None => NONE,
            Some(inputs) => self.inputs(inputs)?,
        };
        let stack = self.stack(op.stack)?;
        let args = self.args(op.args, OP_ARGS)?;
        let gpu_ms = op.gpu_ms.unwrap_or(f64::NAN);
        let extra = OpExtra { gpu_ms, kernel_count: op.kernel_count, output_bytes: op.output_bytes, stack, args };
        let extra = self.pack_extra(gpu_ms.is_nan() && args == NONE, |out| extra.pack(out))?;
        if self.ops.len() as u64 >= u64::from(u32::MAX) {
            return Err(full("ops"));
        }
        let id = op.id.unwrap_or(position);
        let category = if op.category.0.is_empty() { 0 } else { self.category(op.category)? };
        self.has_shapes |= inputs != NONE;
        self.has_stacks |= stack != NONE;
        self.note_slice(op.start_ns, op.end_ns);
        Ok(OpRecord {
            start: op.start_ns,
            end: op.end_ns,
            id,
            name,
            call_site,
            inputs,
            extra,
            thread: self.op_threads.index_of(op.thread_id),
            kind: op.kind,
            category,
        })
    }

    /// The number of a category and 1, or 0 if there are too many.
    fn category(&mut self, category: Text<'_>) -> Result<u8> {
        // Listed for all documents to come.
        let id = self.beside(&mut None, |store| store.text(category))?;
        if let Some(known) = self.categories.iter().position(|known| *known == id) {
            return Ok(known as u8 + 1);
        }
        if self.categories.len() >= 254 {
            return Ok(0);
        }
        self.categories.push(id);
        Ok(self.categories.len() as u8)
    }

    #[cold]
    fn note_id(&mut self, id: u64) {
        let ascending = self.id_order != IdOrder::Any && self.last_id.is_none_or(|last| id > last);
        self.id_order = if ascending { IdOrder::Ascending } else { IdOrder::Any };
    }

    #[inline]
    fn note_slice(&mut self, start: i64, end: i64) {
        self.counts.clamped += u64::from(end < start);
        self.span.slice(start, end);
    }

    /// Adds one GPU activity.
    #[inline]
    pub(crate) fn add_gpu(&mut self, gpu: &GpuActivity<'_>) -> Result<()> {
        let added = self.try_add_gpu(gpu, 0);
        self.counted(added)
    }

    /// Adds a GPU activity whose op is told by a link, which may come later.
    #[inline]
    pub(crate) fn add_collected(&mut self, gpu: &GpuActivity<'_>) -> Result<()> {
        let added = self.try_add_gpu(gpu, GpuRecord::LINKED);
        self.counted(added)
    }

    /// Says which op was open when the call of that correlation id was made.
    pub(crate) fn add_link(&mut self, correlation: u64, external: u64) {
        self.links.push(LinkRecord { correlation, external });
    }

    #[inline]
    fn try_add_gpu(&mut self, gpu: &GpuActivity<'_>, mut flags: u8) -> Result<()> {
        if self.gpu.len() as u64 >= u64::from(u32::MAX) {
            return Err(full("GPU activities"));
        }
        let name = self.text(gpu.name)?;
        let details = self.pack(|_, out| {
            pack::details(out, &gpu.details);
            Ok(())
        })?;
        let args = match (gpu.args.is_empty(), gpu.kind == GpuKind::Sync || gpu.details.has_rare()) {
            (true, _) => NONE,
            (false, false) => self.args(gpu.args, GPU_ARGS)?,
            (false, true) => self.args(gpu.args, &[GPU_ARGS, RARE_GPU_ARGS].concat())?,
        };
        let extra = GpuExtra { bytes: gpu.bytes, copy_kind: gpu.copy_kind, value: gpu.value, details, args };
        let extra = self.pack_extra(args == NONE, |out| extra.pack(out))?;
        let lane = match gpu.kind {
            GpuKind::Runtime | GpuKind::Driver => GpuLane::Api { os_thread: gpu.os_thread },
            GpuKind::Kernel | GpuKind::Memcpy | GpuKind::Memset => {
                GpuLane::Stream { device: gpu.device, stream: gpu.stream }
            }
            GpuKind::Sync => GpuLane::Sync { device: gpu.device, stream: gpu.stream },
            GpuKind::Overhead => GpuLane::Overhead,
        };
        let mut bits = |value: Int, negative: u8| match value {
            Int::Unsigned(value) => value,
            Int::Negative(value) => {
                flags |= negative;
                value as u64
            }
        };
        let correlation = bits(gpu.correlation_id, GpuRecord::NEGATIVE_CORRELATION);
        let external = bits(gpu.external_id.unwrap_or_default(), GpuRecord::NEGATIVE_EXTERNAL);
        if gpu.external_id.is_some() {
            flags |= GpuRecord::HAS_EXTERNAL;
        }
        self.counts.gpu_activities += 1;
        self.note_slice(gpu.start_ns, gpu.end_ns);
        self.gpu.push(GpuRecord {
            start: gpu.start_ns,
            end: gpu.end_ns,
            correlation,
            external,
            name,
            extra,
            lane: self.gpu_lanes.index_of(lane),
            callback_id: gpu.callback_id,
            kind: gpu.kind,
            flags,
        });
        Ok(())
    }

    /// Adds one memory event.
    pub(crate) fn add_memory(&mut self, event: &MemoryEvent<'_>) -> Result<()> {
        let args = self.args(event.args, MEMORY_ARGS);
        let args = self.counted(args)?;
        self.counts.memory_events += 1;
        self.span.slice(event.time_ns, event.time_ns);
        self.memory.push(MemoryRecord {
            time: event.time_ns,
            address: event.address,
            bytes: event.bytes,
            device: event.cuda_device.unwrap_or(0),
            args,
            thread: self.memory_threads.index_of(event.thread_id),
            allocated: event.allocated,
            is_cuda: event.cuda_device.is_some(),
        });
        Ok(())
    }

    /// Adds one stack sample; one without a frame is dropped, and counted.
    pub(crate) fn add_sample(&mut self, sample: &Sample<'_>) -> Result<()> {
        let stack = self.stack(sample.stack);
        let stack = self.counted(stack)?;
        if stack == NONE {
            self.counts.dropped += 1;
            return Ok(());
        }
        let args = self.args(sample.args, SAMPLE_ARGS);
        let args = self.counted(args)?;
        self.counts.samples += 1;
        self.span.point(sample.time_ns);
        let thread = self.sample_threads.index_of(sample.os_thread);
        self.samples.push(SampleRecord { time: sample.time_ns, stack, args, thread });
        Ok(())
    }

    /// Adds the values of a counter track.
    pub(crate) fn add_counter(&mut self, counter: &Counter<'_>) -> Result<()> {
        let added = self.try_add_counter(counter);
        self.counted(added)
    }

    fn try_add_counter(&mut self, counter: &Counter<'_>) -> Result<()> {
        let record = self.counter_record(counter)?;
        self.counts.counters += 1;
        self.counters.push(record);
        Ok(())
    }

    /// Values that are in one document only, as [`Store::transient_op`].
    pub(crate) fn transient_counter(
        &mut self,
        counter: &Counter<'_>,
        aside: &mut Option<Box<Aside>>,
    ) -> Option<CounterRecord> {
        self.beside(aside, |store| store.counter_record(counter).ok())
    }

    fn counter_record(&mut self, counter: &Counter<'_>) -> Result<CounterRecord> {
        let numeric = |value: &Value<'_>| match value {
            Value::Int(_) | Value::Uint(_) => true,
            Value::Float(number) => number.is_finite(),
            Value::Bool(_) | Value::Text(_) => false,
        };
        if counter.values.is_empty() || !counter.values.iter().all(|arg| numeric(&arg.value)) {
            return Err(Error::invalid(format!(
                "counter {:?}: every value must be a finite number, and there must be at least one",
                String::from_utf8_lossy(counter.name.0)
            )));
        }
        let name = self.text(counter.name)?;
        let values = self.args(counter.values, &[])?;
        self.span.point(counter.time_ns);
        Ok(CounterRecord { time: counter.time_ns, name, values })
    }

    /// Adds one instant.
    pub(crate) fn add_instant(&mut self, instant: &Instant<'_>) -> Result<()> {
        let added = self.try_add_instant(instant);
        self.counted(added)
    }

    fn try_add_instant(&mut self, instant: &Instant<'_>) -> Result<()> {
        let record = self.instant_record(instant)?;
        self.counts.instants += 1;
        self.instants.push(record);
        Ok(())
    }

    /// An instant that is in one document only, as [`Store::transient_op`].
    pub(crate) fn transient_instant(
        &mut self,
        instant: &Instant<'_>,
        aside: &mut Option<Box<Aside>>,
    ) -> Option<InstantRecord> {
        self.beside(aside, |store| store.instant_record(instant).ok())
    }

    fn instant_record(&mut self, instant: &Instant<'_>) -> Result<InstantRecord> {
        let name = self.text(instant.name)?;
        let args = self.args(instant.args, &[])?;
        self.span.point(instant.time_ns);
        let thread = self.instant_threads.index_of(instant.thread_id);
        Ok(InstantRecord { time: instant.time_ns, name, args, thread, scope: instant.scope })
    }

    /// A part of a flow or of an async span, for [`Store::add_mark`] or for one document.
    pub(crate) fn mark(
        &mut self,
        phase: u8,
        name: &str,
        category: &str,
        thread: u64,
        time: i64,
        id: u64,
    ) -> Result<MarkRecord> {
        let (name, category) = (self.text(name.into())?, self.text(category.into())?);
        self.span.point(time);
        Ok(MarkRecord { time, id, name, category, thread: self.instant_threads.index_of(thread), phase })
    }

    pub(crate) fn add_mark(&mut self, mark: MarkRecord) {
        self.marks.push(mark);
    }

    /// Bytes held by events and texts.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.bytes()
            + self.packed.bytes()
            + self.ops.bytes()
            + self.gpu.bytes()
            + self.links.bytes()
            + self.memory.bytes()
            + self.samples.bytes()
            + self.counters.bytes()
            + self.instants.bytes()
            + self.marks.bytes()
            + self.op_threads.bytes()
            + self.gpu_lanes.bytes()
            + self.memory_threads.bytes()
            + self.sample_threads.bytes()
            + self.instant_threads.bytes()
    }

    /// Grows with every event.
    pub(crate) fn progress(&self) -> u64 {
        let events = self.ops.len() + self.gpu.len() + self.links.len() + self.memory.len() + self.samples.len();
        (events + self.counters.len() + self.instants.len() + self.marks.len()) as u64
    }

    /// What is there now. Later additions do not show in it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(self.rank_world.unwrap_or_else(RankWorld::from_env))
    }

    /// As [`Store::snapshot`], without a look at the environment.
    pub(crate) fn snapshot_of(&self, rank_world: RankWorld) -> Snapshot {
        Snapshot {
            texts: self.texts.view(),
            packed: self.packed.view(),
            ops: self.ops.view(),
            gpu: self.gpu.view(),
            links: self.links.view(),
            memory: self.memory.view(),
            samples: self.samples.view(),
            counters: self.counters.view(),
            instants: self.instants.view(),
            marks: self.marks.view(),
            categories: self.categories.clone(),
            op_threads: self.op_threads.in_order().to_vec(),
            gpu_lanes: self.gpu_lanes.in_order().to_vec(),
            memory_threads: self.memory_threads.in_order().to_vec(),
            sample_threads: self.sample_threads.in_order().to_vec(),
            instant_threads: self.instant_threads.in_order().to_vec(),
            id_order: self.id_order,
            span: self.span,
            has_shapes: self.has_shapes,
            has_stacks: self.has_stacks,
            counts: self.counts,
            thread_names: self.thread_names.clone(),
            process_name: self.process_name.clone(),
            backend: self.backend.clone(),
            rank_world,
            metadata: self.metadata.clone(),
            gpu_info: self.gpu_info.clone(),
            gpu_report: self.gpu_report.clone(),
            host_name: None,
            recovered: None,
            recording: None,
        }
    }
}

#[cold]
fn full(what: &str) -> Error {
    Error::OutOfMemory(format!("a trace holds at most 2^32 {what}"))
}
