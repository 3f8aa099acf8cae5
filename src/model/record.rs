//! Events as they are stored: fixed size, texts and side data by id.

use super::event::{GpuKind, InstantScope, OpKind};
use super::intern::Id;

#[derive(Debug, Clone, Copy)]
pub(crate) struct OpRecord {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) id: u64,
    pub(crate) name: Id,
    pub(crate) call_site: Id,
    pub(crate) inputs: Id,
    /// An [`OpExtra`](super::extra::OpExtra).
    pub(crate) extra: Id,
    /// Index into the op threads.
    pub(crate) thread: u32,
    pub(crate) kind: OpKind,
    /// Index into the categories and 1, or 0 for the kind's.
    pub(crate) category: u8,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct GpuRecord {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) correlation: u64,
    pub(crate) external: u64,
    pub(crate) name: Id,
    /// A [`GpuExtra`](super::extra::GpuExtra).
    pub(crate) extra: Id,
    /// Index into the GPU lanes.
    pub(crate) lane: u32,
    pub(crate) callback_id: u32,
    pub(crate) kind: GpuKind,
    pub(crate) flags: u8,
}

impl GpuRecord {
    /// `external` is present.
    pub(crate) const HAS_EXTERNAL: u8 = 1;
    /// The number is negative: its 64 bits are those of an i64.
    pub(crate) const NEGATIVE_CORRELATION: u8 = 2;
    pub(crate) const NEGATIVE_EXTERNAL: u8 = 4;
    /// Its external id, if any, is found by its correlation id among the links.
    pub(crate) const LINKED: u8 = 8;

    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What a GPU activity's lane is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GpuLane {
    /// The calls of one OS thread.
    Api { os_thread: u64 },
    /// A stream of a device.
    Stream { device: i64, stream: i64 },
    /// What waits for a stream of a device; -1 for the whole context.
    Sync { device: i64, stream: i64 },
    /// What collecting costs.
    Overhead,
}

/// The op that was open when a call was made, by the call's correlation id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkRecord {
    pub(crate) correlation: u64,
    pub(crate) external: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryRecord {
    pub(crate) time: i64,
    pub(crate) address: u64,
    pub(crate) bytes: i64,
    pub(crate) device: i64,
    pub(crate) args: Id,
    /// Index into the memory threads.
    pub(crate) thread: u32,
    pub(crate) allocated: bool,
    pub(crate) is_cuda: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleRecord {
    pub(crate) time: i64,
    pub(crate) stack: Id,
    pub(crate) args: Id,
    /// Index into the sample threads.
    pub(crate) thread: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterRecord {
    pub(crate) time: i64,
    pub(crate) name: Id,
    pub(crate) values: Id,
}

/// A part of a flow or of an async span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkRecord {
    pub(crate) time: i64,
    pub(crate) id: u64,
    pub(crate) name: Id,
    pub(crate) category: Id,
    /// Index into the instant threads.
    pub(crate) thread: u32,
    /// `ph`
    pub(crate) phase: u8,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct InstantRecord {
    pub(crate) time: i64,
    pub(crate) name: Id,
    pub(crate) args: Id,
    /// Index into the instant threads.
    pub(crate) thread: u32,
    pub(crate) scope: InstantScope,
}
