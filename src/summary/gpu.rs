//! GPU work in the order of time: what runs at once, and where nothing does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::kinds::Work;
use super::report::GpuTime;
use crate::error::Result;
use crate::read::nest::{Merged, word_time};

/// A step of a rank, as a window in which GPU work is counted. Windows of a rank do not overlap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Its place in the summary.
    pub(super) place: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) gpu: GpuTime,
}

/// A time without work, ordered by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub(super) length: i64,
    /// The earlier one is the greater one.
    pub(super) start: Reverse<i64>,
    /// A stream, or for all streams of a rank any of them.
    pub(super) stream: u32,
    pub(super) after: u32,
    pub(super) before: u32,
}

/// The longest gaps.
#[derive(Debug)]
struct Longest {
    most: usize,
    heap: BinaryHeap<Reverse<Gap>>,
}

impl Longest {
    fn add(&mut self, gap: Gap) {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(gap));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0 < gap
        {
            *least = Reverse(gap);
        }
    }

    fn list(self) -> Vec<Gap> {
        let mut list: Vec<Gap> = self.heap.into_iter().map(|Reverse(gap)| gap).collect();
        list.sort_unstable_by_key(|&gap| Reverse(gap));
        list
    }
}

/// Some lanes of work as one: until when it is busy, and what ends last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) first: i64,
    pub(super) end: i64,
    last: u32,
    pub(super) busy: i64,
    pub(super) count: u64,
}

impl Line {
    fn new(start: i64) -> Self {
        Self { first: start, end: start, last: 0, busy: 0, count: 0 }
    }

    /// Adds an activity; answers the gap before it, if there is one.
    fn add(&mut self, stream: u32, start: i64, end: i64, name: u32) -> Option<Gap> {
        let (after, was) = (self.last, self.end);
        let new = self.count == 0;
        self.busy += (end - start.max(was)).max(0);
        self.count += 1;
        if end >= self.end || new {
            (self.end, self.last) = (end.max(was), name);
        }
        (!new && start > was).then(|| Gap { length: start - was, start: Reverse(was), stream, after, before: name })
    }
}

/// A rank of a document.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) line: Line,
    pub(super) gpu: GpuTime,
    /// Until when each kind runs: compute, communication, memory, any.
    ends: [i64; 4],
    /// Up to where all is counted.
    at: i64,
    pub(super) windows: Vec<Window>,
    /// The first window that is not over.
    window: usize,
}

/// Adds what runs from `from` to `to`, if each kind runs until its end.
fn count(gpu: &mut GpuTime, ends: &[i64; 4], from: i64, to: i64) {
    let until = |end: i64| (end.min(to) - from).max(0) as u64;
    gpu.compute_ns += until(ends[0]);
    gpu.communication_ns += until(ends[1]);
    gpu.memory_ns += until(ends[2]);
    gpu.busy_ns += until(ends[3]);
    gpu.overlap_ns += until(ends[0].min(ends[1]));
}

impl Rank {
    pub(super) fn new(start: i64, windows: Vec<Window>) -> Self {
        Self { line: Line::new(start), gpu: GpuTime::default(), ends: [i64::MIN / 2; 4], at: start, windows, window: 0 }
    }

    /// Counts up to `to`, from where it was counted before.
    fn advance(&mut self, to: i64) {
        count(&mut self.gpu, &self.ends, self.at, to);
        while let Some(window) = self.windows.get_mut(self.window) {
            if window.start >= to {
                break;
            }
            let from = window.start.max(self.at);
            count(&mut window.gpu, &self.ends, from, window.end.min(to).max(from));
            if window.end > to {
                break;
            }
            self.window += 1;
        }
        self.at = to;
    }

    fn add(&mut self, work: Work, start: i64, end: i64) {
        self.advance(start);
        self.gpu.activities += 1;
        if let Some(window) = self.windows.get_mut(self.window)
            && window.start <= start
        {
            window.gpu.activities += 1;
        }
        let place = match work {
            Work::Compute => 0,
            Work::Communication => 1,
            Work::Memory => 2,
            Work::Other => 3,
        };
        self.ends[place] = self.ends[place].max(end);
        self.ends[3] = self.ends[3].max(end);
    }

    fn finish(&mut self) {
        self.advance(self.ends[3].max(self.at));
        self.gpu.idle_ns = (self.line.end - self.line.first) as u64 - self.gpu.busy_ns;
        for window in &mut self.windows {
            window.gpu.idle_ns = (window.end - window.start) as u64 - window.gpu.busy_ns;
        }
    }
}

/// What was found.
pub(super) struct Found {
    /// By document and rank.
    pub(super) ranks: HashMap<(u32, i64), Rank, FixedState>,
    /// By the number of the stream.
    pub(super) streams: HashMap<u32, Line, FixedState>,
    pub(super) stream_gaps: Vec<Gap>,
    pub(super) rank_gaps: Vec<Gap>,
}

/// Goes over all GPU work. `rank`: the document and rank of a stream; `work`: what the activities of a name do.
pub(super) fn sweep(
    mut records: Merged<4>,
    mut windows: HashMap<(u32, i64), Vec<Window>, FixedState>,
    gaps: usize,
    rank: impl Fn(u32) -> (u32, i64),
    work: impl Fn(u32) -> Work,
) -> Result<Found> {
    let longest = || Longest { most: gaps, heap: BinaryHeap::new() };
    let (mut stream_gaps, mut rank_gaps) = (longest(), longest());
    let mut ranks: HashMap<(u32, i64), Rank, FixedState> = HashMap::default();
    let mut streams: HashMap<u32, Line, FixedState> = HashMap::default();
    let mut of_stream: HashMap<u32, (u32, i64), FixedState> = HashMap::default();
    while let Some([ts, length, stream, rest]) = records.next()? {
        let (start, stream, name) = (word_time(ts), stream as u32, (rest & 0xff_ffff) as u32);
        let end = start.saturating_add(!length as i64);
        let key = *of_stream.entry(stream).or_insert_with(|| rank(stream));
        let line = streams.entry(stream).or_insert_with(|| Line::new(start));
        if let Some(gap) = line.add(stream, start, end, name) {
            stream_gaps.add(gap);
        }
        let rank = ranks.entry(key).or_insert_with(|| Rank::new(start, windows.remove(&key).unwrap_or_default()));
        rank.add(work(name), start, end);
        if let Some(gap) = rank.line.add(stream, start, end, name) {
            rank_gaps.add(gap);
        }
    }
    ranks.values_mut().for_each(Rank::finish);
    // Ranks without GPU work are idle in all their steps.
    for (key, windows) in windows {
        let mut rank = Rank::new(0, windows);
        rank.finish();
        ranks.insert(key, rank);
    }
    Ok(Found { ranks, streams, stream_gaps: stream_gaps.list(), rank_gaps: rank_gaps.list() })
}
