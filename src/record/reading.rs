//! One reader of what is recorded, while recording goes on.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::chunk::{Chunk, Open, Record};
use super::clock::Converter;
use super::core::{Core, Registry};
use super::lane::Lane;
use super::replay::Replay;
use crate::sync::shared::{MutexGuard, lock};

/// A chunk, and which of its records are new. It is kept until the reader lets go of it.
struct Held {
    chunk: *mut Chunk,
    order: u64,
    from: usize,
    to: usize,
}

impl Held {
    fn records(&self) -> &[Record] {
        // SAFETY: the chunk is kept while it is read, and so many of its records were published.
        unsafe { Chunk::records(self.chunk, self.from, self.to) }
    }
}

/// A lane as a reader sees it.
pub(super) struct Seen {
    lane: *mut Lane,
    pub(super) thread: u64,
    pub(super) name: String,
    /// The spans that were open when the first chunk began.
    pub(super) open: Vec<Open>,
    /// From the oldest on.
    held: Vec<Held>,
    /// What is not held any more.
    copies: Vec<Vec<Record>>,
}

impl Seen {
    /// Visits the records, from the oldest on. What was copied goes on the way: what becomes of it is larger.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(&[Record])) {
        std::mem::take(&mut self.copies).into_iter().for_each(|records| visit(&records));
        self.held.iter().for_each(|held| visit(held.records()));
    }
}

/// One reader of what is recorded.
pub(super) struct Reading<'c> {
    core: &'c Core,
    replays: MutexGuard<'c, HashMap<usize, Replay>>,
}

impl Core {
    /// Starts to read. Others wait until this goes; recording goes on meanwhile.
    pub(super) fn read(&self) -> Reading<'_> {
        Reading { core: self, replays: lock(&self.reading) }
    }
}

impl Reading<'_> {
    /// Records stay when they are read.
    pub(super) fn keeps(&self) -> bool {
        self.core.keeps_recent() || self.core.journaled.load(Ordering::Relaxed)
    }

    /// Hands out a lane at a time: all that is new, which is then gone, or with [`super::Full::KeepRecent`] all that there
    /// is, which stays. `read` answers the bytes that it stored. Answers how far the times may be off.
    pub(super) fn each(&mut self, mut read: impl FnMut(&mut Seen, &mut Converter, &mut Replay) -> usize) -> u64 {
        let keep = self.keeps();
        let mut seen = Vec::new();
        let mut converter = {
            let mut registry = lock(&self.core.registry);
            for lane in registry.lanes() {
                seen.push(see(lane, keep));
            }
            registry.copying = self.core.keeps_recent();
            // After the newest record.
            let Some(anchors) = &mut registry.anchors else { return 0 };
            anchors.add(true);
            anchors.converter()
        };
        // In the order in which the threads came.
        seen.reverse();
        let copied = self.core.keeps_recent();
        if copied {
            self.copy(&mut seen);
        }
        let mut stored = 0;
        for one in &mut seen {
            if one.name.is_empty() {
                let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", one.thread));
                one.name = name.unwrap_or_default().trim_end().to_owned();
            }
            let replay = self.replays.entry(one.lane as usize).or_default();
            if keep {
                *replay = Replay::default();
            }
            stored += read(one, &mut converter, replay);
        }
        if !copied {
            let mut registry = lock(&self.core.registry);
            registry.stored += if keep { 0 } else { stored };
            let gone = registry.release_all(&seen, keep);
            drop(registry);
            for lane in gone {
                self.replays.remove(&(lane as usize));
                Core::free_lane(lane);
            }
        }
        if keep {
            // They begin anew each time, and lanes may go without a reader.
            self.replays.clear();
        }
        converter.uncertainty_ns()
    }

    /// Copies what a flight recorder has, and lets go of the oldest at once, which may have to make room: making events of
    /// it all takes many times as long, and what is recorded meanwhile is the most recent. The lanes go too: those of ended
    /// threads are most of their memory.
    fn copy(&self, seen: &mut [Seen]) {
        let mut all = Vec::new();
        for (lane, one) in seen.iter_mut().enumerate() {
            one.copies = vec![Vec::new(); one.held.len()];
            all.extend(std::mem::take(&mut one.held).into_iter().enumerate().map(|(at, held)| (lane, at, held)));
        }
        all.sort_unstable_by_key(|(.., held)| held.order);
        for (lane, at, held) in all {
            seen[lane].copies[at] = held.records().to_vec();
            let _registry = lock(&self.core.registry);
            // SAFETY: under the lock, and held until now.
            unsafe { (*held.chunk).readers -= 1 };
        }
        let mut registry = lock(&self.core.registry);
        registry.copying = false;
        let gone = registry.release_all(seen, true);
        drop(registry);
        gone.into_iter().for_each(Core::free_lane);
    }
}

/// Looks at a lane under the lock: its chunks up to what is published now. They are kept until they are released.
fn see(lane: &Lane, keep: bool) -> Seen {
    // SAFETY: under the lock.
    let guarded = unsafe { &mut *lane.guarded.get() };
    guarded.readers += 1;
    let mut held = Vec::new();
    let mut at = guarded.first;
    // SAFETY: the lane's own chunk, which lives.
    let open = if at.is_null() { Vec::new() } else { unsafe { Chunk::open(at) }.to_vec() };
    let mut from = if keep { 0 } else { guarded.read };
    while !at.is_null() {
        // SAFETY: the lane's own chunks, which live, and change their links under the lock only.
        unsafe {
            held.push(Held { chunk: at, order: (*at).order, from, to: Chunk::len(at) });
            (*at).readers += 1;
            at = (*at).next;
        }
        from = 0;
    }
    let name = guarded.name.split(|&byte| byte == 0 || byte == b'\n').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let lane_at = std::ptr::from_ref(lane).cast_mut();
    Seen { lane: lane_at, thread: lane.thread, name, open, held, copies: Vec::new() }
}

impl Registry {
    /// Lets go of what a reader has seen. Answers the lanes that are to be freed.
    fn release_all(&mut self, seen: &[Seen], keep: bool) -> Vec<*mut Lane> {
        seen.iter().filter(|one| self.release(one, keep)).map(|one| one.lane).collect()
    }

    /// Lets go of one lane. True: it is to be freed.
    fn release(&mut self, seen: &Seen, keep: bool) -> bool {
        // SAFETY: under the lock; a lane that was seen lives until it is released.
        let guarded = unsafe { &mut *(*seen.lane).guarded.get() };
        guarded.readers -= 1;
        for &Held { chunk, to, .. } in &seen.held {
            // SAFETY: kept until now.
            unsafe {
                (*chunk).readers -= 1;
                if keep {
                    continue;
                }
                // Chunks are released from the oldest on: this one is the first.
                let full = chunk != guarded.last || guarded.ended;
                if full && Chunk::len(chunk) == to {
                    guarded.first = (*chunk).next;
                    guarded.read = 0;
                    if chunk == guarded.last {
                        guarded.last = null_mut();
                    }
                    self.bytes -= (*chunk).size;
                    Chunk::unmap(chunk);
                } else if chunk == guarded.first {
                    guarded.read = to;
                }
            }
        }
        let free = guarded.ended && guarded.first.is_null() && guarded.readers == 0;
        if free {
            self.remove(seen.lane);
        }
        free
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::super::core::{Full, Limits};
    use super::super::{Name, Outcome};
    use super::*;

    /// What is recorded while a document is made is the most recent: older records make room, of which the reader has copies.
    #[test]
    fn nothing_is_dropped_while_a_flight_recorder_is_read() {
        let core = Core::new(Limits { bytes: 1 << 20, full: Full::KeepRecent }, Arc::default());
        let name = Name::new("step", "").expect("interned");
        let record = || {
            for _ in 0..100_000 {
                assert_eq!((core.begin(name), core.end()), (Outcome::Recorded, Outcome::Recorded));
            }
        };
        record();
        let mut read = Vec::new();
        core.read().each(|seen, _, _| {
            record();
            seen.visit(|records| read.extend(records.iter().map(|&[_, ticks]| ticks)));
            0
        });
        assert!(read.len() > 10_000 && read.is_sorted());
        assert_eq!(core.counts().dropped, 0);
        core.close();
    }

    /// Nor what threads record that come and go meanwhile.
    #[test]
    fn threads_start_while_a_flight_recorder_is_read() {
        let core = Core::new(Limits { bytes: 1 << 20, full: Full::KeepRecent }, Arc::default());
        let name = Name::new("step", "").expect("interned");
        // So many at once.
        let record = |count: usize| {
            let all = std::sync::Barrier::new(count);
            std::thread::scope(|scope| {
                let one = || {
                    let outcomes = (core.begin(name), core.end());
                    all.wait();
                    assert_eq!(outcomes, (Outcome::Recorded, Outcome::Recorded));
                };
                let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
                // ThreadSanitizer does not see that the end of a scope waits.
                threads.into_iter().for_each(|thread| thread.join().expect("recorded"));
            });
        };
        (0..100).for_each(|_| record(1));
        let mut first = true;
        core.read().each(|_, _, _| {
            if std::mem::take(&mut first) {
                record(20);
            }
            0
        });
        assert_eq!(core.counts().dropped, 0);
        core.close();
    }
}
