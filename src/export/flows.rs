//! Arrows from an op, over the call that launched it, to what ran on the GPU.

use super::lanes::Lane;
use super::print::Printer;
use super::{Format, json};
use crate::model::event::Int;
use crate::model::log::View;
use crate::model::record::{GpuRecord, LinkRecord, OpRecord};
use crate::model::snapshot::Snapshot;
use crate::model::store::IdOrder;

/// Flow ids up to here are exact in JavaScript, and so in every viewer.
const MAX_FLOW_ID: u64 = 1 << 53;

/// Finds the op that an id names.
#[derive(Debug)]
pub(super) enum OpIndex {
    Position,
    Ascending,
    /// (id, index), by id; of equal ids the last op.
    Table(Vec<(u64, u32)>),
}

impl OpIndex {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        match snapshot.id_order {
            IdOrder::Position => OpIndex::Position,
            IdOrder::Ascending => OpIndex::Ascending,
            IdOrder::Any => {
                let mut table: Vec<(u64, u32)> = snapshot.ops.iter().map(|(index, op)| (op.id, index as u32)).collect();
                table.sort_unstable_by_key(|&(id, index)| (id, std::cmp::Reverse(index)));
                table.dedup_by_key(|entry| entry.0);
                OpIndex::Table(table)
            }
        }
    }

    /// The op called `id`. `hint` is where the last one was found: activities come in about the order of their ops.
    pub(super) fn find<'a>(&self, ops: &'a View<OpRecord>, id: u64, hint: &mut usize) -> Option<(u32, &'a OpRecord)> {
        let index = match self {
            OpIndex::Position => usize::try_from(id).ok()?,
            OpIndex::Ascending => {
                let index = ascending(ops.len(), hint, |index| ops.get(index).map_or(0, |op| op.id), id)?;
                *hint = index;
                index
            }
            OpIndex::Table(table) => {
                let at = ascending(table.len(), hint, |index| table[index].0, id)?;
                *hint = at;
                table[at].1 as usize
            }
        };
        Some((index as u32, ops.get(index)?))
    }
}

/// The index of `key` among `len` ascending keys, looked for near `hint` first.
fn ascending(len: usize, hint: &mut usize, key_at: impl Fn(usize) -> u64, key: u64) -> Option<usize> {
    for near in [*hint, *hint + 1] {
        if near < len && key_at(near) == key {
            return Some(near);
        }
    }
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if key_at(middle) < key { low = middle + 1 } else { high = middle }
    }
    (low < len && key_at(low) == key).then_some(low)
}

/// Calls between two entries of a sparse table, and records between two calls that need no entry.
const STRIDE: usize = 64;

/// The calls that launched something, by correlation id.
#[derive(Debug)]
pub(super) enum Launches {
    /// The ids ascend in the log, as CUPTI gives them out: of every [`STRIDE`] calls the first, and the calls on both
    /// sides of a longer stretch without any, by id and index.
    Sparse(Vec<(u64, u32)>),
    /// All of them, by id; of a runtime call and the driver call inside it, which share an id, the first.
    Table(Vec<(u64, u32)>),
}

/// The correlation id of a call that may have launched something.
#[inline]
fn launch_id(record: &GpuRecord) -> Option<u64> {
    match record.correlation() {
        Int::Unsigned(id @ 1..) if record.kind.is_api() => Some(id),
        _ => None,
    }
}

impl Launches {
    pub(super) fn new(gpu: &View<GpuRecord>) -> Self {
        let calls = || gpu.iter().filter_map(|(index, record)| Some((launch_id(record)?, index as u32)));
        if calls().is_sorted_by_key(|(id, _)| id) {
            return Launches::Sparse(sparse(calls()));
        }
        let mut table: Vec<(u64, u32)> = calls().collect();
        table.sort_unstable();
        table.dedup_by_key(|entry| entry.0);
        table.shrink_to_fit();
        Launches::Table(table)
    }

    /// The index of the call of that id. `hint` is where the last one was found.
    pub(super) fn find(&self, gpu: &View<GpuRecord>, correlation: u64, hint: &mut usize) -> Option<u32> {
        match self {
            Launches::Table(table) => {
                let at = ascending(table.len(), hint, |index| table[index].0, correlation)?;
                *hint = at;
                Some(table[at].1)
            }
            Launches::Sparse(table) => {
                // Of equal ids the first counts: the search starts at the last entry below the id.
                let next = table.partition_point(|&(id, _)| id < correlation);
                let at_next = table.get(next).filter(|entry| entry.0 == correlation).map(|entry| entry.1);
                let Some(entry) = next.checked_sub(1) else { return at_next };
                // Kernels come in about the order of their launches.
                let near = gpu.get(*hint).and_then(launch_id).is_some_and(|id| id < correlation);
                let start = table[entry].1 as usize;
                let mut index = if near { start.max(*hint) } else { start };
                let mut without = 0;
                while let Some(record) = gpu.get(index).filter(|_| without <= STRIDE) {
                    without += 1;
                    if let Some(id) = launch_id(record) {
                        if id >= correlation {
                            return (id == correlation).then_some(index as u32);
                        }
                        (*hint, without) = (index, 0);
                    }
                    index += 1;
                }
                at_next
            }
        }
    }
}

fn sparse(calls: impl Iterator<Item = (u64, u32)>) -> Vec<(u64, u32)> {
    let mut table: Vec<(u64, u32)> = Vec::new();
    let (mut last, mut since) = (None, 0);
    for call in calls {
        let gap = last.filter(|&(_, index): &(u64, u32)| (call.1 - index) as usize > STRIDE);
        if let Some(before) = gap
            && since > 0
        {
            table.push(before);
        }
        if gap.is_some() || last.is_none() || since + 1 == STRIDE {
            table.push(call);
            since = 0;
        } else {
            since += 1;
        }
        last = Some(call);
    }
    table
}

/// The ops of collected calls, by correlation id.
#[derive(Debug)]
pub(super) enum Links {
    /// In the order of the ids, as one thread's calls come.
    InOrder(View<LinkRecord>),
    /// (correlation, external), by correlation; of equal ones the last.
    Table(Vec<(u64, u64)>),
}

impl Links {
    pub(super) fn new(links: &View<LinkRecord>) -> Self {
        if links.iter().is_sorted_by(|(_, one), (_, next)| one.correlation < next.correlation) {
            return Links::InOrder(links.clone());
        }
        let mut table: Vec<(u64, u64)> = links.iter().map(|(_, link)| (link.correlation, link.external)).collect();
        // Stable: the last of equal ones stays last, and comes first once reversed.
        table.sort_by_key(|link| link.0);
        table.reverse();
        table.dedup_by_key(|link| link.0);
        table.reverse();
        Links::Table(table)
    }

    /// `hint` is where the last one was found.
    pub(super) fn find(&self, correlation: u64, hint: &mut usize) -> Option<u64> {
        let (len, key_at): (usize, &dyn Fn(usize) -> u64) = match self {
            Links::InOrder(links) => (links.len(), &|at| links.get(at).map_or(0, |link| link.correlation)),
            Links::Table(table) => (table.len(), &|at| table[at].0),
        };
        let at = ascending(len, hint, key_at, correlation)?;
        *hint = at;
        match self {
            Links::InOrder(links) => links.get(at).map(|link| link.external),
            Links::Table(table) => Some(table[at].1),
        }
    }
}

/// Gives each flow an id of its own: the correlation id where only one flow has it.
#[derive(Debug, Default)]
pub(super) struct FlowIds {
    /// Correlation ids that several flows would share, ascending.
    shared: Vec<u64>,
    /// Above every correlation id in use.
    fresh: u64,
}

impl FlowIds {
    pub(super) fn new(gpu: &View<GpuRecord>) -> Self {
        let ids = || {
            gpu.iter()
                .filter(|(_, record)| record.kind.is_work())
                .filter_map(|(_, record)| plain_id(record.correlation()))
        };
        let mut all = Vec::new();
        if !ids().is_sorted_by(|a, b| a < b) {
            all = ids().collect();
            all.sort_unstable();
        }
        let mut shared: Vec<u64> = all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        shared.dedup();
        Self { shared, fresh: ids().max().map_or(0, |most| most + 1) }
    }

    pub(super) fn id(&self, index: u32, record: &GpuRecord) -> Int {
        match plain_id(record.correlation()) {
            Some(id) if self.shared.binary_search(&id).is_err() => Int::Unsigned(id),
            _ => Int::Unsigned(self.fresh + u64::from(index)),
        }
    }
}

/// A correlation id that can be a flow id. 0 says that there is none, so it may be shared by chance.
fn plain_id(correlation: Int) -> Option<u64> {
    match correlation {
        Int::Unsigned(id @ 1..MAX_FLOW_ID) => Some(id),
        _ => None,
    }
}

impl Printer<'_> {
    /// The flow to one GPU activity, if anything is known to have caused it.
    pub(super) fn flow(&mut self, out: &mut Vec<u8>, index: u32, gpu: &GpuRecord) {
        let document = self.document;
        if !gpu.kind.is_work() {
            return;
        }
        let op = match document.external_id(gpu, &mut self.link_hint) {
            Some(Int::Unsigned(id)) => document.op_index.find(&document.snapshot.ops, id, &mut self.op_hint),
            _ => None,
        };
        let op = op.map(|(index, op)| (op.start, document.op_lane(index, op)));
        let launch = document.launches.as_ref().and_then(|launches| {
            let index = launches.find(&document.snapshot.gpu, gpu.correlation, &mut self.launch_hint)?;
            let launch = document.snapshot.gpu.get(index as usize)?;
            Some((launch.start, document.gpu_lane(index, launch)))
        });
        let Some(from) = op.or(launch) else { return };
        let to = document.gpu_lane(index, gpu);
        let mut end = gpu.start;
        let id = match &document.flow_ids {
            // The reference's flows, whatever they do in a viewer.
            None => gpu.correlation(),
            Some(ids) => {
                // Clocks of CPU and GPU differ by some microseconds: an arrow that would run backwards ends within
                // the activity instead.
                end = end.max(from.0);
                if end >= gpu.end.max(gpu.start.saturating_add(1)) {
                    self.flows_dropped += 1;
                    return;
                }
                ids.id(index, gpu)
            }
        };
        self.arrow(out, b's', id, from);
        if op.is_some()
            && let Some(step) = launch.filter(|launch| from.0 <= launch.0 && launch.0 <= end)
        {
            self.arrow(out, b't', id, step);
        }
        self.arrow(out, b'f', id, (end, to));
    }

    fn arrow(&self, out: &mut Vec<u8>, phase: u8, id: Int, (time, lane): (i64, Lane)) {
        out.extend_from_slice(b",\n{\"ph\":\"");
        out.push(phase);
        out.extend_from_slice(b"\",\"id\":");
        json::int(out, id);
        out.extend_from_slice(b",\"pid\":");
        json::integer(out, lane.pid);
        out.extend_from_slice(b",\"tid\":");
        json::integer(out, lane.tid);
        out.extend_from_slice(b",\"ts\":");
        self.document.times.timestamp(out, time);
        out.extend_from_slice(b",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
        out.extend_from_slice(if phase == b's' { b"}" } else { b",\"bp\":\"e\"}" as &[u8] });
    }
}

/// Whether the document of this format draws arrows from launches.
pub(super) fn draws_launches(format: Format) -> bool {
    format != Format::Plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{GpuActivity, GpuKind};
    use proptest::prelude::*;

    fn log(records: &[(bool, u64)]) -> Snapshot {
        let trace = crate::Trace::default();
        for &(is_call, id) in records {
            let kind = if is_call { GpuKind::Runtime } else { GpuKind::Kernel };
            let correlation_id = Int::Unsigned(id);
            trace.add_gpu(&GpuActivity { kind, correlation_id, ..GpuActivity::default() }).expect("added");
        }
        trace.lock().snapshot()
    }

    proptest! {
        #[test]
        fn the_first_call_of_an_id_is_found(
            runs in proptest::collection::vec((any::<bool>(), 1usize..150, 0u64..3), 0..12),
            sorted: bool,
        ) {
            let mut id = 1;
            let mut records = Vec::new();
            for (is_call, count, step) in runs {
                for _ in 0..count {
                    id += step;
                    records.push((is_call, if sorted { id } else { 1 + id * 7919 % 101 }));
                }
            }
            let snapshot = log(&records);
            let launches = Launches::new(&snapshot.gpu);
            let mut hint = 0;
            for key in (0..id + 3).chain((0..id + 3).rev()) {
                let expected = records.iter().position(|&(is_call, id)| is_call && id == key && id > 0);
                let found = launches.find(&snapshot.gpu, key, &mut hint);
                prop_assert_eq!(found.map(|index| index as usize), expected, "id {}", key);
            }
        }
    }
}
