//! What a vendor's tracing library has to do for tptrace. CUPTI does; rocprofiler-sdk could.

use std::fmt::Debug;

use super::intake::Intake;
use crate::error::Error;

/// Which GPU work to collect: bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuKinds(pub u32);

impl GpuKinds {
    /// Kernels.
    pub const KERNEL: Self = Self(1);
    /// Copies, those between devices among them.
    pub const MEMCPY: Self = Self(1 << 1);
    /// Fills.
    pub const MEMSET: Self = Self(1 << 2);
    /// Calls of the CUDA runtime.
    pub const RUNTIME: Self = Self(1 << 3);
    /// Calls of the CUDA driver.
    pub const DRIVER: Self = Self(1 << 4);
    /// What the collecting costs.
    pub const OVERHEAD: Self = Self(1 << 5);
    /// Waiting for streams, events and contexts.
    pub const SYNC: Self = Self(1 << 6);
    /// Which op made a call.
    pub const EXTERNAL: Self = Self(1 << 7);
    /// Ranges and marks of NVTX's.
    pub const MARKER: Self = Self(1 << 8);
    /// All of them.
    pub const ALL: Self = Self((1 << 9) - 1);

    /// Whether all of `other` are among them.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for GpuKinds {
    /// All but markers.
    fn default() -> Self {
        Self(Self::ALL.0 & !Self::MARKER.0)
    }
}

impl std::ops::BitOr for GpuKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) kinds: GpuKinds,
    /// Keep the calls that say little, too.
    pub(super) all_calls: bool,
}

/// How a collection ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Records that the library says it dropped.
    pub(super) dropped: u64,
    pub(super) warnings: Vec<String>,
}

/// A tracing library that fills the process's buffers with its records.
pub(super) trait Collector: Send + Sync + Debug {
    /// Starts, with the pool open already. What does not stand against it is answered as warnings.
    fn start(&self, asked: Asked) -> Result<Vec<String>, Error>;

    /// Ends: waits for the GPU if so asked, and has every buffer given back. May take long, and may never return.
    fn stop(&self, wait: Option<Wait>) -> Ended;

    /// The time on the clock of the records, in nanoseconds.
    fn now(&self) -> Option<u64>;

    /// Makes a reader of the records of one collection.
    fn reader(&self, asked: Asked) -> Box<dyn Reader>;

    /// Says that the calls of this thread come from op `id` until [`Collector::pop`]. False: it was not taken.
    fn push(&self, id: u64) -> bool;

    /// The reverse of a push.
    fn pop(&self);

    /// Whether it bears to get no buffer.
    fn may_refuse(&self) -> bool;

    /// The work to wait for at the end, seen from this thread.
    fn wait_of_caller(&self) -> Wait;
}

/// A collector for the life of the process.
#[derive(Debug)]
pub(super) struct Known {
    /// An address in its library, which tells it from others.
    pub(super) identity: usize,
    pub(super) collector: Box<dyn Collector>,
}

/// What to wait for at the end: the work of all primary contexts, and of the caller's current one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) context: usize,
}

/// Reads buffers of records.
pub(super) trait Reader: Send {
    /// Reads one buffer.
    fn read(&mut self, bytes: &[u8], intake: &mut Intake);
    /// Settles what had to wait for later records.
    fn finish(&mut self, intake: &mut Intake);
}
