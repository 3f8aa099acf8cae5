//! Arrows, as the slices that they start at, pass and end at tell of them.

use super::super::document::Document;
use super::super::overlap::Slice;
use crate::model::event::Int;
use crate::model::record::GpuRecord;

/// Where the end of an arrow to a GPU activity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// There is no arrow.
    None,
    /// At its start.
    Start,
    /// At its end, since it started before its cause: clocks of CPU and GPU differ by some microseconds.
    Late,
}

/// (slice, GPU activity that it caused), ascending.
type Caused = Vec<(u32, u32)>;

/// All arrows.
#[derive(Debug)]
pub(super) struct Flows {
    ops: Caused,
    calls: Caused,
    /// By GPU activity.
    ends: Vec<End>,
    pub(super) dropped: u64,
    /// Set in the ids of these flows, if there are flows that are told of as events of their own: Perfetto numbers those
    /// from 0.
    mask: u64,
}

impl Flows {
    /// Eight bytes for each slice that an arrow starts at or passes, one for each GPU activity.
    pub(super) fn new(document: &Document<'_>) -> Self {
        let snapshot = document.snapshot;
        let mut flows = Self { ops: Vec::new(), calls: Vec::new(), ends: Vec::new(), dropped: 0, mask: 0 };
        if snapshot.marks.len() > 0 {
            flows.mask = 1 << 63;
        }
        let (mut op_hint, mut launch_hint, mut link_hint) = (0, 0, 0);
        for (index, gpu) in snapshot.gpu.iter() {
            let index = index as u32;
            let mut end = End::None;
            if gpu.kind.is_work() {
                let op = match document.external_id(gpu, &mut link_hint) {
                    Some(Int::Unsigned(id)) => document.op_index.find(&snapshot.ops, id, &mut op_hint),
                    _ => None,
                };
                let launch = document.launches.as_ref().and_then(|launches| {
                    let index = launches.find(&snapshot.gpu, gpu.correlation, &mut launch_hint)?;
                    Some((index, snapshot.gpu.get(index as usize)?))
                });
                let from = op.map(|(_, op)| op.start).or(launch.map(|(_, launch)| launch.start));
                if let Some(from) = from {
                    let at = gpu.start.max(from);
                    if at >= gpu.drawn_end() {
                        flows.dropped += 1;
                    } else {
                        end = if at == gpu.start { End::Start } else { End::Late };
                        if let Some((op, _)) = op {
                            flows.ops.push((op, index));
                        }
                        if let Some((call, record)) = launch
                            && (op.is_none() || (from..=at).contains(&record.start))
                        {
                            flows.calls.push((call, index));
                        }
                    }
                }
            }
            flows.ends.push(end);
        }
        for list in [&mut flows.ops, &mut flows.calls] {
            if !list.is_sorted() {
                list.sort_unstable();
            }
        }
        flows
    }

    /// What an op caused. `hint` is where the last one was found.
    #[inline]
    pub(super) fn of_op(&self, op: u32, hint: &mut usize) -> &[(u32, u32)] {
        caused(&self.ops, op, hint)
    }

    /// What a call caused.
    #[inline]
    pub(super) fn of_call(&self, call: u32, hint: &mut usize) -> &[(u32, u32)] {
        caused(&self.calls, call, hint)
    }

    #[inline]
    pub(super) fn end(&self, gpu: u32) -> End {
        self.ends[gpu as usize]
    }

    /// The id of the arrow to a GPU activity.
    #[inline]
    pub(super) fn id(&self, document: &Document<'_>, index: u32, gpu: &GpuRecord) -> u64 {
        match document.flow_ids.as_ref().map(|ids| ids.id(index, gpu)) {
            Some(Int::Unsigned(id)) => self.mask | id,
            _ => self.mask | u64::from(index),
        }
    }
}

/// Slices are asked for in about their order.
#[inline]
fn caused<'a>(list: &'a [(u32, u32)], slice: u32, hint: &mut usize) -> &'a [(u32, u32)] {
    const NEAR: usize = 8;
    let after = |at: usize| list.get(at).is_none_or(|entry| entry.0 >= slice);
    let near = (*hint == 0 || !after(*hint - 1)).then(|| (*hint..*hint + NEAR).find(|&at| after(at))).flatten();
    let at = near.unwrap_or_else(|| list.partition_point(|entry| entry.0 < slice));
    *hint = at.min(list.len());
    let found = &list[*hint..];
    let count = found.iter().take_while(|entry| entry.0 == slice).count();
    &found[..count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slice_caused_is_found_in_any_order() {
        let list: Caused = vec![(2, 0), (2, 5), (3, 1), (9, 2), (40, 3), (40, 4), (41, 6)];
        for order in [vec![0, 1, 2, 3, 4, 9, 39, 40, 41, 42], vec![42, 41, 40, 2, 2, 9, 3, 0, 41], (0..50).collect()] {
            let mut hint = 0;
            for slice in order {
                let expected: Vec<_> = list.iter().copied().filter(|entry| entry.0 == slice).collect();
                assert_eq!(caused(&list, slice, &mut hint), expected, "{slice}");
            }
        }
    }
}
