//! The trace that callers fill and write.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::export::{ClockInfo, ExportOptions, Exported, export};
use crate::journal::{Journal, JournalState};
use crate::model::clock::{ClockAnchor, ClockDomain, monotonic_ns, realtime_ns};
use crate::model::counts::{Counts, RecordCounts};
use crate::model::event::{Counter, GpuActivity, Instant, MemoryEvent, Op, Sample};
use crate::model::gpu::GpuInfo;
use crate::model::identity::RankWorld;
use crate::model::snapshot::Snapshot;
use crate::model::span::Span;
use crate::model::store::Store;
use crate::output::{OnProgress, Target};
use crate::record::{Core, Full, Limits};
use crate::sync::{Mutex, MutexGuard, lock};

/// Top-level keys that only the format may write: readers depend on their values. The others may be replaced.
pub(crate) const RESERVED_METADATA: &[&str] =
    &["traceEvents", "displayTimeUnit", "schemaVersion", "distributedInfo", "baseTimeNanoseconds", "tptrace"];

/// How a trace starts.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// The time that timestamps in the document count from, in nanoseconds of the trace's clock; now if `None`.
    pub base_ns: Option<i64>,
    /// The clock that timestamps are read from.
    pub clock: ClockDomain,
    /// Bytes for spans that are recorded live, also while they are written; 0 for no limit.
    pub record_bytes: usize,
    /// What happens when they are used up.
    pub record_full: Full,
}

/// Called when a trace goes.
pub(crate) type OnDrop = fn(&Arc<Shared>);

/// What a collector of GPU work shares with its trace.
#[derive(Debug)]
pub(crate) struct Shared {
    store: Mutex<Store>,
    /// GPU work is being collected into the store.
    pub(crate) collecting: Arc<AtomicBool>,
    /// Ends the collection when the trace goes.
    pub(crate) on_drop: Mutex<Option<OnDrop>>,
}

impl Shared {
    /// For whoever may change it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        let mut store = self.look();
        store.revision = store.revision.wrapping_add(1);
        store
    }

    /// For whoever only reads.
    pub(crate) fn look(&self) -> MutexGuard<'_, Store> {
        crate::sync::lock(&self.store)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let ends = lock(&self.shared.on_drop).take();
        if let Some(ends) = ends {
            ends(&self.shared);
        }
        if let Some(journal) = lock(&self.journal).take() {
            let progress = self.progress();
            let keep = progress != (0, 0) && *lock(&self.saved) != Some(progress);
            journal.stop(keep);
        }
        self.core.close();
    }
}

/// Events of one process, kept in memory until they are written. Any number of threads may add and write at once.
#[derive(Debug)]
pub struct Trace {
    clock: ClockInfo,
    shared: Arc<Shared>,
    core: Arc<Core>,
    journal: Mutex<Option<Journal>>,
    /// How far the trace was when it was last written.
    saved: Mutex<Option<(u64, u64)>>,
    overlaps_moved: AtomicU64,
    overlaps_left: AtomicU64,
    flows_dropped: AtomicU64,
}

impl Default for Trace {
    fn default() -> Self {
        Self::new(&TraceOptions::default())
    }
}

impl Trace {
    /// An empty trace.
    pub fn new(options: &TraceOptions) -> Self {
        let now = || match options.clock {
            ClockDomain::Realtime => realtime_ns(),
            ClockDomain::Monotonic | ClockDomain::Unknown => monotonic_ns(),
        };
        let base_ns = options.base_ns.unwrap_or_else(now);
        let collecting = Arc::new(AtomicBool::new(false));
        Self {
            clock: ClockInfo { base_ns, domain: options.clock, anchor: ClockAnchor::now() },
            shared: Arc::new(Shared {
                store: Mutex::new(Store::new(Span::new(base_ns))),
                collecting: Arc::clone(&collecting),
                on_drop: Mutex::new(None),
            }),
            core: Core::new(Limits { bytes: options.record_bytes, full: options.record_full }, collecting),
            journal: Mutex::new(None),
            saved: Mutex::new(None),
            overlaps_moved: AtomicU64::new(0),
            overlaps_left: AtomicU64::new(0),
            flows_dropped: AtomicU64::new(0),
        }
    }

    /// Keeps a journal from here on: a file at `path`, in which all of the trace is within a second, so that
    /// [`crate::journal::recover`] makes the trace of it if this process does not come to write it. `%p` in the path
    /// stands for the number of the process.
    ///
    /// When the trace goes the journal goes too, if the trace was written since its last event or has none; else it stays.
    /// A child of a fork leaves it alone.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a file is there already, or the trace has a journal, or something was recorded live
    /// already; [`Error::Io`].
    pub fn start_journal(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut journal = lock(&self.journal);
        if journal.is_some() {
            return Err(Error::invalid("the trace has a journal already"));
        }
        let started = Journal::start(path.as_ref(), self.clock, Arc::clone(&self.core), Arc::clone(&self.shared));
        *journal = Some(started?);
        Ok(())
    }

    /// How the journal stands; `None` without one.
    pub fn journal_state(&self) -> Option<JournalState> {
        lock(&self.journal).as_ref().map(Journal::state)
    }

    /// Brings the journal up to date, and waits until the disk has it. Without a journal it does nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not take it; it is tried again by itself.
    pub fn sync_journal(&self) -> Result<()> {
        lock(&self.journal).as_ref().map_or(Ok(()), Journal::sync)
    }

    /// Grows with every event.
    fn progress(&self) -> (u64, u64) {
        (self.core.progress(), self.shared.look().progress())
    }

    /// Whether nothing that was added begins at that time or later, in nanoseconds of the trace's clock. Live recording
    /// does not count.
    pub(crate) fn is_idle_since(&self, time_ns: i64) -> bool {
        let snapshot = self.shared.look().snapshot();
        snapshot.is_idle_since(time_ns)
    }

    /// The time that timestamps in the document count from, in nanoseconds of the trace's clock.
    pub fn base_ns(&self) -> i64 {
        self.clock.base_ns
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.shared.lock()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Live recording into this trace.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn clock_domain(&self) -> ClockDomain {
        self.clock.domain
    }

    /// Adds an op and answers its id, which GPU activities name as their external id.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the inputs' ranks and dimensions do not agree or a text is longer than 1 GiB.
    /// The trace is as before, and one more event counts as dropped; likewise in the calls below.
    pub fn add_op(&self, op: &Op<'_>) -> Result<u64> {
        self.lock().add_op(op)
    }

    /// Adds a GPU activity.
    ///
    /// # Errors
    /// As [`Trace::add_op`].
    pub fn add_gpu(&self, gpu: &GpuActivity<'_>) -> Result<()> {
        self.lock().add_gpu(gpu)
    }

    /// Adds a memory event.
    ///
    /// # Errors
    /// As [`Trace::add_op`].
    pub fn add_memory(&self, event: &MemoryEvent<'_>) -> Result<()> {
        self.lock().add_memory(event)
    }

    /// Adds a stack sample. One without a frame is dropped, and counted.
    ///
    /// # Errors
    /// As [`Trace::add_op`].
    pub fn add_sample(&self, sample: &Sample<'_>) -> Result<()> {
        self.lock().add_sample(sample)
    }

    /// Adds the values of a counter track.
    ///
    /// # Errors
    /// As [`Trace::add_op`], and [`Error::InvalidArgument`] if there is no value or one is not a finite number.
    pub fn add_counter(&self, counter: &Counter<'_>) -> Result<()> {
        self.lock().add_counter(counter)
    }

    /// Adds an instant.
    ///
    /// # Errors
    /// As [`Trace::add_op`].
    pub fn add_instant(&self, instant: &Instant<'_>) -> Result<()> {
        self.lock().add_instant(instant)
    }

    /// Names the process. Without a name it is called as the program is.
    pub fn set_process_name(&self, name: &str) {
        self.lock().process_name = Some(name.to_owned());
    }

    /// Names the lanes of a thread, as ops, calls and samples know it.
    pub fn set_thread_name(&self, thread_id: u64, name: &str) {
        self.lock().thread_names.insert(thread_id, name.to_owned());
    }

    /// Sets rank and world size; until then they come from `RANK` or `TP_RANK`, and `WORLD_SIZE` or `TP_WORLD_SIZE`.
    pub fn set_rank(&self, rank_world: RankWorld) {
        self.lock().rank_world = Some(rank_world);
    }

    /// Names the library that the ranks talk through: `distributedInfo.backend` in the torch format.
    pub fn set_backend(&self, backend: &str) {
        self.lock().backend = Some(backend.to_owned());
    }

    /// Tells the trace of the machine's GPUs: `deviceProperties` and the versions in the torch format. Starting a
    /// collection does so too.
    pub fn set_gpu_info(&self, info: GpuInfo) {
        self.lock().gpu_info = Some(Arc::new(info));
    }

    /// Adds a top-level key of the document. `json` is any JSON value; a key set before is replaced, and so is what the
    /// torch format says of itself, such as `deviceProperties`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `json` is not JSON or the key is one whose value readers depend on.
    pub fn set_metadata(&self, key: &str, json: &str) -> Result<()> {
        if RESERVED_METADATA.contains(&key) {
            return Err(Error::invalid(format!("metadata {key:?}: only the format writes this key")));
        }
        let value: serde_json::Value = serde_json::from_str(json)
            .map_err(|error| Error::invalid(format!("metadata {key:?}: not JSON: {error}")))?;
        // Printed anew: without duplicate keys, and with characters raw where Perfetto refuses the escaped form.
        let value = value.to_string();
        let mut store = self.lock();
        match store.metadata.iter_mut().find(|(known, _)| known == key) {
            Some(entry) => entry.1 = value,
            None => store.metadata.push((key.to_owned(), value)),
        }
        Ok(())
    }

    /// What was stored, dropped and repaired so far.
    pub fn counts(&self) -> Counts {
        let counts = self.shared.look().counts;
        Counts {
            overlaps_moved: self.overlaps_moved.load(Ordering::Relaxed),
            overlaps_left: self.overlaps_left.load(Ordering::Relaxed),
            flows_dropped: self.flows_dropped.load(Ordering::Relaxed),
            ..counts
        }
    }

    /// Bytes of memory that events and texts take.
    pub fn memory(&self) -> usize {
        self.shared.look().bytes() + self.core.bytes()
    }

    /// What live recording left out so far.
    pub fn record_counts(&self) -> RecordCounts {
        self.core.counts()
    }

    /// What is there now, with what was recorded live.
    fn snapshot(&self) -> Snapshot {
        if !self.core.is_used() {
            return self.shared.look().snapshot();
        }
        let offset_ns = match self.clock.domain {
            ClockDomain::Realtime => self.clock.anchor.realtime_ns - self.clock.anchor.monotonic_ns,
            ClockDomain::Monotonic | ClockDomain::Unknown => 0,
        };
        let now_ns = monotonic_ns() + offset_ns;
        self.core.snapshot(&self.shared, offset_ns, now_ns)
    }

    /// Writes everything added so far. Other threads may go on adding; what they add does not show.
    ///
    /// # Errors
    /// See [`crate::output::write`]. A file that was there before stays as it was.
    pub fn write_to(
        &self,
        target: Target<'_>,
        options: &ExportOptions,
        progress: Option<OnProgress<'_>>,
    ) -> Result<Exported> {
        let saved = self.progress();
        let snapshot = self.snapshot();
        let exported = export(&snapshot, self.clock, target, options, progress)?;
        self.overlaps_moved.store(exported.overlaps_moved, Ordering::Relaxed);
        self.overlaps_left.store(exported.overlaps_left, Ordering::Relaxed);
        self.flows_dropped.store(exported.flows_dropped, Ordering::Relaxed);
        *lock(&self.saved) = Some(saved);
        Ok(exported)
    }

    /// Writes everything added so far to the file at `path`, replacing it as a whole.
    ///
    /// # Errors
    /// As [`Trace::write_to`].
    pub fn write(&self, path: impl AsRef<Path>, options: &ExportOptions) -> Result<Exported> {
        let path = path.as_ref();
        if options.trace_name.is_empty() {
            let options = ExportOptions { trace_name: path.to_string_lossy().into_owned(), ..options.clone() };
            return self.write_to(Target::File(path), &options, None);
        }
        self.write_to(Target::File(path), options, None)
    }
}
