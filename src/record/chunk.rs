//! Memory for the records of one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A record: kind and name, and a time or a value.
pub(crate) type Record = [u64; 2];

/// Bytes of a thread's first chunk: most threads of a program that has thousands record little.
pub(super) const FIRST: usize = 4 << 10;
/// Bytes of the others.
pub(super) const LATER: usize = 64 << 10;

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
}

impl Chunk {
    /// A fresh mapping, not yet in use. Takes memory from the system, not from the allocator, which a signal may have
    /// interrupted.
    pub(super) fn map(size: usize) -> Option<*mut Chunk> {
        // SAFETY: no address is asked for, and what is new is nobody's.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
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
        // SAFETY: as above. It fails for no such mapping.
        let _ = unsafe { munmap(this.cast(), (*this).size) };
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
            std::slice::from_raw_parts(start.add(from), to - from)
        }
    }
}
