//! What one thread has recorded into one trace, and how it goes on.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Outcome;
use super::chunk::{Chunk, Open, Record};
use super::clock;
use super::core::Core;
use super::kind;
use super::names::Name;
use crate::gpu;
use crate::sync::shared::{AtomicU64, UnsafeCell};

/// Ids of ops: no caller's, not those of NVTX ranges, and exact in JavaScript.
static OP_IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 51);

/// Spans open within one another on a thread; deeper ones are dropped.
pub(super) const DEEPEST: usize = if cfg!(loom) { 4 } else { 512 };

/// The thread's side and the trace's side of one buffer.
#[derive(Debug)]
pub(super) struct Lane {
    /// Where the next record goes, and where the chunk ends. The thread's alone, down to `depth`.
    at: Cell<*mut Record>,
    end: Cell<*mut Record>,
    start: Cell<*mut Record>,
    pub(super) chunk: Cell<*mut Chunk>,
    depth: Cell<usize>,
    open: UnsafeCell<[Open; DEEPEST]>,
    /// The thread's next lane.
    pub(super) of_thread: Cell<*mut Lane>,
    /// Counts, which the thread alone writes and anybody reads.
    pub(super) dropped: AtomicU64,
    pub(super) unmatched: AtomicU64,
    /// The system's number of the thread.
    pub(super) thread: u64,
    /// No other lane of the trace has it, ever.
    pub(super) number: u64,
    pub(super) core: Arc<Core>,
    /// What the trace's lock guards.
    pub(super) guarded: UnsafeCell<Guarded>,
}

/// The trace's side of a lane.
#[derive(Debug)]
pub(super) struct Guarded {
    /// The trace's next lane.
    pub(super) next: *mut Lane,
    /// The oldest chunk, and the newest, in which the thread writes.
    pub(super) first: *mut Chunk,
    pub(super) last: *mut Chunk,
    /// Records of the first chunk that were read already.
    pub(super) read: usize,
    /// Readers that know the lane; the last one frees it if it is to be freed.
    pub(super) readers: u32,
    /// The thread has ended.
    pub(super) ended: bool,
    /// The trace was freed: the thread frees the lane.
    pub(super) orphan: bool,
    /// The thread's name when it ended.
    pub(super) name: [u8; 16],
}

/// What the innermost span of a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenSpan {
    None,
    Dropped,
    Recorded,
}

fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Lane {
    pub(super) fn new(core: Arc<Core>, thread: u64, number: u64) -> Self {
        Self {
            at: Cell::new(null_mut()),
            end: Cell::new(null_mut()),
            start: Cell::new(null_mut()),
            chunk: Cell::new(null_mut()),
            depth: Cell::new(0),
            open: UnsafeCell::new([Open::default(); DEEPEST]),
            of_thread: Cell::new(null_mut()),
            dropped: AtomicU64::new(0),
            unmatched: AtomicU64::new(0),
            thread,
            number,
            core,
            guarded: UnsafeCell::new(Guarded {
                next: null_mut(),
                first: null_mut(),
                last: null_mut(),
                read: 0,
                readers: 0,
                ended: false,
                orphan: false,
                name: [0; 16],
            }),
        }
    }

    /// The spans that are open, as far as they fit.
    pub(super) fn open_spans(&self) -> &[Open] {
        let depth = self.depth.get().min(DEEPEST);
        // SAFETY: the thread alone uses the list, and this is called on it.
        unsafe { &(&(*self.open.get()))[..depth] }
    }

    /// Goes on in another chunk.
    pub(super) fn enter(&self, chunk: *mut Chunk) {
        // SAFETY: the chunk has begun and is this lane's.
        let (start, end) = unsafe { Chunk::room(chunk) };
        self.chunk.set(chunk);
        self.start.set(start);
        self.at.set(start);
        self.end.set(end);
    }

    /// Writes records and publishes them. There is room.
    #[inline(always)]
    fn write(&self, records: &[Record]) {
        let at = self.at.get();
        // SAFETY: the caller has looked for room between `at` and `end`, which are the thread's own.
        unsafe {
            #[cfg(loom)]
            Chunk::watch_writes(self.chunk.get(), at.offset_from_unsigned(self.start.get()), records.len());
            at.copy_from_nonoverlapping(records.as_ptr(), records.len());
            let after = at.add(records.len());
            self.at.set(after);
            (*self.chunk.get()).publish(after.offset_from_unsigned(self.start.get()));
        }
    }

    /// Whether `more` records fit, and the ends of all spans that are open after them.
    #[inline(always)]
    fn fits(&self, more: usize, open: usize) -> bool {
        let left = (self.end.get() as usize).wrapping_sub(self.at.get() as usize) / size_of::<Record>();
        left >= more + open
    }

    #[inline(always)]
    fn room(&self, core: &Core, more: usize, open: usize) -> bool {
        self.fits(more, open) || core.grow(self, more + open)
    }

    fn set_open(&self, depth: usize, open: Open) {
        if depth < DEEPEST {
            // SAFETY: the thread alone uses the list.
            unsafe { (*self.open.get())[depth] = open };
        }
        self.depth.set(depth + 1);
    }

    #[inline(always)]
    pub(super) fn begin(&self, core: &Core, name: Name) -> Outcome {
        let depth = self.depth.get();
        if name.is_op() && core.tells_ops() {
            return self.begin_op(core, name, depth);
        }
        if depth >= DEEPEST || !self.room(core, 1, depth + 1) {
            return self.drop_span(depth);
        }
        let ticks = clock::now();
        self.write(&[[kind::BEGIN | name.word(), ticks]]);
        self.set_open(depth, Open { name: u64::from(name.bits()) + 1, ticks });
        Outcome::Recorded
    }

    /// Opens an op while GPU work is collected: the calls of this thread come from it until its end.
    #[inline(never)]
    fn begin_op(&self, core: &Core, name: Name, depth: usize) -> Outcome {
        if depth >= DEEPEST || !self.room(core, 2, depth + 1) {
            return self.drop_span(depth);
        }
        let id = OP_IDS.fetch_add(1, Ordering::Relaxed);
        gpu::push(true, id);
        let ticks = clock::now();
        self.write(&[[kind::BEGIN | name.word(), ticks], [kind::ID, id]]);
        self.set_open(depth, Open { name: (u64::from(name.bits()) + 1) | Open::TOLD, ticks });
        Outcome::Recorded
    }

    #[cold]
    fn drop_span(&self, depth: usize) -> Outcome {
        self.set_open(depth, Open::default());
        count(&self.dropped);
        Outcome::Dropped
    }

    /// Opens a span that is not recorded, since its category is off.
    pub(super) fn skip(&self) -> Outcome {
        self.set_open(self.depth.get(), Open::default());
        Outcome::Off
    }

    #[inline(always)]
    pub(super) fn end(&self, core: &Core) -> Outcome {
        let Some(depth) = self.depth.get().checked_sub(1) else {
            count(&self.unmatched);
            return Outcome::NotOpen;
        };
        // SAFETY: the thread alone uses the list.
        let name = if depth < DEEPEST { unsafe { (*self.open.get())[depth].name } } else { 0 };
        self.depth.set(depth);
        if name == 0 {
            return Outcome::Off;
        }
        if name & Open::TOLD != 0 {
            gpu::pop_op();
        }
        let ticks = clock::now();
        if self.fits(1, 0) || core.grow(self, 1 + depth) {
            self.write(&[[kind::END, ticks]]);
            return Outcome::Recorded;
        }
        // Every span that is open has room for its end, but for records that came between.
        count(&self.dropped);
        Outcome::Dropped
    }

    /// Records that stand for themselves.
    pub(super) fn push(&self, core: &Core, records: &[Record]) -> Outcome {
        if !self.room(core, records.len(), self.depth.get().min(DEEPEST)) {
            count(&self.dropped);
            return Outcome::Dropped;
        }
        self.write(records);
        Outcome::Recorded
    }

    /// The span that an argument would be of.
    pub(super) fn is_open(&self) -> OpenSpan {
        match (self.depth.get(), self.open_spans().last()) {
            (0, _) => OpenSpan::None,
            (1..=DEEPEST, Some(Open { name: 1.., .. })) => OpenSpan::Recorded,
            _ => OpenSpan::Dropped,
        }
    }
}
