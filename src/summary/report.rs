//! What a summary says. All times are nanoseconds; the field names are the keys of `tptrace summary --json`.

use serde::Serialize;

/// What stands in some traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The documents, in the order in which they were given.
    pub files: Vec<FileSummary>,
    /// How many events there are of each kind.
    pub events: EventCounts,
    /// Each rank of each document.
    pub ranks: Vec<RankSummary>,
    /// The training steps (`ProfilerStep#N`), in order.
    pub steps: Vec<StepSummary>,
    /// Each GPU stream, the busiest first.
    pub streams: Vec<StreamSummary>,
    /// Each name of a slice in its category, the one with the most time of its own first.
    pub names: Vec<NameSummary>,
    /// The longest gaps between GPU work, on one stream and on all streams of a rank, the longest first.
    pub gaps: Vec<GapSummary>,
    /// Memory of each device, from `[memory]` events.
    pub memory: Vec<MemorySummary>,
    /// Lanes of CPU threads and others, those with the most slices first.
    pub lanes: Vec<LaneSummary>,
    /// What a reader of the numbers should know.
    pub warnings: Vec<String>,
}

/// A document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// As it was given.
    pub path: String,
    /// The ranks whose events it holds.
    pub ranks: Vec<i64>,
    /// Whether it says so itself; else its place among the documents stands for its rank.
    pub rank_stated: bool,
    /// What salvage passed by.
    pub damage: Vec<String>,
}

/// How many events there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// All of them.
    pub all: u64,
    /// Slices: `X`, and pairs of `B` and `E`.
    pub slices: u64,
    /// Instants: `i`, `I`, `R`.
    pub instants: u64,
    /// Values of counters: `C`.
    pub counters: u64,
    /// Ends of flows: `s`, `t`, `f`.
    pub flow_ends: u64,
    /// `[memory]` events, which are among the slices or instants too.
    pub memory: u64,
    /// Names and order of processes and threads: `M`.
    pub metadata: u64,
    /// All others, async and object events among them; no time is counted of these.
    pub others: u64,
    /// Slices without a usable time or duration, and begins and ends without the other: no time is counted of these.
    pub untimed: u64,
    /// Slices that end later than the slice around them.
    pub crossing: u64,
}

/// GPU work of some time, as HTA's temporal breakdown and overlap define it. Kernels, copies and fills count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GpuTime {
    /// Kernels, copies and fills that begin in it.
    pub activities: u64,
    /// Some stream is busy.
    pub busy_ns: u64,
    /// No stream is busy: between the first and the last activity, or within a step.
    pub idle_ns: u64,
    /// Computing kernels run.
    pub compute_ns: u64,
    /// Communication kernels (`nccl...Kernel`) run.
    pub communication_ns: u64,
    /// Copies and fills run.
    pub memory_ns: u64,
    /// Communication and computing kernels run at the same time.
    pub overlap_ns: u64,
}

/// A rank of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RankSummary {
    /// The document, by its place.
    pub file: usize,
    /// Its number.
    pub rank: i64,
    /// The first event, in the document's time.
    pub start_ns: i64,
    /// From the first event to the end of the last.
    pub span_ns: u64,
    /// From the first GPU activity to the end of the last.
    pub gpu_span_ns: u64,
    /// GPU work.
    pub gpu: GpuTime,
}

/// A training step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StepSummary {
    /// The document, by its place.
    pub file: usize,
    /// The rank.
    pub rank: i64,
    /// N of `ProfilerStep#N`.
    pub step: u64,
    /// When it begins, in the document's time.
    pub start_ns: i64,
    /// How long it takes on the CPU.
    pub duration_ns: u64,
    /// GPU work in this time, whenever it was launched.
    pub gpu: GpuTime,
}

/// A GPU stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StreamSummary {
    /// The document, by its place.
    pub file: usize,
    /// The rank.
    pub rank: i64,
    /// The `pid` of its events.
    pub pid: String,
    /// `args.stream` of its events, else their `tid`.
    pub stream: String,
    /// Kernels, copies and fills.
    pub activities: u64,
    /// The time in which it is busy.
    pub busy_ns: u64,
    /// From its first activity to the end of its last.
    pub span_ns: u64,
}

/// What the slices of a name are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// Operators: category `cpu_op`.
    Op,
    /// Kernels, copies and fills: `kernel`, `gpu_memcpy`, `gpu_memset`.
    Gpu,
    /// Calls of the runtime and the driver: `cuda_runtime`, `cuda_driver` and others' like them.
    Call,
    /// `user_annotation`.
    Annotation,
    /// Anything else.
    #[default]
    Other,
}

/// The slices of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NameSummary {
    /// The name.
    pub name: String,
    /// The category; empty if there is none.
    pub category: String,
    /// What they are.
    pub kind: NameKind,
    /// How many.
    pub count: u64,
    /// The sum of their durations.
    pub total_ns: u64,
    /// Of that, what is not within slices that they enclose on their lane.
    pub self_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl NameSummary {
    /// The mean duration.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ns as f64 / self.count as f64 }
    }
}

/// A time without GPU work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GapSummary {
    /// The document, by its place.
    pub file: usize,
    /// The rank.
    pub rank: i64,
    /// The `pid` of the stream; empty if all streams of the rank wait.
    pub pid: String,
    /// The stream; `None` if all streams of the rank wait.
    pub stream: Option<String>,
    /// When it begins, in the document's time.
    pub start_ns: i64,
    /// How long it is.
    pub duration_ns: u64,
    /// What ends where it begins.
    pub after: String,
    /// What begins where it ends.
    pub before: String,
}

/// Memory of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MemorySummary {
    /// The document, by its place.
    pub file: usize,
    /// The rank.
    pub rank: i64,
    /// As the events name it: `cpu`, `cuda:0`.
    pub device: String,
    /// Events that allocate.
    pub allocations: u64,
    /// Events that free.
    pub frees: u64,
    /// The most that was allocated at once. If the events state no totals, counted from nothing at the first event.
    pub peak_bytes: i64,
    /// When, in the document's time.
    pub peak_at_ns: i64,
    /// The most that was reserved; `None` if the events do not say.
    pub peak_reserved_bytes: Option<i64>,
    /// Whether the events state the totals.
    pub totals_stated: bool,
}

/// A lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneSummary {
    /// The document, by its place.
    pub file: usize,
    /// The rank.
    pub rank: i64,
    /// The `pid` of its events.
    pub pid: String,
    /// The `tid` of its events.
    pub tid: String,
    /// As the document names it; empty if it does not.
    pub name: String,
    /// Slices on it.
    pub slices: u64,
    /// The time in which a slice is open.
    pub busy_ns: u64,
}
