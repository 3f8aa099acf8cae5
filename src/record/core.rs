//! The trace's side of live recording: its lanes, its memory, its clock.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{self, Ordering};
use std::sync::{Arc, Weak};

use super::chunk::{Chunk, FIRST, LATER, Record, UNIT};
use super::clock::{self, Anchors};
use super::fork;
use super::lane::Lane;
use super::local;
use super::replay::Replay;
use crate::model::counts::RecordCounts;
use crate::sync::shared::{AtomicBool, AtomicU64, Mutex, lock};

/// The system's number of the calling thread, by which live spans know it. Ops with this `thread_id`, GPU calls with this
/// `os_thread` and [`crate::Trace::set_thread_name`] with it meet the spans of the thread on one lane.
pub fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// What happens when the memory for records is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Full {
    /// What comes then is dropped, and counted.
    #[default]
    DropNew,
    /// The oldest goes: a flight recorder.
    KeepRecent,
}

/// How much is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of all that is recorded, also while it is written; 0 for no limit.
    pub(crate) bytes: usize,
    pub(crate) full: Full,
}

/// The bytes that chunks may take, of which so many are taken by events of before. While a document is written, the
/// events that it makes of records stand beside them, and are larger.
fn chunk_limit(limits: Limits, stored: usize) -> usize {
    if limits.bytes == 0 { usize::MAX } else { limits.bytes.saturating_sub(stored) / 5 * 2 }
}

/// Live recording into one trace.
#[derive(Debug)]
pub(crate) struct Core {
    /// No other trace of this process has it, ever.
    pub(crate) id: u64,
    limits: Limits,
    collecting: Arc<atomic::AtomicBool>,
    itself: Weak<Core>,
    /// Calls that interrupted others.
    interrupting: AtomicU64,
    /// Set under the registry's lock, which orders it. A lane that is made at the same time gets no chunk any more.
    closed: AtomicBool,
    /// What is recorded stays until the trace goes, since a journal tells of it. Does not change while a document is read.
    pub(super) journaled: AtomicBool,
    pub(super) registry: Mutex<Registry>,
    /// One reader at a time, and how far it has come with each lane, by the lane's address.
    pub(super) reading: Mutex<HashMap<usize, Replay>>,
}

/// What the lock guards, and the guarded part of all lanes.
#[derive(Debug)]
pub(super) struct Registry {
    lanes: *mut Lane,
    /// Lanes that there ever were.
    made: u64,
    pub(super) bytes: usize,
    /// Bytes that records take which became events of the trace.
    pub(super) stored: usize,
    /// A reader copies what a flight recorder has: it lets go of it at once.
    pub(super) copying: bool,
    pub(super) order: u64,
    overwritten: u64,
    /// Of lanes that are gone.
    dropped: u64,
    unmatched: u64,
    /// Until the trace goes.
    pub(super) anchors: Option<Box<Anchors>>,
}

// SAFETY: lanes and chunks are used under the lock, or by the one thread that writes them (see `lane`), or by the reader,
// for whom they are kept.
unsafe impl Send for Registry {}

impl Core {
    /// `collecting`: whether GPU work is collected into the trace.
    pub(crate) fn new(limits: Limits, collecting: Arc<atomic::AtomicBool>) -> Arc<Self> {
        static NEXT: atomic::AtomicU64 = atomic::AtomicU64::new(1);
        clock::prepare();
        local::prepare();
        fork::watch();
        Arc::new_cyclic(|itself| Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            limits,
            collecting,
            itself: itself.clone(),
            interrupting: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            journaled: AtomicBool::new(false),
            registry: Mutex::new(Registry {
                lanes: null_mut(),
                made: 0,
                bytes: 0,
                stored: 0,
                copying: false,
                order: 0,
                overwritten: 0,
                dropped: 0,
                unmatched: 0,
                anchors: Some(Box::new(Anchors::new())),
            }),
            reading: Mutex::new(HashMap::new()),
        })
    }

    /// Ops are told to whoever collects GPU work, so that kernels point back at them.
    #[inline(always)]
    pub(super) fn tells_ops(&self) -> bool {
        self.collecting.load(Ordering::Relaxed)
    }

    /// The oldest records make room.
    pub(crate) fn keeps_recent(&self) -> bool {
        self.limits.full == Full::KeepRecent
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// From here on a journal tells of what is recorded. False: something was recorded already, and may be gone by now.
    pub(crate) fn begin_journal(&self) -> bool {
        // No document is read meanwhile, which would give memory back that the journal looks at.
        let _reading = lock(&self.reading);
        let registry = lock(&self.registry);
        let unused = !self.used(&registry);
        if unused {
            self.journaled.store(true, Ordering::Relaxed);
        }
        unused
    }

    #[cold]
    pub(super) fn count_interrupting(&self) {
        self.interrupting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> RecordCounts {
        let registry = lock(&self.registry);
        let mut counts = RecordCounts {
            dropped: registry.dropped + self.interrupting.load(Ordering::Relaxed),
            unmatched: registry.unmatched,
            overwritten_chunks: registry.overwritten,
        };
        for lane in registry.lanes() {
            counts.dropped += lane.dropped.load(Ordering::Relaxed);
            counts.unmatched += lane.unmatched.load(Ordering::Relaxed);
        }
        counts
    }

    /// Something was recorded, or could not be.
    pub(crate) fn is_used(&self) -> bool {
        self.used(&lock(&self.registry))
    }

    fn used(&self, registry: &Registry) -> bool {
        registry.order > 0 || self.interrupting.load(Ordering::Relaxed) > 0 || !registry.lanes.is_null()
    }

    /// Bytes that records take.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.registry).bytes
    }

    /// Makes a lane for this thread; NULL if that cannot be.
    pub(super) fn add_lane(&self) -> *mut Lane {
        let Some(core) = self.itself.upgrade().filter(|_| !self.closed.load(Ordering::Relaxed)) else {
            return null_mut();
        };
        let thread = thread_id();
        let Some(memory) = Chunk::map(lane_bytes()) else { return null_mut() };
        let lane: *mut Lane = memory.cast();
        let mut registry = lock(&self.registry);
        registry.made += 1;
        // SAFETY: a mapping of enough bytes, at the start of a page, and nobody else's.
        unsafe { lane.write(Lane::new(core, thread, registry.made)) };
        registry.bytes += lane_bytes();
        // SAFETY: new, and under the lock.
        unsafe { (*(*lane).guarded.get()).next = registry.lanes };
        registry.lanes = lane;
        lane
    }

    /// Gives the lane of this thread a chunk in which so many records fit. False: there is no room.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&self, lane: &Lane, records: usize) -> bool {
        let mut registry = lock(&self.registry);
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        let open = lane.open_spans();
        let needed = size_of::<Chunk>() + size_of_val(open) + records * size_of::<Record>();
        // SAFETY: under the lock.
        let guarded = unsafe { &mut *lane.guarded.get() };
        let limit = chunk_limit(self.limits, registry.stored);
        // Of little memory small pieces: the oldest that goes shall be no large part of it.
        let usual = if guarded.last.is_null() { FIRST } else { (limit / 8 / FIRST * FIRST).clamp(FIRST, LATER) };
        let size = usual.max(needed.next_multiple_of(UNIT));
        let mut chunk: *mut Chunk = null_mut();
        while registry.bytes + size > limit {
            let oldest = if self.keeps_recent() { registry.take_oldest() } else { null_mut() };
            if oldest.is_null() {
                // All that could go is being copied, and free in a moment: until then there may be one chunk more, or an
                // eighth. The copies are smaller than the events that will be made of them.
                if registry.copying && (registry.bytes <= limit || registry.bytes + size <= limit + limit / 8) {
                    break;
                }
                return false;
            }
            registry.overwritten += 1;
            // SAFETY: taken from its lane, and not the one that its thread writes in.
            unsafe {
                registry.bytes -= (*oldest).size;
                if (*oldest).size == size && chunk.is_null() {
                    #[cfg(loom)]
                    Chunk::watch_writes(oldest, 0, super::chunk::MOST);
                    chunk = oldest;
                } else {
                    Chunk::unmap(oldest);
                }
            }
        }
        if chunk.is_null() {
            match Chunk::map(size) {
                Some(new) => chunk = new,
                None => return false,
            }
        }
        registry.bytes += size;
        registry.order += 1;
        if let Some(anchors) = &mut registry.anchors {
            anchors.add(false);
        }
        // SAFETY: nobody else's, and large enough.
        unsafe { Chunk::begin(chunk, size, open, registry.order) };
        if guarded.last.is_null() {
            guarded.first = chunk;
            guarded.read = 0;
        } else {
            // SAFETY: the lane's own, under the lock.
            unsafe { (*guarded.last).next = chunk };
        }
        guarded.last = chunk;
        drop(registry);
        lane.enter(chunk);
        true
    }

    /// The thread of a lane ends: its records stay, unless the trace is gone.
    pub(super) fn leave(&self, lane: *mut Lane) {
        let name = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
        let mut registry = lock(&self.registry);
        // SAFETY: under the lock; the lane lives.
        let guarded = unsafe { &mut *(*lane).guarded.get() };
        guarded.ended = true;
        let length = name.len().min(15);
        guarded.name[..length].copy_from_slice(&name[..length]);
        let free = guarded.orphan;
        if guarded.first.is_null() && !free && guarded.readers == 0 {
            registry.remove(lane);
            drop(registry);
            Self::free_lane(lane);
        } else {
            drop(registry);
            if free {
                Self::free_lane(lane);
            }
        }
    }

    pub(super) fn is_orphan(&self, lane: &Lane) -> bool {
        let _registry = lock(&self.registry);
        // SAFETY: under the lock.
        unsafe { (*lane.guarded.get()).orphan }
    }

    /// Frees a lane that is in no list any more, and its chunks.
    pub(super) fn free_lane(lane: *mut Lane) {
        // SAFETY: nobody else knows it; made in `add_lane`.
        unsafe {
            let mut chunk = (*(*lane).guarded.get()).first;
            while !chunk.is_null() {
                let next = (*chunk).next;
                Chunk::unmap(chunk);
                chunk = next;
            }
            std::ptr::drop_in_place(lane);
            #[cfg(loom)]
            super::models::mapped(-1);
            let _ = rustix::mm::munmap(lane.cast(), lane_bytes());
        }
    }

    /// The trace goes: nothing is recorded any more. Threads that still hold a lane free it.
    pub(crate) fn close(&self) {
        let _reading = lock(&self.reading);
        let mut registry = lock(&self.registry);
        self.closed.store(true, Ordering::Relaxed);
        let mut gone = Vec::new();
        let mut at = std::mem::replace(&mut registry.lanes, null_mut());
        while !at.is_null() {
            // SAFETY: under the lock; lanes in the list live.
            let guarded = unsafe { &mut *(*at).guarded.get() };
            let next = guarded.next;
            if guarded.ended {
                gone.push(at);
            } else {
                guarded.orphan = true;
                // All but the chunk that the thread may be writing in.
                while guarded.first != guarded.last {
                    let chunk = guarded.first;
                    // SAFETY: the lane's own, and the thread is past it.
                    unsafe {
                        guarded.first = (*chunk).next;
                        Chunk::unmap(chunk);
                    }
                }
            }
            at = next;
        }
        registry.bytes = 0;
        registry.anchors = None;
        drop(registry);
        gone.into_iter().for_each(Self::free_lane);
    }
}

impl Registry {
    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        // SAFETY: lanes in the list live as long as the lock is held.
        let first = unsafe { self.lanes.as_ref() };
        // SAFETY: as above, and the link is guarded by the lock.
        std::iter::successors(first, |lane| unsafe { (*lane.guarded.get()).next.as_ref() })
    }

    /// Takes the oldest chunk from its lane, but for those that are written or read. With its last one the lane of a thread
    /// that has ended goes too: threads that come and go by the thousand would fill the memory with lanes otherwise.
    fn take_oldest(&mut self) -> *mut Chunk {
        let oldest = self
            .lanes()
            // SAFETY: under the lock.
            .map(|lane| (std::ptr::from_ref(lane).cast_mut(), unsafe { &mut *lane.guarded.get() }))
            .filter(|(_, guarded)| {
                let free = guarded.ended || guarded.first != guarded.last;
                // SAFETY: as above.
                !guarded.first.is_null() && free && unsafe { (*guarded.first).readers == 0 }
            })
            // SAFETY: as above.
            .min_by_key(|(_, guarded)| unsafe { (*guarded.first).order });
        let Some((lane, guarded)) = oldest else { return null_mut() };
        let chunk = guarded.first;
        if guarded.first == guarded.last {
            guarded.last = null_mut();
        }
        // SAFETY: as above.
        guarded.first = unsafe { (*chunk).next };
        guarded.read = 0;
        if guarded.ended && guarded.first.is_null() && guarded.readers == 0 {
            self.remove(lane);
            Core::free_lane(lane);
        }
        chunk
    }

    /// Takes a lane out of the list. It has no chunks.
    pub(super) fn remove(&mut self, lane: *mut Lane) {
        // SAFETY: under the lock; lanes in the list live, and so does this one.
        unsafe {
            let next = (*(*lane).guarded.get()).next;
            if self.lanes == lane {
                self.lanes = next;
            } else if let Some(before) = self.lanes().find(|other| (*other.guarded.get()).next == lane) {
                (*before.guarded.get()).next = next;
            }
            self.dropped += (*lane).dropped.load(Ordering::Relaxed);
            self.unmatched += (*lane).unmatched.load(Ordering::Relaxed);
        }
        self.bytes = self.bytes.saturating_sub(lane_bytes());
    }
}

/// Bytes of a lane's mapping: whole pages.
fn lane_bytes() -> usize {
    size_of::<Lane>().next_multiple_of(4 << 10)
}
