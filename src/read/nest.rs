//! How the slices of a lane nest: which encloses which, which cross another, and the time of each without its children.
//!
//! Documents list slices in any order. Records of them are sorted by lane and time, the longer first, as viewers
//! do, and a stack of open slices goes over them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::names::SEARCH;
use super::sorter::{Record, Sorted, Sorter};
use crate::error::{Result, contained};
use crate::sync::{Mutex, lock};

/// Open slices of one lane; what is deeper has no children and is nobody's child.
const MAX_DEPTH: usize = 1 << 14;

/// A time later than any.
const NEVER: i64 = i64::MAX;
/// Times and durations are cut off here, so that their sums stay numbers.
pub(crate) const MAX_TIME: i64 = 1 << 61;

const KIND: u32 = 62;
const PAIR: u64 = 0;
const SLICE: u64 = 1;
const POINT: u64 = 2;
const LOW: u64 = (1 << KIND) - 1;

/// What stands on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A slice with its duration.
    Slice(i64),
    Begin,
    End,
    /// Something that hangs on a slice; the number is the caller's, below 2^8.
    Point(u8),
}

/// A mark at a place of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// Below 2^24.
    pub(crate) lane: u32,
    pub(crate) ts: i64,
    pub(crate) mark: Mark,
    /// Of the name, below 2^24. Of an end: [`super::names::OTHER`] if it ends whatever is open.
    pub(crate) name: u32,
    /// Where in the document the event stands, below 2^40.
    pub(crate) offset: u64,
}

/// A time as a word that sorts as it does.
pub(crate) fn time_word(ts: i64) -> u64 {
    (ts as u64) ^ (1 << 63)
}

/// The time of such a word.
pub(crate) fn word_time(word: u64) -> i64 {
    (word ^ (1 << 63)) as i64
}

impl At {
    /// The record to sort.
    pub(crate) fn record(&self) -> Record<4> {
        let offset = self.offset & ((1 << 40) - 1);
        let order = match self.mark {
            Mark::Slice(duration) => SLICE << KIND | (LOW - duration.clamp(0, MAX_TIME) as u64),
            Mark::Begin => PAIR << KIND | offset << 1,
            Mark::End => PAIR << KIND | offset << 1 | 1,
            Mark::Point(kind) => POINT << KIND | u64::from(kind),
        };
        [u64::from(self.lane), time_word(self.ts), order, offset << 24 | u64::from(self.name & 0xff_ffff)]
    }

    fn of(record: &Record<4>) -> Self {
        let [lane, ts, order, rest] = *record;
        let mark = match order >> KIND {
            SLICE => Mark::Slice((LOW - (order & LOW)) as i64),
            POINT => Mark::Point(order as u8),
            _ if order & 1 == 1 => Mark::End,
            _ => Mark::Begin,
        };
        Self { lane: lane as u32, ts: word_time(ts), mark, name: (rest & 0xff_ffff) as u32, offset: rest >> 24 }
    }
}

/// Sorted records of several threads as one sequence.
pub(crate) struct Merged<const N: usize> {
    sources: Vec<Sorted<N>>,
    heads: BinaryHeap<Reverse<(Record<N>, usize)>>,
}

impl<const N: usize> Merged<N> {
    pub(crate) fn new(sources: Vec<Sorted<N>>) -> Result<Self> {
        let mut merged = Self { sources, heads: BinaryHeap::new() };
        for index in 0..merged.sources.len() {
            if let Some(record) = merged.sources[index].next()? {
                merged.heads.push(Reverse((record, index)));
            }
        }
        Ok(merged)
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record<N>>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((record, index)) = *head;
        match self.sources[index].next()? {
            Some(next) => *head = Reverse((next, index)),
            None => {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
        Ok(Some(record))
    }
}

/// A sorter for each share of the lanes, so that threads can go over them at the same time.
pub(crate) struct Shards(Vec<Sorter<4>>);

impl Shards {
    /// `bytes`: memory of all together.
    pub(crate) fn new(count: usize, bytes: usize) -> Self {
        Self((0..count.max(1)).map(|_| Sorter::new(bytes / count.max(1))).collect())
    }

    #[inline]
    pub(crate) fn push(&mut self, at: &At) -> Result<()> {
        let count = self.0.len();
        self.0[at.lane as usize % count].push(at.record())
    }

    pub(crate) fn sorted(self) -> Result<Vec<Sorted<4>>> {
        self.0.into_iter().map(Sorter::sorted).collect()
    }
}

/// What is told of the lanes.
pub(crate) trait Visit {
    /// A slice has ended. `own`: its duration without that of its children.
    fn slice(&mut self, at: &At, duration: i64, own: i64);
    /// A slice crosses the one around it: it ends later. Answers whether it stays on the lane, or is dropped as Perfetto
    /// drops it.
    fn crossing(&mut self, at: &At) -> bool;
    /// Whether an end of the name `end` may end what has begun with the name `begin`.
    fn ends(&self, _begin: u32, _end: u32) -> bool {
        true
    }
    /// An end that is not that of the innermost begin.
    fn misplaced(&mut self, _at: &At) {}
    /// An end without a begin.
    fn no_begin(&mut self, _at: &At) {}
    /// A begin without an end.
    fn no_end(&mut self, _at: &At) {}
    /// A point, and whether a slice is around it.
    fn point(&mut self, _at: &At, _kind: u8, _inside: bool) {}
}

/// An open slice.
struct Open {
    at: At,
    end: i64,
    /// Time of its children so far.
    covered: i64,
    /// The nearest slice below that ended later when this one began.
    over: usize,
}

/// The stack of one lane.
#[derive(Default)]
struct Stack {
    open: Vec<Open>,
    /// Those written as begin and end whose end is not there yet.
    begun: Vec<usize>,
    /// Names of those that ended with one around them, at `displaced_at`: their own end may still come at that time.
    displaced: Vec<u32>,
    displaced_at: i64,
    /// The latest end of any slice that has one.
    latest: Option<i64>,
    /// How many slices are still refused before it is tried again to make room.
    refused: usize,
}

const NONE: usize = usize::MAX;

impl Stack {
    /// Ends the slices on top that are over at `ts`.
    fn advance(&mut self, ts: i64, visit: &mut impl Visit) {
        while self.open.last().is_some_and(|top| top.end <= ts) {
            if let Some(top) = self.open.pop() {
                ended(&top, visit);
            }
        }
    }

    /// Makes room where slices that are over lie below one that is not; answers whether there is some.
    fn room(&mut self, ts: i64, visit: &mut impl Visit) -> bool {
        if self.open.len() < MAX_DEPTH {
            return true;
        }
        if self.refused > 0 {
            self.refused -= 1;
            return false;
        }
        let mut places = vec![NONE; self.open.len()];
        let mut kept: Vec<Open> = Vec::new();
        for (index, open) in std::mem::take(&mut self.open).into_iter().enumerate() {
            if open.end <= ts {
                ended(&open, visit);
            } else {
                places[index] = kept.len();
                kept.push(open);
            }
        }
        for index in 0..kept.len() {
            // Walks on as before: each is over one with a later end, or over none.
            let mut over = if index == 0 { NONE } else { index - 1 };
            while over != NONE && kept[over].end <= kept[index].end {
                over = kept[over].over;
            }
            kept[index].over = over;
        }
        self.open = kept;
        self.begun.iter_mut().for_each(|place| *place = places[*place]);
        // So that this is not done again for each slice.
        self.refused = MAX_DEPTH / 2;
        self.open.len() < MAX_DEPTH
    }

    /// Adds the time from `from` to `to` to what covers the slices below `index`.
    fn cover(&mut self, mut index: usize, mut from: i64, to: i64) {
        while index != NONE && from < to {
            let open = &mut self.open[index];
            let end = open.end.min(to);
            if end > from {
                open.covered += end - from;
                from = end;
            }
            index = open.over;
        }
    }

    fn push(&mut self, at: At, end: i64) {
        let top = self.open.len().wrapping_sub(1);
        let mut over = top;
        while over != NONE && self.open[over].end <= end {
            over = self.open[over].over;
        }
        self.open.push(Open { at, end, covered: 0, over });
    }

    fn slice(&mut self, at: At, duration: i64, visit: &mut impl Visit) {
        let end = at.ts.saturating_add(duration);
        let top = self.open.len().wrapping_sub(1);
        if let Some(around) = self.open.last()
            && end > around.end
            && !visit.crossing(&at)
        {
            return;
        }
        self.cover(top, at.ts, end);
        if duration > 0 && self.room(at.ts, visit) {
            self.push(at, end);
        } else {
            visit.slice(&at, duration, duration);
        }
    }

    fn begin(&mut self, at: At, visit: &mut impl Visit) {
        if self.room(at.ts, visit) {
            self.begun.push(self.open.len());
            self.push(at, NEVER);
        } else {
            visit.no_end(&at);
        }
    }

    fn end(&mut self, at: &At, visit: &mut impl Visit) {
        if self.displaced_at != at.ts {
            self.displaced.clear();
        }
        // They were inside of all that is open.
        if let Some(own) = self.displaced.iter().rposition(|&begin| visit.ends(begin, at.name)) {
            self.displaced.remove(own);
            return;
        }
        let mut innermost = self.begun.iter().rev().take(SEARCH);
        let Some(inside) = innermost.position(|&begun| visit.ends(self.open[begun].at.name, at.name)) else {
            if !self.begun.is_empty() {
                visit.misplaced(at);
            }
            return visit.no_begin(at);
        };
        let place = self.begun.len() - 1 - inside;
        let index = self.begun[place];
        if let Some(above) = self.open[index + 1..].iter().find(|above| above.end != NEVER) {
            // What is above has not ended yet.
            visit.crossing(&above.at);
        }
        if inside > 0 {
            visit.misplaced(at);
            self.displaced_at = at.ts;
            let names = self.begun[place + 1..].iter().map(|&begun| self.open[begun].at.name);
            let room = SEARCH - self.displaced.len().min(SEARCH);
            // Before those that are there, which were inside of these.
            self.displaced.splice(0..0, names.take(room));
        }
        // What has begun inside ends here too.
        while self.begun.len() > place
            && let Some(begun) = self.begun.pop()
        {
            let start = self.open[begun].at.ts;
            self.open[begun].end = at.ts;
            self.cover(begun.wrapping_sub(1), start, at.ts);
        }
        self.advance(at.ts, visit);
    }

    /// Ends all.
    fn finish(&mut self, visit: &mut impl Visit) {
        self.begun.clear();
        self.displaced.clear();
        (self.latest, self.refused) = (None, 0);
        while let Some(top) = self.open.pop() {
            if top.end == NEVER {
                visit.no_end(&top.at);
            } else {
                ended(&top, visit);
            }
        }
    }
}

fn ended(open: &Open, visit: &mut impl Visit) {
    let duration = open.end - open.at.ts;
    visit.slice(&open.at, duration, (duration - open.covered).max(0));
}

/// Goes over all lanes, each share of them on a thread of its own with what `start` makes for it.
pub(crate) fn sweep_all<V: Visit + Send>(
    shards: Vec<Merged<4>>,
    start: impl Fn() -> V + Sync,
    lane: impl Fn(&mut V, u32) + Sync,
) -> Result<Vec<V>> {
    let (count, queue, found) = (shards.len(), Mutex::new(shards), Mutex::new(Vec::new()));
    let run = || {
        loop {
            let Some(shard) = lock(&queue).pop() else { break };
            let mut visit = start();
            let swept = contained(|| sweep(shard, &mut visit, &lane));
            lock(&found).push(swept.map(|()| visit));
        }
    };
    std::thread::scope(|scope| {
        // A system that gives no thread leaves the work to the others.
        let helpers: Vec<_> =
            (1..count).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok()).collect();
        run();
        for helper in helpers {
            // What panics in a helper is contained where it happens.
            let _ = helper.join();
        }
    });
    let found = std::mem::take(&mut *lock(&found));
    found.into_iter().collect()
}

/// Goes over the marks of lanes, which come sorted, and tells of what it meets. `lane` is told of each lane before.
fn sweep<V: Visit>(mut records: Merged<4>, visit: &mut V, mut lane: impl FnMut(&mut V, u32)) -> Result<()> {
    let mut stack = Stack::default();
    let mut current = None;
    while let Some(record) = records.next()? {
        let at = At::of(&record);
        if current != Some(at.lane) {
            stack.finish(visit);
            current = Some(at.lane);
            lane(visit, at.lane);
        }
        // A point at the very end of a slice still belongs to it.
        if let Mark::Point(kind) = at.mark {
            let inside = !stack.begun.is_empty() || stack.latest.is_some_and(|end| end >= at.ts);
            visit.point(&at, kind, inside);
            continue;
        }
        stack.advance(at.ts, visit);
        match at.mark {
            Mark::Slice(duration) => {
                stack.latest = stack.latest.max(Some(at.ts.saturating_add(duration)));
                stack.slice(at, duration, visit);
            }
            Mark::Begin => stack.begin(at, visit),
            Mark::End => {
                stack.latest = stack.latest.max(Some(at.ts).filter(|_| !stack.begun.is_empty()));
                stack.end(&at, visit);
            }
            Mark::Point(_) => {}
        }
    }
    stack.finish(visit);
    Ok(())
}
