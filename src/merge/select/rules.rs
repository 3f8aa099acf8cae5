//! Which events are wanted, judged one by one.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use regex_lite::Regex;

use super::super::options::Selection;
use super::budget::Floor;
use crate::error::{Error, Result};
use crate::read::event::Event;
use crate::read::json;
use crate::read::ranks::Ranks;

/// Names whose verdict is remembered by one pass.
const MAX_MEMO: usize = 1 << 16;

/// Why an event is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Window,
    Category,
    Name,
    Duration,
    Budget,
}

/// Events left out, by reason; a slice that is written as two events counts as two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// Outside the time window.
    pub window: u64,
    /// Of another category.
    pub category: u64,
    /// Of another name.
    pub name: u64,
    /// Shorter than asked for.
    pub duration: u64,
    /// Not among the longest that fit the size.
    pub budget: u64,
    /// Flow events of which one end was left out.
    pub flow: u64,
    /// Of processes of another rank, when a merged document is cut.
    pub rank: u64,
}

impl CutCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.window + self.category + self.name + self.duration + self.budget + self.flow + self.rank
    }

    pub(super) fn add(&mut self, reason: Reason, events: u64) {
        *match reason {
            Reason::Window => &mut self.window,
            Reason::Category => &mut self.category,
            Reason::Name => &mut self.name,
            Reason::Duration => &mut self.duration,
            Reason::Budget => &mut self.budget,
        } += events;
    }

    /// Adds those of another input.
    pub(in crate::merge) fn sum(&mut self, other: &CutCounts) {
        self.window += other.window;
        self.category += other.category;
        self.name += other.name;
        self.duration += other.duration;
        self.budget += other.budget;
        self.flow += other.flow;
        self.rank += other.rank;
    }
}

/// A [`Selection`] ready for use.
#[derive(Debug)]
pub(in crate::merge) struct Rules {
    /// The window in nanoseconds of the merged document.
    pub(super) window: Option<(i64, i64)>,
    categories: Vec<String>,
    names: Vec<Regex>,
    excluded: Vec<Regex>,
    min_duration: i64,
    /// Ranks whose processes stay, sorted, and how they are told apart.
    pub(super) ranks: Option<(Ranks, Vec<i64>)>,
    /// Set once the histogram of the budget is known.
    pub(super) floor: Option<Floor>,
}

fn patterns(what: &str, texts: &[String]) -> Result<Vec<Regex>> {
    let compile = |text: &String| {
        Regex::new(text).map_err(|error| Error::invalid(format!("{what} {text:?} is no regular expression: {error}")))
    };
    texts.iter().map(compile).collect()
}

impl Rules {
    pub(in crate::merge) fn new(selection: &Selection) -> Result<Self> {
        if let Some((start, end)) = selection.window_ns
            && start >= end
        {
            return Err(Error::invalid(format!("the time window from {start} to {end} ns is empty")));
        }
        Ok(Self {
            window: selection.window_ns,
            categories: selection.categories.clone(),
            names: patterns("the name pattern", &selection.names)?,
            excluded: patterns("the name pattern", &selection.exclude_names)?,
            min_duration: i64::try_from(selection.min_duration_ns).unwrap_or(i64::MAX),
            ranks: None,
            floor: None,
        })
    }

    /// Whether the time `ts` to `end` reaches into the window; `end` is the start for what has no duration.
    #[inline]
    pub(super) fn in_window(&self, ts: Option<i64>, end: Option<i64>) -> bool {
        let (Some((from, to)), Some(ts)) = (self.window, ts) else { return true };
        let end = end.unwrap_or(ts);
        ts < to && (end > from || (end == ts && ts == from))
    }
}

/// Judges the events of one pass, remembering names and categories.
pub(super) struct Judge<'r> {
    pub(super) rules: &'r Rules,
    names: HashMap<Box<[u8]>, bool, FixedState>,
    categories: HashMap<Box<[u8]>, bool, FixedState>,
    /// Whether a process stays, by its pid.
    processes: HashMap<Box<[u8]>, bool, FixedState>,
}

impl<'r> Judge<'r> {
    pub(super) fn new(rules: &'r Rules) -> Self {
        Self { rules, names: HashMap::default(), categories: HashMap::default(), processes: HashMap::default() }
    }

    /// Whether the event is of a process of a rank that was asked for.
    #[inline]
    pub(super) fn of_rank(&mut self, bytes: &[u8], event: &Event) -> bool {
        let Some((ranks, wanted)) = &self.rules.ranks else { return true };
        let pid = event.pid.of(bytes);
        if let Some(&known) = self.processes.get(pid) {
            return known;
        }
        let text = if pid.first() == Some(&b'"') { json::decode(pid) } else { String::from_utf8_lossy(pid).into() };
        let verdict = wanted.binary_search(&ranks.rank(&text, None)).is_ok();
        if self.processes.len() < MAX_MEMO {
            self.processes.insert(pid.into(), verdict);
        }
        verdict
    }

    /// What the event's words say, whatever its time.
    #[inline]
    pub(super) fn words(&mut self, bytes: &[u8], event: &Event) -> Option<Reason> {
        let rules = self.rules;
        if !rules.categories.is_empty()
            && !remembered(&mut self.categories, event.cat.of(bytes), |text| {
                text.split(',').any(|one| rules.categories.iter().any(|wanted| wanted == one.trim()))
            })
        {
            return Some(Reason::Category);
        }
        if (!rules.names.is_empty() || !rules.excluded.is_empty())
            && !remembered(&mut self.names, event.name.of(bytes), |text| {
                let any = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(text));
                (rules.names.is_empty() || any(&rules.names)) && !any(&rules.excluded)
            })
        {
            return Some(Reason::Name);
        }
        None
    }

    /// What its time says. `duration`: `None` if it is of a kind that has none.
    #[inline]
    pub(super) fn time(&self, ts: Option<i64>, duration: Option<i64>) -> Option<Reason> {
        let end = ts.map(|ts| ts.saturating_add(duration.unwrap_or(0)));
        if !self.rules.in_window(ts, end) {
            return Some(Reason::Window);
        }
        match duration {
            Some(duration) if duration < self.rules.min_duration => Some(Reason::Duration),
            _ => None,
        }
    }
}

/// The verdict on a JSON value, from memory if it was seen before. What is no text is judged as the empty one.
fn remembered(memo: &mut HashMap<Box<[u8]>, bool, FixedState>, raw: &[u8], judge: impl Fn(&str) -> bool) -> bool {
    if let Some(&known) = memo.get(raw) {
        return known;
    }
    let verdict = judge(&if raw.first() == Some(&b'"') { json::decode(raw) } else { String::new() });
    if memo.len() < MAX_MEMO {
        memo.insert(raw.into(), verdict);
    }
    verdict
}
