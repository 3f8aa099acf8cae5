//! The structs that cross the boundary. Each that may grow starts with its size.

use std::ffi::{c_char, c_void};

/// Text: a pointer and a length in bytes; no terminator needed. `{NULL, 0}` is empty.
///
/// Names are UTF-8, and bad bytes become U+FFFD. Paths are taken as they are. Borrowed for the call only.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_str {
    /// The first byte; may be NULL if `len` is 0.
    pub ptr: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

/// A free argument of an event, or a series of a counter. This struct never grows.
///
/// A key given twice keeps the last value. A key that the format uses itself is stored as `user.KEY`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_arg {
    /// Shown beside the value.
    pub key: tp_str,
    /// Which of the members below holds the value: a `TP_ARG_` number.
    pub kind: i32,
    /// Must be 0.
    pub reserved: i32,
    /// For `TP_ARG_INT`, for `TP_ARG_UINT` (its 64 bits), and for `TP_ARG_BOOL` (0 or not).
    pub integer: i64,
    /// For `TP_ARG_FLOAT`. NaN and infinities are written as text.
    pub number: f64,
    /// For `TP_ARG_TEXT`.
    pub text: tp_str,
}

/// The value is `integer`.
pub const TP_ARG_INT: i32 = 0;
/// The value is `integer`, taken as unsigned.
pub const TP_ARG_UINT: i32 = 1;
/// The value is `number`.
pub const TP_ARG_FLOAT: i32 = 2;
/// The value is whether `integer` is not 0.
pub const TP_ARG_BOOL: i32 = 3;
/// The value is `text`.
pub const TP_ARG_TEXT: i32 = 4;

/// Timestamps are CLOCK_MONOTONIC nanoseconds (std::chrono::steady_clock, Python's time.perf_counter_ns on Linux).
pub const TP_CLOCK_MONOTONIC: i32 = 0;
/// Timestamps are nanoseconds since 1970.
pub const TP_CLOCK_REALTIME: i32 = 1;
/// Timestamps are of some other clock; the trace is not aligned with others when merged.
pub const TP_CLOCK_UNKNOWN: i32 = 2;

/// `base_ns` is set.
pub const TP_TRACE_HAS_BASE: u32 = 1;

/// How a trace starts. Zero-filled with `size` set is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_trace_options {
    /// `sizeof(tp_trace_options)`.
    pub size: usize,
    /// `TP_TRACE_HAS_BASE` or 0.
    pub flags: u32,
    /// A `TP_CLOCK_` number: what timestamps are read from.
    pub clock: i32,
    /// What timestamps in the document count from, in nanoseconds of that clock. The time of this call if not set.
    pub base_ns: i64,
    /// The name of the process; the program's own if empty.
    pub process_name: tp_str,
    /// Bytes for what is recorded live, also while it is written; 0 for no limit, else at least 65536.
    pub record_bytes: u64,
    /// What happens when they are used up: a `TP_RECORD_` number.
    pub record_full: i32,
    /// Must be 0.
    pub reserved: i32,
    /// A file to keep a journal in, so that the trace survives this process; none if empty. There must be no such file.
    /// `%p` stands for the number of the process. All of the trace is in it within a second; `tp_recover` makes a trace of
    /// it. It goes when the trace is freed, if the trace was written since its last event or has none; else it stays.
    pub journal: tp_str,
}

/// What comes then is dropped, and counted.
pub const TP_RECORD_DROP_NEW: i32 = 0;
/// The oldest goes: a flight recorder. What is recorded stays when the trace is written. Only with `record_bytes`.
pub const TP_RECORD_KEEP_RECENT: i32 = 1;

/// A dispatched operation.
pub const TP_OP_KIND_OP: i32 = 0;
/// A range that the user named.
pub const TP_OP_KIND_USER_ANNOTATION: i32 = 1;
/// A node of the backward graph.
pub const TP_OP_KIND_BACKWARD: i32 = 2;

/// `id` is set.
pub const TP_OP_HAS_ID: u32 = 1;
/// `gpu_ms` is set.
pub const TP_OP_HAS_GPU_MS: u32 = 2;
/// The op has inputs to show even if `input_count` is 0.
pub const TP_OP_HAS_INPUTS: u32 = 4;

/// A slice on a CPU thread. Zero-filled with `size` and the times set is valid; see `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_op {
    /// `sizeof(tp_op)`.
    pub size: usize,
    /// `TP_OP_HAS_` bits.
    pub flags: u32,
    /// A `TP_OP_KIND_` number.
    pub kind: i32,
    /// Shown on the slice.
    pub name: tp_str,
    /// Start, in nanoseconds of the trace's clock.
    pub start_ns: i64,
    /// End, in nanoseconds of the trace's clock. Before the start: the slice gets 1 ns, and is counted as clamped.
    pub end_ns: i64,
    /// Names the thread; any number.
    pub thread_id: u64,
    /// With `TP_OP_HAS_ID`: what GPU activities call this op. Else it is the op's position in the trace.
    pub id: u64,
    /// Number of inputs.
    pub input_count: usize,
    /// The number of dimensions of each input: `input_count` numbers.
    pub ranks: *const u32,
    /// All dimensions of all inputs, one input after the other: as many as `ranks` add up to.
    pub dims: *const i64,
    /// Element types as TensorPlay numbers them (8 is float32): `dtype_count` numbers, or NULL.
    pub dtypes: *const i32,
    /// Element types as text, instead of `dtypes`: `dtype_count` texts, or NULL.
    pub dtype_names: *const tp_str,
    /// Number of element types; 0 means `input_count`.
    pub dtype_count: usize,
    /// Where in the program it was called; empty for unknown.
    pub call_site: tp_str,
    /// With `TP_OP_HAS_GPU_MS`: time of its kernels in milliseconds; negative for unknown.
    pub gpu_ms: f64,
    /// Number of its kernels; shown with `gpu_ms`.
    pub kernel_count: i64,
    /// Bytes that it allocated for its outputs; shown if positive.
    pub output_bytes: i64,
    /// Call stack, innermost frame first: `stack_count` texts.
    pub stack: *const tp_str,
    /// Number of frames.
    pub stack_count: usize,
    /// Free arguments: `arg_count` of them.
    pub args: *const tp_arg,
    /// Number of free arguments.
    pub arg_count: usize,
}

/// A kernel on a stream.
pub const TP_GPU_KIND_KERNEL: i32 = 0;
/// A copy on a stream.
pub const TP_GPU_KIND_MEMCPY: i32 = 1;
/// A fill on a stream.
pub const TP_GPU_KIND_MEMSET: i32 = 2;
/// A CUDA runtime call on an OS thread.
pub const TP_GPU_KIND_RUNTIME: i32 = 3;
/// A CUDA driver call on an OS thread.
pub const TP_GPU_KIND_DRIVER: i32 = 4;
/// Time that collecting took, on a lane for that.
pub const TP_GPU_KIND_OVERHEAD: i32 = 5;
/// Waiting for a stream, an event or a context, on a lane beside the stream's; `copy_kind` is CUPTI's number for its type.
pub const TP_GPU_KIND_SYNC: i32 = 6;

/// `external_id` is set. (UINT64_MAX, CUPTI users' mark for "none", counts as not set even so.)
pub const TP_GPU_HAS_EXTERNAL_ID: u32 = 1;
/// `grid_x`, `grid_y` and `grid_z` are set.
pub const TP_GPU_HAS_GRID: u32 = 2;
/// `block_x`, `block_y` and `block_z` are set.
pub const TP_GPU_HAS_BLOCK: u32 = 4;
/// `registers_per_thread` is set.
pub const TP_GPU_HAS_REGISTERS: u32 = 8;
/// `shared_memory` is set.
pub const TP_GPU_HAS_SHARED_MEMORY: u32 = 16;
/// `context` is set.
pub const TP_GPU_HAS_CONTEXT: u32 = 32;
/// `graph_id` is set.
pub const TP_GPU_HAS_GRAPH_ID: u32 = 64;
/// `graph_node_id` is set.
pub const TP_GPU_HAS_GRAPH_NODE_ID: u32 = 128;
/// `priority` is set.
pub const TP_GPU_HAS_PRIORITY: u32 = 256;

/// A kernel, copy or fill on a stream, or the CUDA call that caused it. See `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_gpu_activity {
    /// `sizeof(tp_gpu_activity)`.
    pub size: usize,
    /// `TP_GPU_HAS_` bits.
    pub flags: u32,
    /// A `TP_GPU_KIND_` number.
    pub kind: i32,
    /// Kernel or function name.
    pub name: tp_str,
    /// Start, in nanoseconds of the trace's clock.
    pub start_ns: i64,
    /// End, in nanoseconds of the trace's clock.
    pub end_ns: i64,
    /// The device's ordinal. A negative one shares the process of device 0.
    pub device: i32,
    /// The stream's number.
    pub stream: u32,
    /// Joins a call to what it caused; 0 for none.
    pub correlation_id: u64,
    /// The id of the op that caused it.
    pub external_id: u64,
    /// The OS thread of a runtime or driver call.
    pub os_thread: u64,
    /// Bytes copied or filled; 0 for none.
    pub bytes: u64,
    /// CUPTI's callback id of a runtime or driver call.
    pub callback_id: u32,
    /// CUPTI's number for the direction of a copy.
    pub copy_kind: u32,
    /// The value of a fill.
    pub value: u32,
    /// Blocks in the grid, along x.
    pub grid_x: u32,
    /// Blocks in the grid, along y.
    pub grid_y: u32,
    /// Blocks in the grid, along z.
    pub grid_z: u32,
    /// Threads in a block, along x.
    pub block_x: u32,
    /// Threads in a block, along y.
    pub block_y: u32,
    /// Threads in a block, along z.
    pub block_z: u32,
    /// Registers of one thread.
    pub registers_per_thread: u32,
    /// Shared memory of one block, static and dynamic, in bytes.
    pub shared_memory: u32,
    /// The CUDA context.
    pub context: u32,
    /// The graph that launched it.
    pub graph_id: u32,
    /// The stream's priority.
    pub priority: i32,
    /// Its node in the graph.
    pub graph_node_id: u64,
    /// Free arguments: `arg_count` of them.
    pub args: *const tp_arg,
    /// Number of free arguments.
    pub arg_count: usize,
}

/// The memory is that of CUDA device `device`, not the CPU's.
pub const TP_MEMORY_CUDA: u32 = 1;
/// Memory was given out, not taken back.
pub const TP_MEMORY_ALLOCATED: u32 = 2;

/// Memory given out or taken back. See `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_memory_event {
    /// `sizeof(tp_memory_event)`.
    pub size: usize,
    /// `TP_MEMORY_` bits.
    pub flags: u32,
    /// The device's ordinal.
    pub device: i32,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The address.
    pub address: u64,
    /// How many bytes.
    pub bytes: i64,
    /// The thread that did it.
    pub thread_id: u64,
    /// Free arguments: `arg_count` of them.
    pub args: *const tp_arg,
    /// Number of free arguments.
    pub arg_count: usize,
}

/// The stack of one thread at one moment. See `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_sample {
    /// `sizeof(tp_sample)`.
    pub size: usize,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The OS thread.
    pub os_thread: u64,
    /// Frames, innermost first: `stack_count` texts. An empty stack is dropped, and counted.
    pub stack: *const tp_str,
    /// Number of frames.
    pub stack_count: usize,
    /// Free arguments: `arg_count` of them.
    pub args: *const tp_arg,
    /// Number of free arguments.
    pub arg_count: usize,
}

/// Values of a counter track at one moment. See `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_counter {
    /// `sizeof(tp_counter)`.
    pub size: usize,
    /// The track.
    pub name: tp_str,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// One finite number for each series of the track: `value_count` of them, at least one.
    pub values: *const tp_arg,
    /// Number of series.
    pub value_count: usize,
}

/// The line of an instant covers its thread.
pub const TP_INSTANT_THREAD: i32 = 0;
/// The line of an instant covers the process.
pub const TP_INSTANT_PROCESS: i32 = 1;
/// The line of an instant covers the whole trace.
pub const TP_INSTANT_GLOBAL: i32 = 2;

/// Something that happened and took no time. See `TP_INIT`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_instant {
    /// `sizeof(tp_instant)`.
    pub size: usize,
    /// Must be 0.
    pub flags: u32,
    /// How far its line reaches: a `TP_INSTANT_` number.
    pub scope: i32,
    /// Shown on it.
    pub name: tp_str,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The thread.
    pub thread_id: u64,
    /// Free arguments: `arg_count` of them.
    pub args: *const tp_arg,
    /// Number of free arguments.
    pub arg_count: usize,
}

/// Chrome's trace format.
pub const TP_FORMAT_PLAIN: i32 = 0;
/// The same with what the readers of PyTorch's traces look for.
pub const TP_FORMAT_TORCH: i32 = 1;
/// Perfetto's own format (`.pftrace`) with what the torch format has, in about a fifth of the size; for Perfetto alone.
/// Neither `TP_WRITE_KEEP_OVERLAPS` nor `TP_WRITE_AS_REFERENCE` goes with it.
pub const TP_FORMAT_PERFETTO: i32 = 2;

/// Gzip if the path ends in `.gz`.
pub const TP_COMPRESSION_AUTO: i32 = 0;
/// Never compressed.
pub const TP_COMPRESSION_NONE: i32 = 1;
/// One gzip member.
pub const TP_COMPRESSION_GZIP: i32 = 2;

/// Wait until the file is on the disk.
pub const TP_WRITE_FSYNC: u32 = 1;
/// Leave overlapping slices where they are; a viewer loses those that cross another on their lane.
pub const TP_WRITE_KEEP_OVERLAPS: u32 = 2;
/// Repeat the exporter that tptrace replaces to the last digit of double arithmetic. For drop-in replacements.
pub const TP_WRITE_AS_REFERENCE: u32 = 4;

/// How far a write has come.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_progress {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Work finished. For a trace: events. For a merge: bytes of input.
    pub done: u64,
    /// All the work there is, in the same unit; 0 if unknown.
    pub total: u64,
    /// Bytes of document made so far, before compression.
    pub bytes: u64,
    /// Bytes handed to the target so far.
    pub written: u64,
    /// For a merge: inputs read to their end.
    pub files: u64,
    /// For a merge: events written.
    pub events: u64,
}

/// Called now and then, on the thread that called the function. Answers 0 to go on; anything else cancels.
pub type tp_progress_fn = Option<unsafe extern "C" fn(progress: *const tp_progress, user_data: *mut c_void) -> i32>;

/// Takes `len` bytes of output, on the thread that called the function. Answers 0; anything else ends the write with
/// `TP_STATUS_CALLBACK`.
pub type tp_output_fn = Option<unsafe extern "C" fn(bytes: *const u8, len: usize, user_data: *mut c_void) -> i32>;

/// How a document is written. Zero-filled with `size` set is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_write_options {
    /// `sizeof(tp_write_options)`.
    pub size: usize,
    /// `TP_WRITE_` bits.
    pub flags: u32,
    /// A `TP_FORMAT_` number; the path does not choose it.
    pub format: i32,
    /// A `TP_COMPRESSION_` number.
    pub compression: i32,
    /// Gzip level from 1 (fastest) to 9 (smallest); 0 for the default, 1.
    pub level: i32,
    /// Threads that format and compress, the calling one included, at most 32; 0 for one per core, at most 8.
    pub threads: u32,
    /// Must be 0.
    pub reserved: u32,
    /// `traceName` in the torch format; the path if empty.
    pub trace_name: tp_str,
    /// Told how far the write has come; may be NULL.
    pub progress: tp_progress_fn,
    /// Handed to `progress`.
    pub progress_data: *mut c_void,
}

/// How many events a trace holds, and what had to be dropped or repaired.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_counts {
    /// `sizeof(tp_counts)`, set by the caller.
    pub size: usize,
    /// Ops stored.
    pub ops: u64,
    /// GPU activities stored.
    pub gpu_activities: u64,
    /// Memory events stored.
    pub memory_events: u64,
    /// Stack samples stored.
    pub samples: u64,
    /// Counter values stored.
    pub counters: u64,
    /// Instants stored.
    pub instants: u64,
    /// Events refused or dropped: bad values, samples without a frame.
    pub dropped: u64,
    /// Slices whose end came before their start; they get 1 ns.
    pub clamped: u64,
    /// Texts that were not UTF-8; the bad bytes became U+FFFD.
    pub repaired_texts: u64,
    /// Slices that the last write moved to an extra lane, since they overlapped another on theirs.
    pub overlaps_moved: u64,
    /// Slices that the last write left where they overlap, since 255 extra lanes were not enough.
    pub overlaps_left: u64,
    /// Flows that the last write left out, since they would have run backwards in time.
    pub flows_dropped: u64,
    /// Bytes of memory that events and texts take.
    pub memory: u64,
    /// Of live recording, what was dropped: no room, spans too deep, or a signal that interrupted it on its own thread.
    pub record_dropped: u64,
    /// Ends of spans without a begin.
    pub record_unmatched: u64,
    /// With `TP_RECORD_KEEP_RECENT`: chunks of older records that made room for newer ones.
    pub record_overwritten: u64,
    /// Bytes of the journal; 0 without one.
    pub journal_bytes: u64,
    /// Times that the system did not take what was to be written to the journal. It is tried again.
    pub journal_failures: u64,
}
