//! The events that a trace's store got since the last time, as blocks.

use super::block::{Kind, Sink, USUAL};
use super::lanes;
use crate::model::intern::{NONE, Texts};
use crate::model::log::View;
use crate::model::pack::{put, put_signed};
use crate::model::record::GpuLane;
use crate::model::snapshot::Snapshot;

/// How many of each were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told {
    texts: usize,
    packed: usize,
    ops: usize,
    gpu: usize,
    links: usize,
    memory: usize,
    samples: usize,
    counters: usize,
    instants: usize,
}

impl Told {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            texts: snapshot.texts.len(),
            packed: snapshot.packed.len(),
            ops: snapshot.ops.len(),
            gpu: snapshot.gpu.len(),
            links: snapshot.links.len(),
            memory: snapshot.memory.len(),
            samples: snapshot.samples.len(),
            counters: snapshot.counters.len(),
            instants: snapshot.instants.len(),
        }
    }

    /// Adds blocks of what is new in the snapshot. What an event names stands before it.
    pub(super) fn tell(&self, snapshot: &Snapshot, out: &mut Sink<'_>) {
        let texts = |out: &mut Sink<'_>, kind, from: usize, texts: &Texts| {
            // The first one stands for nothing.
            let first = from.max(1);
            lanes::texts(out, kind, first, (first..texts.len()).map(|id| texts.bytes(id as u32)));
        };
        texts(out, Kind::Texts, self.texts, &snapshot.texts);
        texts(out, Kind::Packed, self.packed, &snapshot.packed);
        each(out, Kind::Ops, &snapshot.ops, self.ops, |out, op, base| {
            times(out, base, op.start, op.end);
            let category = match op.category.checked_sub(1) {
                Some(index) => snapshot.categories[usize::from(index)],
                None => NONE,
            };
            put(out, op.id);
            [op.name, op.call_site, op.inputs, op.extra, category].iter().for_each(|&id| put(out, id.into()));
            put(out, snapshot.op_threads[op.thread as usize]);
            out.push(op.kind as u8);
        });
        each(out, Kind::Gpu, &snapshot.gpu, self.gpu, |out, gpu, base| {
            times(out, base, gpu.start, gpu.end);
            [gpu.correlation, gpu.external, gpu.name.into(), gpu.extra.into(), gpu.callback_id.into()]
                .iter()
                .for_each(|&number| put(out, number));
            let (device, stream) = match snapshot.gpu_lanes[gpu.lane as usize] {
                GpuLane::Api { os_thread } => (os_thread as i64, 0),
                GpuLane::Stream { device, stream } | GpuLane::Sync { device, stream } => (device, stream),
                GpuLane::Overhead => (0, 0),
            };
            put_signed(out, device);
            put_signed(out, stream);
            out.extend_from_slice(&[gpu.kind as u8, gpu.flags]);
        });
        each(out, Kind::Links, &snapshot.links, self.links, |out, link, _| {
            put(out, link.correlation);
            put(out, link.external);
        });
        each(out, Kind::Memory, &snapshot.memory, self.memory, |out, event, base| {
            time(out, base, event.time);
            put(out, event.address);
            put_signed(out, event.bytes);
            put_signed(out, event.device);
            put(out, event.args.into());
            put(out, snapshot.memory_threads[event.thread as usize]);
            out.push(u8::from(event.allocated) | u8::from(event.is_cuda) << 1);
        });
        each(out, Kind::Samples, &snapshot.samples, self.samples, |out, sample, base| {
            time(out, base, sample.time);
            put(out, sample.stack.into());
            put(out, sample.args.into());
            put(out, snapshot.sample_threads[sample.thread as usize]);
        });
        each(out, Kind::Counters, &snapshot.counters, self.counters, |out, counter, base| {
            time(out, base, counter.time);
            put(out, counter.name.into());
            put(out, counter.values.into());
        });
        each(out, Kind::Instants, &snapshot.instants, self.instants, |out, instant, base| {
            time(out, base, instant.time);
            put(out, instant.name.into());
            put(out, instant.args.into());
            put(out, snapshot.instant_threads[instant.thread as usize]);
            out.push(instant.scope as u8);
        });
    }
}

/// Blocks of all items from `start` on. Times in a block count from the one before.
fn each<T>(
    out: &mut Sink<'_>,
    kind: Kind,
    items: &View<T>,
    start: usize,
    mut item: impl FnMut(&mut Vec<u8>, &T, &mut i64),
) {
    let mut rest = items.from(start).peekable();
    while rest.peek().is_some() {
        out.block(kind, |out| {
            let begin = out.len();
            let mut base = 0;
            while out.len() - begin < USUAL
                && let Some(next) = rest.next()
            {
                item(out, next, &mut base);
            }
        });
    }
}

fn time(out: &mut Vec<u8>, base: &mut i64, time: i64) {
    put_signed(out, time.wrapping_sub(*base));
    *base = time;
}

fn times(out: &mut Vec<u8>, base: &mut i64, start: i64, end: i64) {
    time(out, base, start);
    put_signed(out, end.wrapping_sub(start));
}
