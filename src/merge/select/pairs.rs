//! Slices that are written as several events: begin and end, and the async and object events of one id.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::rules::Reason;
use crate::read::names::{Label, SEARCH};

/// Slices of one input that may be open at once, and ids.
const MAX_OPEN: usize = 1 << 19;
/// Events of one id that are remembered until its end.
const MAX_GROUP: usize = 1 << 14;

/// A slice that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) ordinal: u64,
    pub(super) start: Option<i64>,
    pub(super) words: Option<Reason>,
    pub(super) bytes: u64,
}

/// The open slices of each lane.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    lanes: HashMap<u64, Vec<(Label, Open)>, FixedState>,
    open: usize,
}

impl Stacks {
    /// Whether there was room for it.
    #[must_use]
    pub(super) fn begin(&mut self, lane: u64, label: Label, open: Open) -> bool {
        self.open += 1;
        self.lanes.entry(lane).or_default().push((label, open));
        self.open <= MAX_OPEN
    }

    /// The slice that ends: the innermost that has the name of the end. Those inside it wait for their own.
    pub(super) fn end(&mut self, lane: u64, label: Label) -> Option<Open> {
        let stack = self.lanes.get_mut(&lane)?;
        let inside = stack.iter().rev().take(SEARCH).position(|&(begin, _)| label.ends(begin))?;
        let open = (inside < stack.len()).then(|| stack.remove(stack.len() - 1 - inside).1);
        if stack.is_empty() {
            self.lanes.remove(&lane);
        }
        self.open -= usize::from(open.is_some());
        open
    }

    /// Those that never end, with their lanes.
    pub(super) fn rest(self) -> impl Iterator<Item = (u64, Open)> {
        self.lanes.into_iter().flat_map(|(lane, stack)| stack.into_iter().map(move |(_, open)| (lane, open)))
    }
}

/// The events of one id from its first begin to its last end. They stay or go together.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) ordinals: Vec<u64>,
    pub(super) start: Option<i64>,
    end: Option<i64>,
    pub(super) words: Option<Reason>,
    pub(super) bytes: u64,
    depth: usize,
    /// It was judged before its end, as one that has none.
    judged: Option<Option<Reason>>,
}

impl Group {
    /// `None` if it never ends.
    pub(super) fn duration(&self) -> Option<i64> {
        (self.depth == 0).then(|| self.end.zip(self.start).map_or(0, |(end, start)| end.saturating_sub(start)))
    }
}

/// What an event is in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Begin,
    Member,
    End,
}

/// What becomes of an event that belongs to a group.
#[derive(Debug)]
pub(super) enum Joined {
    /// It waits for the end of its group.
    Waits,
    /// There is no group: it stands for itself.
    Alone,
    /// It is judged as its group was.
    As(Option<Reason>),
    /// The group is complete, or too long to wait for its end: judge it, and say so with [`Groups::judged`] if it
    /// goes on.
    Complete(Group),
}

/// The open groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    open: HashMap<u64, Group, FixedState>,
}

impl Groups {
    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < MAX_OPEN
    }

    /// Adds an event of the id `key`.
    pub(super) fn join(&mut self, key: u64, role: Role, event: Open) -> Joined {
        if role != Role::Begin && !self.open.contains_key(&key) {
            return Joined::Alone;
        }
        let group = self.open.entry(key).or_default();
        match role {
            Role::Begin => {
                if group.depth == 0 {
                    group.words = event.words;
                }
                group.words = group.words.and(event.words);
                group.depth += 1;
            }
            Role::End => group.depth -= 1,
            Role::Member => {}
        }
        let ended = group.depth == 0;
        if let Some(verdict) = group.judged {
            if ended {
                self.open.remove(&key);
            }
            return Joined::As(verdict);
        }
        group.ordinals.push(event.ordinal);
        group.bytes += event.bytes;
        group.start = [group.start, event.start].into_iter().flatten().min();
        group.end = [group.end, event.start].into_iter().flatten().max();
        if ended {
            return self.open.remove(&key).map_or(Joined::Waits, Joined::Complete);
        }
        if group.ordinals.len() >= MAX_GROUP {
            let whole = Group { depth: group.depth, ..std::mem::take(group) };
            group.depth = whole.depth;
            return Joined::Complete(whole);
        }
        Joined::Waits
    }

    /// Notes how a group was judged that had not ended.
    pub(super) fn judged(&mut self, key: u64, verdict: Option<Reason>) {
        if let Some(group) = self.open.get_mut(&key) {
            group.judged = Some(verdict);
        }
    }

    /// Those that never end and were not judged yet.
    pub(super) fn rest(self) -> impl Iterator<Item = Group> {
        self.open.into_values().filter(|group| group.judged.is_none())
    }
}
