//! Memory for the records of one thread.

use std::sync::atomic::Ordering;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::sync::shared::AtomicUsize;

/// A record: kind and name, and a time or a value.
pub(crate) type Record = [u64; 2];

/// Bytes of a thread's first chunk: most threads of a program that has thousands record little.
#[cfg(not(loom))]
pub(super) const FIRST: usize = 4 << 10;
/// Bytes of the others.
#[cfg(not(loom))]
pub(super) const LATER: usize = 64 << 10;
/// What sizes are multiples of.
#[cfg(not(loom))]
pub(super) const UNIT: usize = FIRST;

/// In the models two records are a chunk: orders are tried by the million, and a third one is another chunk.
#[cfg(loom)]
mod small {
    pub(crate) const FIRST: usize = size_of::<super::Chunk>() + 2 * size_of::<super::Record>();
    pub(crate) const LATER: usize = FIRST;
    pub(crate) const UNIT: usize = size_of::<super::Record>();
    /// Records that a chunk may have, where more have to fit.
    pub(crate) const MOST: usize = 4;
}
#[cfg(loom)]
pub(super) use small::{FIRST, LATER, MOST, UNIT};

/// A span that is open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Open {
    /// The name's bits and 1, or 0 for a span that is not recorded; and [`Open::TOLD`].
    pub(crate) name: u64,
    pub(crate) ticks: u64,
}

impl Open {
    /// It is an op that was told to whoever collects GPU work.
    pub(super) const TOLD: u64 = 1 << 40;
}

/// The start of a mapping. Behind it stand the spans that were open when it began, then the records.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Records that a reader may see.
    published: AtomicUsize,
    /// Bytes of the mapping.
    pub(super) size: usize,
    open: usize,
    capacity: usize,
    /// The thread's next one. This and what follows is guarded by the trace's lock.
    pub(super) next: *mut Chunk,
    /// Its place among all chunks of the trace.
    pub(super) order: u64,
    /// Readers that hold it: it may not be used anew.
    pub(super) readers: u32,
    /// Who uses its records.
    #[cfg(loom)]
    watch: [crate::sync::shared::Watch; MOST],
}

impl Chunk {
    /// A fresh mapping, not yet in use. Takes memory from the system, not from the allocator, which a signal may have
    /// interrupted.
    pub(super) fn map(size: usize) -> Option<*mut Chunk> {
        // SAFETY: no address is asked for, and what is new is nobody's.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        #[cfg(loom)]
        super::models::mapped(i64::from(start.is_ok()));
        start.ok().map(<*mut _>::cast)
    }

    /// Makes a mapping of `size` bytes a chunk without records.
    ///
    /// # Safety
    /// It is nobody else's, and `open` fits with room for a record.
    pub(super) unsafe fn begin(this: *mut Chunk, size: usize, open: &[Open], order: u64) {
        let before = size_of::<Chunk>() + size_of_val(open);
        let chunk = Chunk {
            published: AtomicUsize::new(0),
            size,
            open: open.len(),
            capacity: (size - before) / size_of::<Record>(),
            next: std::ptr::null_mut(),
            order,
            readers: 0,
            #[cfg(loom)]
            watch: std::array::from_fn(|_| crate::sync::shared::Watch::new()),
        };
        // SAFETY: vouched for by the caller.
        unsafe {
            this.write(chunk);
            this.add(1).cast::<Open>().copy_from_nonoverlapping(open.as_ptr(), open.len());
        }
    }

    /// Gives the mapping back.
    ///
    /// # Safety
    /// Made by `map` and `begin`, and nobody uses it any more.
    pub(super) unsafe fn unmap(this: *mut Chunk) {
        #[cfg(loom)]
        // SAFETY: as above.
        unsafe {
            Self::watch_writes(this, 0, MOST);
            super::models::mapped(-1);
        }
        // SAFETY: as above. It fails for no such mapping.
        let _ = unsafe { munmap(this.cast(), (*this).size) };
    }

    /// Tells loom that records are written from here on, or that their memory is used for something else.
    ///
    /// # Safety
    /// It has begun.
    #[cfg(loom)]
    pub(super) unsafe fn watch_writes(this: *mut Chunk, from: usize, count: usize) {
        // SAFETY: vouched for by the caller.
        unsafe { (&(*this).watch)[from..from + count].iter().for_each(|watch| watch.write()) };
    }

    /// Where its records start and end.
    ///
    /// # Safety
    /// It has begun.
    pub(super) unsafe fn room(this: *mut Chunk) -> (*mut Record, *mut Record) {
        // SAFETY: the mapping holds the header, the open spans and so many records.
        unsafe {
            let start = this.add(1).cast::<Open>().add((*this).open).cast::<Record>();
            (start, start.add((*this).capacity))
        }
    }

    /// Lets readers see records up to `end`. By the thread that writes them.
    #[inline(always)]
    pub(super) fn publish(&self, records: usize) {
        self.published.store(records, Ordering::Release);
    }

    /// The spans that were open when it began.
    ///
    /// # Safety
    /// It has begun, and stays mapped meanwhile.
    pub(super) unsafe fn open<'a>(this: *mut Chunk) -> &'a [Open] {
        // SAFETY: written before the chunk was anyone's to see, and never since.
        unsafe { std::slice::from_raw_parts(this.add(1).cast::<Open>(), (*this).open) }
    }

    /// How many records there are by now.
    ///
    /// # Safety
    /// As [`Chunk::open`].
    pub(super) unsafe fn len(this: *mut Chunk) -> usize {
        // SAFETY: as above.
        unsafe { (*this).published.load(Ordering::Acquire) }
    }

    /// Records `from..to`, of which `to` were published.
    ///
    /// # Safety
    /// As [`Chunk::open`].
    pub(super) unsafe fn records<'a>(this: *mut Chunk, from: usize, to: usize) -> &'a [Record] {
        // SAFETY: published records do not change any more.
        unsafe {
            let (start, _) = Self::room(this);
            #[cfg(loom)]
            (&(*this).watch)[from..to].iter().for_each(|watch| watch.read());
            std::slice::from_raw_parts(start.add(from), to - from)
        }
    }
}
