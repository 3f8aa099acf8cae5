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
use crate::record::{Core, Cursor, at_exit, spawn_quiet};
use crate::sync::{Condvar, Mutex, lock, try_lock, wait_for};
use crate::trace::Shared;

/// What was recorded is in the file after this long, and a little more.
const EVERY: Duration = Duration::from_millis(200);
/// And on the disk, so that it survives a power cut too.
const DISK_EVERY: Duration = Duration::from_secs(1);

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
}

/// All journals of the process, for its end.
static ALL: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

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
            let _ = std::fs::remove_file(path);
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
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        };
        let mut all = lock(&ALL);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&inner));
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
            let _ = self.flush(&mut state);
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
        let written = self.tell(&state.progress, &mut state.file);
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

    /// Writes what is new since `from`; nothing if that fails.
    fn tell(&self, from: &Progress, file: &mut JournalFile) -> Result<Progress> {
        file.append(|sink| {
            let mut next = from.clone();
            let snapshot = {
                let store = self.shared.lock();
                store.snapshot_of(store.rank_world.unwrap_or(self.place.rank_world))
            };
            let facts = Facts::of(self.clock, &self.place, &snapshot, &self.core.counts());
            let facts = serde_json::to_string(&facts).unwrap_or_default();
            if facts != from.facts {
                sink.block(Kind::Facts, |out| out.extend_from_slice(facts.as_bytes()));
                next.facts = facts;
            }
            from.told.tell(&snapshot, sink);
            next.told = Told::of(&snapshot);
            next.cursor = self.core.tell(&from.cursor, sink);
            next
        })
    }

    /// A flight recorder forgets, and so does its journal: once it is twice as long as what is remembered, it is begun
    /// anew.
    fn write_anew(&self, state: &mut State) {
        let limit = self.core.limits().bytes as u64;
        if !self.core.keeps_recent() || limit == 0 || state.file.bytes() < (2 * limit + (1 << 20)).max(2 * state.anew) {
            return;
        }
        // If it cannot be, the old one goes on.
        let Ok(mut new) = JournalFile::beside(state.file.path()) else { return };
        let Ok(progress) = self.tell(&Progress::default(), &mut new) else { return };
        state.anew = new.bytes();
        if new.replace(&mut state.file).is_ok() {
            state.progress = progress;
        }
    }
}
