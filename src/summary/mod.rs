//! What stands in traces, in tables: operators and kernels by their time, GPU work and gaps, steps, memory.
//!
//! One pass over the events, by several threads, notes slices as records of 32 bytes, which are sorted by lane and by time
//! (in files without a name beyond some megabytes) and gone over in order. Memory is bounded by the different names and
//! lanes, not by the events.
#![forbid(unsafe_code)]

mod compare;
mod gather;
mod gpu;
mod kinds;
mod lanes;
mod report;
mod text;

pub use compare::{Comparison, NameDelta, compare};
pub use report::{
    EventCounts, FileSummary, GapSummary, GpuTime, LaneSummary, MemorySummary, NameKind, NameSummary, RankSummary,
    StepSummary, StreamSummary, Summary,
};
pub use text::TextOptions;

use std::cmp::Reverse;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::error::Result;
use crate::read::document::Shape;
use crate::read::first;
use crate::read::names::{LaneKey, Name, OTHER, ProcessKey, Shared};
use crate::read::nest::{Merged, word_time};
use crate::read::pieces::{Opened, read_all, threads};
use crate::read::ranks::Ranks;
use crate::read::walk::walk;
use crate::read::{Input, Limits};
use crate::sync::{Mutex, lock};
use gather::{Done, Gathered, Gatherer};
use gpu::Window;
use lanes::Tally;

/// The name of what is beyond the names that are kept apart.
const OTHERS: &str = "(other names)";

/// How traces are summed up.
#[derive(Debug, Clone)]
pub struct SummaryOptions {
    /// How many gaps are listed of each kind.
    pub gaps: usize,
    /// Keep what can be kept of damaged documents instead of failing.
    pub salvage: bool,
    /// Threads; 0 for one per core, at most 8.
    pub threads: usize,
    /// Memory bounds.
    pub limits: Limits,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self { gaps: 10, salvage: false, threads: 0, limits: Limits::default() }
    }
}

/// How far a summary or a check has come: the bytes read so far, and of how many, 0 if that is unknown.
pub type OnRead<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Sums up some documents: one trace, or the traces of several ranks. `progress` is called on the calling thread now and
/// then, and answers whether to go on.
///
/// # Errors
/// [`crate::Error::Malformed`] and [`crate::Error::Limit`] name the document and the byte; [`crate::Error::Io`] the file;
/// [`crate::Error::Cancelled`].
pub fn summarize(inputs: Vec<Input>, options: &SummaryOptions, mut progress: Option<OnRead<'_>>) -> Result<Summary> {
    let open = |input| Opened::new(input, &options.limits, options.salvage);
    let documents: Vec<Opened> = inputs.into_iter().map(open).collect::<Result<_>>()?;
    let total = documents.iter().map(|one| if one.document.gzip { 0 } else { one.stored.size }).sum();
    let total = if documents.iter().any(|one| one.document.gzip) { 0 } else { total };
    let count = threads(options.threads);
    // Slices, and beside them GPU work and memory, or flows.
    let memory = options.limits.sort_bytes.saturating_mul(3);
    let shared = Mutex::new(Shared::new());
    let (gathered, finished) = read_all(
        &documents,
        (&options.limits, options.salvage, count),
        |bytes| progress.as_mut().is_none_or(|progress| progress(bytes, total)),
        || Gatherer::new(&shared, count, memory / count),
        |gatherer, index, cut| {
            let base = cut.offset;
            walk(&documents[index], options.salvage, cut, |bytes, event| gatherer.event(index, base, bytes, event))?;
            Ok(())
        },
        Gatherer::finish,
    )?;
    let mut ranks = Vec::with_capacity(documents.len());
    for (place, (one, end)) in documents.iter().zip(&finished).enumerate() {
        let claimed = first::look(&one.stored, &one.document)?.rank;
        ranks.push(Ranks::of(&one.document, &end.tail, place, claimed));
    }
    Writer::new(&documents, ranks, shared, gathered)?.summary(options.gaps)
}

/// Makes the summary of what was gathered.
struct Writer<'d> {
    documents: &'d [Opened],
    ranks: Vec<Ranks>,
    shared: Shared,
    notes: Gathered<Vec<Merged<4>>, Option<Merged<4>>>,
}

impl<'d> Writer<'d> {
    fn new(documents: &'d [Opened], ranks: Vec<Ranks>, shared: Mutex<Shared>, gathered: Vec<Done>) -> Result<Self> {
        // Every thread has let go of it.
        let shared = std::mem::replace(&mut *lock(&shared), Shared::new());
        let mut all = Gathered {
            counts: EventCounts::default(),
            slices: Vec::new(),
            gpu: None,
            memory: None,
            spans: HashMap::default(),
            processes: HashMap::default(),
            lanes: HashMap::default(),
        };
        let (mut shards, mut gpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for one in gathered {
            all.counts.add(&one.counts);
            for (index, sorted) in one.slices.into_iter().enumerate() {
                if shards.len() <= index {
                    shards.push(Vec::new());
                }
                shards[index].push(sorted);
            }
            gpu.push(one.gpu);
            memory.push(one.memory);
            for (process, (from, to)) in one.spans {
                let span = all.spans.entry(process).or_insert((from, to));
                *span = (span.0.min(from), span.1.max(to));
            }
            all.processes.extend(one.processes);
            all.lanes.extend(one.lanes);
        }
        all.slices = shards.into_iter().map(Merged::new).collect::<Result<_>>()?;
        all.gpu = Some(Merged::new(gpu)?);
        all.memory = Some(Merged::new(memory)?);
        Ok(Self { documents, ranks, shared, notes: all })
    }

    fn process(&self, number: u32) -> &ProcessKey {
        &self.shared.processes.list[number as usize]
    }

    /// The document and rank of a process.
    fn rank(&self, number: u32) -> (u32, i64) {
        let key = self.process(number);
        let name = self.notes.processes.get(&number).map(String::as_str);
        let rank = self.ranks.get(key.document as usize).map_or(0, |ranks| ranks.rank(&key.pid, name));
        (key.document, rank)
    }

    fn of_lane(&self, lanes: &[LaneKey], number: u32) -> (u32, i64) {
        self.rank(gather::process(lanes, number))
    }

    fn name(&self, number: u32) -> Name {
        match number {
            OTHER => Name { category: String::new(), name: OTHERS.to_owned() },
            _ => self.shared.names.list[number as usize].clone(),
        }
    }

    fn summary(mut self, gaps: usize) -> Result<Summary> {
        let names = &self.shared.names.list;
        let steps: Vec<(u32, u64)> =
            (0..).zip(names).filter_map(|(number, name)| Some((number, kinds::step(name)?))).collect();
        let tally = lanes::tally(std::mem::take(&mut self.notes.slices), names, &steps)?;
        let mut out = Summary { events: self.notes.counts, ..Summary::default() };
        out.events.slices = tally.slices;
        out.events.crossing = tally.crossing;
        out.events.untimed += tally.untimed;
        let windows = self.steps(&tally, &mut out);
        let found = match self.notes.gpu.take() {
            Some(records) => {
                let work: Vec<kinds::Work> = names.iter().map(|name| kinds::work(&name.name)).collect();
                let rank = |stream| self.of_lane(&self.shared.streams.list, stream);
                gpu::sweep(records, windows, gaps, rank, |name| work[name as usize])?
            }
            None => return Ok(out),
        };
        self.names(&tally, &mut out);
        self.lanes(&tally, &mut out);
        self.gpu(&found, &mut out);
        self.memory(&mut out)?;
        self.files(&mut out);
        Ok(out)
    }

    /// Lists the steps, and makes windows of them.
    fn steps(&self, tally: &Tally<'_>, out: &mut Summary) -> HashMap<(u32, i64), Vec<Window>, FixedState> {
        let mut all: HashMap<(u32, i64, u64), (i64, i64), FixedState> = HashMap::default();
        for step in &tally.steps {
            let (file, rank) = self.of_lane(&self.shared.lanes.list, step.lane);
            let span = all.entry((file, rank, step.number)).or_insert((step.start, step.end));
            *span = (span.0.min(step.start), span.1.max(step.end));
        }
        let mut list: Vec<_> = all.into_iter().collect();
        list.sort_unstable_by_key(|&((file, rank, number), (start, _))| (file, rank, start, number));
        let mut windows: HashMap<(u32, i64), Vec<Window>, FixedState> = HashMap::default();
        for ((file, rank, step), (start, end)) in list {
            let place = out.steps.len();
            let mine = windows.entry((file, rank)).or_default();
            // Steps that overlap would count the same work twice.
            let from = mine.last().map_or(start, |last| last.end.max(start)).min(end);
            mine.push(Window { place, start: from, end, gpu: GpuTime::default() });
            out.steps.push(StepSummary {
                file: file as usize,
                rank,
                step,
                start_ns: start,
                duration_ns: (end - start) as u64,
                gpu: GpuTime::default(),
            });
        }
        windows
    }

    fn names(&self, tally: &Tally<'_>, out: &mut Summary) {
        for (number, stat) in (0..).zip(&tally.names).filter(|(_, stat)| stat.count > 0) {
            let Name { category, name } = self.name(number);
            // What they say is in the table of memory.
            if name != kinds::MEMORY_NAME {
                out.names.push(NameSummary {
                    kind: kinds::kind(&category),
                    name,
                    category,
                    count: stat.count,
                    total_ns: stat.total,
                    self_ns: stat.own,
                    min_ns: stat.least,
                    max_ns: stat.most,
                });
            }
        }
        out.names.sort_by(|a, b| {
            (Reverse(a.self_ns), Reverse(a.total_ns), &a.name, &a.category).cmp(&(
                Reverse(b.self_ns),
                Reverse(b.total_ns),
                &b.name,
                &b.category,
            ))
        });
    }

    fn lanes(&self, tally: &Tally<'_>, out: &mut Summary) {
        for (&number, &(slices, busy_ns)) in &tally.lanes {
            let key = &self.shared.lanes.list[number as usize];
            let (file, rank) = self.rank(key.process);
            out.lanes.push(LaneSummary {
                file: file as usize,
                rank,
                pid: self.process(key.process).pid.clone(),
                tid: key.tid.clone(),
                name: self.notes.lanes.get(&number).cloned().unwrap_or_default(),
                slices,
                busy_ns,
            });
        }
        out.lanes.sort_by(|a, b| {
            let key = |lane: &LaneSummary| (Reverse(lane.slices), lane.file, lane.rank);
            key(a).cmp(&key(b)).then_with(|| (&a.pid, &a.tid).cmp(&(&b.pid, &b.tid)))
        });
    }

    fn gpu(&self, found: &gpu::Found, out: &mut Summary) {
        let mut spans: HashMap<(u32, i64), (i64, i64), FixedState> = HashMap::default();
        for (&process, &(from, to)) in &self.notes.spans {
            let span = spans.entry(self.rank(process)).or_insert((from, to));
            *span = (span.0.min(from), span.1.max(to));
        }
        for (key, (from, to)) in spans {
            let rank = found.ranks.get(&key);
            out.ranks.push(RankSummary {
                file: key.0 as usize,
                rank: key.1,
                start_ns: from,
                span_ns: (to - from) as u64,
                gpu_span_ns: rank.map_or(0, |rank| (rank.line.end - rank.line.first) as u64),
                gpu: rank.map_or_else(GpuTime::default, |rank| rank.gpu),
            });
        }
        out.ranks.sort_unstable_by_key(|rank| (rank.file, rank.rank));
        for window in found.ranks.values().flat_map(|rank| &rank.windows) {
            out.steps[window.place].gpu = window.gpu;
        }
        let streams = &self.shared.streams.list;
        for (&number, line) in &found.streams {
            let (file, rank) = self.of_lane(streams, number);
            let key = &streams[number as usize];
            out.streams.push(StreamSummary {
                file: file as usize,
                rank,
                pid: self.process(key.process).pid.clone(),
                stream: key.tid.clone(),
                activities: line.count,
                busy_ns: line.busy as u64,
                span_ns: (line.end - line.first) as u64,
            });
        }
        out.streams.sort_by(|a, b| {
            let key = |stream: &StreamSummary| (Reverse(stream.busy_ns), stream.file, stream.rank);
            key(a).cmp(&key(b)).then_with(|| (&a.pid, &a.stream).cmp(&(&b.pid, &b.stream)))
        });
        let gaps =
            found.stream_gaps.iter().map(|gap| (gap, true)).chain(found.rank_gaps.iter().map(|gap| (gap, false)));
        for (gap, one) in gaps {
            let (file, rank) = self.of_lane(streams, gap.stream);
            let key = &streams[gap.stream as usize];
            out.gaps.push(GapSummary {
                file: file as usize,
                rank,
                pid: if one { self.process(key.process).pid.clone() } else { String::new() },
                stream: one.then(|| key.tid.clone()),
                start_ns: gap.start.0,
                duration_ns: gap.length as u64,
                after: self.name(gap.after).name,
                before: self.name(gap.before).name,
            });
        }
    }

    fn memory(&mut self, out: &mut Summary) -> Result<()> {
        let Some(mut records) = self.notes.memory.take() else { return Ok(()) };
        let mut devices: HashMap<u32, (MemorySummary, i64), FixedState> = HashMap::default();
        while let Some([ts, kind, device, value]) = records.next()? {
            let (number, free, value) = ((device >> 1) as u32, device & 1 == 1, word_time(value));
            let (memory, now) = devices.entry(number).or_insert_with(|| {
                let peak_bytes = if kind & 1 == 1 { i64::MIN } else { 0 };
                (MemorySummary { peak_bytes, peak_at_ns: word_time(ts), ..MemorySummary::default() }, 0)
            });
            if kind & 2 == 2 {
                memory.peak_reserved_bytes = memory.peak_reserved_bytes.max(Some(value));
                continue;
            }
            *if free { &mut memory.frees } else { &mut memory.allocations } += 1;
            memory.totals_stated |= kind & 1 == 1;
            *now = if kind & 1 == 1 { value } else { now.saturating_add(value) };
            if *now > memory.peak_bytes {
                (memory.peak_bytes, memory.peak_at_ns) = (*now, word_time(ts));
            }
        }
        for (number, (memory, _)) in devices {
            let (file, rank) = self.of_lane(&self.shared.devices.list, number);
            let device = self.shared.devices.list[number as usize].tid.clone();
            out.memory.push(MemorySummary { file: file as usize, rank, device, ..memory });
        }
        out.memory.sort_by(|a, b| (a.file, a.rank, &a.device).cmp(&(b.file, b.rank, &b.device)));
        Ok(())
    }

    /// The documents, and what is to be said of them.
    fn files(&self, out: &mut Summary) {
        for (place, (one, ranks)) in self.documents.iter().zip(&self.ranks).enumerate() {
            out.files.push(FileSummary {
                path: one.stored.name.display().to_string(),
                ranks: out.ranks.iter().filter(|rank| rank.file == place).map(|rank| rank.rank).collect(),
                rank_stated: ranks.stated(),
                damage: one.damage(),
            });
        }
        if out.names.iter().any(|name| name.name == OTHERS && name.category.is_empty()) {
            out.warnings.push(format!("there are too many different names: those beyond are counted as {OTHERS}"));
        }
        for one in self.documents.iter().filter(|one| one.document.shape == Shape::Bare && one.damage().is_empty()) {
            out.warnings.push(format!("{}: there is no \"traceEvents\" in it", one.stored.name.display()));
        }
        if out.events.untimed > 0 {
            let count = out.events.untimed;
            out.warnings.push(format!("{count} events have no usable time, or a begin or end without the other"));
        }
        if out.events.crossing > 0 {
            let count = out.events.crossing;
            out.warnings.push(format!("{count} slices cross another on their lane; viewers may drop them"));
        }
    }
}

impl EventCounts {
    fn add(&mut self, other: &EventCounts) {
        self.all += other.all;
        self.slices += other.slices;
        self.instants += other.instants;
        self.counters += other.counters;
        self.flow_ends += other.flow_ends;
        self.memory += other.memory;
        self.metadata += other.metadata;
        self.others += other.others;
        self.untimed += other.untimed;
        self.crossing += other.crossing;
    }
}
