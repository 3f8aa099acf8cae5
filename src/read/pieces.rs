//! Several documents read by several threads, piece by piece.
//!
//! Whoever is free takes the next piece: of one large file the threads take turns at reading, of many files each
//! thread reads its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::cutter::{Cut, Cutter, End, Subject};
use super::document::{self, Depth, Document, Member};
use super::input::{Input, Limits};
use super::reader::Stored;
use crate::error::{Error, Result, contained};
use crate::sync::{Condvar, Mutex, lock, wait, wait_for};

/// How often the calling thread looks up.
const TICK: Duration = Duration::from_millis(50);
/// Threads unless told otherwise.
const DEFAULT_THREADS: usize = 8;
/// More would only wait for the one that reads.
const MAX_THREADS: usize = 32;
/// Sentences about damage that are kept for one document.
const MAX_DAMAGE: usize = 8;

/// A document that is read by itself.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stored: Stored,
    pub(crate) document: Document,
    damage: Mutex<Vec<String>>,
}

impl Opened {
    /// Reads what stands before the first event.
    pub(crate) fn new(input: Input, limits: &Limits, salvage: bool) -> Result<Self> {
        let stored = Stored::new(input)?;
        let document = document::peek(&stored, Depth::Head, limits, salvage)?;
        let damage = document.broken.iter().cloned().collect();
        Ok(Self { stored, document, damage: Mutex::new(damage) })
    }

    /// What salvage passed by.
    pub(crate) fn damage(&self) -> Vec<String> {
        lock(&self.damage).clone()
    }
}

impl Subject for Opened {
    fn stored(&self) -> &Stored {
        &self.stored
    }

    fn document(&self) -> &Document {
        &self.document
    }

    fn damaged(&self, what: String) {
        let mut damage = lock(&self.damage);
        if damage.len() < MAX_DAMAGE && !damage.contains(&what) {
            damage.push(what);
        }
    }

    fn guessed_wrong(&self) {}
}

/// What was learned of a document by reading it to its end.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// The members that follow the events.
    pub(crate) tail: Vec<Member>,
    /// How the events end, and where; `None` if there are none.
    pub(crate) end: Option<(End, u64)>,
}

/// One document that is being read.
struct Reading {
    index: usize,
    cutter: Cutter,
}

#[derive(Default)]
struct State {
    idle: Vec<Reading>,
    /// The next document that nobody has opened.
    next: usize,
    /// Threads that are reading.
    busy: usize,
    /// Threads that run.
    running: usize,
    finished: Vec<(usize, Finished)>,
    /// Failures, each with its document and the byte.
    failed: Vec<((usize, u64), Error)>,
    cancelled: bool,
}

struct Board<'d> {
    documents: &'d [Opened],
    limits: &'d Limits,
    salvage: bool,
    state: Mutex<State>,
    changed: Condvar,
    bytes: AtomicU64,
}

impl Board<'_> {
    /// The next piece of any document, and which. `spare`: memory for the piece after that.
    fn take(&self, mut spare: Vec<u8>) -> Option<(usize, Cut)> {
        let mut state = lock(&self.state);
        loop {
            if state.cancelled || !state.failed.is_empty() {
                return None;
            }
            let reading = match state.idle.pop() {
                Some(reading) => Ok(reading),
                None if state.next < self.documents.len() => {
                    state.next += 1;
                    Err(state.next - 1)
                }
                None if state.busy == 0 => return None,
                None => {
                    state = wait(&self.changed, state);
                    continue;
                }
            };
            state.busy += 1;
            drop(state);
            let index = match &reading {
                Ok(reading) => reading.index,
                Err(index) => *index,
            };
            let cut = contained(|| self.cut(index, reading, std::mem::take(&mut spare)));
            state = lock(&self.state);
            state.busy -= 1;
            let found = match cut {
                Ok((Some(reading), cut)) => {
                    state.idle.push(reading);
                    cut
                }
                Ok((None, _)) => None,
                Err(error) => {
                    state.failed.push(((index, offset(&error)), error));
                    None
                }
            };
            self.changed.notify_all();
            if let Some(cut) = found {
                return Some((index, cut));
            }
        }
    }

    /// The next piece of a document; without the reading it has none left.
    fn cut(
        &self,
        index: usize,
        reading: Result<Reading, usize>,
        spare: Vec<u8>,
    ) -> Result<(Option<Reading>, Option<Cut>)> {
        let document = &self.documents[index];
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(index) => match Cutter::open(document)? {
                Some(cutter) => Reading { index, cutter },
                None => {
                    lock(&self.state).finished.push((index, Finished::default()));
                    return Ok((None, None));
                }
            },
        };
        reading.cutter.spare = spare;
        match reading.cutter.next(document, self.limits, self.salvage)? {
            Some(cut) => {
                self.bytes.fetch_add(cut.length as u64, Ordering::Relaxed);
                Ok((Some(reading), Some(cut)))
            }
            None => {
                let Cutter { tail, end, .. } = reading.cutter;
                lock(&self.state).finished.push((index, Finished { tail, end }));
                Ok((None, None))
            }
        }
    }

    fn fail(&self, index: usize, error: Error) {
        lock(&self.state).failed.push(((index, offset(&error)), error));
        self.changed.notify_all();
    }
}

fn offset(error: &Error) -> u64 {
    match error {
        Error::Malformed { offset, .. } | Error::Limit { offset, .. } => *offset,
        _ => u64::MAX,
    }
}

/// Threads to work with: `asked`, or one for each core.
pub(crate) fn threads(asked: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(DEFAULT_THREADS);
    if asked == 0 { cores() } else { asked.min(MAX_THREADS) }
}

/// What was read: what each thread made of its pieces, and how each document ended.
pub(crate) type Read<R> = (Vec<R>, Vec<Finished>);

/// Hands all pieces of all documents to `work`, each with the number of its document. Each thread has what `start` made
/// for it, and turns it into a result with `finish`. `tell` is called on the calling thread now and then with the bytes
/// read so far, and answers whether to go on.
///
/// # Errors
/// The first failure in the order of the documents and their bytes; [`Error::Cancelled`].
pub(crate) fn read_all<W, R: Send>(
    documents: &[Opened],
    (limits, salvage, threads): (&Limits, bool, usize),
    mut tell: impl FnMut(u64) -> bool,
    start: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize, &mut Cut) -> Result<()> + Sync,
    finish: impl Fn(W) -> Result<R> + Sync,
) -> Result<Read<R>> {
    let board = Board {
        documents,
        limits,
        salvage,
        state: Mutex::default(),
        changed: Condvar::new(),
        bytes: AtomicU64::new(0),
    };
    let results = Mutex::new(Vec::new());
    let run = || {
        let done = contained(|| {
            let mut mine = start();
            let mut spare = Vec::new();
            while let Some((index, mut cut)) = board.take(spare) {
                if let Err(error) = contained(|| work(&mut mine, index, &mut cut)) {
                    board.fail(index, error);
                    return Ok(None);
                }
                spare = cut.bytes;
            }
            finish(mine).map(Some)
        });
        match done {
            Ok(result) => lock(&results).extend(result),
            Err(error) => board.fail(usize::MAX, error),
        }
        lock(&board.state).running -= 1;
        board.changed.notify_all();
    };
    std::thread::scope(|scope| {
        lock(&board.state).running = threads.max(1);
        let mut helpers = Vec::new();
        for _ in 0..threads.max(1) {
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(helper) => helpers.push(helper),
                // A system that gives no thread gets the work from the calling one.
                Err(_) => run(),
            }
        }
        // Asked at least once, however soon the work is done; without the lock, which the work needs.
        loop {
            let go_on = tell(board.bytes.load(Ordering::Relaxed));
            let mut state = lock(&board.state);
            state.cancelled |= !go_on;
            if state.running == 0 {
                break;
            }
            drop(wait_for(&board.changed, state, TICK));
        }
        for helper in helpers {
            // What panics in a helper is contained where it happens.
            let _ = helper.join();
        }
    });
    let mut state = lock(&board.state);
    if state.cancelled {
        return Err(Error::Cancelled);
    }
    if let Some(first) = (0..state.failed.len()).min_by_key(|&at| state.failed[at].0) {
        return Err(state.failed.swap_remove(first).1);
    }
    let mut finished = std::mem::take(&mut state.finished);
    finished.sort_by_key(|&(index, _)| index);
    let results = std::mem::take(&mut *lock(&results));
    Ok((results, finished.into_iter().map(|(_, finished)| finished).collect()))
}
