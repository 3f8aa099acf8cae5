//! A trace as it was at one moment: what the exporter reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counts::{Counts, RecordCounts};
use super::event::Int;
use super::extra::{GpuExtra, OpExtra};
use super::gpu::{GpuInfo, GpuReport};
use super::identity::RankWorld;
use super::intern::{Id, NONE, Texts};
use super::log::View;
use super::record::{
    CounterRecord, GpuLane, GpuRecord, InstantRecord, LinkRecord, MarkRecord, MemoryRecord, OpRecord, SampleRecord,
};
use super::span::Span;
use super::store::IdOrder;

#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) texts: Texts,
    pub(crate) packed: Texts,
    pub(crate) ops: View<OpRecord>,
    pub(crate) gpu: View<GpuRecord>,
    pub(crate) links: View<LinkRecord>,
    pub(crate) memory: View<MemoryRecord>,
    pub(crate) samples: View<SampleRecord>,
    pub(crate) counters: View<CounterRecord>,
    pub(crate) instants: View<InstantRecord>,
    pub(crate) marks: View<MarkRecord>,
    /// Of ops that have another one than their kind's.
    pub(crate) categories: Vec<Id>,
    /// Thread ids in the order in which ops first used them; likewise the others.
    pub(crate) op_threads: Vec<u64>,
    pub(crate) gpu_lanes: Vec<GpuLane>,
    pub(crate) memory_threads: Vec<u64>,
    pub(crate) sample_threads: Vec<u64>,
    pub(crate) instant_threads: Vec<u64>,
    pub(crate) id_order: IdOrder,
    pub(crate) span: Span,
    /// Some op has its inputs; some op has its stack.
    pub(crate) has_shapes: bool,
    pub(crate) has_stacks: bool,
    pub(crate) counts: Counts,
    pub(crate) thread_names: BTreeMap<u64, String>,
    pub(crate) process_name: Option<String>,
    pub(crate) backend: Option<String>,
    pub(crate) rank_world: RankWorld,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) gpu_info: Option<Arc<GpuInfo>>,
    pub(crate) gpu_report: Option<GpuReport>,
    /// Of a trace that was recovered: the machine that it is from.
    pub(crate) host_name: Option<String>,
    /// Of a trace that was recovered: what became of its journal.
    pub(crate) recovered: Option<crate::journal::Recovered>,
    /// Live recording, if there was any: what it left out, and how far its times may be off, in nanoseconds.
    pub(crate) recording: Option<(RecordCounts, u64)>,
}

impl Snapshot {
    pub(crate) fn event_count(&self) -> u64 {
        let counts = [
            self.ops.len(),
            self.gpu.len(),
            self.memory.len(),
            self.samples.len(),
            self.counters.len(),
            self.instants.len(),
            self.marks.len(),
        ];
        counts.iter().map(|&n| n as u64).sum()
    }
}

impl Snapshot {
    /// The rare part of an op.
    #[inline]
    pub(crate) fn op_extra(&self, op: &OpRecord) -> OpExtra {
        if op.extra == NONE { OpExtra::default() } else { OpExtra::unpack(self.packed.bytes(op.extra)) }
    }

    /// The rare part of a GPU activity.
    #[inline]
    pub(crate) fn gpu_extra(&self, gpu: &GpuRecord) -> GpuExtra {
        if gpu.extra == NONE { GpuExtra::default() } else { GpuExtra::unpack(self.packed.bytes(gpu.extra)) }
    }
}

impl GpuRecord {
    pub(crate) fn correlation(&self) -> Int {
        self.int(self.correlation, Self::NEGATIVE_CORRELATION)
    }

    pub(crate) fn external_id(&self) -> Option<Int> {
        self.is(Self::HAS_EXTERNAL).then(|| self.int(self.external, Self::NEGATIVE_EXTERNAL))
    }

    fn int(&self, bits: u64, negative: u8) -> Int {
        if self.is(negative) { Int::Negative(bits as i64) } else { Int::Unsigned(bits) }
    }
}
