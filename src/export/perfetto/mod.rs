//! A trace to a document in Perfetto's own format.
//!
//! It shows what the torch format shows, at the same times, on the same tracks.

mod flows;
mod layout;
mod names;
mod print;

use std::collections::HashMap;

use super::document::Document;
use super::lanes::{CPU_PID, GPU_PID_BASE};
use super::{ExportOptions, Exported};
use crate::error::Result;
use crate::model::clock::ClockDomain;
use crate::model::intern::Id;
use crate::model::log::CHUNK;
use crate::model::pack::{self, Unpack};
use crate::model::snapshot::Snapshot;
use crate::output::{self, Job, OnProgress, Target};
use crate::perfetto::describe;
use crate::perfetto::packet::{self, Kind, Scope, value};
use crate::perfetto::sequence::Sequence;
use flows::Flows;
use layout::{Layout, PIECE};
use print::{Plan, Printer};

/// A piece of the document.
#[derive(Debug, Clone)]
enum Piece {
    Head,
    /// One piece of a run, by their numbers.
    Slices(usize, usize),
    /// Some chunks of the log of that section.
    Samples(std::ops::Range<usize>),
    Counters(std::ops::Range<usize>),
    Instants(std::ops::Range<usize>),
    Marks(std::ops::Range<usize>),
    Tail,
}

/// Writes `document`.
pub(super) fn export(
    document: &Document<'_>,
    target: Target<'_>,
    options: &ExportOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<Exported> {
    let snapshot = document.snapshot;
    let plan = Plan {
        document,
        layout: Layout::new(document)?,
        flows: Flows::new(document),
        tracks: Tracks::new(document),
        counters: Counters::new(document),
    };
    let mut pieces = pieces(&plan);
    let written = output::write(
        target,
        &options.write,
        progress,
        snapshot.event_count(),
        || Ok(group(&mut pieces)),
        || {
            let mut printer = Printer::new(&plan);
            move |pieces: Vec<Piece>, out: &mut Vec<u8>| {
                pieces.into_iter().for_each(|piece| printer.piece(out, piece));
                Ok(())
            }
        },
    )?;
    Ok(Exported {
        written,
        overlaps_moved: document.overlaps_moved(),
        overlaps_left: document.overlaps_left(),
        flows_dropped: plan.flows.dropped,
    })
}

/// Events that a job makes packets of, if its pieces are small: about a mebibyte.
const JOB: usize = 4 * CHUNK;

fn group(pieces: &mut impl Iterator<Item = (Piece, usize)>) -> Option<Job<Vec<Piece>>> {
    let mut job = Job { item: Vec::new(), units: 0 };
    while job.units < JOB as u64
        && let Some((piece, events)) = pieces.next()
    {
        job.item.push(piece);
        job.units += events as u64;
    }
    (!job.item.is_empty()).then_some(job)
}

/// All pieces in order, each with the number of events that it holds.
fn pieces<'a>(plan: &'a Plan<'_>) -> impl Iterator<Item = (Piece, usize)> + Send + use<'a> {
    let snapshot = plan.document.snapshot;
    let chunks = |len: usize, piece: fn(std::ops::Range<usize>) -> Piece| {
        let count = len.div_ceil(CHUNK);
        let some = PIECE / CHUNK;
        (0..count).step_by(some).map(move |start| {
            let end = count.min(start + some);
            (piece(start..end), len.min(end * CHUNK) - start * CHUNK)
        })
    };
    let slices = plan.layout.runs.iter().enumerate().flat_map(|(run, slices)| {
        slices.pieces().enumerate().map(move |(piece, (items, _))| (Piece::Slices(run, piece), items.len()))
    });
    std::iter::once((Piece::Head, 0))
        .chain(slices)
        .chain(chunks(snapshot.samples.len(), Piece::Samples))
        .chain(chunks(snapshot.counters.len(), Piece::Counters))
        .chain(chunks(snapshot.instants.len(), Piece::Instants))
        .chain(chunks(snapshot.marks.len(), Piece::Marks))
        .chain(std::iter::once((Piece::Tail, 0)))
}

impl Printer<'_> {
    fn piece(&mut self, out: &mut Vec<u8>, piece: Piece) {
        let plan = self.plan;
        let snapshot = plan.document.snapshot;
        self.begin(Sequence::shared());
        match piece {
            Piece::Head => plan.head(out),
            Piece::Slices(run, piece) => {
                let run = &plan.layout.runs[run];
                self.begin(Sequence::of(plan.tracks.lane(run.lane)));
                if let Some((items, open)) = run.pieces().nth(piece) {
                    let last = items.end == run.end;
                    self.slices(out, items, open, last);
                }
            }
            Piece::Samples(chunks) => {
                for sample in chunks.flat_map(|chunk| snapshot.samples.chunk(chunk)) {
                    self.sample(out, sample);
                }
            }
            Piece::Counters(chunks) => {
                for counter in chunks.flat_map(|chunk| snapshot.counters.chunk(chunk)) {
                    self.counter(out, counter);
                }
            }
            Piece::Instants(chunks) => {
                for instant in chunks.flat_map(|chunk| snapshot.instants.chunk(chunk)) {
                    self.instant(out, instant);
                }
            }
            Piece::Marks(chunks) => {
                chunks.flat_map(|chunk| snapshot.marks.chunk(chunk)).for_each(|mark| self.mark(out, mark));
            }
            Piece::Tail => plan.tail(out),
        }
    }
}

/// Which track is whose: lanes from 1, then processes, then counters.
#[derive(Debug)]
struct Tracks {
    lanes: u64,
    /// Greater than every tid.
    tids: u32,
    /// Ascending.
    pids: Vec<i64>,
}

impl Tracks {
    fn new(document: &Document<'_>) -> Self {
        let mut pids = document.lanes.gpu_pids.clone();
        pids.insert(0, CPU_PID);
        Self { lanes: document.lanes.infos.len() as u64, tids: document.lanes.end(), pids }
    }

    #[inline]
    fn lane(&self, number: u32) -> u64 {
        u64::from(number) + 1
    }

    fn process(&self, number: usize) -> u64 {
        self.lanes + 1 + number as u64
    }

    /// The pid under which a process is shown: its own if it is one of 31 bits, other than 0.
    fn pid(&self, number: usize) -> u32 {
        match self.pids.get(number) {
            Some(&CPU_PID) => packet::FOR_0,
            Some(&pid @ 1..=0x7fff_ffff) => pid as u32,
            _ => i32::MAX as u32 - number as u32,
        }
    }

    /// The tid under which a lane is shown: its own, but for lane 0.
    fn tid(&self, tid: u32) -> u32 {
        if tid == 0 { packet::FOR_0.max(self.tids) } else { tid }
    }
}

/// The tracks of counters: one for each series.
#[derive(Debug)]
struct Counters {
    /// By name and series.
    tracks: HashMap<(Id, Id), u64>,
}

impl Counters {
    fn new(document: &Document<'_>) -> Self {
        let snapshot = document.snapshot;
        let first = document.lanes.infos.len() as u64 + 2 + document.lanes.gpu_pids.len() as u64;
        let mut tracks = HashMap::new();
        for (_, counter) in snapshot.counters.iter() {
            for series in series(snapshot, counter.values) {
                let next = first + tracks.len() as u64;
                tracks.entry((counter.name, series)).or_insert(next);
            }
        }
        Self { tracks }
    }

    fn track(&self, name: Id, series: Id) -> u64 {
        self.tracks.get(&(name, series)).copied().unwrap_or(0)
    }

    /// In the order of their tracks.
    fn sorted(&self) -> Vec<(u64, (Id, Id))> {
        let mut sorted: Vec<_> = self.tracks.iter().map(|(&key, &track)| (track, key)).collect();
        sorted.sort_unstable();
        sorted
    }
}

fn series(snapshot: &Snapshot, values: Id) -> impl Iterator<Item = Id> {
    let mut from = Unpack(snapshot.packed.bytes(values));
    (0..from.number()).map(move |_| {
        let series = from.number() as Id;
        match from.byte() {
            pack::VALUE_INT => _ = from.signed(),
            pack::VALUE_FLOAT => _ = from.float(),
            pack::VALUE_FALSE | pack::VALUE_TRUE => {}
            _ => _ = from.number(),
        }
        series
    })
}

impl Plan<'_> {
    /// Everything that events refer to.
    fn head(&self, out: &mut Vec<u8>) {
        let document = self.document;
        let clock = document.clock;
        let to_realtime = match clock.domain {
            ClockDomain::Realtime => Some(0),
            ClockDomain::Monotonic => clock.anchor.realtime_ns.checked_sub(clock.anchor.monotonic_ns),
            ClockDomain::Unknown => None,
        };
        let realtime = to_realtime.and_then(|offset| clock.base_ns.checked_add(offset));
        describe::start(out, realtime.and_then(|time| u64::try_from(time).ok()));
        describe::sorted_by_rank(out);
        let name = document.process_name.as_bytes();
        for (number, &pid) in self.tracks.pids.iter().enumerate() {
            let (label, rank) = match pid {
                CPU_PID => ("CPU".to_owned(), CPU_PID),
                pid => (format!("GPU {}", pid - GPU_PID_BASE), pid.saturating_add(5_000_000)),
            };
            let rank = i32::try_from(rank).unwrap_or(i32::MAX);
            let (track, pid) = (self.tracks.process(number), self.tracks.pid(number));
            describe::process(out, track, pid, name, &[label.as_bytes()], Some(rank));
        }
        for info in &document.lanes.infos {
            let process = self.tracks.pids.binary_search(&info.lane.pid).unwrap_or(0);
            let rank = i32::try_from(info.sort_index).unwrap_or(i32::MAX);
            let (track, name) = (self.tracks.lane(info.lane.number), info.name.as_ref().map(String::as_bytes));
            let tid = self.tracks.tid(info.lane.tid);
            describe::thread(out, track, self.tracks.pid(process), tid, name, Some(rank));
        }
        let texts = &document.snapshot.texts;
        for (track, (name, series)) in self.counters.sorted() {
            let name = [texts.bytes(name), b" ", texts.bytes(series)].concat();
            describe::counter(out, track, self.tracks.process(0), &name);
        }
    }

    /// The last event of a document, which carries what is said of the trace as a whole.
    fn tail(&self, out: &mut Vec<u8>) {
        let document = self.document;
        let end = document.snapshot.span.last.unwrap_or(document.clock.base_ns);
        let mut sequence = Sequence::shared();
        let event = sequence.event_on(out, self.time(end.saturating_add(1000)), 0, Kind::Legacy);
        packet::name_text(out, b"Record Window End");
        packet::legacy(out, b'i', None, false, Some(Scope::Global));
        document.members(&mut |key, json| {
            value::named(out, key.as_bytes(), |out| value::json(out, json));
        });
        event.close(out, &mut sequence);
    }
}
