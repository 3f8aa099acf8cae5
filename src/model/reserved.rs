//! Argument names that the formats use themselves, by section: a free argument of that name gets a prefix.

pub(super) const OP_ARGS: &[&str] = &[
    "Input Dims",
    "Input type",
    "Call site",
    "GPU duration (ms)",
    "Kernels",
    "Output alloc (bytes)",
    "rank",
    "External id",
    "Call stack",
];
pub(super) const GPU_ARGS: &[&str] = &[
    "correlation",
    "External id",
    "bytes",
    "copy kind",
    "device",
    "stream",
    "cbid",
    "value",
    "memory bandwidth (GB/s)",
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "context",
    "graph id",
    "graph node id",
    "priority",
];
/// The same of activities that have what few have; of the others, callers may use these names.
pub(super) const RARE_GPU_ARGS: &[&str] = &[
    "channel",
    "channel_type",
    "cluster",
    "fromDevice",
    "fromContext",
    "toDevice",
    "toContext",
    "cuda_sync_kind",
    "wait_on_cuda_event_id",
    "cuda result",
];
pub(super) const SAMPLE_ARGS: &[&str] = &["stack"];
pub(super) const MEMORY_ARGS: &[&str] = &["Bytes", "Allocation Type", "Device", "Addr", "Device Type", "Device Id"];
