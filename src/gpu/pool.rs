//! The buffers that a collector fills: aligned, reused, and never more than the caller allows.
//!
//! CUPTI asks for one and gives it back in callbacks, on any thread. Both take the lock for a moment; reading is the
//! worker's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::sync::{Condvar, Mutex, lock, wait, wait_until};

/// Of a buffer that is given out over the cap, to a CUPTI that would crash without one.
const SCRATCH: usize = 64 << 10;
/// Made before they are asked for.
const AHEAD: usize = 2;

/// A piece of memory: whole pages of the system's, so that taking one costs microseconds whatever its size, and CUPTI's
/// 8 bytes of alignment are had. Freed by hand only: CUPTI may hold it longer than anybody here.
#[derive(Debug)]
pub(super) struct Block {
    start: *mut u8,
    size: usize,
    /// Given out over the cap, and not read.
    scratch: bool,
}

// SAFETY: a block is owned by whoever holds it, like a box of bytes.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, scratch: bool) -> Option<Self> {
        // SAFETY: no address is asked for, and what is new is nobody's. It is zero: what CUPTI skips is not uninitialised.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        Some(Self { start: start.ok()?.cast(), size, scratch })
    }

    fn free(self) {
        // SAFETY: made in `new` of this size, and nobody else has it. It fails for no such mapping.
        let _ = unsafe { munmap(self.start.cast(), self.size) };
    }
}

/// A buffer that came back.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) block: Block,
    /// Bytes of records in it.
    pub(super) valid: usize,
}

impl Full {
    /// The records.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `valid` is at most the block's size, which is initialised; CUPTI has given it back.
        unsafe { std::slice::from_raw_parts(self.block.start, self.valid) }
    }
}

/// How large buffers are, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) buffer: usize,
    pub(super) cap: usize,
    /// The collector can do without a buffer. CUPTI before 12.9 crashes.
    pub(super) may_refuse: bool,
}

/// What happened to buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PoolCounts {
    pub(super) refused: u64,
    pub(super) late: u64,
    pub(super) kept: u64,
}

#[derive(Debug)]
struct Inner {
    sizes: Sizes,
    /// A collection is going on.
    open: bool,
    /// Of this collection: full ones may come back from an earlier one.
    round: u64,
    free: Vec<Block>,
    out: Vec<(u64, Block)>,
    full: VecDeque<Full>,
    /// The worker reads one.
    reading: bool,
    /// Bytes of all blocks but scratch ones.
    bytes: usize,
    counts: PoolCounts,
    /// No more will come: the worker ends when `full` is empty.
    ending: bool,
}

/// The buffers of one process.
#[derive(Debug)]
pub(super) struct Pool {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Pool {
    pub(super) fn new() -> Self {
        let sizes = Sizes { buffer: 0, cap: 0, may_refuse: false };
        let inner = Inner {
            sizes,
            open: false,
            round: 0,
            free: Vec::new(),
            out: Vec::new(),
            full: VecDeque::new(),
            reading: false,
            bytes: 0,
            counts: PoolCounts::default(),
            ending: false,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Starts a collection.
    pub(super) fn open(&self, sizes: Sizes) {
        let mut inner = lock(&self.inner);
        inner.sizes = sizes;
        inner.round += 1;
        (inner.open, inner.ending) = (true, false);
        // Of those that were late since the last collection this one's report tells.
        inner.counts = PoolCounts { late: inner.counts.late, ..PoolCounts::default() };
        while inner.free.len() < AHEAD && inner.grow() {}
    }

    /// Hands out a buffer: its start and size. `None` if the cap is reached.
    pub(super) fn request(&self) -> Option<(*mut u8, usize)> {
        let mut inner = lock(&self.inner);
        if !inner.open || (inner.free.is_empty() && !inner.grow()) {
            // Between collections nothing is lost that was asked for.
            inner.counts.refused += u64::from(inner.open);
            if inner.sizes.may_refuse {
                return None;
            }
            let scratch = Block::new(SCRATCH, true)?;
            inner.free.push(scratch);
        }
        let block = inner.free.pop()?;
        let answer = (block.start, block.size);
        let round = inner.round;
        inner.out.push((round, block));
        Some(answer)
    }

    /// Takes a buffer back.
    pub(super) fn complete(&self, start: *mut u8, valid: usize) {
        let mut inner = lock(&self.inner);
        // Not ours: a buffer of the profiler that was there before.
        let Some(at) = inner.out.iter().position(|(_, block)| block.start == start) else { return };
        let (round, block) = inner.out.swap_remove(at);
        let valid = valid.min(block.size);
        if !inner.open || round != inner.round {
            inner.counts.late += 1;
            inner.take_back(block);
        } else if block.scratch {
            // Over the cap: counted when it was handed out.
            inner.take_back(block);
        } else {
            inner.full.push_back(Full { block, valid });
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// The next full buffer; `None` at the end of the collection. For the worker.
    pub(super) fn next(&self) -> Option<Full> {
        let mut inner = lock(&self.inner);
        loop {
            if let Some(full) = inner.full.pop_front() {
                inner.reading = true;
                return Some(full);
            }
            if inner.ending {
                return None;
            }
            inner = wait(&self.changed, inner);
        }
    }

    /// Takes a buffer back that the worker has read.
    pub(super) fn give_back(&self, block: Block) {
        let mut inner = lock(&self.inner);
        inner.reading = false;
        inner.take_back(block);
        drop(inner);
        self.changed.notify_all();
    }

    /// Whether the collector has buffers of this collection.
    pub(super) fn is_out(&self) -> bool {
        lock(&self.inner).is_out()
    }

    /// Waits until every buffer of this collection is back and read, at most until `deadline`.
    pub(super) fn settle(&self, deadline: Instant) {
        let mut inner = lock(&self.inner);
        while (inner.is_out() || inner.reading || !inner.full.is_empty()) && Instant::now() < deadline {
            inner = wait_until(&self.changed, inner, deadline.min(Instant::now() + Duration::from_millis(100)));
        }
    }

    /// Ends the collection: what comes back from now on is late. The worker reads what is here, and ends.
    pub(super) fn close(&self) -> PoolCounts {
        let mut inner = lock(&self.inner);
        (inner.open, inner.ending) = (false, true);
        let round = inner.round;
        inner.counts.kept = inner.out.iter().filter(|(of, _)| *of == round).count() as u64;
        let free = std::mem::take(&mut inner.free);
        inner.bytes -= free.iter().filter(|block| !block.scratch).map(|block| block.size).sum::<usize>();
        let counts = std::mem::take(&mut inner.counts);
        drop(inner);
        free.into_iter().for_each(Block::free);
        self.changed.notify_all();
        counts
    }
}

impl Inner {
    /// Makes one more buffer, if the cap allows.
    fn grow(&mut self) -> bool {
        if self.bytes + self.sizes.buffer > self.sizes.cap {
            return false;
        }
        let Some(block) = Block::new(self.sizes.buffer, false) else { return false };
        self.bytes += block.size;
        self.free.push(block);
        true
    }

    /// Keeps a block for its next use, or frees it.
    fn take_back(&mut self, block: Block) {
        if self.open && !block.scratch && block.size == self.sizes.buffer {
            self.free.push(block);
            return;
        }
        if !block.scratch {
            self.bytes -= block.size;
        }
        block.free();
    }

    fn is_out(&self) -> bool {
        self.out.iter().any(|(round, _)| *round == self.round)
    }
}
