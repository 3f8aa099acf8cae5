//! The order of the slices. A track of Perfetto's format is a stack: on each, what starts earlier comes first, and of
//! two that start together the longer one.

use super::super::document::Document;
use super::super::overlap::Slice;
use crate::error::{Error, Result};
use crate::model::log::{CHUNK, View};
use crate::model::record::{GpuLane, MemoryRecord};
use crate::model::span::MIN_DURATION_NS;

/// Slices that are printed as one piece of a lane.
pub(super) const PIECE: usize = 16 * CHUNK;

/// The slices of one lane: a range of the order.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) lane: u32,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Which slices are still open where each piece but the first starts, by their numbers.
    open: Vec<Vec<u32>>,
}

impl Run {
    /// Its pieces: the slices of each, and those that are open before.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (std::ops::Range<usize>, &[u32])> {
        let open = std::iter::once(&[] as &[u32]).chain(self.open.iter().map(Vec::as_slice));
        (self.start..self.end).step_by(PIECE).map(|start| start..self.end.min(start + PIECE)).zip(open)
    }
}

/// A slice of one of the three kinds, by its index in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Op(u32),
    Gpu(u32),
    Memory(u32),
}

/// All slices, lane by lane.
#[derive(Debug)]
pub(super) struct Layout {
    /// Ops, GPU activities and memory events, numbered one after the other.
    order: Vec<u32>,
    pub(super) runs: Vec<Run>,
    ops: u32,
    gpu: u32,
}

fn memory_span(memory: &View<MemoryRecord>, index: u32) -> (i64, i64) {
    let time = memory.get(index as usize).map_or(0, |event| event.time);
    (time, time.saturating_add(MIN_DURATION_NS))
}

impl Layout {
    /// Four bytes a slice; lanes whose slices come in order, as most do, are only looked at.
    pub(super) fn new(document: &Document<'_>) -> Result<Self> {
        let snapshot = document.snapshot;
        let total = snapshot.ops.len() + snapshot.gpu.len() + snapshot.memory.len();
        if u32::try_from(total).is_err() {
            return Err(Error::invalid(format!(
                "{total} slices are more than the 2^32 that this format is written with"
            )));
        }
        let (ops, gpu) = (snapshot.ops.len() as u32, snapshot.gpu.len() as u32);
        let lanes = document.lanes.infos.len();
        let mut layout = Self { order: vec![0; total], runs: Vec::new(), ops, gpu };
        // By lane, in the order in which they came.
        let mut counts = vec![0_usize; lanes];
        each(document, |_, lane| counts[lane as usize] += 1);
        let mut next = Vec::with_capacity(lanes);
        let mut sum = 0;
        for &count in &counts {
            next.push(sum);
            sum += count;
        }
        layout.order.truncate(sum);
        each(document, |slice, lane| {
            let at = &mut next[lane as usize];
            layout.order[*at] = slice;
            *at += 1;
        });
        for (lane, (&count, &end)) in (0..).zip(counts.iter().zip(&next)).filter(|(_, (count, _))| **count > 0) {
            layout.runs.push(Run { lane, start: end - count, end, open: Vec::new() });
        }
        for run in 0..layout.runs.len() {
            layout.sort(document, run);
            layout.cut(document, run);
        }
        layout.causes_first(document);
        Ok(layout)
    }

    pub(super) fn item(&self, at: usize) -> Item {
        self.named(self.order[at])
    }

    pub(super) fn named(&self, number: u32) -> Item {
        match number.checked_sub(self.ops) {
            None => Item::Op(number),
            Some(number) if number < self.gpu => Item::Gpu(number),
            Some(number) => Item::Memory(number - self.gpu),
        }
    }

    /// Start and end as drawn.
    #[inline]
    pub(super) fn span(&self, document: &Document<'_>, item: Item) -> (i64, i64) {
        let snapshot = document.snapshot;
        match item {
            Item::Op(index) => snapshot.ops.get(index as usize).map_or((0, 0), |op| (op.start, op.drawn_end())),
            Item::Gpu(index) => snapshot.gpu.get(index as usize).map_or((0, 0), |gpu| (gpu.start, gpu.drawn_end())),
            Item::Memory(index) => memory_span(&snapshot.memory, index),
        }
    }

    fn sort(&mut self, document: &Document<'_>, run: usize) {
        let (start, end) = (self.runs[run].start, self.runs[run].end);
        let mut order = std::mem::take(&mut self.order);
        let key = |&number: &u32| {
            let (start, end) = self.span(document, self.named(number));
            (start, std::cmp::Reverse(end))
        };
        let lane = &mut order[start..end];
        if !lane.is_sorted_by_key(key) {
            // Stable: of equal slices the first is the outer one, as where they are read as JSON.
            lane.sort_by_key(key);
        }
        self.order = order;
    }

    /// Finds what is open where the pieces of a run start.
    fn cut(&mut self, document: &Document<'_>, run: usize) {
        let (start, end) = (self.runs[run].start, self.runs[run].end);
        let mut stack: Vec<(i64, u32)> = Vec::new();
        let mut open = Vec::new();
        if end - start > PIECE {
            for (at, &number) in (start..end).zip(&self.order[start..end]) {
                if at > start && (at - start) % PIECE == 0 {
                    open.push(stack.iter().map(|&(_, number)| number).collect());
                }
                let (from, to) = self.span(document, self.named(number));
                while stack.pop_if(|&mut (end, _)| end <= from).is_some() {}
                stack.push((to, number));
            }
        }
        self.runs[run].open = open;
    }

    /// Of events at the same time the one that comes first in the file counts as the earlier one: lanes of ops stand
    /// before those of calls, and these before streams, so that no flow starts with its end.
    fn causes_first(&mut self, document: &Document<'_>) {
        let mut class = vec![0_u8; document.lanes.infos.len()];
        for (lane, kind) in document.lanes.gpu.iter().zip(&document.snapshot.gpu_lanes) {
            class[lane.number as usize] = match kind {
                GpuLane::Api { .. } | GpuLane::Overhead => 1,
                GpuLane::Stream { .. } | GpuLane::Sync { .. } => 2,
            };
        }
        for (lane, extra) in document.gpu_moves.extra_lanes() {
            class[extra.number as usize] = class[document.lanes.gpu[lane as usize].number as usize];
        }
        self.runs.sort_by_key(|run| class[run.lane as usize]);
    }
}

/// Every slice that can be drawn, with its number and its lane.
fn each(document: &Document<'_>, mut visit: impl FnMut(u32, u32)) {
    let snapshot = document.snapshot;
    let mut number = 0;
    for (index, op) in snapshot.ops.iter() {
        if !document.op_moves.is_left(index as u32) {
            visit(number, document.op_lane(index as u32, op).number);
        }
        number += 1;
    }
    for (index, gpu) in snapshot.gpu.iter() {
        if !document.gpu_moves.is_left(index as u32) {
            visit(number, document.gpu_lane(index as u32, gpu).number);
        }
        number += 1;
    }
    for (_, event) in snapshot.memory.iter() {
        visit(number, document.lanes.memory[event.thread as usize].number);
        number += 1;
    }
}
