//! Slices of one lane that overlap without nesting. A viewer draws one lane as a stack, so it would lose such a slice:
//! it moves to an extra lane.

use std::collections::HashMap;

use super::lanes::Lane;
use crate::model::log::View;
use crate::model::record::{GpuRecord, OpRecord};
use crate::model::span::MIN_DURATION_NS;

/// A stored slice.
pub(super) trait Slice {
    fn start(&self) -> i64;
    fn end(&self) -> i64;
    /// The lane's number among those of its section.
    fn lane(&self) -> u32;

    /// The end as it is drawn.
    fn drawn_end(&self) -> i64 {
        self.end().max(self.start().saturating_add(MIN_DURATION_NS))
    }
}

impl Slice for OpRecord {
    fn start(&self) -> i64 {
        self.start
    }
    fn end(&self) -> i64 {
        self.end
    }
    fn lane(&self) -> u32 {
        self.thread
    }
}

impl Slice for GpuRecord {
    fn start(&self) -> i64 {
        self.start
    }
    fn end(&self) -> i64 {
        self.end
    }
    fn lane(&self) -> u32 {
        self.lane
    }
}

/// The most extra lanes that one lane gets: more than a person can read, few enough to search.
const MAX_EXTRA: usize = 255;

/// A slice that is not drawn in its own lane.
#[derive(Debug, Clone, Copy)]
struct Move {
    index: u32,
    /// Index into the extra lanes.
    extra: u32,
}

/// The slices of one section that have to be moved.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// By index.
    moves: Vec<Move>,
    /// The extra lanes: (lane, level) and, once known, where they are drawn.
    extras: Vec<((u32, u32), Lane)>,
    /// Slices that overlap still, since their lane has all the extra lanes that it can get.
    pub(super) left: u64,
    /// Which those are.
    left_at: Vec<u32>,
}

impl Moves {
    /// Looks for overlaps among the slices of each lane. `lanes` is the number of lanes.
    ///
    /// Lanes whose slices come in drawing order, parents first, cost one pass and no memory; of the others, four
    /// bytes a slice for as long as this runs.
    pub(super) fn find<T: Slice>(slices: &View<T>, lanes: usize) -> Self {
        let mut found = Self::default();
        disordered(slices, lanes).into_iter().for_each(|lane| found.sort_out(slices, lane));
        found.in_order()
    }

    /// As [`Moves::find`], for GPU activities of which some lanes are also ops' (`shared`: the ops' lane and the calls').
    /// There the calls move that cross an op.
    ///
    /// The two are timed by different clocks, which may disagree by some nanoseconds: ops stay where they are.
    pub(super) fn find_beside(
        calls: &View<GpuRecord>,
        lanes: usize,
        ops: &View<OpRecord>,
        op_moves: &Moves,
        shared: &[(u32, u32)],
    ) -> Self {
        if shared.is_empty() {
            return Self::find(calls, lanes);
        }
        let mut found = Self::default();
        let members = |number: &dyn Fn(&(u32, u32)) -> u32| -> HashMap<u32, Vec<u32>> {
            shared.iter().map(|pair| (number(pair), Vec::new())).collect()
        };
        let (mut of_thread, mut of_lane) = (members(&|pair| pair.0), members(&|pair| pair.1));
        for (index, op) in ops.iter().filter(|(index, _)| op_moves.extra_of(*index).is_none()) {
            of_thread.entry(op.thread).and_modify(|list| list.push(index as u32));
        }
        for (index, call) in calls.iter() {
            of_lane.entry(call.lane).and_modify(|list| list.push(index as u32));
        }
        let alone = disordered(calls, lanes).into_iter().filter(|lane| !of_lane.contains_key(lane));
        alone.for_each(|lane| found.sort_out(calls, lane));
        for &(thread, lane) in shared {
            let ops = of_thread[&thread].iter().filter_map(|&index| ops.get(index as usize));
            let mut all: Vec<(i64, i64, Option<u32>)> = ops.map(|op| (op.start, op.drawn_end(), None)).collect();
            let calls_here = of_lane[&lane].iter().filter_map(|&index| Some((index, calls.get(index as usize)?)));
            all.extend(calls_here.map(|(index, call)| (call.start, call.drawn_end(), Some(index))));
            // Of slices alike the op is the outer one.
            all.sort_unstable_by_key(|&(start, end, call)| (start, std::cmp::Reverse(end), call));
            let mut open: Vec<(i64, Option<u32>)> = Vec::new();
            let mut crossing: Vec<u32> = Vec::new();
            for (start, end, call) in all {
                while open.last().is_some_and(|&(until, _)| until <= start) {
                    open.pop();
                }
                match call {
                    None => open.retain(|&(until, call)| {
                        let crosses = until < end && until > start;
                        crossing.extend(call.filter(|_| crosses));
                        call.is_none() || !crosses
                    }),
                    Some(call) if open.iter().any(|&(until, _)| until < end && until > start) => {
                        crossing.push(call);
                        continue;
                    }
                    Some(_) => {}
                }
                open.push((end, call));
            }
            found.place(calls, lane, crossing, 1);
        }
        found.in_order()
    }

    fn in_order(mut self) -> Self {
        self.moves.sort_unstable_by_key(|m| m.index);
        self.left_at.sort_unstable();
        self
    }

    fn sort_out<T: Slice>(&mut self, slices: &View<T>, lane: u32) {
        let order = slices.iter().filter(|(_, slice)| slice.lane() == lane).map(|(index, _)| index as u32).collect();
        self.place(slices, lane, order, 0);
    }

    /// Finds a place for each slice of a lane: at `first`, where 0 is the lane itself, or further out.
    fn place<T: Slice>(&mut self, slices: &View<T>, lane: u32, mut order: Vec<u32>, first: usize) {
        let at = |index: u32| slices.get(index as usize).map_or((0, 0), |slice| (slice.start(), slice.drawn_end()));
        order.sort_unstable_by_key(|&index| {
            let (start, end) = at(index);
            (start, std::cmp::Reverse(end), index)
        });
        // One stack of open ends for the lane itself and for each of its extra lanes.
        let mut stacks: Vec<Vec<i64>> = vec![Vec::new()];
        for index in order {
            let (start, end) = at(index);
            let level = stacks.iter_mut().position(|stack| {
                while stack.last().is_some_and(|&open| open <= start) {
                    stack.pop();
                }
                stack.last().is_none_or(|&open| end <= open)
            });
            let level = level.unwrap_or_else(|| {
                if stacks.len() + first <= MAX_EXTRA {
                    stacks.push(Vec::new());
                } else {
                    self.left += 1;
                    self.left_at.push(index);
                }
                stacks.len() - 1
            });
            stacks[level].push(end);
            let level = level + first;
            if level > 0 {
                let extra = self.extra(lane, level as u32);
                self.moves.push(Move { index, extra });
            }
        }
    }

    fn extra(&mut self, lane: u32, level: u32) -> u32 {
        // Levels of the lane at hand are at the end.
        let known = self.extras.iter().rposition(|&(key, _)| key == (lane, level));
        let index = known.unwrap_or_else(|| {
            self.extras.push(((lane, level), Lane::default()));
            self.extras.len() - 1
        });
        index as u32
    }

    /// How many extra lanes each lane needs.
    pub(super) fn levels(&self) -> Vec<(u32, u32)> {
        let mut levels: HashMap<u32, u32> = HashMap::new();
        for &((lane, level), _) in &self.extras {
            let most = levels.entry(lane).or_default();
            *most = level.max(*most);
        }
        let mut levels: Vec<_> = levels.into_iter().collect();
        levels.sort_unstable();
        levels
    }

    pub(super) fn set_lane(&mut self, lane: u32, level: u32, drawn: Lane) {
        for extra in &mut self.extras {
            if extra.0 == (lane, level) {
                extra.1 = drawn;
            }
        }
    }

    /// The extra lane of slice `index`.
    fn extra_of(&self, index: usize) -> Option<u32> {
        let at = self.moves.binary_search_by_key(&(index as u32), |one| one.index).ok()?;
        Some(self.moves[at].extra)
    }

    /// Where slice `index` is drawn if not in its own lane.
    #[inline]
    pub(super) fn lane(&self, index: u32) -> Option<Lane> {
        if self.moves.is_empty() {
            return None;
        }
        let at = self.moves.binary_search_by_key(&index, |m| m.index).ok()?;
        Some(self.extras[self.moves[at].extra as usize].1)
    }

    /// Whether slice `index` overlaps still.
    #[inline]
    pub(super) fn is_left(&self, index: u32) -> bool {
        !self.left_at.is_empty() && self.left_at.binary_search(&index).is_ok()
    }

    /// The extra lanes, each with the number of the lane that it stands beside.
    pub(super) fn extra_lanes(&self) -> impl Iterator<Item = (u32, Lane)> {
        self.extras.iter().map(|&((lane, _), drawn)| (lane, drawn))
    }

    /// How many slices are drawn in an extra lane.
    pub(super) fn moved(&self) -> u64 {
        self.moves.len() as u64
    }
}

/// The lanes whose slices, as they come, are not a proper nesting in drawing order.
fn disordered<T: Slice>(slices: &View<T>, lanes: usize) -> Vec<u32> {
    struct State {
        last_start: i64,
        open: Vec<i64>,
        broken: bool,
    }
    let mut states: Vec<State> =
        (0..lanes).map(|_| State { last_start: i64::MIN, open: Vec::new(), broken: false }).collect();
    for (_, slice) in slices.iter() {
        let Some(state) = states.get_mut(slice.lane() as usize).filter(|state| !state.broken) else { continue };
        let (start, end) = (slice.start(), slice.drawn_end());
        while state.open.last().is_some_and(|&open| open <= start) {
            state.open.pop();
        }
        if start < state.last_start || state.open.last().is_some_and(|&open| end > open) {
            state.broken = true;
            state.open = Vec::new();
        } else {
            state.last_start = start;
            state.open.push(end);
        }
    }
    (0..).zip(&states).filter(|(_, state)| state.broken).map(|(lane, _)| lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::log::Log;

    #[derive(Debug, Clone, Copy)]
    struct Plain(i64, i64);

    impl Slice for Plain {
        fn start(&self) -> i64 {
            self.0
        }
        fn end(&self) -> i64 {
            self.1
        }
        fn lane(&self) -> u32 {
            0
        }
    }

    fn find(slices: &[(i64, i64)]) -> Vec<(u32, u32)> {
        let mut log = Log::default();
        slices.iter().for_each(|&(start, end)| log.push(Plain(start, end)));
        let mut moves = Moves::find(&log.view(), 1);
        for (lane, levels) in moves.levels() {
            (1..=levels).for_each(|level| moves.set_lane(lane, level, Lane { pid: 0, tid: level, number: level }));
        }
        let moved: Vec<_> = (0..slices.len() as u32).filter_map(|i| moves.lane(i).map(|lane| (i, lane.tid))).collect();
        assert_eq!(moves.moved(), moved.len() as u64);
        moved
    }

    #[test]
    fn nested_slices_stay() {
        assert_eq!(find(&[(0, 10), (1, 5), (1, 4), (5, 9), (10, 20), (10, 10)]), []);
        // Children before their parent, as a recorder that notes ends writes them.
        assert_eq!(find(&[(1, 4), (1, 5), (5, 9), (0, 10)]), []);
        assert_eq!(find(&[]), []);
    }

    #[test]
    fn crossing_slices_move() {
        assert_eq!(find(&[(0, 10), (5, 15)]), [(1, 1)]);
        assert_eq!(find(&[(5, 15), (0, 10)]), [(0, 1)]);
        assert_eq!(find(&[(0, 10), (5, 15), (8, 20), (16, 18)]), [(1, 1), (2, 2)]);
        // What has no length is drawn with 1 ns.
        assert_eq!(find(&[(0, 10), (9, 9), (10, 3)]), []);
    }

    /// Ops and calls of one lane; which calls move.
    fn shared(ops: &[(i64, i64)], calls: &[(i64, i64)]) -> Vec<(u32, u32)> {
        let mut store = crate::model::store::Store::new(crate::model::span::Span::new(0));
        for &(start_ns, end_ns) in ops {
            let op = crate::Op { start_ns, end_ns, ..crate::Op::default() };
            store.add_op(&op).expect("added");
        }
        for &(start_ns, end_ns) in calls {
            let kind = crate::GpuKind::Runtime;
            let call = crate::GpuActivity { start_ns, end_ns, kind, ..crate::GpuActivity::default() };
            store.add_gpu(&call).expect("added");
        }
        let snapshot = store.snapshot();
        let op_moves = Moves::find(&snapshot.ops, 1);
        let mut moves = Moves::find_beside(&snapshot.gpu, 1, &snapshot.ops, &op_moves, &[(0, 0)]);
        for (lane, levels) in moves.levels() {
            (1..=levels).for_each(|level| moves.set_lane(lane, level, Lane { pid: 0, tid: level, number: level }));
        }
        (0..calls.len() as u32).filter_map(|i| moves.lane(i).map(|lane| (i, lane.tid))).collect()
    }

    #[test]
    fn calls_make_way_for_ops() {
        assert_eq!(shared(&[(0, 10), (2, 8)], &[(2, 8), (3, 4), (9, 10), (20, 30)]), []);
        // A call that begins before its op, or ends after it.
        assert_eq!(shared(&[(10, 20), (12, 14)], &[(9, 11), (13, 15), (15, 21), (16, 17)]), [(0, 1), (1, 1), (2, 1)]);
        // Calls that cross one another.
        assert_eq!(shared(&[(0, 100)], &[(10, 20), (15, 25), (18, 30)]), [(1, 1), (2, 2)]);
        // Ops that cross one another: the second is elsewhere, and stands against nothing here.
        assert_eq!(shared(&[(0, 10), (5, 15)], &[(8, 9), (11, 16)]), []);
    }

    #[test]
    fn a_lane_gets_only_so_many_extra_lanes() {
        let stairs: Vec<_> = (0..400).map(|i| (i, 1000 + i)).collect();
        let mut log = Log::default();
        stairs.iter().for_each(|&(start, end)| log.push(Plain(start, end)));
        let moves = Moves::find(&log.view(), 1);
        assert_eq!(moves.levels(), [(0, MAX_EXTRA as u32)]);
        assert_eq!(moves.left, 400 - 1 - MAX_EXTRA as u64);
    }
}
