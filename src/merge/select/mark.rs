//! One input's events marked: which stay.

use super::super::lanes::MAX_PROCESSES;
use super::super::plan::{Part, Plan};
use super::super::{head, size};
use crate::read::cutter::Cutter;
use crate::read::event::{Event, Span};
use crate::read::names::{Label, fingerprint, lane_of};
use crate::read::time::parse_ns;
use crate::read::walk::walk;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::budget::{Histogram, Share};
use super::flows::{End, Flows, Point};
use super::pairs::{Groups, Joined, Open, Role, Stacks};
use super::rules::{CutCounts, Judge, Reason, Rules};
use super::watch::Watch;
use crate::error::{Error, Result};

/// Lanes that are told apart; with more, the slices of all are looked at.
const MAX_LANES: usize = 1 << 16;
/// A duration that never ends.
const ENDLESS: i64 = i64::MAX - 1;

/// Which events of an input stay, by their place in it.
#[derive(Debug, Default)]
pub(in crate::merge) struct Marks {
    keep: Vec<u64>,
    unbound: Vec<u64>,
    events: u64,
    /// The number of the first event of each piece.
    pieces: Vec<u64>,
    pub(in crate::merge) cut: CutCounts,
}

fn bit(bits: &[u64], ordinal: u64) -> bool {
    bits.get((ordinal / 64) as usize).is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
}

impl Marks {
    fn push(&mut self) -> u64 {
        let ordinal = self.events;
        self.events += 1;
        if ordinal.is_multiple_of(64) {
            self.keep.push(0);
        }
        ordinal
    }

    pub(super) fn keep(&mut self, ordinal: u64) {
        self.keep[(ordinal / 64) as usize] |= 1 << (ordinal % 64);
    }

    /// Notes that the flow which a slice names is no more.
    pub(super) fn unbind(&mut self, ordinal: u64) {
        let word = (ordinal / 64) as usize;
        if self.unbound.len() <= word {
            self.unbound.resize(word + 1, 0);
        }
        self.unbound[word] |= 1 << (ordinal % 64);
    }

    /// The first event of a piece; `None` if there was no such piece.
    pub(in crate::merge) fn first_of(&self, piece: usize) -> Option<u64> {
        self.pieces.get(piece).copied()
    }

    /// Whether an event stays.
    pub(in crate::merge) fn kept(&self, ordinal: u64) -> bool {
        bit(&self.keep, ordinal)
    }

    /// Whether a slice that stays loses the flow that it names.
    pub(in crate::merge) fn is_unbound(&self, ordinal: u64) -> bool {
        bit(&self.unbound, ordinal)
    }
}

/// Nanoseconds of the merged document.
fn time(part: &Part<'_>, bytes: &[u8], event: &Event) -> Option<i64> {
    let offset = part.sub(event.pid.of(bytes)).fate.offset;
    let ns = parse_ns(event.ts.get(bytes)?)? + i128::from(offset);
    Some(ns.clamp(i128::from(i64::MIN) / 4, i128::from(i64::MAX) / 4) as i64)
}

fn duration(bytes: &[u8], span: Span) -> i64 {
    let ns = span.get(bytes).and_then(parse_ns).unwrap_or(0);
    ns.clamp(0, i128::from(i64::MAX) / 4) as i64
}

fn lane(bytes: &[u8], event: &Event) -> u64 {
    fingerprint(&[event.pid.of(bytes), lane_of(bytes, event)])
}

/// What the begin or the end of a slice is called.
fn label(bytes: &[u8], event: &Event) -> Label {
    Label::new(event.name.of(bytes), event.cat.of(bytes))
}

/// The end of a flow that an event is.
fn point(part: &Part<'_>, bytes: &[u8], event: &Event, phase: u8, ordinal: u64, size: u64) -> Point {
    let end = match phase {
        b's' => End::Start,
        b't' => End::Step,
        _ => End::Finish,
    };
    Point {
        flow: fingerprint(&[event.cat.of(bytes), event.name.of(bytes), event.id.of(bytes), event.id2.of(bytes)]),
        lane: lane(bytes, event),
        ts: time(part, bytes, event),
        ordinal,
        bytes: size,
        end,
        next: end == End::Finish && event.bp.of(bytes) != b"\"e\"",
    }
}

/// Reads an input's events once. `visit` is told of each event, and with `None` of each piece before its events.
pub(super) fn scan(
    plan: &Plan<'_>,
    part: &Part<'_>,
    watch: &Watch,
    mut visit: impl FnMut(Option<(&[u8], &Event)>) -> Result<()>,
) -> Result<()> {
    let Some(mut cutter) = Cutter::open(part)? else { return Ok(()) };
    while let Some(mut cut) = cutter.next(part, &plan.options.limits, plan.options.salvage)? {
        watch.read(cut.length as u64)?;
        visit(None)?;
        walk(part, plan.options.salvage, &mut cut, |bytes, event| visit(Some((bytes, event))))?;
        cutter.spare = cut.bytes;
    }
    Ok(())
}

/// The earliest timestamp.
pub(super) fn earliest(plan: &Plan<'_>, part: &Part<'_>, watch: &Watch) -> Result<Option<i64>> {
    let mut earliest: Option<i64> = None;
    scan(plan, part, watch, |step| {
        if let Some((bytes, event)) = step
            && event.phase(bytes) != b'M'
            && (plan.comparable || part.sub(event.pid.of(bytes)).fate.wanted)
            && let Some(ts) = time(part, bytes, event)
        {
            earliest = Some(earliest.map_or(ts, |least| least.min(ts)));
        }
        Ok(())
    })?;
    Ok(earliest)
}

/// Marks an input's events. `memory`: bytes for sorting the ends of flows. `histogram`: is told of what stays.
pub(super) fn mark(
    plan: &Plan<'_>,
    part: &Part<'_>,
    rules: &Rules,
    memory: usize,
    histogram: Option<&mut Histogram>,
    watch: &Watch,
) -> Result<Marks> {
    let mut marker = Marker {
        plan,
        part,
        judge: Judge::new(rules),
        marks: Marks::default(),
        share: Share::default(),
        lanes: HashSet::default(),
        stacks: Stacks::default(),
        groups: Groups::default(),
        histogram,
        processes: HashSet::default(),
    };
    scan(plan, part, watch, |step| match step {
        Some((bytes, event)) => marker.event(bytes, event),
        None => {
            marker.marks.pieces.push(marker.marks.events);
            Ok(())
        }
    })?;
    let Marker { mut marks, mut histogram, lanes, .. } = marker.open_ends();
    if !lanes.is_empty() {
        let flows = flows(plan, (part, rules), &marks, &lanes, memory, watch)?;
        flows.finish(rules, &mut marks, |shortest, bytes| {
            if let Some(histogram) = &mut histogram {
                histogram.add_flow(shortest, bytes);
            }
        })?;
    }
    Ok(marks)
}

/// The second pass: the ends of flows, and the slices of their lanes, of which the first has marked those that stay.
fn flows(
    plan: &Plan<'_>,
    (part, rules): (&Part<'_>, &Rules),
    marks: &Marks,
    lanes: &HashSet<u64, FixedState>,
    memory: usize,
    watch: &Watch,
) -> Result<Flows> {
    let mut flows = Flows::new(memory);
    let mut judge = Judge::new(rules);
    let mut stacks = Stacks::default();
    let mut ordinal = 0;
    scan(plan, part, watch, |step| {
        let Some((bytes, event)) = step else { return Ok(()) };
        let this = ordinal;
        ordinal += 1;
        if !part.sub(event.pid.of(bytes)).fate.wanted || !judge.of_rank(bytes, event) {
            return Ok(());
        }
        let phase = event.phase(bytes);
        match phase {
            b's' | b't' | b'f' => {
                return flows.end(&point(part, bytes, event, phase, this, size::of(plan, part, bytes, event)));
            }
            b'X' | b'B' if !event.bind_id.is_empty() => {
                let flow = fingerprint(&[b"bind_id", event.bind_id.of(bytes)]);
                let end = End::Slice;
                flows.end(&Point { flow, lane: 0, ts: None, ordinal: this, bytes: 0, end, next: false })?;
            }
            b'X' | b'B' | b'E' => {}
            _ => return Ok(()),
        }
        let lane = lane(bytes, event);
        if lanes.len() < MAX_LANES && !lanes.contains(&lane) {
            return Ok(());
        }
        let start = time(part, bytes, event);
        match (phase, start) {
            (b'X', Some(start)) => flows.slice(lane, this, start, duration(bytes, event.dur), marks.kept(this))?,
            (b'B', _) => {
                // The first pass had room for them all.
                let open = Open { ordinal: this, start, words: None, bytes: 0 };
                let _ = stacks.begin(lane, label(bytes, event), open);
            }
            (b'E', end) => {
                if let Some(open) = stacks.end(lane, label(bytes, event))
                    && let (Some(start), Some(end)) = (open.start, end)
                {
                    flows.slice(lane, open.ordinal, start, end.saturating_sub(start), marks.kept(open.ordinal))?;
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    for (lane, open) in stacks.rest() {
        if let Some(start) = open.start {
            flows.slice(lane, open.ordinal, start, ENDLESS, marks.kept(open.ordinal))?;
        }
    }
    Ok(flows)
}

/// The first pass over one input.
struct Marker<'m, 'a> {
    plan: &'m Plan<'a>,
    part: &'m Part<'a>,
    judge: Judge<'m>,
    marks: Marks,
    share: Share,
    /// Lanes on which flows have ends, or name 0 for those that slices name.
    lanes: HashSet<u64, FixedState>,
    stacks: Stacks,
    groups: Groups,
    histogram: Option<&'m mut Histogram>,
    /// Processes that the end of the document may have to name.
    processes: HashSet<u64, FixedState>,
}

impl Marker<'_, '_> {
    fn event(&mut self, bytes: &[u8], event: &Event) -> Result<()> {
        let ordinal = self.marks.push();
        let bytes_kept = match self.histogram {
            Some(_) => size::of(self.plan, self.part, bytes, event),
            // Shares are of what the histogram has counted.
            None if self.judge.rules.floor.is_some() => size::of(self.plan, self.part, bytes, event),
            None => 0,
        };
        if let Some(histogram) = &mut self.histogram
            && !self.plan.options.verbatim
            && self.processes.len() < MAX_PROCESSES
        {
            let pid = event.pid.of(bytes);
            histogram.fixed += if self.processes.insert(fingerprint(&[pid])) { head::process_bytes(pid) } else { 0 };
        }
        if !self.part.sub(event.pid.of(bytes)).fate.wanted || !self.judge.of_rank(bytes, event) {
            self.marks.cut.rank += 1;
            return Ok(());
        }
        let phase = event.phase(bytes);
        if phase == b'M' || bytes[event.start as usize] != b'{' {
            self.marks.keep(ordinal);
            if let Some(histogram) = &mut self.histogram {
                histogram.fixed += bytes_kept;
            }
            return Ok(());
        }
        if matches!(phase, b's' | b't' | b'f') {
            // The second pass marks those that stay.
            if self.lanes.len() < MAX_LANES {
                self.lanes.insert(lane(bytes, event));
            }
            return Ok(());
        }
        if !event.bind_id.is_empty() && self.lanes.len() < MAX_LANES {
            self.lanes.insert(0);
        }
        let start = time(self.part, bytes, event);
        let words = self.judge.words(bytes, event);
        let open = Open { ordinal, start, words, bytes: bytes_kept };
        match phase {
            b'X' => {
                self.decide(&[ordinal], start, Some(duration(bytes, event.dur)), words, bytes_kept);
            }
            b'B' => {
                if !self.stacks.begin(lane(bytes, event), label(bytes, event), open) {
                    return Err(self.too_many());
                }
            }
            b'E' => match self.stacks.end(lane(bytes, event), label(bytes, event)) {
                Some(begun) => {
                    let duration = start.zip(begun.start).map_or(0, |(end, start)| end.saturating_sub(start).max(0));
                    let both = [begun.ordinal, ordinal];
                    self.decide(&both, begun.start, Some(duration), begun.words, begun.bytes + bytes_kept);
                }
                None => {
                    self.decide(&[ordinal], start, None, words, bytes_kept);
                }
            },
            b'b' | b'n' | b'e' | b'S' | b'T' | b'p' | b'F' | b'N' | b'O' | b'D' => {
                return self.grouped(bytes, event, phase, open);
            }
            _ => {
                self.decide(&[ordinal], start, None, words, bytes_kept);
            }
        }
        Ok(())
    }

    #[cold]
    fn too_many(&self) -> Error {
        Error::Limit {
            path: self.part.input.stored.name.clone(),
            offset: 0,
            what: "too many slices are open at once to select among its events".into(),
        }
    }

    /// An event of an async or object id.
    fn grouped(&mut self, bytes: &[u8], event: &Event, phase: u8, open: Open) -> Result<()> {
        let (kind, role) = match phase {
            b'b' => (b"b", Role::Begin),
            b'n' => (b"b", Role::Member),
            b'e' => (b"b", Role::End),
            b'S' => (b"S", Role::Begin),
            b'T' | b'p' => (b"S", Role::Member),
            b'F' => (b"S", Role::End),
            b'N' => (b"N", Role::Begin),
            b'O' => (b"N", Role::Member),
            _ => (b"N", Role::End),
        };
        let id2 = event.id2.of(bytes);
        // A local id is one of its process.
        let local = id2.windows(5).any(|window| window == b"local");
        let pid: &[u8] = if local { event.pid.of(bytes) } else { b"" };
        let key = fingerprint(&[kind, event.cat.of(bytes), event.id.of(bytes), id2, pid]);
        if !self.groups.has_room() {
            return Err(self.too_many());
        }
        match self.groups.join(key, role, open) {
            Joined::Waits => {}
            Joined::Alone => {
                self.decide(&[open.ordinal], open.start, None, open.words, open.bytes);
            }
            Joined::As(None) => self.marks.keep(open.ordinal),
            Joined::As(Some(reason)) => self.marks.cut.add(reason, 1),
            Joined::Complete(group) => {
                let verdict = self.decide(
                    &group.ordinals,
                    group.start,
                    Some(group.duration().unwrap_or(ENDLESS)),
                    group.words,
                    group.bytes,
                );
                self.groups.judged(key, verdict);
            }
        }
        Ok(())
    }

    /// Judges a slice, or an event without a duration, and marks all events that make it up.
    fn decide(
        &mut self,
        ordinals: &[u64],
        start: Option<i64>,
        duration: Option<i64>,
        words: Option<Reason>,
        bytes: u64,
    ) -> Option<Reason> {
        let rules = self.judge.rules;
        let verdict = words.or_else(|| self.judge.time(start, duration)).or_else(|| {
            let floor = rules.floor.as_ref()?;
            (!self.share.keeps(floor, duration, bytes)).then_some(Reason::Budget)
        });
        if let Some(reason) = verdict {
            self.marks.cut.add(reason, ordinals.len() as u64);
            return verdict;
        }
        ordinals.iter().for_each(|&ordinal| self.marks.keep(ordinal));
        if let Some(histogram) = &mut self.histogram {
            histogram.add(duration, bytes);
        }
        None
    }

    /// Judges what never ended.
    fn open_ends(mut self) -> Self {
        for (_, open) in std::mem::take(&mut self.stacks).rest() {
            self.decide(&[open.ordinal], open.start, Some(ENDLESS), open.words, open.bytes);
        }
        for group in std::mem::take(&mut self.groups).rest() {
            self.decide(&group.ordinals, group.start, Some(ENDLESS), group.words, group.bytes);
        }
        self
    }
}
