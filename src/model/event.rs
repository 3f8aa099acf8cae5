//! What a caller hands over: borrowed, and copied into the store in one call.

/// UTF-8 text from a caller. Bytes that are not UTF-8 are replaced by U+FFFD when stored, and counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Text(bytes)
    }
}

/// What kind of op a slice stands for; it chooses the category (`cat`).
// The numbers stand in journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpKind {
    /// A dispatched operation: `cpu_op`.
    #[default]
    Op = 0,
    /// A range that the user named: `user_annotation`.
    UserAnnotation = 1,
    /// A node of the backward graph: `backward` (plain format), `user_annotation` (torch format).
    Backward = 2,
}

/// The element types of an op's inputs.
#[derive(Debug, Clone, Copy, Default)]
pub enum Dtypes<'a> {
    /// Not recorded.
    #[default]
    None,
    /// TensorPlay's numbers; see [`crate::dtype_name`].
    Codes(&'a [i32]),
    /// Names as they shall appear.
    Names(&'a [Text<'a>]),
}

/// The shapes and element types of an op's inputs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// All dimensions of all inputs, one input after the other.
    pub dims: &'a [i64],
    /// How many of `dims` belong to each input.
    pub ranks: &'a [u32],
    /// Element types; their number may differ from that of the inputs.
    pub dtypes: Dtypes<'a>,
}

/// A value of a free argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A number; NaN and infinities have no JSON and are written as text.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(Text<'a>),
}

/// A [`Value`] that is kept.
#[derive(Debug, Clone)]
pub(crate) enum OwnedValue {
    Int(i64),
    Uint(u64),
    Float(f64),
    Bool(bool),
    Text(Vec<u8>),
}

impl OwnedValue {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            OwnedValue::Int(number) => Value::Int(*number),
            OwnedValue::Uint(number) => Value::Uint(*number),
            OwnedValue::Float(number) => Value::Float(*number),
            OwnedValue::Bool(truth) => Value::Bool(*truth),
            OwnedValue::Text(text) => Value::Text(Text(text)),
        }
    }
}

/// A free argument of an event. A key given twice keeps the last value; a key that the format uses itself
/// (`"External id"`, `"stream"`...) is stored as `"user.KEY"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg<'a> {
    /// Shown beside the value.
    pub key: Text<'a>,
    /// The value.
    pub value: Value<'a>,
}

/// A slice on a CPU thread: an operation, an annotation, a backward node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Op<'a> {
    /// Shown on the slice.
    pub name: Text<'a>,
    /// Chooses the category.
    pub kind: OpKind,
    /// Another category than the kind's; empty for that. Of the first 254 of a trace, the rest have the kind's.
    pub category: Text<'a>,
    /// Start, in nanoseconds of the trace's clock.
    pub start_ns: i64,
    /// End, in nanoseconds of the trace's clock. Before the start: the slice gets 1 ns, and is counted.
    pub end_ns: i64,
    /// Names the thread; any number.
    pub thread_id: u64,
    /// What GPU activities call this op; its position among the ops if `None`.
    pub id: Option<u64>,
    /// Shapes and element types.
    pub inputs: Option<Inputs<'a>>,
    /// Where in the program it was called; empty for unknown.
    pub call_site: Text<'a>,
    /// Time of its kernels in milliseconds; negative or NaN for unknown.
    pub gpu_ms: Option<f64>,
    /// Number of its kernels, shown with `gpu_ms`.
    pub kernel_count: i64,
    /// Bytes it allocated for its outputs; shown if positive.
    pub output_bytes: i64,
    /// Call stack, innermost frame first.
    pub stack: &'a [Text<'a>],
    /// Free arguments.
    pub args: &'a [Arg<'a>],
}

/// What a GPU activity is; it chooses the category and the lane.
// The numbers stand in journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuKind {
    /// A kernel on a stream.
    #[default]
    Kernel = 0,
    /// A copy on a stream.
    Memcpy = 1,
    /// A fill on a stream.
    Memset = 2,
    /// A CUDA runtime call, on the lane of its OS thread.
    Runtime = 3,
    /// A CUDA driver call, on the lane of its OS thread.
    Driver = 4,
    /// Time that the collecting itself took, on a lane for that.
    Overhead = 5,
    /// The CPU waiting for a stream, an event or a context, or a stream for an event, on a lane beside the stream's.
    Sync = 6,
}

impl GpuKind {
    /// True for calls on the CPU side.
    pub fn is_api(self) -> bool {
        matches!(self, GpuKind::Runtime | GpuKind::Driver)
    }

    /// True for what runs on a stream.
    pub fn is_work(self) -> bool {
        matches!(self, GpuKind::Kernel | GpuKind::Memcpy | GpuKind::Memset)
    }
}

/// An integer that C and Python hand over with either sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// From an unsigned source, or not negative.
    Unsigned(u64),
    /// Negative.
    Negative(i64),
}

impl Default for Int {
    fn default() -> Self {
        Int::Unsigned(0)
    }
}

impl From<u64> for Int {
    fn from(value: u64) -> Self {
        Int::Unsigned(value)
    }
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        u64::try_from(value).map_or(Int::Negative(value), Int::Unsigned)
    }
}

/// What CUPTI tells of a kernel or copy beyond its times. Absent fields are not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuDetails {
    /// Blocks in the grid.
    pub grid: Option<[u32; 3]>,
    /// Threads in a block.
    pub block: Option<[u32; 3]>,
    /// Registers of one thread.
    pub registers_per_thread: Option<u32>,
    /// Shared memory of one block, static and dynamic, in bytes.
    pub shared_memory: Option<u32>,
    /// The CUDA context.
    pub context: Option<u32>,
    /// The graph that launched it; 0 for none.
    pub graph_id: Option<u32>,
    /// Its node in that graph.
    pub graph_node_id: Option<u64>,
    /// The stream's priority.
    pub priority: Option<i32>,
    /// The hardware channel and its type.
    pub channel: Option<[u32; 2]>,
    /// Blocks in a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Of a copy between devices: device and context that it comes from, device and context that it goes to.
    pub peer: Option<[u32; 4]>,
    /// The CUDA event that is waited for.
    pub event: Option<u32>,
    /// What a call answered, if not success.
    pub result: Option<i32>,
}

impl GpuDetails {
    /// Whether there is something of what few activities have.
    pub(crate) fn has_rare(&self) -> bool {
        let Self { channel, cluster, peer, event, result, .. } = self;
        channel.is_some() || cluster.is_some() || peer.is_some() || event.is_some() || result.is_some()
    }
}

/// A kernel, copy or fill on a stream, or the CUDA call that caused it.
#[derive(Debug, Clone, Copy, Default)]
pub struct GpuActivity<'a> {
    /// Kernel or function name.
    pub name: Text<'a>,
    /// What it is.
    pub kind: GpuKind,
    /// Start, in nanoseconds of the trace's clock.
    pub start_ns: i64,
    /// End, in nanoseconds of the trace's clock.
    pub end_ns: i64,
    /// The device's ordinal; a negative one shares the process of device 0.
    pub device: i64,
    /// The stream's number; -1 for none.
    pub stream: i64,
    /// Joins a call to what it caused. CUPTI's is 32 bits wide; -1 to 2^64-1 are taken.
    pub correlation_id: Int,
    /// The id of the op that caused it.
    pub external_id: Option<Int>,
    /// The OS thread of a runtime or driver call.
    pub os_thread: u64,
    /// CUPTI's callback id of a runtime or driver call.
    pub callback_id: u32,
    /// Bytes copied or filled; 0 for none.
    pub bytes: Int,
    /// CUPTI's number for the direction of a copy, or for the type of a synchronisation.
    pub copy_kind: i64,
    /// The value of a fill.
    pub value: u32,
    /// What else is known.
    pub details: GpuDetails,
    /// Free arguments.
    pub args: &'a [Arg<'a>],
}

/// Memory given out or taken back.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryEvent<'a> {
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The address.
    pub address: u64,
    /// How many bytes.
    pub bytes: i64,
    /// True for an allocation, false for a release.
    pub allocated: bool,
    /// The CUDA device; `None` for the CPU's memory.
    pub cuda_device: Option<i64>,
    /// The thread that did it.
    pub thread_id: u64,
    /// Free arguments.
    pub args: &'a [Arg<'a>],
}

/// The stack of one thread at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample<'a> {
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The OS thread.
    pub os_thread: u64,
    /// Frames, innermost first. An empty stack is dropped, and counted.
    pub stack: &'a [Text<'a>],
    /// Free arguments.
    pub args: &'a [Arg<'a>],
}

/// Values of a counter track at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter<'a> {
    /// The track.
    pub name: Text<'a>,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// One number for each series of the track.
    pub values: &'a [Arg<'a>],
}

/// How far the line of an instant reaches.
// The numbers stand in journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InstantScope {
    /// One thread.
    #[default]
    Thread = 0,
    /// The whole process.
    Process = 1,
    /// The whole trace.
    Global = 2,
}

/// Something that happened and took no time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Instant<'a> {
    /// Shown on it.
    pub name: Text<'a>,
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: i64,
    /// The thread.
    pub thread_id: u64,
    /// How far its line reaches.
    pub scope: InstantScope,
    /// Free arguments.
    pub args: &'a [Arg<'a>],
}
