//! Keeps a journal up to date while its trace is recorded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::block::Kind;
use super::delta::Told;
use super::facts::{Facts, Place};
use super::file::JournalFile;
use crate::error::{Error, Result};
use crate::export::ClockInfo;
use crate::model::snapshot::Snapshot;
use crate::record::{Core, Cursor, RecordCounts, at_exit, spawn_quiet};
use crate::sync::{Condvar, Mutex, lock, try_lock, wait_for};
use crate::trace::Shared;

/// What was recorded is in the file after this long, and a little more.
const EVERY: Duration = Duration::from_millis(200);
/// And on the disk, so that it survives a power cut too.
const DISK_EVERY: Duration = Duration::from_secs(1);
/// It is looked at this often also when nothing happens.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// How a journal stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalState {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Times that the system did not take what was to be written. It is tried again each time, so nothing is lost once
    /// one succeeds, unless the memory for records was too small to wait.
    pub failures: u64,
    /// The last such failure, until one succeeds; empty for none.
    pub failure: String,
}

/// The journal of one trace, and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Journal {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

struct Inner {
    clock: ClockInfo,
    core: Arc<Core>,
    shared: Arc<Shared>,
    place: Place,
    /// The process that writes. A child of it that was forked does not.
    pid: u32,
    state: Mutex<State>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("pid", &self.pid).finish_non_exhaustive()
    }
}

struct State {
    file: JournalFile,
    progress: Progress,
    /// Its length after it was last written anew.
    anew: u64,
    failures: u64,
    failure: String,
    on_disk: Instant,
    waits_for_disk: bool,
}

/// What is in the file.
#[derive(Default, Clone)]
struct Progress {
    cursor: Cursor,
    told: Told,
    facts: String,
    /// What says that there is nothing new: how often the store was opened to others, what was counted and recorded.
    revision: u64,
    counts: RecordCounts,
    recorded: u64,
    /// When it was last brought up to date.
    at: Option<Instant>,
}

/// All journals of the process, for its end.
static ALL: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// The list's lock is held for moments only; but for ever in the child of a fork that came in such a moment. A journal that
/// is not in the list may lack the last fifth of a second before an exit that does not free its trace.
fn register(inner: &Arc<Inner>) {
    for _ in 0..100 {
        if let Some(mut all) = try_lock(&ALL) {
            all.retain(|one| one.strong_count() > 0);
            all.push(Arc::downgrade(inner));
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn exiting() {
    let _ = std::panic::catch_unwind(|| {
        let Some(all) = try_lock(&ALL) else { return };
        for inner in all.iter().filter_map(Weak::upgrade) {
            if let Some(mut state) = try_lock(&inner.state) {
                let _ = inner.flush(&mut state);
            }
        }
    });
}

impl Journal {
    /// Makes the file, which must not be there, and starts to write it. Nothing may be recorded yet.
    pub(crate) fn start(path: &Path, clock: ClockInfo, core: Arc<Core>, shared: Arc<Shared>) -> Result<Self> {
        let state = State {
            file: JournalFile::create(path)?,
            progress: Progress::default(),
            anew: 0,
            failures: 0,
            failure: String::new(),
            on_disk: Instant::now(),
            waits_for_disk: true,
        };
        if !core.begin_journal() {
            state.file.remove();
            return Err(Error::invalid("something was recorded live already: start the journal before"));
        }
        let inner = Arc::new(Inner {
            clock,
            core,
            shared,
            place: Place::here(),
            pid: std::process::id(),
            state: Mutex::new(state),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let first = inner.flush(&mut lock(&inner.state));
        let thread = first.and_then(|()| {
            let inner = Arc::clone(&inner);
            let thread = spawn_quiet("tptrace-journal", move || inner.run());
            thread.map_err(|source| Error::Io { action: "start a thread for", path: path.to_owned(), source })
        });
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                lock(&inner.state).file.remove();
                return Err(error);
            }
        };
        register(&inner);
        at_exit(exiting);
        Ok(Self { inner, thread })
    }

    pub(crate) fn state(&self) -> JournalState {
        let state = lock(&self.inner.state);
        JournalState {
            path: state.file.path().to_owned(),
            bytes: state.file.bytes(),
            failures: state.failures,
            failure: state.failure.clone(),
        }
    }

    /// Writes what is new, and waits until the disk has it.
    pub(crate) fn sync(&self) -> Result<()> {
        if std::process::id() != self.inner.pid {
            return Err(Error::invalid("the journal is of the process that this one was forked from"));
        }
        let mut state = lock(&self.inner.state);
        self.inner.flush(&mut state)?;
        state.waits_for_disk = false;
        state.on_disk = Instant::now();
        state.file.sync()
    }

    /// Ends it. If all of it was written elsewhere it goes, else it stays.
    pub(crate) fn stop(mut self, keep: bool) {
        // The thread did not come along into a child, and the file is the parent's.
        if std::process::id() != self.inner.pid {
            std::mem::forget(self.thread.take());
            return;
        }
        *lock(&self.inner.stop) = true;
        self.inner.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut state = lock(&self.inner.state);
        if keep {
            let _ = self.inner.flush(&mut state);
            let _ = state.file.sync();
        } else {
            let _ = state.file.is_whole();
            state.file.remove();
        }
    }
}

impl Inner {
    fn run(&self) {
        loop {
            let stop = lock(&self.stop);
            let stop = if *stop { stop } else { wait_for(&self.stopped, stop, EVERY) };
            if *stop {
                return;
            }
            drop(stop);
            let mut state = lock(&self.state);
            // A failure is remembered there, and tried again.
            if self.has_news(&state.progress) {
                let _ = self.flush(&mut state);
            }
            let due = state.waits_for_disk && state.on_disk.elapsed() >= DISK_EVERY;
            if due {
                state.waits_for_disk = false;
                state.on_disk = Instant::now();
                let file = state.file.handle();
                // A disk may be slow: others may go on meanwhile.
                drop(state);
                let _ = file.sync_data();
            }
        }
    }

    /// Writes what is new.
    fn flush(&self, state: &mut State) -> Result<()> {
        if std::process::id() != self.pid {
            return Ok(());
        }
        let before = state.file.bytes();
        let written = Self::mend(state).and_then(|()| self.tell(&state.progress, &mut state.file));
        match written {
            Ok(progress) => {
                state.progress = progress;
                state.failure.clear();
                state.waits_for_disk |= state.file.bytes() > before;
                self.write_anew(state);
                Ok(())
            }
            Err(error) => {
                state.failures += 1;
                state.failure = error.to_string();
                Err(error)
            }
        }
    }

    /// A file that somebody removed or made shorter is begun anew: all that it told is still in memory.
    fn mend(state: &mut State) -> Result<()> {
        if !state.file.is_whole()? {
            state.file.begin_anew()?;
            state.progress = Progress::default();
        }
        Ok(())
    }

    /// Whether it is worth while to look for what is new. Now and then it is anyway: spans that are open go on.
    fn has_news(&self, from: &Progress) -> bool {
        from.at.is_none_or(|at| at.elapsed() >= ALIVE_EVERY)
            || self.shared.look().revision != from.revision
            || self.core.progress() != from.recorded
            || self.core.counts() != from.counts
    }

    /// What is in the store, if anybody can have changed it since `from` or something else was counted.
    fn changed(&self, from: &Progress, next: &mut Progress) -> Option<Snapshot> {
        next.counts = self.core.counts();
        let store = self.shared.look();
        next.revision = store.revision;
        let changed = from.at.is_none() || (next.revision, next.counts) != (from.revision, from.counts);
        changed.then(|| store.snapshot_of(store.rank_world.unwrap_or(self.place.rank_world)))
    }

    /// Writes what is new since `from`; nothing if that fails.
    fn tell(&self, from: &Progress, file: &mut JournalFile) -> Result<Progress> {
        file.append(|sink| {
            let mut next = Progress { at: Some(Instant::now()), recorded: self.core.progress(), ..from.clone() };
            if let Some(snapshot) = self.changed(from, &mut next) {
                let facts = Facts::of(self.clock, &self.place, &snapshot, &next.counts);
                let facts = serde_json::to_string(&facts).unwrap_or_default();
                if facts != from.facts {
                    sink.block(Kind::Facts, |out| out.extend_from_slice(facts.as_bytes()));
                    next.facts = facts;
                }
                from.told.tell(&snapshot, sink);
                next.told = Told::of(&snapshot);
            }
            next.cursor = self.core.tell(&from.cursor, sink);
            next
        })
    }

    /// A flight recorder forgets, and so does its journal: once it is twice as long as what is remembered, it is begun
    /// anew.
    fn write_anew(&self, state: &mut State) {
        let limit = self.core.limits().bytes as u64;
        let enough = limit.saturating_mul(2).saturating_add(1 << 20).max(2 * state.anew);
        if !self.core.keeps_recent() || limit == 0 || state.file.bytes() < enough {
            return;
        }
        // If it cannot be, the old one goes on.
        let Ok(mut new) = state.file.beside() else { return };
        let Ok(progress) = self.tell(&Progress::default(), &mut new) else { return new.give_up() };
        state.anew = new.bytes();
        if new.replace(&mut state.file).is_ok() {
            state.progress = progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::{ClockAnchor, ClockDomain};
    use crate::{Instant as Event, Trace};

    #[test]
    fn what_did_not_change_is_not_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = Trace::default();
        let (core, shared) = (Arc::clone(trace.core()), Arc::clone(trace.shared()));
        let clock = ClockInfo { base_ns: 0, domain: ClockDomain::Monotonic, anchor: ClockAnchor::now() };
        let journal = Journal::start(&folder.path().join("journal"), clock, core, shared).expect("started");
        let inner = &journal.inner;
        let mut state = lock(&inner.state);
        let mut flushed = || {
            inner.flush(&mut state).expect("written");
            let progress = state.progress.clone();
            assert!(inner.changed(&progress, &mut Progress::default()).is_none() && !inner.has_news(&progress));
            (progress, state.file.bytes())
        };
        let (before, bytes) = flushed();
        assert_eq!(flushed().1, bytes);
        // Whatever a caller changes shows, events or not.
        trace.set_thread_name(7, "seven");
        assert!(inner.changed(&before, &mut Progress::default()).is_some() && inner.has_news(&before));
        let (before, bytes) = {
            let after = flushed();
            assert!(after.1 > bytes);
            after
        };
        trace.add_instant(&Event::default()).expect("added");
        assert!(inner.changed(&before, &mut Progress::default()).is_some() && inner.has_news(&before));
        assert!(flushed().1 > bytes);
    }
}
