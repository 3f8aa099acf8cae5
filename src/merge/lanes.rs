//! The pids and tids of one input, moved to where no other process or lane is.
//!
//! An input owns a block of pids. Ordinary ones are shifted into it; those that cannot be (text, negative, past the
//! block's end, and 0 where nothing is added, since readers treat process 0 as the idle task) get numbers from the
//! block's top, in the order in which the document names them. Lane 0 is moved because Perfetto takes it for the
//! process's main thread, and with it lanes outside 32 bits, which Perfetto takes for lane 0.

use std::collections::{BTreeMap, HashMap};

use super::ids;
use super::order::Ticket;
use super::pyint::python_int;
use crate::error::{Error, Result};
use crate::read::json;
use crate::sync::{Mutex, lock};

/// Pids end here: readers hold them in 32 bits.
const PIDS: u64 = 1 << 32;
/// The size of a block, as in the reference, if all fit.
const BLOCK: u64 = 10_000_000;
/// The smallest that is of use.
const MIN_BLOCK: u64 = 4;
/// No operating system that traces come from gives larger thread ids.
const SYSTEM_TIDS: u64 = 4_200_000;
/// Lane 0 of processes below [`SYSTEM_TIDS`] moves to here plus the pid.
const ZERO_TIDS: u64 = 4_290_000_000;
/// Lanes that fit nowhere get numbers from the top down to here.
const ODD_TIDS: u64 = ZERO_TIDS + SYSTEM_TIDS;

/// The block of pids of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Added to ordinary pids.
    pub(super) base: u64,
    pub(super) size: u64,
}

impl Block {
    /// Where pids stay as they are.
    pub(super) const NONE: Self = Self { base: 0, size: 0 };

    /// Whether it is one that [`blocks`] may give.
    pub(super) fn is_possible(self) -> bool {
        (MIN_BLOCK..=PIDS).contains(&self.size) && self.base <= PIDS - self.size
    }

    /// Pids at the top of the block that are given to odd ones.
    fn slots(self) -> u64 {
        (self.size / 4).clamp(1, 65_536)
    }

    /// Ordinary pids that it has room for; none in [`Block::NONE`].
    fn ordinary(self) -> u64 {
        self.size.saturating_sub(self.slots())
    }
}

/// Gives each input a block: the reference's if the ranks allow it, else equal parts.
pub(super) fn blocks(ranks: &[i64]) -> Result<Vec<Block>> {
    let mut used = std::collections::HashSet::new();
    let mut numbers: Vec<Option<u64>> = ranks
        .iter()
        .map(|&rank| u64::try_from(rank).ok().filter(|&rank| rank < PIDS / BLOCK && used.insert(rank)))
        .collect();
    // Inputs whose rank is taken or unusable come after the others.
    let mut next = used.iter().max().map_or(0, |&most| most + 1);
    for number in &mut numbers {
        if number.is_none() {
            *number = Some(next);
            next += 1;
        }
    }
    if next <= PIDS / BLOCK {
        return Ok(numbers.iter().flatten().map(|number| Block { base: number * BLOCK, size: BLOCK }).collect());
    }
    let size = PIDS / ranks.len() as u64;
    if size < MIN_BLOCK {
        return Err(Error::invalid(format!("{} inputs are too many to keep their processes apart", ranks.len())));
    }
    Ok((0..ranks.len() as u64).map(|number| Block { base: number * size, size }).collect())
}

/// What is known of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    /// The text that stood for the pid.
    pub(super) text: Option<String>,
    /// A `process_name` event was seen.
    pub(super) named: bool,
    /// A `process_sort_index` event was seen.
    pub(super) sorted: bool,
    /// Events of a GPU were seen.
    pub(super) gpu: bool,
}

/// The pids and tids of one input.
#[derive(Debug)]
pub(super) struct Lanes {
    block: Block,
    /// Where the pids begin in the input.
    old: u64,
    /// A merge of ours has moved lane 0 already.
    merged: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pids: HashMap<String, u64>,
    tids: HashMap<(u64, String), u64>,
    /// Odd lanes given out, a process each.
    given: HashMap<u64, u64>,
    processes: BTreeMap<u64, Process>,
}

impl Lanes {
    /// `old`: where the pids begin in the input; `merged`: they were moved there by a merge of ours.
    pub(super) fn new(block: Block, old: u64, merged: bool) -> Self {
        Self { block, old, merged, state: Mutex::new(State::default()) }
    }

    /// The new pid of an ordinary one.
    #[inline(always)]
    pub(super) fn plain_pid(&self, raw: &[u8]) -> Option<u64> {
        let pid = ids::small(raw)?.checked_sub(self.old)?;
        (pid < self.block.ordinary() && (pid | self.block.base) != 0).then_some(self.block.base + pid)
    }

    /// The new pid of any; `None` if the value stands for no process (null, a list, an object).
    #[cold]
    pub(super) fn odd_pid(&self, raw: &[u8], ticket: &Ticket) -> Result<Option<u64>> {
        let int = python_int(raw);
        let (key, text) = match (&int, raw.first()) {
            (Some(int), _) => {
                let key = int.plus(0);
                // As numbers are written in more than one way.
                if let Some(pid) = self.plain_pid(key.as_bytes()) {
                    return Ok(Some(pid));
                }
                (key, None)
            }
            (None, Some(b'"')) => {
                let text = json::decode(raw);
                (format!("\"{text}"), Some(text))
            }
            (None, Some(b'-' | b'0'..=b'9')) => (String::from_utf8_lossy(raw).into_owned(), None),
            _ => return Ok(None),
        };
        if let Some(&pid) = lock(&self.state).pids.get(&key) {
            return Ok(Some(pid));
        }
        ticket.wait()?;
        let mut state = lock(&self.state);
        let count = state.pids.len() as u64;
        if count >= self.block.slots() {
            return Err(Error::invalid(format!(
                "more than {} processes of one input have a pid that is text, negative or too large",
                self.block.slots()
            )));
        }
        let pid = *state.pids.entry(key).or_insert(self.block.base + self.block.size - 1 - count);
        if text.is_some() {
            state.processes.entry(pid).or_default().text = text;
        }
        Ok(Some(pid))
    }

    /// The new tid of a lane of process `pid` (a new pid), or `None` if it stays. `old`: the pid as it is written.
    #[inline(always)]
    pub(super) fn tid(&self, raw: &[u8], old: &[u8], pid: u64, ticket: &Ticket) -> Result<Option<u64>> {
        if self.merged
            && let (Some(tid), Some(old)) = (ids::small(raw), ids::small(old))
            && (tid == zero_tid(old) || tid == 0)
        {
            // That merge left 0 only where it named and sorted a process, which is no lane.
            return Ok((old != pid && tid != 0).then_some(zero_tid(pid)));
        }
        match ids::small(raw) {
            Some(tid) if tid != 0 && tid < ODD_TIDS && tid != zero_tid(pid) => Ok(None),
            Some(0) => Ok(Some(zero_tid(pid))),
            _ => self.odd_tid(raw, pid, ticket),
        }
    }

    #[cold]
    fn odd_tid(&self, raw: &[u8], pid: u64, ticket: &Ticket) -> Result<Option<u64>> {
        if !matches!(raw.first(), Some(b'-' | b'0'..=b'9')) {
            return Ok(None);
        }
        let Some(int) = python_int(raw) else { return Ok(None) };
        match int.small() {
            Some(0) => return Ok(Some(zero_tid(pid))),
            Some(tid) if tid > 0 && tid < i128::from(ODD_TIDS) && tid != i128::from(zero_tid(pid)) => return Ok(None),
            _ => {}
        }
        let key = (pid, int.plus(0));
        if let Some(&tid) = lock(&self.state).tids.get(&key) {
            return Ok(Some(tid));
        }
        ticket.wait()?;
        let mut state = lock(&self.state);
        if let Some(&tid) = state.tids.get(&key) {
            return Ok(Some(tid));
        }
        // A bound on memory that no real process comes near: the rest share the last lane.
        let last = PIDS - 1 - ODD_TIDS;
        let room = state.tids.len() < MAX_ODD_TIDS;
        let given = state.given.entry(pid).or_default();
        let tid = PIDS - 1 - (*given).min(last);
        if room {
            *given += 1;
            state.tids.insert(key, tid);
        }
        Ok(Some(tid))
    }

    /// Adds what a job learned of a process.
    pub(super) fn learn(&self, pid: u64, seen: &Process) {
        let mut state = lock(&self.state);
        if state.processes.len() >= MAX_PROCESSES && !state.processes.contains_key(&pid) {
            return;
        }
        let known = state.processes.entry(pid).or_default();
        known.named |= seen.named;
        known.sorted |= seen.sorted;
        known.gpu |= seen.gpu;
    }

    /// The first process that was met of those whose pid was a number.
    pub(super) fn first_process(&self) -> Option<u64> {
        let state = lock(&self.state);
        state.processes.iter().find(|(_, process)| process.text.is_none()).map(|(&pid, _)| pid)
    }

    /// All processes by their new pid, with the old pid where it was ordinary.
    pub(super) fn processes(&self) -> BTreeMap<u64, Process> {
        lock(&self.state).processes.clone()
    }

    /// The old pid of an ordinary process.
    pub(super) fn old_pid(&self, pid: u64) -> u64 {
        pid - self.block.base
    }
}

/// Processes of one input that are named and sorted, which bounds memory; no system has as many.
pub(super) const MAX_PROCESSES: usize = 1 << 17;

/// Odd lanes remembered for one input.
const MAX_ODD_TIDS: usize = 65_536;

/// Where lane 0 of a process goes: the number that Perfetto would give it, if no thread can have that.
#[inline(always)]
fn zero_tid(pid: u64) -> u64 {
    if pid >= SYSTEM_TIDS { pid } else { ZERO_TIDS + pid }
}

/// Sort indices of one rank.
const SORT_RANGE: i64 = 1 << 20;

/// The sort index of a process: rank by rank, and within a rank in the order of the old index. Kineto gives CPU
/// processes their pid, GPU k 5,000,000 + k, and spans 2^29; the reference gives its GPU k 6,000,000 + k.
pub(super) fn sort_index(position: usize, count: usize, old: i128) -> i64 {
    let within = match old {
        ..0 => 0,
        0..5_000_000 => 1 + (old >> 4) as i64,
        5_000_000..5_065_536 => 320_000 + (old - 5_000_000) as i64,
        5_065_536..6_000_000 => 390_000,
        6_000_000..6_065_536 => 400_000 + (old - 6_000_000) as i64,
        6_065_536..2_147_483_648 => 500_000 + (old >> 13) as i64,
        _ => 800_000,
    };
    // Readers hold it in 32 bits: many ranks get narrower ranges.
    let range = sort_range(count);
    position as i64 * range + within * range / SORT_RANGE
}

/// How many sort indices each of so many ranks has.
pub(super) fn sort_range(count: usize) -> i64 {
    SORT_RANGE.min((1 << 31) / count.max(1) as i64)
}

/// The sort index of a process that a merge has sorted before, when each rank had `range` indices.
pub(super) fn sort_again(position: usize, count: usize, old: i128, range: i64) -> i64 {
    let range = i128::from(range.max(1));
    let new = i128::from(sort_range(count));
    // Within the new range, so that it fits.
    (position as i128 * new + old.rem_euclid(range) * new / range) as i64
}

/// The old index of a process that has none.
pub(super) fn default_sort(gpu: bool, old_pid: u64, text: bool) -> i128 {
    match (text, gpu) {
        (true, _) => 536_870_912,
        (_, true) => 5_000_000 + i128::from(old_pid.min(65_535)),
        (_, false) => i128::from(old_pid.min(4_999_999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::order::Order;

    #[test]
    fn blocks_follow_the_ranks_where_they_can() {
        let bases = |ranks: &[i64]| blocks(ranks).unwrap().iter().map(|b| b.base).collect::<Vec<_>>();
        assert_eq!(bases(&[0, 1, 2]), [0, 10_000_000, 20_000_000]);
        assert_eq!(bases(&[3, 1]), [30_000_000, 10_000_000]);
        assert_eq!(bases(&[1, 1, -5]), [10_000_000, 20_000_000, 30_000_000]);
        assert_eq!(bases(&[428]), [4_280_000_000]);
        assert_eq!(bases(&[429]), [0]);
        for count in [1, 2, 429, 430, 1024, 100_000] {
            let blocks = blocks(&(0..count).collect::<Vec<_>>()).unwrap();
            for pair in blocks.windows(2) {
                assert!(pair[0].base + pair[0].size <= pair[1].base);
            }
            assert!(blocks.iter().all(|b| b.base + b.size <= PIDS));
        }
    }

    #[test]
    fn odd_pids_and_lanes_find_a_place() {
        let lanes = Lanes::new(Block { base: 0, size: BLOCK }, 0, false);
        let order = Order::new();
        let ticket = order.ticket(0);
        let pid = |raw: &str| match lanes.plain_pid(raw.as_bytes()) {
            Some(pid) => Some(pid),
            None => lanes.odd_pid(raw.as_bytes(), &ticket).unwrap(),
        };
        assert_eq!(pid("7"), Some(7));
        assert_eq!(pid("7.0"), Some(7));
        assert_eq!(pid("\"7\""), Some(7));
        assert_eq!(pid("0"), Some(9_999_999));
        assert_eq!(pid("\"Spans\""), Some(9_999_998));
        assert_eq!(pid("-1"), Some(9_999_997));
        assert_eq!(pid("9999999"), Some(9_999_996));
        assert_eq!(pid("\"\""), Some(9_999_995));
        assert_eq!(pid("\"Spans\""), Some(9_999_998));
        assert_eq!(pid("null"), None);
        let tid = |raw: &str, pid| lanes.tid(raw.as_bytes(), b"", pid, &ticket).unwrap();
        assert_eq!(tid("3", 3), None);
        assert_eq!(tid("0", 3), Some(ZERO_TIDS + 3));
        assert_eq!(tid("0.0", 3), Some(ZERO_TIDS + 3));
        assert_eq!(tid("0", 10_000_000), Some(10_000_000));
        assert_eq!(tid("10000000", 10_000_000), Some(PIDS - 1));
        assert_eq!(tid("140737488355328", 10_000_000), Some(PIDS - 2));
        assert_eq!(tid("-1", 10_000_000), Some(PIDS - 3));
        assert_eq!(tid("140737488355328", 10_000_000), Some(PIDS - 2));
        assert_eq!(tid("\"x\"", 3), None);
        ticket.finish();
    }

    #[test]
    fn sort_indices_keep_ranks_together() {
        let olds =
            [-1, 0, 4037, 4_999_999, 5_000_000, 5_000_003, 6_000_000, 6_000_001, 16_777_226, 536_870_912, i128::MAX];
        for count in [1, 2, 1024, 2048] {
            let mut last = -1;
            for position in 0..2.min(count) {
                for old in olds {
                    let new = sort_index(position, count, old);
                    assert!(new >= last, "{position} of {count}: {old}");
                    last = new;
                }
            }
            assert!(sort_index(count - 1, count, i128::MAX) < 1 << 31);
        }
        assert!(sort_index(0, 8, 5_000_003) > sort_index(0, 8, 5_000_002));
    }
}
