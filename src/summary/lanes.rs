//! The slices of all lanes, nested: what each name takes by itself, and the steps.

use hashbrown::HashMap;

use foldhash::fast::FixedState;

use crate::error::Result;
use crate::read::names::{self, Name};
use crate::read::nest::{At, Merged, Visit, sweep_all};

/// Steps that are kept.
const MAX_STEPS: usize = 1 << 16;

/// The slices of a name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stat {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) own: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Stat {
    pub(super) fn add(&mut self, other: &Stat) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.own = self.own.saturating_add(other.own);
    }
}

/// A step of a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) lane: u32,
    pub(super) number: u64,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The slices of some lanes.
#[derive(Debug, Default)]
pub(super) struct Tally<'n> {
    pub(super) all_names: &'n [Name],
    /// N of the names that are `ProfilerStep#N`.
    pub(super) step_names: &'n [(u32, u64)],
    /// By the number of the name.
    pub(super) names: Vec<Stat>,
    /// Slices of each lane and the time in which one is open.
    pub(super) lanes: HashMap<u32, (u64, u64), FixedState>,
    pub(super) steps: Vec<Step>,
    pub(super) slices: u64,
    pub(super) crossing: u64,
    pub(super) untimed: u64,
}

impl Tally<'_> {
    pub(super) fn add(&mut self, other: Self) {
        if self.names.len() < other.names.len() {
            self.names.resize(other.names.len(), Stat::default());
        }
        self.names.iter_mut().zip(&other.names).for_each(|(mine, theirs)| mine.add(theirs));
        self.lanes.extend(other.lanes);
        self.steps.extend(other.steps);
        self.slices += other.slices;
        self.crossing += other.crossing;
        self.untimed += other.untimed;
    }
}

impl Visit for Tally<'_> {
    fn slice(&mut self, at: &At, duration: i64, own: i64) {
        let name = at.name as usize;
        if self.names.len() <= name {
            self.names.resize((name + 1).max(self.names.len() * 2), Stat::default());
        }
        let (total, own) = (duration as u64, own as u64);
        self.names[name].add(&Stat { count: 1, total, own, least: total, most: total });
        let lane = self.lanes.entry(at.lane).or_default();
        *lane = (lane.0 + 1, lane.1.saturating_add(own));
        self.slices += 1;
        if let Ok(place) = self.step_names.binary_search_by_key(&at.name, |&(name, _)| name)
            && self.steps.len() < MAX_STEPS
        {
            let number = self.step_names[place].1;
            self.steps.push(Step { lane: at.lane, number, start: at.ts, end: at.ts + duration });
        }
    }

    fn crossing(&mut self, _at: &At) -> bool {
        self.crossing += 1;
        true
    }

    fn ends(&self, begin: u32, end: u32) -> bool {
        names::ends(self.all_names, begin, end)
    }

    fn no_begin(&mut self, _at: &At) {
        self.untimed += 1;
    }

    fn no_end(&mut self, _at: &At) {
        self.untimed += 1;
    }
}

/// Goes over all lanes.
pub(super) fn tally<'n>(
    shards: Vec<Merged<4>>,
    all_names: &'n [Name],
    step_names: &'n [(u32, u64)],
) -> Result<Tally<'n>> {
    let start = || Tally { all_names, step_names, ..Tally::default() };
    let mut all = start();
    sweep_all(shards, start, |_, _| {})?.into_iter().for_each(|tally| all.add(tally));
    Ok(all)
}
