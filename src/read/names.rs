//! Names, categories and lanes as numbers, shared by the threads that read.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::event::Event;
use super::json;
use crate::sync::{Mutex, lock};

/// Different names, and bytes of them, that are kept apart; what comes later counts as [`OTHER`].
const MAX_NAMES: usize = 1 << 20;
const MAX_BYTES: usize = 64 << 20;
/// Lanes that are kept apart.
const MAX_LANES: usize = 1 << 20;

/// The number of what has no number of its own.
pub(crate) const OTHER: u32 = 0;

/// A number for some bytes, so likely its own that two never meet in one run.
#[inline]
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(7).build_hasher();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// A category and a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) category: String,
    pub(crate) name: String,
}

impl Name {
    /// Whether an end that is called this ends what has begun as `begin`, to Perfetto: by the name and the category that it
    /// has, if it has them.
    fn ends(&self, begin: &Name) -> bool {
        (self.category.is_empty() || self.category == begin.category)
            && (self.name.is_empty() || self.name == begin.name)
    }
}

/// Begins among which the one of an end is looked for, from the innermost on.
pub(crate) const SEARCH: usize = 512;

/// What the begin or the end of a slice is called: numbers for its name and its category, 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: u64,
    pub(crate) category: u64,
}

impl Label {
    /// Of the values as they stand.
    pub(crate) fn new(name: &[u8], category: &[u8]) -> Self {
        let number = |raw: &[u8]| if raw.len() > 2 { fingerprint(&[raw]) } else { 0 };
        Self { name: number(name), category: number(category) }
    }

    /// Whether an end that is called this ends what has begun as `begin`, as Perfetto has it.
    pub(crate) fn ends(self, begin: Self) -> bool {
        (self.name == 0 || self.name == begin.name) && (self.category == 0 || self.category == begin.category)
    }
}

/// The same by numbers of names.
pub(crate) fn ends(names: &[Name], begin: u32, end: u32) -> bool {
    if begin == end || begin == OTHER || end == OTHER {
        return true;
    }
    let name = |number: u32| names.get(number as usize);
    name(end).zip(name(begin)).is_none_or(|(end, begin)| end.ends(begin))
}

/// A process of one document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct ProcessKey {
    pub(crate) document: u32,
    pub(crate) pid: String,
}

/// A lane: a thread or stream of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    pub(crate) process: u32,
    pub(crate) tid: String,
}

/// Things in the order in which they were first met; number 0 is [`OTHER`].
#[derive(Debug)]
pub(crate) struct Table<T> {
    numbers: HashMap<T, u32, FixedState>,
    pub(crate) list: Vec<T>,
    bytes: usize,
}

impl<T: Clone + Default + Eq + std::hash::Hash> Table<T> {
    fn new() -> Self {
        Self { numbers: HashMap::default(), list: vec![T::default()], bytes: 0 }
    }

    fn number(&mut self, thing: T, bytes: usize, most: usize) -> u32 {
        if let Some(&known) = self.numbers.get(&thing) {
            return known;
        }
        if self.list.len() > most || self.bytes + bytes > MAX_BYTES {
            return OTHER;
        }
        self.bytes += bytes;
        let number = self.list.len() as u32;
        self.list.push(thing.clone());
        self.numbers.insert(thing, number);
        number
    }
}

/// What all threads have met.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) names: Table<Name>,
    pub(crate) processes: Table<ProcessKey>,
    pub(crate) lanes: Table<LaneKey>,
    /// GPU streams and devices with memory; what would be the `tid` is their name.
    pub(crate) streams: Table<LaneKey>,
    pub(crate) devices: Table<LaneKey>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            names: Table::new(),
            processes: Table::new(),
            lanes: Table::new(),
            streams: Table::new(),
            devices: Table::new(),
        }
    }
}

/// The text of a value, decoded if it is a string.
fn plain(raw: &[u8]) -> String {
    if raw.first() == Some(&b'"') { json::decode(raw) } else { String::from_utf8_lossy(raw).into_owned() }
}

/// The numbers of lanes and of their processes, by what names them.
type Lanes = HashMap<u64, (u32, u32), FixedState>;

/// One thread's view.
pub(crate) struct Names<'s> {
    shared: &'s Mutex<Shared>,
    /// What the caller wants to know of a name.
    flags: fn(&Name) -> u8,
    names: HashMap<u64, (u32, u8), FixedState>,
    lanes: Lanes,
    streams: Lanes,
    devices: Lanes,
}

impl<'s> Names<'s> {
    pub(crate) fn new(shared: &'s Mutex<Shared>, flags: fn(&Name) -> u8) -> Self {
        let (lanes, streams, devices) = (Lanes::default(), Lanes::default(), Lanes::default());
        Self { shared, flags, names: HashMap::default(), lanes, streams, devices }
    }

    /// The number of an event's category and name, below 2^24, and its flags.
    #[inline]
    pub(crate) fn name(&mut self, bytes: &[u8], event: &Event) -> (u32, u8) {
        let (category, name) = (event.cat.of(bytes), event.name.of(bytes));
        let key = fingerprint(&[category, name]);
        if let Some(&known) = self.names.get(&key) {
            return known;
        }
        let thing = Name { category: plain(category), name: plain(name) };
        let flags = (self.flags)(&thing);
        let size = thing.category.len() + thing.name.len() + 64;
        let number = lock(self.shared).names.number(thing, size, MAX_NAMES);
        if number != OTHER {
            self.names.insert(key, (number, flags));
        }
        (number, flags)
    }

    /// As [`Names::name`], of an end, which may do without.
    #[inline]
    pub(crate) fn end(&mut self, bytes: &[u8], event: &Event) -> u32 {
        let text = |raw: &[u8]| raw.first() == Some(&b'"') && raw.len() > 2;
        if text(event.name.of(bytes)) || text(event.cat.of(bytes)) { self.name(bytes, event).0 } else { OTHER }
    }

    /// The numbers of an event's lane, below 2^24, and of its process.
    #[inline]
    pub(crate) fn lane(&mut self, document: usize, bytes: &[u8], event: &Event) -> (u32, u32) {
        let (pid, tid) = (event.pid.of(bytes), lane_of(bytes, event));
        numbers(self.shared, |shared| &mut shared.lanes, &mut self.lanes, document, pid, tid)
    }

    /// The number of a GPU stream, whatever its lane.
    #[inline]
    pub(crate) fn stream(&mut self, document: usize, pid: &[u8], stream: &[u8]) -> u32 {
        numbers(self.shared, |shared| &mut shared.streams, &mut self.streams, document, pid, stream).0
    }

    /// The number of a device as a process names it.
    pub(crate) fn device(&mut self, document: usize, pid: &[u8], device: &[u8]) -> u32 {
        numbers(self.shared, |shared| &mut shared.devices, &mut self.devices, document, pid, device).0
    }
}

/// The lane of an event: without one, that of the process, as Perfetto has it.
#[inline]
pub(crate) fn lane_of<'b>(bytes: &'b [u8], event: &Event) -> &'b [u8] {
    event.tid.get(bytes).unwrap_or(event.pid.of(bytes))
}

#[inline]
fn numbers(
    shared: &Mutex<Shared>,
    table: fn(&mut Shared) -> &mut Table<LaneKey>,
    known: &mut Lanes,
    document: usize,
    pid: &[u8],
    tid: &[u8],
) -> (u32, u32) {
    let key = fingerprint(&[&document.to_le_bytes(), pid, tid]);
    if let Some(&found) = known.get(&key) {
        return found;
    }
    let mut shared = lock(shared);
    let pid = plain(pid);
    let size = pid.len() + 64;
    let process = shared.processes.number(ProcessKey { document: document as u32, pid }, size, MAX_LANES);
    let tid = plain(tid);
    let size = tid.len() + 64;
    let found = (table(&mut shared).number(LaneKey { process, tid }, size, MAX_LANES), process);
    if found.0 != OTHER {
        known.insert(key, found);
    }
    found
}
