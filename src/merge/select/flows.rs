//! Flows stay or go whole: each of their ends is bound to its slice, as viewers do, and a flow stays if all these stay.
//!
//! Slices and ends are sorted by lane and time, and swept once: the slice around an end is the last that has begun and not
//! ended. Then the ends, each with what it hangs on, are sorted by flow.

use std::collections::VecDeque;

use super::mark::Marks;
use super::rules::Rules;
use crate::error::Result;
use crate::read::sorter::{Record, Sorter};

/// Slices open at once, and ends that wait for the next slice, which are remembered in a lane.
const MAX_OPEN: usize = 1 << 16;
/// Ends of one flow; one with more draws no picture, and is left out.
const MAX_ENDS: usize = 1 << 14;

/// What kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A slice that names the flow itself, by `bind_id`.
    Slice,
    Start,
    Step,
    Finish,
}

impl End {
    fn of(number: u64) -> Self {
        [End::Slice, End::Start, End::Step, End::Finish][number as usize & 3]
    }
}

/// One end of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Fingerprint of category, name and id, which tell flows apart.
    pub(super) flow: u64,
    pub(super) lane: u64,
    pub(super) ts: Option<i64>,
    pub(super) ordinal: u64,
    pub(super) bytes: u64,
    pub(super) end: End,
    /// It binds to the next slice of its lane, not to the one around it.
    pub(super) next: bool,
}

/// An end in one word: which kind, which event, how many bytes. 37 bits count the events of 10 TB.
fn pack(end: End, ordinal: u64, bytes: u64) -> u64 {
    (end as u64) << 62 | (ordinal & ((1 << 37) - 1)) << 25 | bytes.min((1 << 25) - 1)
}

fn unpack(word: u64) -> (End, u64, u64) {
    (End::of(word >> 62), word >> 25 & ((1 << 37) - 1), word & ((1 << 25) - 1))
}

/// Times as unsigned words, in their order; 0 is for none.
fn word(ts: Option<i64>) -> u64 {
    ts.map_or(0, |ts| (ts as u64 ^ 1 << 63).max(1))
}

fn time(word: u64) -> Option<i64> {
    (word > 0).then_some((word ^ 1 << 63) as i64)
}

/// At one time come first the ends that wait for the next slice, then slices, the longest first, then the other ends.
const SLICE: u64 = 1 << 62;
const AROUND: u64 = 2 << 62;
const LONGEST: u64 = SLICE - 1;

/// Slices and ends of one input.
pub(super) struct Flows {
    /// Lane, time, kind, and for slices their number and whether they stay, for ends the flow and the packed end.
    all: Sorter<5>,
    memory: usize,
    ends: u64,
}

/// What an end hangs on.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// A slice that goes, or a time outside the window.
    Cut,
    /// A slice that stays, of this duration.
    Slice(u64),
    /// No slice.
    Free,
}

impl Hold {
    fn word(self) -> u64 {
        match self {
            Hold::Cut => u64::MAX,
            Hold::Free => u64::MAX - 1,
            Hold::Slice(duration) => duration,
        }
    }

    fn of(word: u64) -> Self {
        match word {
            u64::MAX => Hold::Cut,
            free if free == u64::MAX - 1 => Hold::Free,
            duration => Hold::Slice(duration),
        }
    }
}

impl Flows {
    /// `memory`: bytes for sorting.
    pub(super) fn new(memory: usize) -> Self {
        Self { all: Sorter::new(memory / 2), memory, ends: 0 }
    }

    pub(super) fn slice(&mut self, lane: u64, ordinal: u64, start: i64, duration: i64, kept: bool) -> Result<()> {
        let shorter_later = LONGEST - (duration.max(0) as u64).min(LONGEST);
        // Of two alike the later one in the file is the inner one.
        self.all.push([lane, word(Some(start)), SLICE | shorter_later, ordinal, u64::from(kept)])
    }

    pub(super) fn end(&mut self, point: &Point) -> Result<()> {
        self.ends += 1;
        let kind = if point.next { 0 } else { AROUND };
        let packed = pack(point.end, point.ordinal, point.bytes);
        self.all.push([point.lane, word(point.ts), kind, point.flow, packed])
    }

    /// Decides on the flows. `flow` is told the shortest duration of the slices of one that stays, and its bytes.
    pub(super) fn finish(self, rules: &Rules, marks: &mut Marks, mut flow: impl FnMut(Option<i64>, u64)) -> Result<()> {
        if self.ends == 0 {
            return Ok(());
        }
        let mut bound = self.bind(rules, marks)?.sorted()?;
        let mut chain = Chain::default();
        while let Some([id, _, packed, hold]) = bound.next()? {
            let (end, ordinal, bytes) = unpack(packed);
            // An id that starts again is another flow.
            if chain.id != Some(id) || end == End::Start {
                chain.close(rules, marks, &mut flow);
                chain.id = Some(id);
            }
            chain.add(marks, end, ordinal, bytes, Hold::of(hold));
        }
        chain.close(rules, marks, &mut flow);
        Ok(())
    }

    /// The ends with what they hang on: flow, time, packed end, hold.
    fn bind(self, rules: &Rules, marks: &Marks) -> Result<Sorter<4>> {
        let mut bound = Sorter::new(self.memory / 2);
        let mut all = self.all.sorted()?;
        let mut lane = None;
        // Slices that have begun, the last one at the back.
        let mut open: VecDeque<(u64, u64, bool)> = VecDeque::new();
        let mut waiting: Vec<(u64, u64, u64)> = Vec::new();
        let free = |ts: u64| if rules.in_window(time(ts), time(ts)) { Hold::Free } else { Hold::Cut };
        let slice = |duration: u64, kept: bool| if kept { Hold::Slice(duration) } else { Hold::Cut };
        let record = |flow: u64, ts: u64, packed: u64, hold: Hold| -> Record<4> { [flow, ts, packed, hold.word()] };
        while let Some([of, ts, kind, data, packed]) = all.next()? {
            if lane != Some(of) {
                lane = Some(of);
                open.clear();
                for (flow, ts, packed) in waiting.drain(..) {
                    bound.push(record(flow, ts, packed, free(ts)))?;
                }
            }
            match kind {
                0 if waiting.len() < MAX_OPEN && ts > 0 => waiting.push((data, ts, packed)),
                0 => bound.push(record(data, ts, packed, free(ts)))?,
                AROUND => {
                    let (end, ordinal, _) = unpack(packed);
                    let hold = if end == End::Slice {
                        slice(0, marks.kept(ordinal))
                    } else {
                        while open.back().is_some_and(|&(until, ..)| until < ts) {
                            open.pop_back();
                        }
                        open.back()
                            .filter(|_| ts > 0)
                            .map_or_else(|| free(ts), |&(_, length, kept)| slice(length, kept))
                    };
                    bound.push(record(data, ts, packed, hold))?;
                }
                kind => {
                    let (length, kept) = (LONGEST - (kind & LONGEST), packed == 1);
                    for (flow, at, packed) in waiting.drain(..) {
                        bound.push(record(flow, at, packed, slice(length, kept)))?;
                    }
                    while open.back().is_some_and(|&(until, ..)| until < ts) {
                        open.pop_back();
                    }
                    if open.len() == MAX_OPEN {
                        open.pop_front();
                    }
                    open.push_back((ts.saturating_add(length), length, kept));
                }
            }
        }
        for (flow, ts, packed) in waiting {
            bound.push(record(flow, ts, packed, free(ts)))?;
        }
        Ok(bound)
    }
}

/// The ends of one flow.
#[derive(Debug, Default)]
struct Chain {
    id: Option<u64>,
    /// Its events.
    events: Vec<u64>,
    /// Slices that name it.
    slices: Vec<u64>,
    bytes: u64,
    shortest: Option<u64>,
    cut: bool,
}

impl Chain {
    fn add(&mut self, marks: &mut Marks, end: End, ordinal: u64, bytes: u64, hold: Hold) {
        let duration = match hold {
            Hold::Cut => {
                self.cut = true;
                None
            }
            // A slice that names a flow is judged by itself already.
            Hold::Slice(_) if end == End::Slice => Some(u64::MAX >> 1),
            Hold::Slice(duration) => Some(duration),
            Hold::Free => None,
        };
        self.shortest = [self.shortest, duration].into_iter().flatten().min();
        self.bytes += bytes;
        let list = if end == End::Slice { &mut self.slices } else { &mut self.events };
        list.push(ordinal);
        if list.len() > MAX_ENDS {
            self.cut = true;
            self.leave_out(marks);
        }
    }

    fn leave_out(&mut self, marks: &mut Marks) {
        marks.cut.flow += self.events.len() as u64;
        self.slices.iter().for_each(|&ordinal| marks.unbind(ordinal));
        self.events.clear();
        self.slices.clear();
    }

    /// Decides, and is ready for another flow.
    fn close(&mut self, rules: &Rules, marks: &mut Marks, flow: &mut impl FnMut(Option<i64>, u64)) {
        let shortest = self.shortest.map(|duration| i64::try_from(duration).unwrap_or(i64::MAX));
        if self.cut || rules.floor.is_some_and(|floor| !floor.keeps_flow(shortest)) {
            self.leave_out(marks);
        } else {
            self.events.iter().for_each(|&ordinal| marks.keep(ordinal));
            flow(shortest, self.bytes);
        }
        self.events.clear();
        self.slices.clear();
        (self.id, self.bytes, self.shortest, self.cut) = (None, 0, None, false);
    }
}
