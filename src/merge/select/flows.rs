//! Flows stay or go whole: each of their ends is bound to its slice, as viewers do, and a flow stays if all these stay.
//!
//! Ends are held in memory, so many at a time: those whose flow's fingerprint lies in a range, which shrinks when there
//! are too many. What is beyond it comes in a later pass; each takes half as many as can be held, or all of one flow.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::mark::Marks;
use super::rules::Rules;

/// What kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Start,
    Step,
    /// Binds to the slice around it.
    Finish,
    /// Binds to the next slice of its lane.
    FinishNext,
    /// A slice that names the flow itself, by `bind_id`.
    Slice,
}

/// One end of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Fingerprint of category, name and id, which tell flows apart.
    pub(super) flow: u64,
    pub(super) lane: u64,
    pub(super) ts: Option<i64>,
    pub(super) ordinal: u64,
    pub(super) bytes: u32,
    pub(super) end: End,
}

/// The ends of one pass.
#[derive(Debug)]
pub(super) struct Points {
    list: Vec<Point>,
    low: u64,
    high: u64,
    /// Some ends were left for a later pass.
    beyond: bool,
    most: usize,
    /// The list is filled by one flow, which has more ends.
    overfull: bool,
    /// Of these, the events.
    dropped: u64,
}

impl Points {
    /// `most`: how many are held in memory.
    pub(super) fn new(most: usize) -> Self {
        Self { list: Vec::new(), low: 0, high: u64::MAX, beyond: false, most, overfull: false, dropped: 0 }
    }

    /// Those of the next pass, if there are any.
    pub(super) fn next(self) -> Option<Self> {
        let mut list = self.list;
        list.clear();
        self.beyond.then(|| Self {
            list,
            low: self.high + 1,
            high: u64::MAX,
            beyond: false,
            most: self.most,
            overfull: false,
            dropped: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn add(&mut self, point: Point) {
        if point.flow < self.low {
            return;
        }
        if point.flow > self.high {
            self.beyond = true;
            return;
        }
        if self.list.len() < self.most {
            self.list.push(point);
            return;
        }
        self.list.sort_unstable_by_key(|point| point.flow);
        let (first, middle, last) = (self.list[0].flow, self.list[self.most / 2].flow, self.list[self.most - 1].flow);
        if first == last && first == point.flow {
            // It draws no picture, and is left out.
            self.overfull = true;
            self.dropped += u64::from(point.end != End::Slice);
            return;
        }
        self.beyond = true;
        if first == last && point.flow < first {
            self.high = point.flow;
            self.overfull = false;
            self.dropped = 0;
            self.list.clear();
            self.list.push(point);
            return;
        }
        let below = self.list.partition_point(|held| held.flow < middle);
        self.high = if below > 0 { self.list[below - 1].flow } else { middle };
        let within = self.list.partition_point(|held| held.flow <= self.high);
        self.list.truncate(within);
        self.add(point);
    }

    /// Ready to be bound.
    pub(super) fn bind(self) -> Binding {
        let mut points = self;
        points.list.sort_unstable_by_key(|point| (point.lane, point.ts));
        let mut lanes: HashMap<u64, (usize, usize), FixedState> = HashMap::default();
        for (index, point) in points.list.iter().enumerate() {
            lanes.entry(point.lane).or_insert((index, index)).1 = index + 1;
        }
        let size = points.list.len();
        let next = points.list.iter().any(|point| point.end == End::FinishNext);
        Binding {
            around: vec![Bound::NONE; 2 * size],
            next: vec![Bound::NONE; if next { 2 * size } else { 0 }],
            points,
            lanes,
        }
    }
}

/// The best slice known for a range of ends.
#[derive(Debug, Clone, Copy)]
struct Bound {
    start: i64,
    /// Twice the duration, and 1 if the slice stays. All ones: none is known.
    code: u64,
}

impl Bound {
    const NONE: Self = Self { start: 0, code: u64::MAX };

    fn duration(self) -> u64 {
        self.code >> 1
    }

    /// The innermost slice: it starts last, or is shorter.
    fn inner(self, other: Self) -> Self {
        let better = other.code != u64::MAX
            && (self.code == u64::MAX || (other.start, self.duration()) > (self.start, other.duration()));
        if better { other } else { self }
    }

    /// The next slice: it starts first, or is longer.
    fn sooner(self, other: Self) -> Self {
        let better = other.code != u64::MAX
            && (self.code == u64::MAX || (self.start, other.duration()) > (other.start, self.duration()));
        if better { other } else { self }
    }
}

/// Ends being bound to slices that come in any order: two trees over the ends, sorted by lane and time, in whose nodes
/// stands the best slice for all below.
#[derive(Debug)]
pub(super) struct Binding {
    points: Points,
    lanes: HashMap<u64, (usize, usize), FixedState>,
    around: Vec<Bound>,
    next: Vec<Bound>,
}

fn update(tree: &mut [Bound], from: usize, to: usize, bound: Bound, best: fn(Bound, Bound) -> Bound) {
    let size = tree.len() / 2;
    let (mut from, mut to) = (from + size, to + size);
    while from < to {
        if from & 1 == 1 {
            tree[from] = best(tree[from], bound);
            from += 1;
        }
        if to & 1 == 1 {
            to -= 1;
            tree[to] = best(tree[to], bound);
        }
        from /= 2;
        to /= 2;
    }
}

fn look_up(tree: &[Bound], index: usize, best: fn(Bound, Bound) -> Bound) -> Option<Bound> {
    let mut at = index + tree.len() / 2;
    let mut found = Bound::NONE;
    while at > 0 {
        found = best(found, tree[at]);
        at /= 2;
    }
    (found.code != u64::MAX).then_some(found)
}

/// What an end hangs on.
enum Hold {
    /// A slice that goes, or a time outside the window.
    Cut,
    /// A slice that stays, of this duration.
    Slice(i64),
    /// No slice.
    Free,
}

impl Binding {
    /// Whether ends of this lane are looked for.
    pub(super) fn has_lane(&self, lane: u64) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// A slice of a lane.
    pub(super) fn slice(&mut self, lane: u64, start: i64, duration: i64, kept: bool) {
        let Some(&(from, to)) = self.lanes.get(&lane) else { return };
        let ends = &self.points.list[from..to];
        let first = from + ends.partition_point(|point| point.ts < Some(start));
        let after = from + ends.partition_point(|point| point.ts <= Some(start.saturating_add(duration)));
        let bound = Bound { start, code: (duration as u64) << 1 | u64::from(kept) };
        update(&mut self.around, first, after, bound, Bound::inner);
        if !self.next.is_empty() {
            let begun = from + ends.partition_point(|point| point.ts <= Some(start));
            update(&mut self.next, from, begun, bound, Bound::sooner);
        }
    }

    /// Decides on the flows. `flow` is told the shortest duration of the slices of one that stays, and its bytes.
    pub(super) fn finish(
        self,
        rules: &Rules,
        marks: &mut Marks,
        mut flow: impl FnMut(Option<i64>, u64),
    ) -> Option<Points> {
        let list = &self.points.list;
        let mut order: Vec<u32> = (0..list.len() as u32).collect();
        order.sort_unstable_by_key(|&index| {
            let point = &list[index as usize];
            (point.flow, point.ts, point.end, point.ordinal)
        });
        let starts = |a: &u32, b: &u32| {
            let (a, b) = (&list[*a as usize], &list[*b as usize]);
            // An id that starts again is another flow.
            a.flow == b.flow && b.end != End::Start
        };
        for chain in order.chunk_by(starts) {
            let holds = chain.iter().map(|&index| self.hold(index as usize, rules, marks));
            let mut shortest = None;
            let mut stays = !self.points.overfull;
            for hold in holds {
                match hold {
                    Hold::Cut => stays = false,
                    Hold::Slice(duration) => shortest = Some(shortest.map_or(duration, |s: i64| s.min(duration))),
                    Hold::Free => {}
                }
            }
            stays &= rules.floor.is_none_or(|floor| floor.keeps_flow(shortest));
            let mut bytes = 0;
            for point in chain.iter().map(|&index| &list[index as usize]) {
                match (point.end, stays) {
                    (End::Slice, true) => {}
                    (End::Slice, false) => marks.unbind(point.ordinal),
                    (_, true) => {
                        marks.keep(point.ordinal);
                        bytes += u64::from(point.bytes);
                    }
                    (_, false) => marks.cut.flow += 1,
                }
            }
            if stays {
                flow(shortest, bytes);
            }
        }
        marks.cut.flow += self.points.dropped;
        self.points.next()
    }

    fn hold(&self, index: usize, rules: &Rules, marks: &Marks) -> Hold {
        let point = &self.points.list[index];
        let bound = match point.end {
            End::Slice if marks.kept(point.ordinal) => return Hold::Slice(i64::MAX),
            End::Slice => return Hold::Cut,
            End::FinishNext => look_up(&self.next, index, Bound::sooner),
            _ => look_up(&self.around, index, Bound::inner),
        };
        match bound {
            Some(bound) if bound.code & 1 == 1 => Hold::Slice(bound.duration() as i64),
            Some(_) => Hold::Cut,
            None if rules.in_window(point.ts, point.ts) => Hold::Free,
            None => Hold::Cut,
        }
    }
}
