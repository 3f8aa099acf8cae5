//! What a journal takes from live recording while it goes on, and how a recovery makes events of it.

use std::collections::{HashMap, HashSet};

use super::chunk::{Chunk, Open, Record};
use super::clock::{Anchor, Anchors};
use super::core::Core;
use super::lane::Lane;
use super::names;
use crate::model::clock::monotonic_ns;
use crate::sync::shared::lock;

/// A journal says this often that its process lives.
const ALIVE_NS: i64 = 1_000_000_000;

/// How far a journal has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// By the lane's number: its newest chunk that was told of, by order, and how many of its records.
    lanes: HashMap<u64, (u64, usize)>,
    /// The names of threads, as they were told.
    threads: HashMap<u64, String>,
    names: usize,
    categories: usize,
    /// Ticks of the last anchor, and when it was told.
    anchor: u64,
    anchored_ns: i64,
}

/// Records of one thread that follow one another.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) lane: u64,
    pub(crate) thread: u64,
    pub(crate) name: &'a str,
    /// Records between the last piece of the lane and this one are missing.
    pub(crate) gap: bool,
    /// The spans that were open before the first record, if it is the first of its chunk.
    pub(crate) open: Option<&'a [Open]>,
    pub(crate) records: &'a [Record],
}

/// What is told, in this order.
pub(crate) trait Teller {
    /// Names with these numbers and more.
    fn names(&mut self, first: usize, texts: &[&str]);
    fn categories(&mut self, first: usize, texts: &[&str]);
    fn piece(&mut self, piece: &Piece<'_>);
    /// The same instants on both clocks, as numbers: ticks, nanoseconds, how far they may be apart. The last one is after
    /// all records. `counter`: ticks are those of the processor's counter.
    fn anchors(&mut self, counter: bool, anchors: &[[u64; 3]]);
}

/// A lane as the journal sees it: chunks, each with its order and which of its records are new.
struct Seen {
    lane: *mut Lane,
    number: u64,
    thread: u64,
    name: String,
    gap: bool,
    chunks: Vec<(*mut Chunk, u64, usize, usize)>,
}

impl Core {
    /// Tells what was recorded since the cursor, and answers the cursor for the next time. Recording goes on meanwhile.
    pub(crate) fn tell(&self, cursor: &Cursor, teller: &mut impl Teller) -> Cursor {
        let mut next = cursor.clone();
        let (mut seen, anchors) = {
            let mut registry = lock(&self.registry);
            let seen: Vec<Seen> = registry.lanes().map(|lane| see(lane, cursor)).collect();
            // Also while nothing happens: spans that are open go on.
            let due = monotonic_ns() - cursor.anchored_ns >= ALIVE_NS || seen.iter().any(|one| !one.chunks.is_empty());
            let anchors = registry.anchors.as_mut().filter(|_| due).map(|anchors| {
                anchors.add(true);
                anchors.numbers(cursor.anchor)
            });
            (seen, anchors)
        };
        // Whatever stands in the records has its name by now.
        let (texts, categories) = names::since(cursor.names, cursor.categories);
        teller.names(cursor.names, &texts);
        teller.categories(cursor.categories, &categories);
        (next.names, next.categories) = (cursor.names + texts.len(), cursor.categories + categories.len());
        let live: HashSet<u64> = seen.iter().map(|one| one.number).collect();
        next.lanes.retain(|number, _| live.contains(number));
        next.threads.retain(|number, _| live.contains(number));
        // In the order in which the threads came.
        seen.reverse();
        for one in &mut seen {
            let known = next.threads.get(&one.number);
            if one.name.is_empty() && (known.is_none() || !one.chunks.is_empty()) {
                let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", one.thread));
                one.name = name.unwrap_or_default().trim_end().to_owned();
            }
            let renamed = !one.name.is_empty() && known != Some(&one.name);
            one.tell(teller, renamed);
            if renamed {
                next.threads.insert(one.number, std::mem::take(&mut one.name));
            }
            let last = one.chunks.last().map(|&(_, order, _, to)| (order, to));
            let known = next.lanes.entry(one.number).or_default();
            *known = last.unwrap_or(*known);
        }
        if let Some((counter, anchors)) = anchors
            && let Some(&[ticks, ns, _]) = anchors.last()
        {
            teller.anchors(counter, &anchors);
            (next.anchor, next.anchored_ns) = (ticks, ns as i64);
        }

        let mut registry = lock(&self.registry);
        let mut gone = Vec::new();
        for one in &seen {
            // SAFETY: under the lock; the lane and its chunks were kept until now.
            let guarded = unsafe {
                one.chunks.iter().for_each(|&(chunk, ..)| (*chunk).readers -= 1);
                &mut *(*one.lane).guarded.get()
            };
            guarded.readers -= 1;
            if guarded.ended && guarded.first.is_null() && guarded.readers == 0 {
                registry.remove(one.lane);
                gone.push(one.lane);
            }
        }
        drop(registry);
        gone.into_iter().for_each(Core::free_lane);
        next
    }

    /// Grows with everything that is recorded.
    pub(crate) fn progress(&self) -> u64 {
        let registry = lock(&self.registry);
        let newest = registry.lanes().map(|lane| {
            // SAFETY: under the lock, a lane's chunks live.
            unsafe {
                let last = (*lane.guarded.get()).last;
                if last.is_null() { 0 } else { Chunk::len(last) as u64 }
            }
        });
        // A chunk holds fewer than 2^20 records.
        newest.sum::<u64>() + (registry.order << 20)
    }
}

/// Looks at a lane under the lock. Its chunks are kept until they are let go.
fn see(lane: &Lane, cursor: &Cursor) -> Seen {
    // SAFETY: under the lock.
    let guarded = unsafe { &mut *lane.guarded.get() };
    guarded.readers += 1;
    let (order, records) = cursor.lanes.get(&lane.number).copied().unwrap_or_default();
    let mut chunks = Vec::new();
    let mut at = guarded.first;
    let mut found = false;
    while !at.is_null() {
        // SAFETY: the lane's own chunks, which live, and change their links under the lock only.
        unsafe {
            let to = Chunk::len(at);
            let this = (*at).order;
            found |= this == order;
            let from = if this == order { records } else { 0 };
            if this >= order && to > from {
                (*at).readers += 1;
                chunks.push((at, this, from, to));
            }
            at = (*at).next;
        }
    }
    let name = guarded.name.split(|&byte| byte == 0 || byte == b'\n').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    // A lane of which nothing was told, since it had no chunk, lacks none.
    let gap = order > 0 && !found;
    Seen { lane: std::ptr::from_ref(lane).cast_mut(), number: lane.number, thread: lane.thread, name, gap, chunks }
}

impl Seen {
    fn tell(&self, teller: &mut impl Teller, renamed: bool) {
        let mut piece = Piece {
            lane: self.number,
            thread: self.thread,
            name: if renamed { &self.name } else { "" },
            gap: self.gap,
            open: None,
            records: &[],
        };
        for &(chunk, _, from, to) in &self.chunks {
            // SAFETY: the chunk is kept, and so many records were published.
            unsafe {
                piece.open = (from == 0).then(|| Chunk::open(chunk));
                piece.records = Chunk::records(chunk, from, to);
            }
            teller.piece(&piece);
            (piece.gap, piece.name) = (false, "");
        }
        if self.chunks.is_empty() && renamed {
            teller.piece(&piece);
        }
    }
}

impl Anchors {
    /// Those after these ticks, as a journal keeps them.
    fn numbers(&self, after: u64) -> (bool, Vec<[u64; 3]>) {
        let converter = self.converter();
        let number = |anchor: &Anchor| [anchor.ticks, anchor.ns as u64, anchor.uncertainty];
        let new = converter.anchors.iter().filter(|anchor| anchor.ticks > after);
        (converter.counter, new.map(number).collect())
    }
}
